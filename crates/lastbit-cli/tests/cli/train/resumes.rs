//! The same bytes after kills, after time limits and through a full disk.

use std::fs;
use std::time::{Duration, Instant};

use super::{CONFIG, folder_with_curve, refused};
use crate::support::{Folder, assert_says};

#[test]
fn kills_change_no_byte_in_single_precision() {
    kills_change_no_byte("f32");
}

#[test]
fn kills_change_no_byte_in_double_precision() {
    kills_change_no_byte("f64");
}

/// Most of what a kill costs is drawing figures again: 25 in each precision.
fn kills_change_no_byte(precision: &str) {
    let folder = folder_with_curve();
    // Eight checkpoints: kills fall on steps as well as on the figures that are drawn at the end.
    let set = format!("--set training.steps=24 --set training.precision={precision}");
    let command = format!("train config.toml --data data --threads 1 {set}");
    let started = Instant::now();
    folder.done(&format!("{command} --out whole"));
    let whole = started.elapsed();

    // When to kill is drawn; that all bytes are the same is asserted whenever the kill falls.
    let draws = lastbit::rng::Stream::new(3, 0);
    let (mut kills, mut finished) = (0, 0);
    while kills < 25 {
        let mut child = folder.start(&format!("{command} --out killed --resume"));
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
            folder.assert_same("whole", "killed", &format!("after {kills} kills"));
            fs::remove_dir_all(folder.join("killed")).unwrap();
        }
    }
    folder.done(&format!("{command} --out killed --resume"));
    let what = format!("after {kills} kills, {finished} times finished");
    folder.assert_same("whole", "killed", &what);
}

#[test]
fn a_time_limit_stops_at_a_checkpoint_and_changes_no_byte() {
    let folder = Folder::with(CONFIG);
    folder.train("config.toml --out whole");
    // The shortest limit is one step.
    let text = folder.done("train config.toml --out parts --time-limit 0s");
    assert!(text.contains("after step 1 of 50") && text.contains("--resume"));
    let report = folder.run("report --out parts");
    let told = "not finished, expected a record; `lastbit train --out parts --resume`";
    assert!(report.code == 2 && report.stderr.contains(told), "{}", report.stderr);
    for step in 2..8 {
        let again = "train config.toml --out parts --resume --time-limit 0s";
        let answer = folder.json(again);
        assert_eq!((&answer["steps"], &answer["stopped"]), (&step.into(), &true.into()));
    }
    folder.train("config.toml --out parts --resume --time-limit 1h");
    folder.assert_same("whole", "parts", "seven stops");
    folder.write("whole/record.json", "{");
    let report = folder.run("report --out whole");
    assert!(report.stdout.contains("`lastbit train --out whole --resume` writes it again"));
    refused(&folder, "config.toml --out x --time-limit soon", &["--time-limit", "soon"]);
}

#[test]
fn a_stop_shortly_before_the_end_leaves_the_checkpoints_of_an_undisturbed_run() {
    let folder = Folder::with(
        r#"
        data = { name = "mnist01", limit = 24, test-limit = 8 }
        network = { kind = "mlp", hidden = [2] }
        optimizer = { name = "sgd", lr = 0.1 }
        training = { steps = 7, batch = 12, checkpoint-every = 3 }
        "#,
    );
    folder.train("config.toml --out whole");
    let names = |out: &str| {
        let entries = fs::read_dir(folder.join(out).join("checkpoints")).unwrap().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names("whole"), ["step-6.safetensors", "step-7.safetensors"]);
    for stop in 1..6 {
        folder.done("train config.toml --out parts --resume --time-limit 0s");
        let last = format!("step-{stop}.safetensors");
        assert!(names("parts").iter().any(|name| **name == *last), "{last}");
    }
    let two_regular = ["step-0.safetensors", "step-3.safetensors", "step-5.safetensors"];
    assert_eq!(names("parts"), two_regular);
    folder.train("config.toml --out parts --resume");
    folder.assert_same("whole", "parts", "five stops");
}

#[test]
#[cfg(unix)]
fn a_full_disk_ends_the_run_and_room_lets_it_go_on() {
    let folder = Folder::with(CONFIG);
    folder.train("config.toml --out whole");
    let largest = |name: &str| fs::metadata(folder.join("whole").join(name)).unwrap().len();
    // Enough for checkpoints, not for all rows: it fails in the middle.
    let limit = largest("metrics.jsonl") / 2;
    assert!(limit > largest("checkpoints/step-50.safetensors"), "the limit falls on the metrics");
    let ran = folder.run_with_little_room(limit / 512, "train config.toml --out full");
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert_says(&ran.stderr, &["metrics.jsonl: cannot be written", "make room"]);
    folder.train("config.toml --out full --resume");
    folder.assert_same("whole", "full", "after a full disk");
}
