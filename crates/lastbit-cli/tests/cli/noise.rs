//! `lastbit noise` as a user runs it: beside scipy, and through trainings that are killed.

use std::fmt::Write;
use std::fs;

use crate::support::{Files, Folder, assert_says, items, number};
use serde_json::Value;

/// The cases of a golden file.
fn cases(text: &str) -> Vec<Value> {
    let golden: Value = serde_json::from_str(text).unwrap();
    items(&golden["data"]).to_vec()
}

fn golden() -> Vec<Value> {
    cases(include_str!("../../../lastbit/tests/golden/statistics.json"))
}

fn t_tests() -> Vec<Value> {
    cases(include_str!("../../../lastbit/tests/golden/t_tests.json"))
}

fn numbers(value: &Value) -> Vec<f64> {
    items(value).iter().map(number).collect()
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
    let folder = Folder::new();
    for case in golden().iter().filter(|case| case["sigma"] != 0.0) {
        let pairs = numbers(&case["base"]).len();
        folder.write("results.csv", table(case, pairs));
        let found = folder.json("noise --from results.csv --resamples 999999");
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
        for (key, new_runs) in [("split_p", pairs), ("unequal_split_p", pairs - 2)] {
            let Some(split) = case[key].as_f64() else { continue };
            folder.write("results.csv", table(case, new_runs));
            let found = folder.json("noise --from results.csv --unpaired");
            let p = number(&found["comparisons"][0]["p"]);
            // Both divide whole numbers, in another order.
            assert!((p - split).abs() < 1e-15, "{}: {p} {split}", case["name"]);
        }
    }
}

#[test]
fn the_verdict_and_what_is_expected_of_it() {
    let folder = Folder::new();
    let named = |name: &str| golden().into_iter().find(|case| case["name"] == name).unwrap();
    for (name, shown, part) in [
        ("pairs6", true, "p = 0.0312 over 6 pairs"),
        ("pairs5", false, "with 5 pairs the smallest two-sided p is 2/2^5 = 0.0625"),
        ("pairs10", false, "p = 0.15 over 10 pairs"),
        ("equal", false, "have the same mean"),
    ] {
        folder.write("results.csv", table(&named(name), 30));
        for (expect, code) in
            [("significant", i32::from(!shown)), ("not-significant", i32::from(shown))]
        {
            let ran = folder.run(&format!("noise --from results.csv --expect {expect}"));
            assert_eq!(ran.code, code, "{name}: {}{}", ran.stdout, ran.stderr);
            assert!(ran.stdout.contains(part), "{name}: {}", ran.stdout);
        }
        folder.done("noise --from results.csv");
    }
    let figures: Vec<String> = record(&folder).into_iter().map(|file| file.0).collect();
    for name in ["runs", "sigma", "gains"].map(|name| format!("figures/{name}.svg")) {
        assert!(figures.iter().any(|file| file.ends_with(&name)), "{name}");
    }
    folder.done("report");
    let page = folder.read("lastbit-out/report.html");
    assert!(page.contains("Noise floor of results.csv") && page.contains("2/2^5 = 0.0625"));
}

/// A table of two groups as they are.
fn plain_table(case: &Value) -> String {
    let mut text = "seed,group,value\n".to_owned();
    for (group, key) in [("old", "base"), ("new", "new")] {
        for (seed, value) in numbers(&case[key]).iter().enumerate() {
            writeln!(text, "{seed},{group},{value}").unwrap();
        }
    }
    text
}

#[test]
fn intervals_targets_and_equivalence_are_scipys() {
    let folder = Folder::new();
    // Tolerances as in lastbit's tests/golden_statistics.rs.
    let near = |found: &Value, expected: &Value| {
        let (found, expected) = (found.as_f64().unwrap(), expected.as_f64().unwrap());
        assert!((found - expected).abs() < 1e-11, "{found} {expected}");
    };
    let near_ends = |found: &Value, expected: &Value| {
        near(&found[0], &expected[0]);
        near(&found[1], &expected[1]);
    };
    for case in t_tests() {
        folder.write("results.csv", plain_table(&case));
        for (design, flag) in [("paired", ""), ("welch", "--unpaired")] {
            let expected = &case[design];
            if expected.is_null() {
                continue;
            }
            let margin = &case["margin"];
            let line = format!("noise --from results.csv --equivalent {margin} {flag}");
            let one = &folder.json(&line)["comparisons"][0];
            near_ends(&one["gain_interval"], &expected["interval"]);
            near(&one["p_t"], &expected["p"]);
            near(&one["equivalence"]["p"], &expected["equivalence_p"]);
            near_ends(&one["equivalence"]["interval"], &expected["equivalence_interval"]);
        }
        let target = &case["target"];
        for (side, p, bound) in
            [("below", "p_below", "upper_bound"), ("above", "p_above", "lower_bound")]
        {
            let line =
                format!("noise --from results.csv --{side} {} --level 0.01", target["target"]);
            let found = folder.json(&line);
            assert!(found["comparisons"].as_array().unwrap().is_empty());
            let test = &found["targets"][1];
            assert_eq!((&test["group"], &test["side"]), (&"new".into(), &side.into()));
            near(&test["p"], &target[p]);
            near(&test["bound"], &target[bound]);
        }
    }
}

#[test]
fn a_target_an_equivalence_and_a_plan_are_answered_in_words() {
    let folder = Folder::new();
    let mut losses = "group,value\n".to_owned();
    for value in [3.2791, 3.2773, 3.2785, 3.2768, 3.2779, 3.2782] {
        writeln!(losses, "run,{value}").unwrap();
    }
    folder.write("losses.csv", losses);
    let close = t_tests().into_iter().find(|case| case["name"] == "close").unwrap();
    folder.write("close.csv", plain_table(&close));
    for (line, code, parts) in [
        (
            "noise --from losses.csv --below 3.28 --level 0.01 --expect significant",
            0,
            &["The mean of run, 3.27797 over 6 runs, is significantly below 3.28", "upper bound"][..],
        ),
        (
            "noise --from losses.csv --below 3.278 --expect significant",
            1,
            &["not significantly below 3.278", "minimum detectable distance of 6 runs"],
        ),
        (
            "noise --from close.csv --equivalent 0.01 --expect equivalent",
            0,
            &["new and old are equivalent within 0.01 at level 0.05", "90 % interval"],
        ),
        (
            "noise --from close.csv --equivalent 0.0001 --expect equivalent",
            1,
            &["Equivalence of new and old within 1e-4 is not shown"],
        ),
        (
            "noise --plan 3 --gain 0.2 --sigma 0.15",
            0,
            &["Sequential plan: at most", "pairs decide on a gain of 0.2", "The level holds"],
        ),
        (
            "noise --from losses.csv --below 3.28 --gain 0.001 --plan 2 --boundary pocock",
            0,
            &["Plan (pocock) for a gain of 0.001", "of run", "runs decide on a gain of 0.001"],
        ),
    ] {
        let ran = folder.run(line);
        assert_eq!(ran.code, code, "{line}: {}{}", ran.stdout, ran.stderr);
        assert_says(&ran.stdout, parts);
    }
    let plan = &folder.json("noise --plan 3 --gain 0.2 --sigma 0.15")["plan"];
    let looks = plan["looks"].as_array().unwrap();
    assert_eq!((looks.len(), &plan["design"]), (3, &"paired".into()));
    assert!(plan["false_positives"].as_f64().unwrap() <= 0.05);
    assert!(plan["power"].as_f64().unwrap() >= 0.8);
    let same = folder.json("noise --plan 3 --gain 0.2 --sigma 0.15 --threads 1");
    assert_eq!(&same["plan"], plan, "threads change a plan");
}

#[test]
fn wrong_questions_are_refused_by_name() {
    let folder = Folder::new();
    folder.write("one.csv", "group,value\na,1\na,2\n");
    for (line, parts) in [
        ("noise --from one.csv --below NaN", &["--below", "found NaN", "3.28"][..]),
        ("noise --from one.csv --below 1 --above 2", &["--below", "--above", "cannot be used"]),
        ("noise --from one.csv --equivalent 0", &["--equivalent", "found 0", "greater than 0"]),
        ("noise --from one.csv --equivalent 1", &["one.csv", "one group", "--equivalent"]),
        ("noise --from one.csv --expect equivalent", &["--expect", "--equivalent MARGIN"]),
        ("noise --from one.csv --plan 3", &["--gain"]),
        ("noise --plan 0 --gain 1 --sigma 1", &["--plan", "found 0", "1"]),
        ("noise --plan 3 --gain 1e-9 --sigma 1", &["--gain", "found 0.000000001", "a larger one"]),
        ("noise --plan 3 --gain 1 --sigma -1", &["--sigma"]),
        ("noise --from one.csv --plan 3 --gain 1 --sigma 1", &["--sigma", "--from"]),
        ("noise --plan 3 --gain 1", &["CONFIG", "--from"]),
    ] {
        folder.refused(line, parts);
    }
}

#[test]
fn charts_of_unpaired_gains_show_the_mean_and_zero() {
    let folder = Folder::new();
    let case = t_tests().into_iter().find(|case| case["name"] == "unequal").unwrap();
    folder.write("results.csv", plain_table(&case));
    let found = folder.json("noise --from results.csv --unpaired");
    let text = record(&folder).into_iter().find(|(name, _)| name.ends_with("record.json"));
    let written: Value = serde_json::from_slice(&text.unwrap().1).unwrap();
    let figures = written["figures"].as_array().unwrap();
    let gains = figures.iter().find(|figure| figure["id"] == "gains").unwrap();
    let number = |quantity: &Value| {
        let cells = written["cells"].as_array().unwrap();
        let cell = cells.iter().find(|cell| cell["key"] == quantity["cell"]).unwrap();
        cell["numbers"][quantity["number"].as_str().unwrap()].clone()
    };
    let rows = gains["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    let one = &found["comparisons"][0];
    assert_eq!(number(&rows[0]["values"][0]), one["gain"]);
    assert_eq!(number(&rows[0]["interval"][0]), one["gain_interval"][0]);
    assert_eq!(number(&rows[1]["values"][0]), 0.0);
}

#[test]
fn runs_pasted_twice_show_nothing() {
    let folder = Folder::new();
    let pair = |seed: u32| format!("a,{seed},{seed}.1\nb,{seed},{}.2\n", seed + 20);
    let rows: String = (0..5).map(pair).collect();
    // Five pairs show nothing; the same numbers as ten runs a side would.
    folder.write("results.csv", format!("group,seed,value\n{rows}{rows}"));
    folder.refused(
        "noise --from results.csv",
        &["results.csv", "seed 0 more than once in group a", "--unpaired"],
    );
    folder.done("noise --from results.csv --unpaired");
}

#[test]
fn thousands_of_rows_are_no_trouble() {
    let folder = Folder::new();
    let mut text = "group,seed,value\n".to_owned();
    for seed in 0..2000 {
        // Two whole periods of a saw tooth that differ by one in 1000.
        writeln!(text, "a,{seed},{}\nb,{seed},{}", seed % 1000, seed % 1000 + 1).unwrap();
    }
    folder.write("results.csv", text);
    let found = folder.json("noise --from results.csv --resamples 199");
    assert_eq!(found["comparisons"][0]["n"], 2000);
    assert_eq!(found["comparisons"][0]["gain"], 1.0);
    // Of 199 random patterns none has all signs alike: 2 · 1/200.
    assert_eq!(found["comparisons"][0]["p"], 0.01);
    assert_eq!(found["verdict"]["significant"], true);
}

#[test]
fn a_hundred_thousand_runs_are_answered_without_resampling() {
    let folder = Folder::new();
    let mut text = "group,seed,value\n".to_owned();
    for seed in 0..100_000_u64 {
        // Distinct numbers below 100,003, which is prime; and the same plus 1 or, of odd seeds, minus 1.
        let value = seed * 7919 % 100_003;
        writeln!(text, "a,{seed},{value}\nb,{seed},{}", value + 1 - 2 * (seed % 2)).unwrap();
    }
    folder.write("results.csv", text);
    for flag in ["", "--unpaired"] {
        let found = folder.json(&format!("noise --from results.csv {flag}"));
        let one = &found["comparisons"][0];
        assert_eq!((&one["exact"], &one["p"]), (&false.into(), &1.0.into()), "{flag}");
        for key in ["mean_bca", "sigma_bca"] {
            let interval = numbers(&found["groups"][0][key]);
            assert!(interval[0] < interval[1], "{key}: {interval:?}");
        }
        // Uniform: σ = m/√12, its error σ √((9/5 − 1)/(4n)) = 0.00141 σ: 1.96 of them to each side.
        let sigma = 100_003.0 / 12_f64.sqrt();
        let interval = numbers(&found["groups"][0]["sigma_bca"]);
        let width = (interval[1] - interval[0]) / sigma;
        assert!((width - 2.0 * 1.96 * 0.001_414).abs() < 1e-4, "{width}");
    }
}

const CONFIG: &str = r#"
data = { name = "mnist01", limit = 200, test-limit = 100, normalization = "channel" }
network = { kind = "mlp", hidden = [6], activation = "tanh" }
optimizer = { name = "sgd", dt = 2.0 }
training = { epochs = 3, batch = 20 }
replicas = { k = [1, 9], seeds = { batch = [4] } }
"#;

const NOISE: &str = "noise config.toml --n 4 --sources last-bit,batch,order --gain 0.5";

/// The record of the only analysis.
fn record(folder: &Folder) -> Files {
    folder.files("lastbit-out/noise")
}

#[test]
fn sources_of_noise_are_trained_and_told_apart() {
    let folder = Folder::with(CONFIG);
    let found = folder.json(NOISE);
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
    let written = record(&folder);
    // Killed after the trainings, before the analysis: the same record without training again.
    fs::remove_dir_all(folder.join("lastbit-out/noise")).unwrap();
    let trained = folder.files("lastbit-out/runs");
    assert_eq!(folder.json(NOISE), found);
    assert_eq!(record(&folder), written);
    assert_eq!(folder.files("lastbit-out/runs"), trained);
    // And from nothing, on one thread.
    let other = Folder::with(CONFIG);
    assert_eq!(other.json(&format!("{NOISE} --threads 1")), found);
    assert_eq!(record(&other), written);
}

#[test]
fn sources_that_diverge_are_named() {
    let folder = Folder::with(CONFIG);
    // Decay alone makes every weight a million times larger at each step.
    let steep = "--set optimizer.dt=1e6 --set optimizer.alpha=1.0";
    let text = folder.done(&format!("noise config.toml --n 2 --sources last-bit {steep}"));
    assert_says(&text, &["All runs of last-bit diverged", "Undecided: all runs diverged"]);
}
