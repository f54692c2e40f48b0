use std::fs;
use std::path::Path;

use super::*;
use crate::Error;
use crate::number::Number;
use crate::progress::Silent;
use crate::record::all_records;
use crate::report::render;
use crate::verify::{Verified, verify};

const SETTINGS: &str = r#"{
    "model": {"class": "ResNet", "parameters": 10},
    "optimizer": {"name": "SGD", "lr": 0.1},
    "batches": {"count": 1, "examples": 8}
}"#;

fn open(folder: &Path, resume: bool) -> Result<ProbeRun, Error> {
    ProbeRun::open(folder, Settings::from_json(SETTINGS).unwrap(), resume, &Silent)
}

/// A row of a training whose sharpness rises to its limit of 20 at step 50 and stays there.
fn row(step: u64) -> Row {
    let sharpness = 20.0 * (step as f64 / 50.0).min(1.0);
    let json = format!(
        r#"{{"step": {step}, "lr": 0.1, "loss": 0.5, "probe_loss": 0.25, "sharpness": {sharpness:?}, "residual": 0.001,
        "threshold": 20.0, "edge_ratio": {:?}, "critical_lr": 0.11, "growth_per_step": 0.02, "growth_standard_error": 0.01,
        "verdict": "restrained", "hash": "00{step}", "elapsed_seconds": {step}.0, "measuring_seconds": 0.5,
        "sharpness_of": {{"conv1": 3.0, "fc": 2.5}}}}"#,
        sharpness / 20.0
    );
    Row::parse(&json).unwrap()
}

fn fingerprint(step: u64) -> FingerprintRow {
    let json =
        format!(r#"{{"step": {step}, "hash": "00{step}", "tensors": {{"b": "1", "a": "2"}}}}"#);
    FingerprintRow::parse(&json).unwrap()
}

fn append(run: &mut ProbeRun, steps: &[u64]) {
    for step in steps {
        run.append(row(*step), Some(&fingerprint(*step))).unwrap();
    }
}

fn clock() -> Clock {
    Clock { elapsed_seconds: 100.0, measuring_seconds: 5.0 }
}

fn check(folder: &Path) -> Verified {
    let found = verify(folder, &Silent).unwrap();
    assert_eq!((found.runs, found.records, found.cells), (1, 1, 1));
    found
}

fn report(folder: &Path) -> String {
    let found = all_records(folder).unwrap();
    assert_eq!((found.whole.len(), found.damaged.len()), (1, 0));
    render(&found.whole, vec![]).unwrap().page
}

fn read(folder: &Path, file: &str) -> String {
    fs::read_to_string(folder.join(file)).unwrap()
}

/// What a killed process leaves: the object is forgotten, and with it all that it would write at its end.
fn kill(run: ProbeRun) {
    fs::remove_file(run.folder().join("lock")).unwrap();
    drop(run);
}

#[test]
fn a_finished_run_is_whole_and_its_report_says_what_was_found() {
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().join("run");
    let mut run = open(&folder, false).unwrap();
    append(&mut run, &[10, 20, 30, 40, 50, 60, 70, 80]);
    let summary = run.finish(clock()).unwrap();
    drop(run);
    let edge = summary.edge.clone().unwrap();
    assert_eq!((edge.measurements, edge.late_measurements, edge.late_from_step), (8, 2, 70));
    assert_eq!((edge.late_median, edge.first_step_at_edge), (Number(1.0), Some(50)));
    assert_eq!((summary.rows, summary.measuring_share), (8, Number(0.05)));
    let sentence = "The training ran at the edge of stability: its sharpness was 1 times the stability limit of SGD \
                    (median of 2 measurements, steps 70 to 80). It first reached the limit at step 50; the largest ratio was 1 at step 50.";
    assert!(summary.answer.starts_with(sentence), "{}", summary.answer);
    for part in ["in 0 of 8 measurements", "restrained", "that took 5 % of the time"] {
        assert!(summary.answer.contains(part), "{}", summary.answer);
    }
    let found = check(&folder);
    assert_eq!(
        (found.damaged.len(), found.notes.len()),
        (0, 0),
        "{:?} {:?}",
        found.damaged,
        found.notes
    );
    let page = report(&folder);
    assert!(page.contains(sentence) && page.contains("Training of ResNet with SGD"));
    assert!(!page.contains("Not finished"));
    assert!(folder.join("figures/edge-ratio.svg").exists());
    assert_eq!(read(&folder, "metrics.csv").lines().count(), 9);
    assert!(
        read(&folder, "fingerprints.jsonl")
            .starts_with("{\"step\":10,\"hash\":\"0010\",\"tensors\":{\"b\":\"1\",\"a\":\"2\"}}\n")
    );
    let back: Summary = serde_json::from_str(&read(&folder, "summary.json")).unwrap();
    assert_eq!(back, summary);
}

#[test]
fn columns_of_the_csv_are_those_of_its_header() {
    let (header, line) = (Row::csv_header(), row(7).to_csv());
    let names: Vec<&str> = header.trim_end().split(',').collect();
    let fields: Vec<&str> = line.trim_end().split(',').collect();
    assert_eq!(names.len(), fields.len());
    let field = |name| fields[names.iter().position(|own| *own == name).unwrap()];
    assert_eq!((field("step"), field("epoch"), field("threshold")), ("7", "", "20"));
    assert_eq!((field("verdict"), field("hash")), ("restrained", "007"));
}

#[test]
fn what_a_killed_process_left_can_be_read_checked_and_resumed() {
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().join("run");
    let mut run = open(&folder, false).unwrap();
    append(&mut run, &[10, 20, 30]);
    kill(run);
    // Within a row.
    let half = "{\"step\":40,\"lr\":0.";
    fs::write(folder.join("metrics.jsonl"), read(&folder, "metrics.jsonl") + half).unwrap();
    let found = check(&folder);
    assert!(found.damaged.is_empty(), "{:?}", found.damaged);
    let notes: Vec<&str> = found.notes.iter().map(|note| note.message.as_str()).collect();
    assert!(notes.iter().any(|note| note.contains("within a row")), "{notes:?}");
    assert!(notes.contains(&"a probed training that has not ended"), "{notes:?}");
    assert!(report(&folder).contains("Not finished; so far: The training ran"));
    // Its checkpoint was written after step 25: the next step is the 26th.
    let mut again = open(&folder, true).unwrap();
    assert_eq!(again.resume_at(26).unwrap().elapsed_seconds, 20.0);
    append(&mut again, &[30, 40]);
    again.finish(clock()).unwrap();
    drop(again);
    let mut straight = open(&out.path().join("straight"), false).unwrap();
    append(&mut straight, &[10, 20, 30, 40]);
    straight.finish(clock()).unwrap();
    for file in [
        "config.toml",
        "metrics.jsonl",
        "metrics.csv",
        "fingerprints.jsonl",
        "summary.json",
        "files.json",
        "record.json",
        "series/run-edge.csv",
        "figures/edge-ratio.svg",
    ] {
        assert_eq!(read(&folder, file), read(straight.folder(), file), "{file}");
    }
    assert!(check(&folder).notes.is_empty());
}

#[test]
fn a_finished_run_can_be_continued() {
    let out = tempfile::tempdir().unwrap();
    let mut run = open(out.path(), false).unwrap();
    append(&mut run, &[10, 20]);
    run.finish(clock()).unwrap();
    drop(run);
    let mut run = open(out.path(), true).unwrap();
    assert!(out.path().join("summary.json").exists(), "opening changes nothing");
    run.resume_at(21).unwrap();
    assert!(!out.path().join("summary.json").exists());
    append(&mut run, &[30]);
    assert_eq!(run.finish(clock()).unwrap().rows, 3);
}

#[test]
fn a_run_is_refused_without_resume_with_another_model_and_while_it_is_written() {
    let out = tempfile::tempdir().unwrap();
    let refused = |result: Result<ProbeRun, Error>, parts: &[&str]| {
        let message = result.unwrap_err().to_string();
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    };
    let run = open(out.path(), false).unwrap();
    refused(open(out.path(), true), &["at work there"]);
    drop(run);
    refused(open(out.path(), false), &["found a run", "--resume continues this run"]);
    let other = Settings::from_json(&SETTINGS.replace("10", "11")).unwrap();
    let other = ProbeRun::open(out.path(), other, true, &Silent);
    refused(other, &["model.parameters: found 11, expected 10"]);
    let trained = tempfile::tempdir().unwrap();
    fs::write(trained.path().join("config.toml"), "").unwrap();
    refused(open(trained.path(), true), &["a run of `lastbit train`"]);
    assert_eq!(fs::read_dir(trained.path()).unwrap().count(), 1);
}

#[test]
fn rows_go_forward_and_another_learning_rate_after_a_resume_is_no_other_run() {
    let out = tempfile::tempdir().unwrap();
    let mut run = open(out.path(), false).unwrap();
    append(&mut run, &[10]);
    let message = run.append(row(10), None).unwrap_err().to_string();
    assert!(message.contains("step: found 10, expected a step after 10"), "{message}");
    drop(run);
    let other = SETTINGS.replace("0.1", "0.05").replace("8}", "16}");
    let mut run =
        ProbeRun::open(out.path(), Settings::from_json(&other).unwrap(), true, &Silent).unwrap();
    run.resume_at(11).unwrap();
    let notes = run.finish(clock()).unwrap().notes;
    let [Note { step: 11, note }] = &notes[..] else { panic!("{notes:?}") };
    assert_eq!(note, "resumed with batches.examples = 16; the run began with 8");
}

#[test]
fn damage_is_found_and_damaged_rows_are_not_continued() {
    let out = tempfile::tempdir().unwrap();
    let mut run = open(out.path(), false).unwrap();
    append(&mut run, &[10, 20]);
    run.save().unwrap();
    drop(run);
    let whole = read(out.path(), "metrics.jsonl");
    fs::write(out.path().join("metrics.jsonl"), whole.replace("0.25", "0.26")).unwrap();
    let found = check(out.path());
    assert_eq!(found.damaged.len(), 1, "{:?}", found.damaged);
    assert!(found.damaged[0].path.ends_with("metrics.jsonl"));
    let message = open(out.path(), true).unwrap().resume_at(15).unwrap_err().to_string();
    assert!(
        message.contains("metrics.jsonl") && message.contains("start another run"),
        "{message}"
    );
    assert_eq!(read(out.path(), "metrics.jsonl"), whole.replace("0.25", "0.26"));
    fs::write(out.path().join("metrics.jsonl"), &whole).unwrap();
    // A row that is under no hash yet and is no row.
    fs::write(out.path().join("metrics.jsonl"), whole + "{\"step\": 30}\n").unwrap();
    let found = check(out.path());
    assert!(found.damaged[0].message.contains("line 3"), "{:?}", found.damaged);
    fs::remove_file(out.path().join("fingerprints.jsonl")).unwrap();
    assert!(check(out.path()).damaged.iter().any(|one| one.path.ends_with("fingerprints.jsonl")));
}

#[test]
fn the_answer_says_where_the_training_ran() {
    let answer = |rows: &[&str]| {
        let out = tempfile::tempdir().unwrap();
        let mut run = open(out.path(), false).unwrap();
        for (i, row) in rows.iter().enumerate() {
            let time = "\"elapsed_seconds\": 1, \"measuring_seconds\": 0";
            let row = Row::parse(&format!("{{\"step\": {i}, {row}, {time}}}")).unwrap();
            run.append(row, None).unwrap();
        }
        run.finish(clock()).unwrap().answer
    };
    let below = answer(&[r#""edge_ratio": 0.2"#]);
    assert!(below.starts_with("The training ran below the edge of stability"), "{below}");
    assert!(below.contains("never reached the limit; the largest ratio was 0.2 at step 0"));
    let above = answer(&[r#""edge_ratio": 0.5"#, r#""edge_ratio": 1.5"#]);
    assert!(above.contains("above the edge of stability: its sharpness was 1.5 times"), "{above}");
    let diverged = answer(&[r#""loss": 1"#, r#""loss": "inf""#, r#""loss": "NaN""#]);
    assert!(diverged.starts_with("Diverged: the loss is not finite from step 1 on."), "{diverged}");
    let alone = answer(&[r#""sharpness": 1"#, r#""sharpness": 2.5"#]);
    assert!(alone.starts_with("The sharpness went from 1 at step 0 to 2.5 at step 1."), "{alone}");
    let loss = answer(&[r#""loss": 2"#, r#""loss": 1"#]);
    assert!(loss.starts_with("The loss went from 2 at step 0 to 1 at step 1."), "{loss}");
    let raising = answer(&[r#""lr": 0.2, "critical_lr": 0.1"#, r#""lr": 0.2, "critical_lr": 0.4"#]);
    assert!(raising.contains("in 1 of 2 measurements"), "{raising}");
    assert!(answer(&[]).starts_with("Nothing was measured"));
}
