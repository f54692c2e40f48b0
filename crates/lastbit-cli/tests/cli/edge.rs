//! `lastbit edge config.toml`: closed forms through the whole program, the same record after a kill and
//! in any order, and what is refused.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Folder, assert_says, has_device, items, number, read_json};
use serde_json::Value;

/// Linear regression on four points: with the bias, `XᵀX/n` is diagonal with the entries 2.25, 0.25, 1.
const REGRESSION: &str = r#"
data = { name = "own", normalization = "none" }
network = { kind = "mlp", hidden = [] }
loss = { name = "half-mse" }
optimizer = { name = "sgd", dt = 0.1 }
training = { steps = 300, batch = "full", precision = "f64" }
"#;

/// A one-layer network of one channel on a few zeros and ones.
const ONE_CHANNEL: &str = r#"
data = { name = "mnist01", normalization = "none", limit = 16 }
loss = { name = "binary-cross-entropy" }
optimizer = { name = "sgd", dt = 64, alpha = 5e-4 }
training = { steps = 400, batch = "full", precision = "f64" }
[network]
kind = "cnn"
channels = [1]
bias = false
activation = { swish = 1.0 }
pooling = "none"
head = "mean"
"#;

fn folder_with(config: &str) -> Folder {
    let folder = Folder::with(config);
    let points = "a,b,y\n1.5,0.5,1\n1.5,-0.5,-0.5\n-1.5,0.5,2\n-1.5,-0.5,0.25\n";
    folder.write("own.csv", points);
    let import = "data import own.csv --test own.csv --target y --name own --data data";
    folder.done(import);
    folder
}

#[track_caller]
fn assert_near(found: &Value, expected: f64, tolerance: f64) {
    let off = number(found) / expected - 1.0;
    assert!(off.abs() < tolerance, "{found} instead of {expected}: {off:e}");
}

/// The only record below a folder.
fn record(folder: &Folder, out: &str) -> PathBuf {
    let records = fs::read_dir(folder.join(out).join("edge")).unwrap();
    records.flatten().next().unwrap().path()
}

/// Files of the cells of a record, sorted.
fn cells(record: &Path) -> Vec<PathBuf> {
    let cells = fs::read_dir(record.join("cells")).unwrap();
    let mut cells: Vec<PathBuf> = cells.flatten().map(|cell| cell.path()).collect();
    cells.sort();
    cells
}

#[test]
fn linear_regression_has_the_edge_of_its_hessian() {
    let folder = folder_with(REGRESSION);
    let command = "edge config.toml --property stable --data data --tolerance 1e-3";
    let found = folder.json(&format!("{command} --seeds 0,1"));
    let [largest] = items(&found["edges"]) else { panic!("{found:#}") };
    // Half of the bracket; a linear descent shows a twentieth of an e-fold in 150 steps.
    for key in ["min", "median", "max"] {
        assert_near(&largest[key], 2.0 / 2.25, 0.5e-3 + 2e-4);
    }
    for seed in items(&largest["seeds"]) {
        // The eigenvalue is exact to rounding, however far the run came.
        assert_near(&seed["predicted"], 2.0 / 2.25, 1e-12);
        assert!(number(&seed["holds"]) < number(&seed["fails"]));
    }
    for (settings, edge) in [
        ("--set optimizer.alpha=0.75", 2.0 / 3.0),
        ("--set optimizer.name=heavy-ball", 3.8 / 2.25),
        ("--set optimizer.name=nesterov", 3.8 / (2.8 * 2.25)),
    ] {
        let found = folder.json(&format!("{command} {settings} --steps 1000"));
        let seed = &found["edges"][0]["seeds"][0];
        // Five e-folds in 500 steps, at twice the relative distance or more per step.
        assert_near(&seed["edge"], edge, 0.5e-3 + 5e-3);
        assert_near(&seed["predicted"], edge, 1e-12);
    }
}

#[test]
fn the_three_edges_of_a_quadratic_contain_its_closed_form() {
    let folder = folder_with(REGRESSION);
    for (settings, edge) in [
        ("", 2.0 / 2.25),
        ("--set optimizer.name=heavy-ball", 3.8 / 2.25),
        ("--set optimizer.name=nesterov", 3.8 / (2.8 * 2.25)),
    ] {
        for steps in [100, 300] {
            let command = "edge config.toml --data data --tolerance 1e-2";
            let found = folder.json(&format!("{command} {settings} --steps {steps}"));
            for result in [&found, &found["divergence_edge"]] {
                let seed = &result["edges"][0]["seeds"][0];
                let (holds, fails) = (number(&seed["holds"]), number(&seed["fails"]));
                assert!(holds <= edge && edge <= fails, "{settings}, {steps}: {seed:#}");
            }
            assert_near(&found["edges"][0]["seeds"][0]["predicted"], edge, 1e-12);
        }
    }
}

#[test]
fn decays_are_stable_up_to_the_threshold_less_the_curvature() {
    let folder = folder_with(REGRESSION);
    let command = "edge config.toml --data data --over alpha --set optimizer.dt=0.5";
    let found = folder.json(&format!("{command} --tolerance 1e-3"));
    let [largest] = items(&found["edges"]) else { panic!("{found:#}") };
    assert_eq!(largest["end"], "largest", "stable without decay: no smallest one");
    assert_near(&largest["median"], 4.0 - 2.25, 2e-3);
    assert_near(&largest["seeds"][0]["predicted"], 4.0 - 2.25, 1e-12);
}

#[test]
fn a_convolution_on_real_images_has_the_edge_of_its_minimum() {
    let folder = folder_with(ONE_CHANNEL);
    let found = folder.json("edge config.toml --property stable --tolerance 5e-3 --twins --set optimizer.alpha=5e-3 --set optimizer.dt=32");
    let seed = &found["edges"][0]["seeds"][0];
    let edge = number(&seed["edge"]);
    // Half of the bracket; the motion must die by a tenth in 200 steps, at twice the distance a step. The
    // decay alone leaves e^-80 of the slowest mode after 400 steps at 40 or more.
    assert_near(&seed["predicted"], edge, 2.5e-3 + 2.5e-4);
    assert!(number(&seed["gradient_norm"]) < 1e-5, "{seed:#}");
    assert!(number(&seed["edge_ratio"]) < 1.0 && number(&seed["edge_ratio"]) > 0.98, "{seed:#}");
    let sentence = found["sentence"].as_str().unwrap();
    assert_says(sentence, &["growth edge (largest stable dt): between ", "CFL edge"]);
    let cells = Path::new(found["folder"].as_str().unwrap());
    let twins = fs::read_dir(folder.join(cells).join("series")).unwrap();
    assert!(twins.flatten().any(|file| file.file_name().to_string_lossy().ends_with("-twin.csv")));
    // The report shows it.
    folder.done("report");
    let page = folder.read("lastbit-out/report.html");
    assert!(page.contains("Verdicts over dt") && page.contains("Loss of the probes"));
}

#[test]
fn a_run_that_swings_near_the_edge_is_measured_in_its_minimum() {
    let folder = folder_with(ONE_CHANNEL);
    let at = |dt: &str| {
        let flags = "--set optimizer.alpha=5e-3 --tolerance 0.02 --steps 100";
        let command = format!(
            "edge config.toml --property stable --set optimizer.dt={dt} {flags} --out of-{dt}"
        );
        folder.json(&command)["edges"][0]["seeds"][0].clone()
    };
    // The searches end at different stable probes, within 0.02 of the edge: swings die by 0.96 a step at
    // best, to 0.02 after 100. Decay alone, dt alpha = 0.2, leaves 1e-10 of all that creeps.
    let (first, second) = (at("32"), at("35"));
    assert_ne!(first["holds"], second["holds"]);
    for found in [&first, &second] {
        assert!(number(&found["gradient_norm"]) < 1e-8, "{found}");
    }
    assert_near(&first["predicted"], number(&second["predicted"]), 1e-6);
}

#[test]
fn a_training_too_short_to_judge_is_lengthened_and_that_is_said() {
    let folder = folder_with(REGRESSION);
    let command = |steps: usize| {
        let short =
            format!("edge config.toml --property stable --data data --set training.steps={steps}");
        folder.json(&short)
    };
    let (short, enough) = (command(10), command(64));
    let note = "the training has 10 steps, too few to judge: 64 are made";
    assert_eq!(short["notes"], serde_json::json!([note]));
    assert_eq!(enough["notes"], serde_json::json!([]));
    assert_eq!(short["settings"]["steps"], 64);
    assert_eq!(short["edges"], enough["edges"]);
}

#[test]
fn a_search_that_was_killed_goes_on_and_the_order_of_probes_does_not_matter() {
    let folder = folder_with(ONE_CHANNEL);
    let command = "edge config.toml --property stable --steps 64 --tolerance 0.2";
    folder.done(&format!("{command} --out whole --threads 2"));
    folder.done(&format!("{command} --out killed --threads 1"));
    // As a kill leaves it: some probes are there, the record and the edge are not.
    let cells = cells(&record(&folder, "killed"));
    assert!(cells.len() > 3, "{cells:?}");
    let kept = fs::read(&cells[1]).unwrap();
    cells.iter().step_by(2).for_each(|cell| fs::remove_file(cell).unwrap());
    folder.done(&format!("{command} --out killed --threads 1"));
    assert_eq!(fs::read(&cells[1]).unwrap(), kept, "a finished probe stays");
    folder.assert_same("whole", "killed", "after a kill");
    // The same values tried in another order, from the other side, end in the same bits.
    let state = |out: &str| {
        let probe = record(&folder, out).join("cells/seed0-dt-64.json");
        read_json(&probe)["cell"].clone()
    };
    folder.done("edge config.toml --steps 64 --tolerance 0.2 --from 128 --to 64 --out other");
    assert_eq!(state("other"), state("whole"));
}

#[test]
fn searches_repeated_over_orders_of_the_batches_give_an_interval_for_the_median_edge() {
    let folder = folder_with(REGRESSION);
    let command = "edge config.toml --data data --property stable --steps 100 --tolerance 0.02 \
                   --set training.batch=2 --set replicas.seeds.batch=[7] --repeats 6";
    let found = folder.json(&format!("{command} --threads 2 --out whole"));
    let [median] = items(&found["medians"]) else { panic!("{found:#}") };
    assert_eq!(median["confidence"], 0.96875);
    let orders = items(&median["orders"]);
    let seeds: Vec<&Value> = orders.iter().map(|order| &order["batch_seed"]).collect();
    assert_eq!(seeds, [7, 8, 9, 10, 11, 12]);
    let ends = |end: &str| orders.iter().map(|order| number(&order[end])).collect::<Vec<f64>>();
    assert_eq!(number(&median["low"]), ends("low").into_iter().fold(f64::INFINITY, f64::min));
    assert_eq!(number(&median["high"]), ends("high").into_iter().fold(0.0, f64::max));
    let seeds = items(&found["edges"][0]["seeds"]);
    let edges: Vec<f64> = seeds.iter().map(|seed| number(&seed["edge"])).collect();
    assert!(edges.iter().any(|edge| *edge != edges[0]), "all orders have one edge: {edges:?}");
    // The counts are those of the edges, and fall.
    let stability = items(&median["stability"]);
    let count = |row: &Value, key: &str| row[key].as_u64().unwrap();
    for pair in stability.windows(2) {
        assert!(count(&pair[0], "holds") >= count(&pair[1], "holds"), "{stability:#?}");
        assert!(count(&pair[0], "fails") <= count(&pair[1], "fails"), "{stability:#?}");
    }
    for row in stability {
        let all = ["holds", "undecided", "fails"].map(|key| count(row, key));
        assert_eq!(all.iter().sum::<u64>(), 6);
    }
    let sentence = found["sentence"].as_str().unwrap();
    let median = "median over 6 orders of the batches: between";
    assert_says(sentence, &[median, "with 96.87 % confidence"]);
    // After a kill, and on one thread.
    folder.json(&format!("{command} --threads 1 --out killed"));
    let cells = cells(&record(&folder, "killed"));
    assert!(cells.iter().any(|cell| cell.ends_with("median-seed0.json")), "{cells:?}");
    cells.iter().step_by(2).for_each(|cell| fs::remove_file(cell).unwrap());
    folder.json(&format!("{command} --threads 1 --out killed"));
    folder.assert_same("whole", "killed", "after a kill");
}

#[test]
fn one_search_with_mini_batches_is_called_one_draw_and_full_batches_are_not_repeated() {
    let folder = folder_with(REGRESSION);
    let edge = "edge config.toml --data data --tolerance 0.2";
    let text = folder.done(&format!("{edge} --property stable --steps 64 --set training.batch=2"));
    assert_says(
        &text,
        &["this is one draw", "--repeats 6", "of the full-batch sharpness and threshold"],
    );
    for (flags, parts) in [
        ("--repeats 6", &["--repeats", "found 6", "smaller than the training set"][..]),
        ("--set training.batch=2 --set training.shuffle=false --repeats 6", &["shuffled"]),
        ("--set training.batch=2 --over alpha --repeats 6", &["--over alpha"]),
        ("--set training.batch=2 --repeats 0", &["--repeats", "found 0"]),
        ("--set training.batch=2 --repeats 1001", &["--repeats", "1000"]),
    ] {
        folder.refused(&format!("{edge} {flags}"), parts);
    }
}

#[test]
fn thresholds_of_mini_batches_stand_beside_that_of_the_full_batch() {
    let folder = folder_with(REGRESSION);
    let train = |flags: &str| {
        let every = "--set training.steps=20 --set sharpness.every=10";
        folder.train(&format!("config.toml --data data {every} {flags}"))
    };
    // The learning rate is 0.1, the momentum 0.9.
    let text = train("--set training.batch=2 --set optimizer.name=heavy-ball --out ball");
    assert!(text.contains("full-batch threshold 38; with batches of 2 and momentum 0.9"), "{text}");
    assert!(text.contains("2 (1 - mu)/lr = 2 for small batches"), "{text}");
    assert!(text.contains("2 (1 + mu)/lr = 38 for large ones (not tested here)"), "{text}");
    let summary = folder.value("ball/summary.json");
    assert_near(&summary["mini_batch_threshold"]["small_batch"], 2.0, 1e-14);
    let text = train("--set training.batch=2 --out plain");
    assert!(text.contains("the sharpness of a batch settles at 2/lr = 20 (not tested"), "{text}");
    for (i, flags) in ["", "--set training.batch=2 --set optimizer.name=adam"].iter().enumerate() {
        let text = train(&format!("{flags} --out none{i}"));
        assert!(text.contains("Sharpness of k1") && !text.contains("literature"), "{text}");
    }
}

#[test]
fn what_cannot_have_an_edge_is_refused_and_what_is_left_out_is_noted() {
    let folder = folder_with(REGRESSION);
    let edge = "edge config.toml --data data";
    for (arguments, parts) in [
        ("--from 0.1", &["--to"][..]),
        ("--from 0.1 --to 0.1", &["--to", "another value"]),
        ("--from 0 --to 1", &["--from", "found 0"]),
        ("--from 0.1 --to 0.2", &["--from and --to", "stable wherever", "0.1 to 0.2"]),
        ("--tolerance 2", &["--tolerance", "less than 1"]),
        ("--steps 3", &["--steps", "found 3", "64"]),
        ("--at-most 5", &["--at-most", "found 5", "300"]),
        ("--seeds 1,1", &["--seeds", "1 twice"]),
        ("--over mu", &["mu", "dt", "alpha"]),
        ("--set optimizer.lr=0", &["config.toml", "optimizer.lr"]),
        ("--set data.name=nothing", &["nothing", "mnist01"]),
    ] {
        folder.refused(&format!("{edge} {arguments}"), parts);
    }
    folder.refused("edge", &[]);
    folder.refused("edge absent.toml", &["absent.toml"]);
    let schedule = "optimizer.schedule={kind=\"every\",gamma=0.5,steps=10}";
    let text = folder
        .done(&format!("{edge} --set {schedule} --set training.precision=f32 --tolerance 0.1"));
    assert_says(&text, &["an edge is that of one rate", "--set training.precision=f64"]);
}

#[test]
fn without_a_device_the_message_says_what_to_do() {
    if has_device() {
        return;
    }
    let folder = folder_with(REGRESSION);
    folder.refused(
        "edge config.toml --data data --device cuda",
        &["training.device", "CUDA", "--device cpu"],
    );
}

#[test]
fn computed_rates_are_printed_without_their_rounding_error() {
    let folder = folder_with(REGRESSION);
    let command =
        "edge config.toml --data data --set optimizer.alpha=4 --from 0.2 --to 0.4 --tolerance 0.2";
    // The middle of 0.2 and 0.4 in f64; the edge is at 2/6.25 = 0.32.
    let seed = folder.json(command)["edges"][0]["seeds"][0].clone();
    assert_eq!(number(&seed["holds"]), 0.5 * (0.2 + 0.4), "the value itself is kept");
    let text = folder.run(command).stdout;
    assert!(text.contains(" 0.3  stable") && !text.contains("0.3000"), "{text}");
}
