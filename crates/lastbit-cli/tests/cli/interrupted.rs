//! Ctrl-C ends long work at a checkpoint or between cells, and the same command resumes: the same bytes as without it.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::{Folder, Ran, finish};

/// Starts the program, sends it SIGINT as soon as `is_begun`, and waits for its end.
#[track_caller]
fn interrupted(folder: &Folder, arguments: &str, is_begun: impl Fn() -> bool) -> Ran {
    let mut child = folder.start(arguments);
    while !is_begun() {
        assert!(
            child.try_wait().unwrap().is_none(),
            "{arguments}: ended before it was interrupted"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let ran = finish(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{arguments}: {}{}", ran.stdout, ran.stderr);
    ran
}

/// Whether a finished cell lies below a folder.
fn has_cell(out: &Path) -> bool {
    let below = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let cells = below(out).flat_map(|id| below(&id.path()).collect::<Vec<_>>());
    let mut files =
        cells.flat_map(|record| below(&record.path().join("cells")).collect::<Vec<_>>());
    files.any(|file| file.path().extension().is_some_and(|end| end == "json"))
}

#[test]
fn a_training_stops_at_a_checkpoint() {
    let folder = Folder::with(
        r#"
        data = { name = "mnist01", limit = 160, test-limit = 40 }
        network = { kind = "cnn", channels = [2], kernel = 5, stride = 3 }
        optimizer = { name = "nesterov", dt = 0.05 }
        training = { epochs = 40, batch = 16, metrics-every = 3, checkpoint-every = 4 }
        replicas = { k = [1, 3] }
        "#,
    );
    let out = folder.join("stopped");
    let command = "train config.toml --out stopped";
    let ran = interrupted(&folder, command, || out.join("config.toml").exists());
    assert!(ran.stdout.starts_with("Interrupted after step "), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("`lastbit train --out stopped --resume` resumes"),
        "{}",
        ran.stdout
    );
    folder.done(&format!("{command} --resume"));
    folder.done("train config.toml --out whole");
    folder.assert_same("whole", "stopped", "after an interruption");
}

#[test]
fn an_edge_search_keeps_its_finished_probes() {
    let folder = Folder::with(
        r#"
        data = { name = "mnist01", normalization = "none", limit = 16 }
        network = { kind = "cnn", channels = [1], bias = false, pooling = "none", head = "mean" }
        loss = { name = "binary-cross-entropy" }
        optimizer = { name = "sgd", dt = 64, alpha = 5e-4 }
        training = { steps = 300, batch = "full", precision = "f64" }
        "#,
    );
    let out = folder.join("stopped");
    let command = "edge config.toml --property stable --tolerance 0.1 --out";
    let ran = interrupted(&folder, &format!("{command} stopped"), || has_cell(&out));
    let told = "Interrupted; finished probes are saved. The same command resumes from there.\n";
    assert_eq!(ran.stdout, told);
    folder.done(&format!("{command} stopped"));
    folder.done(&format!("{command} whole"));
    folder.assert_same("whole", "stopped", "after an interruption");
}

#[test]
fn an_exhibit_keeps_its_finished_cells() {
    let folder = Folder::new();
    let out = folder.join("stopped");
    let command = "run fig-nonlinear-loss --scale smoke --threads 1 --out";
    let ran = interrupted(&folder, &format!("{command} stopped"), || has_cell(&out));
    let told = "Interrupted; finished cells are saved. The same command resumes from there.\n";
    assert!(ran.stdout.ends_with(told), "{}", ran.stdout);
    folder.done(&format!("{command} stopped"));
    folder.done(&format!("{command} whole"));
    folder.assert_same("whole", "stopped", "after an interruption");
}

#[test]
fn a_pde_run_that_would_take_hours_ends_at_once() {
    let folder = Folder::new();
    let out = folder.join("out/pde-beltrami");
    let command = "pde beltrami --overdrive 30 --steps 1000000000 --out out";
    let ran = interrupted(&folder, command, || out.exists());
    let told = "Interrupted; an unfinished run is not saved. The same command starts it again.\n";
    assert_eq!(ran.stdout, told);
    assert!(!has_cell(&folder.join("out")));
}
