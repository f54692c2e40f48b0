//! The same bytes after kills, after time limits and through a full disk.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::{CONFIG, folder_with, folder_with_curve, refused, trained};
use crate::support::{assert_same_files, finish, json, lastbit, run};

#[test]
fn fifty_kills_change_no_byte_in_single_precision() {
    fifty_kills_change_no_byte("f32");
}

#[test]
fn fifty_kills_change_no_byte_in_double_precision() {
    fifty_kills_change_no_byte("f64");
}

fn fifty_kills_change_no_byte(precision: &str) {
    let folder = folder_with_curve();
    // Eight checkpoints: kills fall on steps as well as on the figures that are drawn at the end.
    let set = format!("--set training.steps=24 --set training.precision={precision}");
    let command = format!("train config.toml --data data --threads 1 {set}");
    let started = Instant::now();
    assert_eq!(run(folder.path(), &format!("{command} --out whole")).code, 0);
    let whole = started.elapsed();
    let (expected, killed) = (folder.path().join("whole"), folder.path().join("killed"));

    // When to kill is drawn; that all bytes are the same is asserted whenever the kill falls.
    let draws = lastbit::rng::Stream::new(3, 0);
    let (mut kills, mut finished) = (0, 0);
    while kills < 50 {
        let mut child = lastbit(folder.path())
            .args(format!("{command} --out killed --resume").split(' '))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Drawn anew after a run that finished, which otherwise could finish for ever.
        let patience = whole.mul_f64(draws.uniform(kills + finished));
        let started = Instant::now();
        let ended = loop {
            if let Some(status) = child.try_wait().unwrap() {
                assert!(status.success(), "after {kills} kills");
                break true;
            }
            if started.elapsed() >= patience {
                child.kill().unwrap();
                child.wait().unwrap();
                break false;
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        kills += u64::from(!ended);
        if ended {
            finished += 1;
            assert_same_files(&expected, &killed, &format!("after {kills} kills"));
            fs::remove_dir_all(&killed).unwrap();
        }
    }
    assert_eq!(run(folder.path(), &format!("{command} --out killed --resume")).code, 0);
    let what = format!("after {kills} kills, {finished} times finished");
    assert_same_files(&expected, &killed, &what);
}

#[test]
fn a_time_limit_stops_at_a_checkpoint_and_changes_no_byte() {
    let folder = folder_with(CONFIG);
    trained(folder.path(), "config.toml --out whole");
    // The shortest limit is one step.
    let ran = run(folder.path(), "train config.toml --out parts --time-limit 0s");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("after step 1 of 50") && ran.stdout.contains("--resume"));
    let report = run(folder.path(), "report --out parts");
    let told = "not finished, expected a record; `lastbit train --out parts --resume`";
    assert!(report.code == 2 && report.stderr.contains(told), "{}", report.stderr);
    for step in 2..8 {
        let again = "train config.toml --out parts --resume --time-limit 0s";
        let answer = json(folder.path(), again);
        assert_eq!((&answer["steps"], &answer["stopped"]), (&step.into(), &true.into()));
    }
    trained(folder.path(), "config.toml --out parts --resume --time-limit 1h");
    let [whole, parts] = ["whole", "parts"].map(|name| folder.path().join(name));
    assert_same_files(&whole, &parts, "seven stops");
    fs::write(whole.join("record.json"), "{").unwrap();
    let report = run(folder.path(), "report --out whole");
    assert!(report.stdout.contains("`lastbit train --out whole --resume` writes it again"));
    refused(folder.path(), "config.toml --out x --time-limit soon", &["--time-limit", "soon"]);
}

#[test]
#[cfg(unix)]
fn a_full_disk_ends_the_run_and_room_lets_it_go_on() {
    let folder = folder_with(CONFIG);
    trained(folder.path(), "config.toml --out whole");
    let largest = |name: &str| fs::metadata(folder.path().join("whole").join(name)).unwrap().len();
    // Enough for checkpoints, not for all rows: it fails in the middle.
    let limit = largest("metrics.jsonl") / 2;
    assert!(limit > largest("checkpoints/step-50.safetensors"), "the limit falls on the metrics");
    // Without the trap the system would end the process instead of letting the write fail.
    let script = format!(
        "trap '' XFSZ; ulimit -f {}; exec \"$0\" train config.toml --out full",
        limit / 512
    );
    let mut shell = std::process::Command::new("sh");
    shell.current_dir(folder.path()).args(["-c", &script, env!("CARGO_BIN_EXE_lastbit")]);
    let ran = finish(shell.output().unwrap());
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    for part in ["metrics.jsonl: cannot be written", "make room"] {
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
    trained(folder.path(), "config.toml --out full --resume");
    let [whole, full] = ["whole", "full"].map(|name| folder.path().join(name));
    assert_same_files(&whole, &full, "after a full disk");
}
