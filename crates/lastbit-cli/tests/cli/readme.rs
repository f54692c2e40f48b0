//! The README's commands run: its shell blocks, in order, in an empty folder that holds the examples.
//! Commands are run as they are written; what takes long in them is shortened in the files they read.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::catalogue;
use crate::support::{Folder, copy_folder, finish};

/// What needs a device, a cluster, the network, PyTorch or hours. The tests of the Python package run what needs PyTorch.
const EXCEPTED: [&str; 8] = [
    "--device cuda",
    "--slurm",
    "--scale paper",
    "data get",
    "cargo ",
    "pip ",
    "python ",
    // The envelope of a program in Python.
    "--envelope E ",
];

/// Files, and what in them makes a training long: the number of its epochs, steps or examples.
const SHORTENED: [(&str, &str, &str); 4] = [
    ("config.toml", "\nepochs = 8 ", "\nepochs = 1 "),
    ("config.toml", "\n# limit = 600 ", "\nlimit = 100 "),
    ("config.toml", "\nexamples = 500 ", "\nexamples = 100 "),
    ("examples/curve.toml", "\nsteps = 1000\n", "\nsteps = 200\n"),
];

/// An exhibit that the README names at the scale of the catalogue, where it was computed already.
const COMPUTED: &str = "tab-power-of-two";

/// Replaces these numbers in those of the files that are there.
fn shorten(folder: &Path) {
    for (name, long, short) in SHORTENED {
        let path = folder.join(name);
        let text = fs::read_to_string(&path).unwrap_or_default();
        if text.contains(long) {
            fs::write(path, text.replace(long, short)).unwrap();
        }
    }
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Lines of all ```sh blocks, `cargo run --release --` replaced by the program itself.
fn commands(readme: &str) -> Vec<String> {
    let blocks = readme.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks
        .flat_map(str::lines)
        .map(|line| line.trim().replacen("cargo run --release --", "lastbit", 1));
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

#[test]
fn every_command_of_the_readme_runs() {
    let folder = Folder::new();
    copy_folder(&repository().join("examples"), &folder.join("examples"));
    catalogue::copy(&[COMPUTED], &folder.join("lastbit-out"));
    let program = Path::new(env!("CARGO_BIN_EXE_lastbit")).parent().unwrap();
    let path = std::env::join_paths(
        [program.to_owned()]
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    let all = commands(&readme);
    let (excepted, to_run): (Vec<_>, Vec<_>) =
        all.iter().partition(|line| EXCEPTED.iter().any(|part| line.contains(part)));
    assert!(to_run.len() > 15 && excepted.len() < to_run.len(), "{to_run:?} {excepted:?}");
    for line in to_run {
        let output = Command::new("sh")
            .args(["-c", line])
            .current_dir(folder.path())
            .env("PATH", path.as_ref().unwrap())
            .env("LASTBIT_DATA", folder.join("data"))
            .output()
            .unwrap();
        let ran = finish(output);
        assert_eq!(ran.code, 0, "{line}\n{}\n{}", ran.stdout, ran.stderr);
        shorten(folder.path());
    }
    for (name, _, short) in SHORTENED {
        let text = folder.read(name);
        assert!(text.contains(short), "{name} takes as long as it is written");
    }
    // Nothing that the README names is missing from it.
    for name in readme.split(['(', ')', '`', ' ']).filter(|word| word.starts_with("examples/")) {
        assert!(repository().join(name).exists(), "{name}");
    }
}

#[test]
fn links_of_the_pages_lead_to_files() {
    let mut pages = vec![repository().join("README.md"), repository().join("ARCHITECTURE.md")];
    for folder in ["docs", "docs/tutorials"] {
        let entries = fs::read_dir(repository().join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        pages.extend(paths.filter(|path| path.extension().is_some_and(|name| name == "md")));
    }
    assert!(pages.len() > 10, "{pages:?}");
    for path in pages {
        let page = path.display();
        let text = fs::read_to_string(&path).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or("");
            if !file.is_empty() && !file.contains("://") {
                assert!(path.parent().unwrap().join(file).exists(), "{page} links to {link}");
            }
        }
    }
}
