//! Tells the program which commit it was built from, so that every record can say so.

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).map_or("unknown".to_owned(), |hash| {
        let clean = git(&["status", "--porcelain", "--untracked-files=no"])
            .is_some_and(|changes| changes.is_empty());
        if clean { hash } else { format!("{hash}+changes") }
    });
    println!("cargo:rustc-env=LASTBIT_COMMIT={commit}");
    // HEAD names a branch, and the log of HEAD changes with every commit.
    if let Some(folder) = git(&["rev-parse", "--absolute-git-dir"]) {
        println!("cargo:rerun-if-changed={folder}/HEAD");
        println!("cargo:rerun-if-changed={folder}/logs/HEAD");
    }
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=../lastbit/src");
    println!("cargo:rerun-if-changed=../lastbit-formats/src");
    println!("cargo:rerun-if-changed=../lastbit-cuda/src");
}
