use lastbit::rng::Stream;

use super::*;
use crate::logged::{LoggedRun, Metric};

/// Run `i` of a loss whose rounding grows by 20 % a step, and of a learning rate.
fn run(i: usize) -> LoggedRun {
    let stream = Stream::new(1, i as u64);
    let steps: Vec<u64> = (0..60).collect();
    let loss = steps.iter().map(|step| {
        let grown = 1e-7 * 1.2f64.powi(*step as i32) * f64::from(u8::from(*step > 0));
        2.0 * (-0.03 * *step as f64).exp() + grown * stream.normal(*step)
    });
    let rate = steps.iter().map(|step| 1e-3 * (1.0 - *step as f64 / 60.0));
    let (loss, rate) = (loss.collect(), rate.collect());
    let metrics = [("loss", loss), ("lr", rate)]
        .map(|(name, values)| (name.to_owned(), Metric { steps: steps.clone(), values }));
    LoggedRun { metrics: metrics.into(), ..LoggedRun::default() }
}

fn named(runs: std::ops::Range<usize>) -> Vec<(String, LoggedRun)> {
    runs.map(|i| (format!("perturbed-{i}"), run(i))).collect()
}

fn envelope(n: usize) -> Envelope {
    Envelope::of(&named(0..n), vec![], "ulps".to_owned(), None).unwrap()
}

fn of(envelope: &Envelope, run: &LoggedRun) -> CheckResult {
    check(envelope, "new", run, Settings::default()).unwrap()
}

fn change(metric: &str, change: impl Fn(u64, f64) -> f64) -> LoggedRun {
    let mut run = run(20);
    let metric = run.metrics.get_mut(metric).unwrap();
    for (step, value) in metric.steps.iter().zip(&mut metric.values) {
        *value = change(*step, *value);
    }
    run
}

#[test]
fn a_run_that_differs_by_rounding_is_inside() {
    for n in [4, 8, 16] {
        let found = of(&envelope(n), &run(20));
        assert_eq!(found.verdict, Verdict::Inside, "{}", found.sentence);
        assert_eq!((found.leaves, found.runs), (None, n));
    }
}

#[test]
fn a_change_of_one_percent_is_found_where_it_begins() {
    let found = of(&envelope(8), &change("loss", |step, x| if step < 10 { x } else { 1.01 * x }));
    assert_eq!(found.verdict, Verdict::Outside, "{}", found.sentence);
    let leaves = found.leaves.unwrap();
    assert_eq!((leaves.metric.as_str(), leaves.step), ("loss", 10));
    assert_eq!(found.metrics[0].metric, "loss");
    assert_eq!(found.metrics[0].leaves_at, Some(10));
    assert!(found.sentence.starts_with("Outside: loss leaves at step 10: "), "{}", found.sentence);
}

#[test]
fn a_learning_rate_is_compared_to_its_resolution() {
    let ulps = change("lr", |_, x| f64::from((x * (1.0 + 3e-7)) as f32));
    assert_eq!(of(&envelope(8), &ulps).verdict, Verdict::Inside);
    let found = of(&envelope(8), &change("lr", |_, x| 1.01 * x));
    assert_eq!(found.verdict, Verdict::Outside);
    assert!(found.metrics[0].constant && found.metrics[0].metric == "lr");
}

#[test]
fn steps_before_the_first_perturbation_have_a_resolution() {
    // Another order of summation moves the first loss by some ulps of float32.
    let ulps = change("loss", |step, x| if step == 0 { x * (1.0 + 4e-7) } else { x });
    assert_eq!(of(&envelope(8), &ulps).verdict, Verdict::Inside);
    let percent = of(&envelope(8), &change("loss", |step, x| if step == 0 { 1.01 * x } else { x }));
    assert_eq!(percent.leaves.unwrap().step, 0);
}

#[test]
fn a_run_that_is_not_finite_is_outside_where_it_is_not() {
    let found = of(&envelope(4), &change("loss", |step, x| if step == 33 { f64::NAN } else { x }));
    assert_eq!(found.verdict, Verdict::Outside);
    assert_eq!(found.leaves.unwrap().step, 33);
    assert!(found.sentence.contains("loss is NaN at step 33"), "{}", found.sentence);
}

#[test]
fn steps_at_which_runs_of_the_envelope_diverged_are_left_out_and_said() {
    let mut runs = named(0..6);
    runs[2].1.metrics.get_mut("loss").unwrap().values[50..].fill(f64::INFINITY);
    let envelope = Envelope::of(&runs, vec![], String::new(), None).unwrap();
    let found = of(&envelope, &change("loss", |step, x| if step > 55 { f64::NAN } else { x }));
    assert_eq!(found.verdict, Verdict::Inside, "{}", found.sentence);
    let expected =
        "loss: 10 steps left out, from step 50, where only 5 of 6 runs of the envelope are finite";
    assert_eq!(found.notes, [expected]);
}

/// The first steps of a run.
fn cut(mut run: LoggedRun, steps: usize) -> LoggedRun {
    for metric in run.metrics.values_mut() {
        metric.steps.truncate(steps);
        metric.values.truncate(steps);
    }
    run
}

/// A run of `steps` steps that lacks the learning rate, or not.
fn part(steps: usize, has_rate: bool) -> LoggedRun {
    let mut run = cut(run(20), steps);
    if !has_rate {
        run.metrics.remove("lr");
    }
    run
}

#[test]
fn a_run_that_lacks_a_metric_or_ends_early_is_undecided_at_best() {
    let envelope = envelope(8);
    for (run, doubt) in [
        (part(60, false), "the run has no lr"),
        (part(45, true), "the run ends at step 44, the envelope at step 59 (loss, lr)"),
    ] {
        let found = of(&envelope, &run);
        assert_eq!(found.verdict, Verdict::Undecided, "{}", found.sentence);
        assert_eq!((&found.doubts[..], found.runs_needed), (&[doubt.to_owned()][..], None));
        let words = "Undecided: as far as it was compared, the run is inside";
        assert!(found.sentence.starts_with(words), "{}", found.sentence);
        assert!(found.sentence.ends_with(&format!(", but {doubt}.")), "{}", found.sentence);
    }
    let mut faulty = part(45, false);
    faulty.metrics.get_mut("loss").unwrap().values[10] *= 1.01;
    let found = of(&envelope, &faulty);
    assert_eq!((found.verdict, found.doubts.len()), (Verdict::Outside, 2));
    let loss_only = envelope.chosen(&["lo*".to_owned()]).unwrap();
    assert_eq!(of(&loss_only, &part(60, false)).verdict, Verdict::Inside);
}

#[test]
fn a_run_that_goes_on_and_one_of_the_envelope_are_named() {
    let runs: Vec<_> = (0..8).map(|i| (format!("perturbed-{i}"), cut(run(i), 30))).collect();
    let envelope = Envelope::of(&runs, vec![], "ulps".to_owned(), None).unwrap();
    let found = of(&envelope, &run(21));
    let expected =
        "the envelope ends at step 29; what the run logged beyond, up to step 59, was not compared";
    assert_eq!(found.notes, [expected]);
    let expected = "the run is equal to perturbed-3 of the envelope in all that was compared";
    assert_eq!(of(&envelope, &runs[3].1).notes, [expected]);
}

#[test]
fn steps_that_the_run_skips_are_said() {
    let mut run = run(21);
    let loss = run.metrics.get_mut("loss").unwrap();
    let mut other = (0..).map(|i| i % 3 > 0);
    loss.values.retain(|_| !other.next().unwrap());
    loss.steps.retain(|step| step % 3 == 0);
    let found = of(&envelope(8), &run);
    assert_eq!(found.notes, ["loss: the run lacks 40 of 60 steps"]);
    assert_eq!(found.verdict, Verdict::Inside, "{}", found.sentence);
}

#[test]
fn nothing_in_common_is_refused_with_what_both_have() {
    let refused = |run: &LoggedRun| {
        check(&envelope(8), "new.csv", run, Settings::default()).unwrap_err().to_string()
    };
    let mut other = LoggedRun::default();
    other.metrics.insert("reward".to_owned(), Metric { steps: vec![0], values: vec![1.0] });
    let expected = "new.csv: found the metrics reward, expected some of the envelope: loss, lr";
    assert_eq!(refused(&other), expected);
    let later = Metric { steps: vec![100, 101], values: vec![1.0, 1.0] };
    other.metrics.insert("loss".to_owned(), later);
    let expected =
        "new.csv: found loss at the steps 100 to 101, expected steps of the envelope: 0 to 59";
    assert_eq!(refused(&other), expected);
}

#[test]
fn an_envelope_without_any_difference_does_not_decide() {
    let equal = || run(1);
    let runs: Vec<_> = (0..8).map(|i| (format!("perturbed-{i}"), equal())).collect();
    let envelope = Envelope::of(&runs, vec![], "ulps".to_owned(), None).unwrap();
    let found = of(&envelope, &run(1));
    assert_eq!(found.verdict, Verdict::Undecided);
    assert!(found.sentence.contains("was the program perturbed?"), "{}", found.sentence);
    let found = of(&envelope, &change("loss", |step, x| if step == 7 { 1.5 * x } else { x }));
    assert_eq!(found.verdict, Verdict::Undecided);
    assert!(
        found.sentence.contains("differs from them first in loss at step"),
        "{}",
        found.sentence
    );
}

#[test]
fn where_all_runs_are_equal_their_value_is_told() {
    let found = of(&envelope(8), &change("lr", |step, x| if step == 30 { 2.0 * x } else { x }));
    let leaves = found.leaves.unwrap();
    assert!(leaves.all_equal && leaves.step == 30);
    let words = "lr leaves at step 30: it is 1e-3, where all 8 runs of the envelope have 5e-4.";
    assert!(found.sentence.contains(words), "{}", found.sentence);
}

#[test]
fn a_run_beyond_all_others_is_undecided_where_they_are_too_few() {
    let envelope = envelope(4);
    let off = |size: f64| change("loss", move |step, x| if step == 30 { x + size } else { x });
    let sizes = (1..400).map(|i| 1e-7 * 1.2f64.powi(30) * 2.0 * f64::from(i));
    let verdicts: Vec<Verdict> = sizes.map(|size| of(&envelope, &off(size)).verdict).collect();
    let mut changes = verdicts.clone();
    changes.dedup();
    assert_eq!(changes, [Verdict::Inside, Verdict::Undecided, Verdict::Outside]);
    let middle = verdicts.iter().position(|verdict| *verdict == Verdict::Undecided).unwrap();
    let found = of(&envelope, &off(1e-7 * 1.2f64.powi(30) * 2.0 * (middle + 1) as f64));
    assert!(found.runs_needed.unwrap() > 4, "{found:?}");
    assert!(found.sentence.contains("would decide"), "{}", found.sentence);
    assert_eq!(found.leaves.unwrap().step, 30);
}

#[test]
fn several_runs_share_the_level() {
    let runs: Vec<_> = (20..24).map(|i| (i.to_string(), run(i))).collect();
    let found = check_all(&envelope(8), &runs, Settings { level: 0.04 }).unwrap();
    assert!(found.iter().all(|one| one.level == 0.01 && one.verdict == Verdict::Inside));
    let refused = check_all(&envelope(8), &runs, Settings { level: 0.0 }).unwrap_err().to_string();
    assert!(refused.starts_with("--level: found 0"), "{refused}");
}

#[test]
fn an_envelope_is_the_metrics_and_steps_that_all_runs_have() {
    let mut runs = named(0..4);
    runs[1].1.metrics.remove("lr");
    let loss = runs[3].1.metrics.get_mut("loss").unwrap();
    loss.steps.remove(7);
    loss.values.remove(7);
    let envelope = Envelope::of(&runs, vec!["train".to_owned()], "ulps".to_owned(), None).unwrap();
    assert_eq!(envelope.metrics.keys().collect::<Vec<_>>(), ["loss"]);
    assert_eq!(envelope.metrics["loss"].steps.len(), 59);
    let expected = [
        "loss: 1 step left out that not all runs have",
        "left out, for perturbed-1 did not log it: lr",
    ];
    assert_eq!(envelope.notes, expected);
    for bad in [&runs[..1], &[runs[0].clone(), runs[0].clone()]] {
        assert!(Envelope::of(bad, vec![], String::new(), None).is_err());
    }
}

#[test]
fn an_envelope_widened_is_that_of_all_runs() {
    let wide = envelope(4).widened(&named(4..8)).unwrap();
    assert_eq!(wide, envelope(8));
    assert!(wide.clone().widened(&named(3..4)).is_err());
    let mut short = named(8..9);
    short[0].1.metrics.get_mut("loss").unwrap().steps[59] = 99;
    let refused = wide.widened(&short).unwrap_err().to_string();
    assert!(refused.contains("perturbed-8 without step 59 of loss"), "{refused}");
}

#[test]
fn a_file_is_opened_by_its_name_or_its_folder_and_refused_if_it_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    envelope(4).write(&path).unwrap();
    assert_eq!(open(&path).unwrap(), envelope(4));
    assert_eq!(open(folder.path()).unwrap(), envelope(4));
    let mut bad = envelope(4);
    bad.metrics.get_mut("loss").unwrap().values[1].pop();
    bad.write(&path).unwrap();
    assert!(open(&path).unwrap_err().to_string().contains("59 values of loss"));
    assert!(open(&folder.path().join("none.json")).unwrap_err().to_string().contains("no file"));
    std::fs::write(&path, "{\"loss\": [1, 2]}").unwrap();
    let refused = open(&path).unwrap_err().to_string();
    assert!(
        refused.contains("found a file that is no envelope, expected an envelope"),
        "{refused}"
    );
}

#[test]
fn a_check_is_a_record_with_figures() {
    let folder = tempfile::tempdir().unwrap();
    let bad = of(&envelope(8), &change("loss", |_, x| 1.01 * x));
    let results =
        [(PathBuf::from("bad"), bad), (PathBuf::from("good"), of(&envelope(8), &run(20)))];
    let json = serde_json::json!({ "results": [&results[0].1] });
    let store =
        keep(&results, &serde_json::json!({ "level": 0.01 }), &json, folder.path()).unwrap();
    let record = store.load().unwrap().unwrap();
    assert!(record.is_complete());
    let names: Vec<String> = record.figures.iter().map(|figure| figure.id.to_string()).collect();
    assert_eq!(names[..3], ["run-1-deviation", "run-1-metric-1", "run-1-metric-2"]);
    for file in ["check.json", "figures/run-1-deviation.svg", "figures/run-2-metric-1.png"] {
        assert!(store.folder().join(file).is_file(), "{file}");
    }
}

#[test]
fn a_metric_that_is_zero_in_all_runs_is_not_of_an_infinite_length() {
    let with_zeros = |i: usize| {
        let mut run = run(i);
        let zeros = Metric { values: vec![0.0; 60], ..run.metrics["loss"].clone() };
        run.metrics.insert("skipped".to_owned(), zeros);
        run
    };
    let runs: Vec<_> = (0..8).map(|i| (format!("perturbed-{i}"), with_zeros(i))).collect();
    let envelope = Envelope::of(&runs, vec![], "ulps".to_owned(), None).unwrap();
    let found = of(&envelope, &with_zeros(20));
    assert_eq!(found.verdict, Verdict::Inside, "{}", found.sentence);
    let of_zeros = found.metrics.iter().find(|metric| metric.metric == "skipped").unwrap();
    assert_eq!(of_zeros.farthest.as_ref().unwrap().score, crate::number::Number(0.0));
    let mut other = with_zeros(20);
    other.metrics.get_mut("skipped").unwrap().values[7] = 1e-9;
    let found = of(&envelope, &other);
    assert_eq!((found.verdict, found.p.0), (Verdict::Outside, 0.0));
    assert!(found.sentence.contains("skipped leaves at step 7: it is 1e-9, where all 8 runs"));
}
