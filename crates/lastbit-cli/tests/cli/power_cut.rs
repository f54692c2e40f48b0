//! Power cuts, simulated from the system calls of a training and of an exhibit (`tests/power_cut.py`).

use std::path::Path;
use std::process::Command;

#[test]
fn after_a_power_cut_a_run_resumes_to_the_same_bytes() {
    if ["strace", "python3"].iter().any(|tool| Command::new(tool).arg("-V").output().is_err()) {
        println!("skipped: no strace or no python3");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/power_cut.py");
    let ran =
        Command::new("python3").arg(script).arg(env!("CARGO_BIN_EXE_lastbit")).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(ran.status.success(), "{}{}", text(&ran.stdout), text(&ran.stderr));
    println!("{}", text(&ran.stdout));
}
