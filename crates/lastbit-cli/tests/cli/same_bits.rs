//! The bits of a result depend on its settings alone: not on threads, not on a kill.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::catalogue;
use crate::support::{Folder, assert_same};

const EXHIBITS: [&str; 5] =
    ["fig-beltrami-1d", "fig-beltrami-2d", "ext-last-bit", "fig-sharpness", "tab-windowed-bounds"];

#[test]
fn records_are_the_same_for_one_two_and_seven_threads() {
    let folder = Folder::new();
    // The catalogue is made with two threads.
    let two = catalogue::files_of(&EXHIBITS);
    assert!(two.len() > 20);
    for threads in [1, 7] {
        let command = format!("run {} --scale smoke --threads {threads}", EXHIBITS.join(" "));
        folder.done(&format!("{command} --out threads-{threads}"));
        let found = folder.files(format!("threads-{threads}"));
        assert_same(&two, &found, &format!("{threads} threads"));
    }
}

/// Finished cells of a record, if there is one.
fn cells(record: &Path) -> usize {
    let files = fs::read_dir(record.join("cells")).into_iter().flatten().flatten();
    files.filter(|file| file.path().extension().is_some_and(|end| end == "json")).count()
}

#[test]
fn a_run_that_is_killed_goes_on_to_the_same_record() {
    let folder = Folder::new();
    let command = "run fig-beltrami-1d --scale desk --threads 1";
    folder.done(&format!("{command} --out whole"));
    let whole = folder.files("whole");

    let record = folder.join("killed/fig-beltrami-1d/desk");
    let mut kills = 0;
    // Killed (with a signal that cannot be caught) each time another cell has appeared.
    loop {
        let before = cells(&record);
        let mut child = folder.start(&format!("{command} --out killed"));
        let started = Instant::now();
        let finished = loop {
            if child.try_wait().unwrap().is_some() {
                break true;
            }
            if cells(&record) > before {
                child.kill().unwrap();
                child.wait().unwrap();
                break false;
            }
            assert!(started.elapsed() < Duration::from_secs(300), "it neither ends nor goes on");
            std::thread::sleep(Duration::from_millis(1));
        };
        if finished {
            break;
        }
        kills += 1;
        assert!(cells(&record) > before, "a finished cell is never lost");
    }
    assert!(kills >= 3, "killed {kills} times only");
    // No unfinished file is left.
    let killed = folder.files("killed");
    assert_same(&whole, &killed, &format!("after {kills} kills"));
}

#[test]
fn finished_cells_are_not_computed_again() {
    let folder = Folder::new();
    let timing = |arguments: &str| {
        folder.done(arguments);
        let path = folder.join("lastbit-out/fig-heat/smoke/timing.json");
        let text = fs::read_to_string(path).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["cells_reused"].clone()
    };
    assert_eq!(timing("run fig-heat --scale smoke"), 0);
    assert_eq!(timing("run fig-heat --scale smoke"), 4);
    assert_eq!(timing("run fig-heat --scale smoke --fresh"), 0);
    // A cell whose curves have gone is not finished.
    fs::remove_file(folder.join("lastbit-out/fig-heat/smoke/series/r-0.4-twin.csv")).unwrap();
    assert_eq!(timing("run fig-heat --scale smoke"), 3);
}
