//! Ctrl-C ends long work at a checkpoint or between cells, and the same command resumes: the same bytes as without it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Ran, assert_same_files, finish, lastbit, run};

/// Starts the program, sends it SIGINT as soon as `is_begun`, and waits for its end.
#[track_caller]
fn interrupted(folder: &Path, arguments: &str, is_begun: impl Fn() -> bool) -> Ran {
    let mut command = lastbit(folder);
    command.args(arguments.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
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

#[track_caller]
fn done(folder: &Path, arguments: &str) {
    let ran = run(folder, arguments);
    assert_eq!(ran.code, 0, "{arguments}: {}", ran.stderr);
}

fn folder_with(config: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.toml"), config).unwrap();
    folder
}

#[test]
fn a_training_stops_at_a_checkpoint() {
    let folder = folder_with(
        r#"
        data = { name = "mnist01", limit = 160, test-limit = 40 }
        network = { kind = "cnn", channels = [2], kernel = 5, stride = 3 }
        optimizer = { name = "nesterov", dt = 0.05 }
        training = { epochs = 40, batch = 16, metrics-every = 3, checkpoint-every = 4 }
        replicas = { k = [1, 3] }
        "#,
    );
    let (path, out) = (folder.path(), folder.path().join("stopped"));
    let command = "train config.toml --out stopped";
    let ran = interrupted(path, command, || out.join("config.toml").exists());
    assert!(ran.stdout.starts_with("Interrupted after step "), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("`lastbit train --out stopped --resume` resumes"),
        "{}",
        ran.stdout
    );
    done(path, &format!("{command} --resume"));
    done(path, "train config.toml --out whole");
    assert_same_files(&path.join("whole"), &out, "after an interruption");
}

#[test]
fn an_edge_search_keeps_its_finished_probes() {
    let folder = folder_with(
        r#"
        data = { name = "mnist01", normalization = "none", limit = 16 }
        network = { kind = "cnn", channels = [1], bias = false, pooling = "none", head = "mean" }
        loss = { name = "binary-cross-entropy" }
        optimizer = { name = "sgd", dt = 64, alpha = 5e-4 }
        training = { steps = 1000, batch = "full", precision = "f64" }
        "#,
    );
    let (path, out) = (folder.path(), folder.path().join("stopped"));
    let command = "edge config.toml --property stable --tolerance 0.1 --out";
    let ran = interrupted(path, &format!("{command} stopped"), || has_cell(&out));
    let told = "Interrupted; finished probes are saved. The same command resumes from there.\n";
    assert_eq!(ran.stdout, told);
    done(path, &format!("{command} stopped"));
    done(path, &format!("{command} whole"));
    assert_same_files(&path.join("whole"), &out, "after an interruption");
}

#[test]
fn an_exhibit_keeps_its_finished_cells() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path(), folder.path().join("stopped"));
    let command = "run fig-nonlinear-loss --scale smoke --threads 1 --out";
    let ran = interrupted(path, &format!("{command} stopped"), || has_cell(&out));
    let told = "Interrupted; finished cells are saved. The same command resumes from there.\n";
    assert!(ran.stdout.ends_with(told), "{}", ran.stdout);
    done(path, &format!("{command} stopped"));
    done(path, &format!("{command} whole"));
    assert_same_files(&path.join("whole"), &out, "after an interruption");
}

#[test]
fn a_pde_run_that_would_take_hours_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out/pde-beltrami");
    let command = "pde beltrami --overdrive 30 --steps 1000000000 --out out";
    let ran = interrupted(folder.path(), command, || out.exists());
    let told = "Interrupted; an unfinished run is not saved. The same command starts it again.\n";
    assert_eq!(ran.stdout, told);
    assert!(!has_cell(&folder.path().join("out")));
}
