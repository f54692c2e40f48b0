//! `lastbit check`, as a user meets it.

use std::fmt::Write;

use lastbit_lab::envelope::Envelope;
use lastbit_lab::logged::{LoggedRun, Metric};

use crate::support::{Folder, assert_says, items};

const STEPS: u64 = 40;

/// Run `i` of a loss whose last digits drift apart; `bug` changes its values.
fn run(i: u64, bug: impl Fn(u64, f64) -> f64) -> Vec<f64> {
    let stream = lastbit::rng::Stream::new(9, i);
    let value = |step: u64| {
        let grown = 1e-7 * 1.2f64.powi(step as i32) * f64::from(u8::from(step > 0));
        bug(step, 2.0 * 0.97f64.powi(step as i32) + grown * stream.normal(step))
    };
    (0..STEPS).map(value).collect()
}

fn write(folder: &Folder, name: &str, values: &[f64]) {
    let mut text = String::new();
    for (step, value) in values.iter().enumerate() {
        writeln!(text, "{{\"step\": {step}, \"loss\": {value}}}").unwrap();
    }
    folder.write(name, text);
}

/// A folder with an envelope of eight runs, a good run and a bad one.
fn folder() -> Folder {
    let folder = Folder::new();
    let logged = |i: u64| {
        let metric = Metric { steps: (0..STEPS).collect(), values: run(i, |_, x| x) };
        let metrics = [("loss".to_owned(), metric)].into();
        (format!("perturbed-{i}"), LoggedRun { metrics, ..LoggedRun::default() })
    };
    let runs: Vec<_> = (1..=8).map(logged).collect();
    let envelope = Envelope::of(&runs, vec![], "ulps".to_owned(), None).unwrap();
    envelope.write(&folder.join("envelope.json")).unwrap();
    write(&folder, "good.jsonl", &run(20, |_, x| x));
    write(&folder, "bad.jsonl", &run(20, |step, x| if step < 7 { x } else { 1.01 * x }));
    folder
}

#[test]
fn a_good_run_is_inside_and_a_bad_one_is_named_with_its_step() {
    let folder = folder();
    let good = folder.done("check good.jsonl --envelope .");
    assert_says(&good, &["Inside: rounding alone could have made this run", "loss"]);
    let bad = folder.run("check bad.jsonl --envelope envelope.json");
    assert_eq!(bad.code, 1, "{}", bad.stdout);
    assert_says(
        &bad.stdout,
        &["Outside: loss leaves at step 7: ", "8 runs alone show no p below 11.1 %", "rank p ="],
    );
    let json = folder.json("check bad.jsonl --envelope .");
    let result = &json["results"][0]["result"];
    assert_eq!((&result["verdict"], &result["leaves"]["step"]), (&"outside".into(), &7.into()));
    assert_eq!(folder.run("check good.jsonl --envelope . --level 0.4").code, 0);
}

#[test]
fn a_run_that_ends_early_is_undecided_which_fails_only_where_strict() {
    let folder = folder();
    write(&folder, "short.jsonl", &run(20, |_, x| x)[..30]);
    let ran = folder.run("check short.jsonl --envelope .");
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    assert_says(
        &ran.stdout,
        &["Undecided: ", "the run ends at step 29, the envelope at step 39 (loss)"],
    );
    assert_eq!(folder.run("check short.jsonl --envelope . --strict").code, 1);
}

#[test]
fn several_runs_share_the_level_and_are_a_record_with_figures() {
    let folder = folder();
    let ran = folder.run("check good.jsonl bad.jsonl --envelope . --out checked");
    assert_eq!(ran.code, 1, "{}", ran.stdout);
    assert_says(&ran.stdout, &["2 runs: each is checked at 0.01/2", "Written: checked/check/"]);
    let written = ran.stdout.lines().find_map(|line| line.strip_prefix("Written: ")).unwrap();
    let json = folder.value(format!("{written}/check.json"));
    let levels: Vec<_> =
        items(&json["results"]).iter().map(|one| one["result"]["level"].clone()).collect();
    assert_eq!(levels, [0.005, 0.005]);
    for file in ["run-1-deviation.svg", "run-2-metric-1.png"] {
        assert!(folder.join(format!("{written}/figures/{file}")).is_file(), "{file}");
    }
    folder.done("verify --out checked");
    folder.done("report --out checked");
}

#[test]
fn what_cannot_be_compared_is_refused_by_name() {
    let folder = folder();
    folder.write("other.jsonl", "{\"step\": 0, \"reward\": 1}\n");
    folder.refused(
        "check other.jsonl --envelope .",
        &["other.jsonl: found the metrics reward, expected some of the envelope: loss"],
    );
    folder.refused("check none.jsonl --envelope .", &["none.jsonl"]);
    folder.refused("check good.jsonl --envelope nowhere", &["nowhere", "no file"]);
    folder.refused("check good.jsonl --envelope . --level 2", &["--level: found 2"]);
    folder.refused(
        "check good.jsonl --envelope . --metric los",
        &["--metric: found los", "did you mean loss?"],
    );
    folder.refused(
        "check good.jsonl --envelope good.jsonl",
        &["good.jsonl: found a file that is no envelope"],
    );
    folder.write("envelope.json", folder.read("envelope.json").replacen("2.0", "2.5", 1));
    folder.refused("check good.jsonl --envelope .", &["envelope.json"]);
}
