//! `lastbit noise` as a user runs it: beside scipy, and through trainings that are killed.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::support::{json, reproducible_files, run};
use serde_json::Value;

fn golden() -> Vec<Value> {
    let text = include_str!("../../../lastbit/tests/golden/statistics.json");
    let golden: Value = serde_json::from_str(text).unwrap();
    golden["data"].as_array().unwrap().clone()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// A table of accuracies: the golden data are examples of 10,000.
fn table(case: &Value, new_runs: usize) -> String {
    let mut text = "seed,group,note,value\n".to_owned();
    for (group, key, runs) in [("old", "base", usize::MAX), ("new", "new", new_runs)] {
        for (seed, value) in numbers(&case[key]).iter().enumerate().take(runs) {
            writeln!(text, "{seed},{group},,{}", value / 1e4).unwrap();
        }
    }
    text
}

#[test]
fn a_table_gets_scipys_numbers() {
    let folder = tempfile::tempdir().unwrap();
    for case in golden().iter().filter(|case| case["sigma"] != 0.0) {
        let pairs = numbers(&case["base"]).len();
        fs::write(folder.path().join("results.csv"), table(case, pairs)).unwrap();
        let found = json(folder.path(), "noise --from results.csv --resamples 999999");
        let comparison = &found["comparisons"][0];
        assert_eq!(comparison["paired"], true);
        let p = comparison["p"].as_f64().unwrap();
        let expected = case["sign_flip_p"].as_f64().unwrap();
        // Drawn patterns: four standard errors of a binomial share of p/2 (counted ones are exact).
        let drawn = 8.0 * (expected / 2.0 * (1.0 - expected / 2.0) / 1e6).sqrt();
        let tolerance = if comparison["exact"] == true { 0.0 } else { drawn };
        assert!((p - expected).abs() <= tolerance, "{}: {p} {expected}", case["name"]);
        let group = &found["groups"][1];
        let check = |found: &Value, scipy: &[Value]| {
            for (end, scipy) in numbers(found).into_iter().zip(scipy) {
                // The script derives the band for another million resamples; accuracies are
                // rounded in the 16th digit.
                let band = numbers(&scipy["band"]);
                let is_within = band[0] / 1e4 - 1e-12 <= end && end <= band[1] / 1e4 + 1e-12;
                assert!(is_within, "{}: {end} {scipy}", case["name"]);
            }
        };
        check(&comparison["gain_bca"], case["bca_paired"].as_array().unwrap());
        check(&group["mean_bca"], case["bca_mean"].as_array().unwrap());
        check(&group["sigma_bca"], case["bca_sigma"].as_array().unwrap());
        let interval = numbers(&group["sigma_interval"]);
        for (end, scipy) in interval.iter().zip(numbers(&case["sigma_interval"])) {
            // Sigma is a difference of accuracies near 0.93, rounded in the 16th digit, and about
            // 1e-3: 1e-13 of it; ten times that for its sums.
            assert!((end * 1e4 / scipy - 1.0).abs() < 1e-12, "{end} {scipy}");
        }
        if let Some(split) = case["split_p"].as_f64() {
            let found = json(folder.path(), "noise --from results.csv --unpaired");
            let p = found["comparisons"][0]["p"].as_f64().unwrap();
            // Both divide whole numbers, in another order.
            assert!((p - split).abs() < 1e-15, "{}: {p} {split}", case["name"]);
        }
        if let Some(split) = case["unequal_split_p"].as_f64() {
            fs::write(folder.path().join("results.csv"), table(case, pairs - 2)).unwrap();
            let found = json(folder.path(), "noise --from results.csv --unpaired");
            let p = found["comparisons"][0]["p"].as_f64().unwrap();
            assert!((p - split).abs() < 1e-15, "{}: {p} {split}", case["name"]);
        }
    }
}

#[test]
fn the_verdict_and_what_is_expected_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let named = |name: &str| golden().into_iter().find(|case| case["name"] == name).unwrap();
    for (name, shown, part) in [
        ("pairs6", true, "p = 0.0312 over 6 pairs"),
        ("pairs5", false, "with 5 pairs the smallest two-sided p is 2/2^5 = 0.0625"),
        ("pairs10", false, "p = 0.15 over 10 pairs"),
        ("equal", false, "have the same mean"),
    ] {
        fs::write(folder.path().join("results.csv"), table(&named(name), 30)).unwrap();
        for (expect, code) in
            [("significant", i32::from(!shown)), ("not-significant", i32::from(shown))]
        {
            let ran = run(folder.path(), &format!("noise --from results.csv --expect {expect}"));
            assert_eq!(ran.code, code, "{name}: {}{}", ran.stdout, ran.stderr);
            assert!(ran.stdout.contains(part), "{name}: {}", ran.stdout);
        }
        let ran = run(folder.path(), "noise --from results.csv");
        assert_eq!(ran.code, 0, "a verdict is no failure: {}", ran.stderr);
    }
    let figures: Vec<String> = record(folder.path()).into_iter().map(|file| file.0).collect();
    for name in ["runs", "sigma", "gains"] {
        assert!(
            figures.iter().any(|file| file.ends_with(&format!("figures/{name}.svg"))),
            "{name}"
        );
    }
    let report = run(folder.path(), "report");
    assert_eq!(report.code, 0, "{}", report.stderr);
    let page = fs::read_to_string(folder.path().join("lastbit-out/report.html")).unwrap();
    assert!(page.contains("Noise floor of results.csv") && page.contains("2/2^5 = 0.0625"));
}

#[test]
fn runs_pasted_twice_show_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let pair = |seed: u32| format!("a,{seed},{seed}.1\nb,{seed},{}.2\n", seed + 20);
    let rows: String = (0..5).map(pair).collect();
    // Five pairs show nothing; the same numbers as ten runs a side would.
    fs::write(folder.path().join("results.csv"), format!("group,seed,value\n{rows}{rows}"))
        .unwrap();
    let ran = run(folder.path(), "noise --from results.csv");
    assert_eq!(ran.code, 2, "{}", ran.stdout);
    for part in ["results.csv", "seed 0 more than once in group a", "--unpaired"] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
    assert_eq!(run(folder.path(), "noise --from results.csv --unpaired").code, 0);
}

#[test]
fn thousands_of_rows_are_no_trouble() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = "group,seed,value\n".to_owned();
    for seed in 0..2000 {
        // Two whole periods of a saw tooth that differ by one in 1000.
        writeln!(text, "a,{seed},{}\nb,{seed},{}", seed % 1000, seed % 1000 + 1).unwrap();
    }
    fs::write(folder.path().join("results.csv"), text).unwrap();
    let found = json(folder.path(), "noise --from results.csv --resamples 199");
    assert_eq!(found["comparisons"][0]["n"], 2000);
    assert_eq!(found["comparisons"][0]["gain"], 1.0);
    // Of 199 random patterns none has all signs alike: 2 · 1/200.
    assert_eq!(found["comparisons"][0]["p"], 0.01);
    assert_eq!(found["verdict"]["significant"], true);
}

const CONFIG: &str = "\
[data]
name = \"mnist01\"
limit = 200
test-limit = 100
normalization = \"channel\"
[network]
kind = \"mlp\"
hidden = [6]
activation = \"tanh\"
[optimizer]
name = \"sgd\"
dt = 2.0
[training]
epochs = 3
batch = 20
[replicas]
k = [1, 9]
seeds = { batch = [4] }
";

const NOISE: &str = "noise config.toml --n 4 --sources last-bit,batch,order --gain 0.5";

/// The record of the only analysis.
fn record(folder: &Path) -> Vec<(String, Vec<u8>)> {
    reproducible_files(&folder.join("lastbit-out/noise"))
}

#[test]
fn sources_of_noise_are_trained_and_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.toml"), CONFIG).unwrap();
    let found = json(folder.path(), NOISE);
    let groups = found["groups"].as_array().unwrap();
    let names: Vec<&str> = groups.iter().map(|group| group["group"].as_str().unwrap()).collect();
    assert_eq!(names, ["last-bit", "batch", "order"]);
    for group in groups {
        assert_eq!((&group["n"], &group["diverged"]), (&4.into(), &0.into()));
        // In percent, of a task that nobody gets wrong for long.
        assert!(group["mean"].as_f64().unwrap() > 50.0, "{group}");
        let churn = group["answers"]["churn"].as_f64().unwrap();
        // With two classes another class is right beside wrong.
        assert_eq!(Some(churn), group["answers"]["disagreement"].as_f64());
        assert_eq!(group["answers"]["examples"], 100);
    }
    assert!(groups[1]["sigma"].as_f64().unwrap() > 0.0, "other batches, other weights");
    assert_eq!(found["unit"], "points");
    assert_eq!(found["settings"]["training"]["replicas"]["k"], serde_json::json!([1.0, 9.0]));
    let written = record(folder.path());
    // Killed after the trainings, before the analysis: the same record without training again.
    fs::remove_dir_all(folder.path().join("lastbit-out/noise")).unwrap();
    let trained = reproducible_files(&folder.path().join("lastbit-out/runs"));
    assert_eq!(json(folder.path(), NOISE), found);
    assert_eq!(record(folder.path()), written);
    assert_eq!(reproducible_files(&folder.path().join("lastbit-out/runs")), trained);
    // And from nothing, on one thread.
    let other = tempfile::tempdir().unwrap();
    fs::write(other.path().join("config.toml"), CONFIG).unwrap();
    assert_eq!(json(other.path(), &format!("{NOISE} --threads 1")), found);
    assert_eq!(record(other.path()), written);
}

#[test]
fn sources_that_diverge_are_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.toml"), CONFIG).unwrap();
    // Decay alone makes every weight a million times larger at each step.
    let steep = "--set optimizer.dt=1e6 --set optimizer.alpha=1.0";
    let ran = run(folder.path(), &format!("noise config.toml --n 2 --sources last-bit {steep}"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for part in ["All runs of last-bit diverged", "Undecided: all runs diverged"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
}
