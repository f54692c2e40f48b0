//! Running the program as a user does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

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
pub fn json(folder: &Path, arguments: &str) -> Value {
    let ran = run(folder, &format!("{arguments} --json"));
    let value: Value = serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|error| panic!("{error} in the output of {arguments}: {}", ran.stdout));
    assert!(value.is_object(), "{arguments}: {value}");
    value
}

/// A folder to run it in, which is removed with all that it left there.
pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// With a file `config.toml`.
    pub fn with(config: &str) -> Self {
        let folder = Self::new();
        folder.write("config.toml", config);
        folder
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file and the folders it lies in.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        let path = self.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
    }

    pub fn read(&self, name: impl AsRef<Path>) -> String {
        fs::read_to_string(self.join(name)).unwrap()
    }

    pub fn bytes(&self, name: impl AsRef<Path>) -> Vec<u8> {
        fs::read(self.join(name)).unwrap()
    }

    /// The contents of a file of JSON.
    pub fn value(&self, name: impl AsRef<Path>) -> Value {
        read_json(&self.join(name))
    }

    /// The files below a folder in it that must depend on the settings alone.
    pub fn files(&self, name: impl AsRef<Path>) -> Files {
        reproducible_files(&self.join(name))
    }

    pub fn run(&self, arguments: &str) -> Ran {
        run(self.path(), arguments)
    }

    pub fn json(&self, arguments: &str) -> Value {
        json(self.path(), arguments)
    }

    /// Runs what must succeed and returns what it prints.
    #[track_caller]
    pub fn done(&self, arguments: &str) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments}: {}{}", ran.stdout, ran.stderr);
        ran.stdout
    }

    /// Trains, which must succeed.
    #[track_caller]
    pub fn train(&self, arguments: &str) -> String {
        self.done(&format!("train {arguments}"))
    }

    /// Runs what must be refused and returns its message, which has all these parts.
    #[track_caller]
    pub fn refused(&self, arguments: &str, parts: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{arguments}: {}", ran.stderr);
        for bug in ["panicked", "internal error"] {
            assert!(!ran.stderr.contains(bug), "{arguments}: {}", ran.stderr);
        }
        assert_says(&ran.stderr, parts);
        ran.stderr
    }

    /// Starts it, and does not wait for its end.
    pub fn start(&self, arguments: &str) -> Child {
        let mut command = lastbit(self.path());
        command.args(arguments.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Runs it where no file may be larger than some blocks of 512 bytes. Without the trap the system would
    /// end the program instead of letting the write fail, as a full disk does.
    #[cfg(unix)]
    pub fn run_with_little_room(&self, blocks: u64, arguments: &str) -> Ran {
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" {arguments}");
        let mut shell = Command::new("sh");
        shell.current_dir(self.path()).args(["-c", &script, env!("CARGO_BIN_EXE_lastbit")]);
        finish(shell.output().unwrap())
    }

    /// Two folders in it have the same files, byte by byte, but for times.
    #[track_caller]
    pub fn assert_same(&self, expected: &str, found: &str, what: &str) {
        assert_same(&self.files(expected), &self.files(found), what);
    }
}

pub fn read_json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[track_caller]
pub fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "\"{part}\" is missing in: {text}");
    }
}

#[track_caller]
pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

#[track_caller]
pub fn items(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is not a list"))
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
            // A process that was killed leaves its lock, which stops nobody.
            } else if !path.ends_with("timing.json") && !path.ends_with("lock") {
                let name = path.strip_prefix(folder).expect("below it").display().to_string();
                found.push((name, fs::read(&path).expect("a file")));
            }
        }
    }
    found.sort();
    found
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
