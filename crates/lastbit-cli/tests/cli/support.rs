//! Running the program as a user does.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// The program, in `folder`.
pub fn lastbit(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lastbit"));
    command.current_dir(folder);
    command
}

/// What it printed and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

/// Runs it with these arguments, split at spaces.
pub fn run(folder: &Path, arguments: &str) -> Ran {
    finish(lastbit(folder).args(arguments.split_whitespace()).output().expect("it starts"))
}

pub fn finish(output: Output) -> Ran {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints UTF-8");
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Runs it with `--json` and parses what must be one object and nothing else.
pub fn json(folder: &Path, arguments: &str) -> serde_json::Value {
    let ran = run(folder, &format!("{arguments} --json"));
    let value: serde_json::Value = serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|error| panic!("{error} in the output of {arguments}: {}", ran.stdout));
    assert!(value.is_object(), "{arguments}: {value}");
    value
}

/// Whether there is a CUDA device, with a word about it, for tests of what is said where there is none.
pub fn has_device() -> bool {
    let found = lastbit_cuda::Device::new::<f32>(lastbit_cuda::MathMode::Fma).is_ok();
    if found {
        println!("skipped: there is a CUDA device here");
    }
    found
}

/// Names and contents of files, sorted by name.
pub type Files = Vec<(String, Vec<u8>)>;

/// All files below a folder that must depend on the settings alone, with their contents.
pub fn reproducible_files(folder: &Path) -> Files {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if !path.ends_with("timing.json") {
                let name = path.strip_prefix(folder).expect("below it").display().to_string();
                found.push((name, fs::read(&path).expect("a file")));
            }
        }
    }
    found.sort();
    found
}

/// Both folders have the same files, byte by byte, but for times.
#[track_caller]
pub fn assert_same_files(expected: &Path, found: &Path, what: &str) {
    assert_same(&reproducible_files(expected), &reproducible_files(found), what);
}

/// Copies a folder and all below it.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_folder(&path, &to);
        } else {
            fs::copy(path, to).unwrap();
        }
    }
}

/// The same names, and byte by byte the same contents.
#[track_caller]
pub fn assert_same(expected: &Files, found: &Files, what: &str) {
    let names = |files: &Files| files.iter().map(|file| file.0.clone()).collect::<Vec<_>>();
    assert_eq!(names(found), names(expected), "{what}");
    for ((name, expected), (_, found)) in expected.iter().zip(found) {
        assert!(expected == found, "{name} differs: {what}");
    }
}
