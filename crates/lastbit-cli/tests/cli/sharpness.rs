//! Sharpness along `lastbit train`: against PyTorch to ten digits, the same bytes after kills, and all
//! columns where they are promised.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::support::{Folder, items, number};
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/sharpness.json")).expect("golden file is JSON")
}

/// A table of a `.csv` by column; empty fields are `None`.
fn table(path: &Path) -> BTreeMap<String, Vec<Option<String>>> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let mut columns: BTreeMap<_, _> = names.iter().map(|name| (name.clone(), vec![])).collect();
    for line in lines {
        assert_eq!(line.len(), names.len(), "{line:?}");
        for (name, field) in names.iter().zip(line) {
            columns.get_mut(name).unwrap().push((!field.is_empty()).then_some(field));
        }
    }
    columns
}

fn numbers(table: &BTreeMap<String, Vec<Option<String>>>, column: &str) -> Vec<f64> {
    let fields = table.get(column).unwrap_or_else(|| panic!("no column {column}"));
    fields.iter().flatten().map(|field| field.parse().unwrap()).collect()
}

const OWN: &str = r#"
data = { name = "own", normalization = "none" }
network = { kind = "mlp", hidden = [6, 5], activation = "tanh", weights = "start.safetensors" }
loss = { name = "half-mse" }
optimizer = { name = "sgd", dt = 0.2 }
training = { steps = 25, batch = "full", precision = "f64", metrics-every = 1 }
[sharpness]
every = 1
top = 3
tolerance = 1e-10
"#;

/// A user's own curve, weights and settings.
fn own() -> Folder {
    let (folder, golden) = (Folder::new(), golden());
    let point = |(x, y): (&Value, &Value)| format!("{},{}\n", number(x), number(y));
    let points: String = items(&golden["x"]).iter().zip(items(&golden["y"])).map(point).collect();
    folder.write("own.csv", format!("x,y\n{points}"));
    folder.write("start.safetensors", safetensors(&golden["weights"]));
    folder.write("config.toml", OWN);
    // All points are learned; the test set is the same.
    folder.done("data import own.csv --test own.csv --target y --name own --data data");
    folder
}

/// The format written out: length of the header, header, numbers.
fn safetensors(weights: &Value) -> Vec<u8> {
    let (mut header, mut bytes) = (serde_json::Map::new(), Vec::new());
    for tensor in items(weights) {
        let begin = bytes.len();
        for value in items(&tensor["values"]) {
            bytes.extend(number(value).to_le_bytes());
        }
        let entry = serde_json::json!({
            "dtype": "F64", "shape": tensor["shape"], "data_offsets": [begin, bytes.len()],
        });
        header.insert(tensor["name"].as_str().unwrap().to_owned(), entry);
    }
    let header = serde_json::to_string(&header).unwrap();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &bytes].concat()
}

#[test]
fn losses_and_eigenvalues_of_an_own_regression_are_pytorchs_to_ten_digits() {
    let (folder, golden) = (own(), golden());
    // What another rounding becomes along the run is far below the digits compared.
    assert!(number(&golden["growth"]) * 1e-14 < 1e-11);
    let text = folder.done("train config.toml --data data --out run");
    assert!(text.contains("Sharpness of k1"), "{text}");
    let table = table(&folder.join("run/metrics.csv"));
    let steps = number(&golden["steps"]) as usize;
    let near = |found: f64, expected: &Value, what: &str| {
        let off = (found / number(expected) - 1.0).abs();
        assert!(off < 1e-10, "{what}: {found} against {expected}");
    };
    // A row holds the loss before its step, and the Hessian after it.
    let losses = numbers(&table, "loss");
    assert_eq!(losses.len(), steps);
    for (step, loss) in losses.iter().enumerate() {
        near(*loss, &golden["losses"][step], &format!("loss of step {step}"));
    }
    for (i, column) in ["sharpness", "sharpness_2", "sharpness_3"].into_iter().enumerate() {
        let values = numbers(&table, column);
        assert_eq!(values.len(), steps + 1);
        for (step, value) in values.iter().enumerate() {
            near(*value, &golden["sharpness"][step][i], &format!("{column} after step {step}"));
        }
    }
    let dt = number(&golden["dt"]);
    let pairs =
        numbers(&table, "sharpness").into_iter().zip(numbers(&table, "normalized_sharpness"));
    for ((sharpness, normalized), ratio) in pairs.zip(numbers(&table, "edge_ratio")) {
        // A division and a product on each side.
        assert!((normalized - dt * sharpness).abs() < 1e-15 * 8.0 * normalized);
        assert_eq!(normalized, 2.0 * ratio);
    }
    let largest = numbers(&table, "sharpness")[0];
    assert!(numbers(&table, "residual").iter().all(|r| *r <= 1e-10 * 2.0 * largest));
    // Every digit is there, shortest that read back; counts are whole numbers.
    let field = table["sharpness"][1].clone().unwrap();
    assert_eq!(format!("{:?}", field.parse::<f64>().unwrap()), field);
    assert!(table["products"].iter().flatten().all(|count| count.parse::<usize>().is_ok()));
}

/// Every measurement there is, of two replicas, with Adam.
const ALL: &str = "--set optimizer.name=adam --set optimizer.dt=0.01 --set replicas.k=[1,3] \
    --set sharpness.tolerance=1e-4 --set sharpness.layers=true --set sharpness.critical=true \
    --set sharpness.batch=3 --set sharpness.density=true --set sharpness.replicas=all \
    --set training.batch=8 --set training.keep-last=true --set training.checkpoint-every=4 \
    --set sharpness.every=2 --set sharpness.examples=13";

#[test]
fn all_that_is_asked_for_is_in_the_rows_and_files() {
    let folder = own();
    let summary = folder.json(&format!("train config.toml --data data --out run {ALL}"));
    let out = folder.join("run");
    let table = table(&out.join("metrics.csv"));
    // Steps 0, 2, …, 24 and 25, twice; Adam has no preconditioner before its first step.
    for (column, count) in [
        ("sharpness", 28),
        ("sharpness_3", 28),
        ("residual_3", 28),
        ("preconditioned_sharpness", 26),
        ("normalized_sharpness", 26),
        ("edge_ratio", 26),
        ("products", 28),
        ("critical_sharpness", 28),
        ("critical_passes", 28),
        ("batch_sharpness", 28),
        ("batch_sharpness_error", 28),
        ("trace", 2),
        ("trace_error", 2),
    ] {
        let values = numbers(&table, column);
        assert_eq!(values.len(), count, "{column}");
        assert!(values.iter().all(|value| value.is_finite()), "{column}: {values:?}");
    }
    let rows = fs::read_to_string(out.join("metrics.jsonl")).unwrap();
    let last: Value = serde_json::from_str(rows.lines().last().unwrap()).unwrap();
    let blocks = last["curvature"]["sharpness_of"].as_object().unwrap();
    let names: Vec<&String> = blocks.keys().collect();
    assert_eq!(names, ["fc1.weight", "fc2.weight", "fc3.weight"]);
    let whole = number(&last["curvature"]["sharpness"][0]);
    for (name, value) in blocks {
        // A block's largest eigenvalue is at most that of the whole, up to both tolerances.
        assert!(number(value) <= whole * (1.0 + 2e-4), "{name}: {value} of {whole}");
    }
    assert!(summary["replicas"][1]["max_sharpness"]["sharpness"].is_number());
    // Adam's threshold is not one for these eigenvalues: their ratio to it is a figure of its own.
    for id in ["loss", "sharpness", "edge-ratio", "layers", "density", "rel-l1"] {
        assert!(out.join(format!("figures/{id}.svg")).exists(), "{id}");
    }
    for name in ["k1", "k3"] {
        let nodes = self::table(&out.join(format!("nodes-{name}.csv")));
        let (lambda, weight) = (numbers(&nodes, "lambda"), numbers(&nodes, "weight"));
        let trace: f64 = lambda.iter().zip(&weight).map(|(l, w)| 53.0 * l * w / 10.0).sum();
        let column = numbers(&table, "trace");
        let expected = column[usize::from(name == "k3")];
        // Sums of some hundred terms in two orders.
        assert!((trace / expected - 1.0).abs() < 1e-12, "{trace} {expected}");
        let density = self::table(&out.join(format!("density-{name}.csv")));
        let (at, value) = (numbers(&density, "lambda"), numbers(&density, "density"));
        let width = at[1] - at[0];
        // Five deviations on each side of all nodes, which leave out 6e-7 of the weight at most.
        assert!((value.iter().sum::<f64>() * width - 1.0).abs() < 1e-6, "{name}");
    }
}

#[test]
fn same_bits_after_a_kill_and_on_any_number_of_threads() {
    let folder = own();
    let command = format!("train config.toml --data data {ALL}");
    for (out, threads) in [("one", 1), ("two", 2), ("seven", 7)] {
        folder.done(&format!("{command} --threads {threads} --out {out}"));
    }
    folder.assert_same("one", "two", "threads");
    folder.assert_same("one", "seven", "threads");
    // As a kill in the last step leaves it, with the checkpoint of step 24.
    for gone in ["checkpoints/step-25.safetensors", "density-k1.csv", "summary.json"] {
        fs::remove_file(folder.join("two").join(gone)).unwrap();
    }
    folder.done(&format!("{command} --out two --resume"));
    folder.assert_same("one", "two", "after a resume");
}

#[test]
fn without_the_section_nothing_is_measured_and_what_does_not_fit_is_named() {
    let folder = own();
    let without = OWN.split("[sharpness]").next().unwrap();
    folder.write("plain.toml", without);
    folder.done("train plain.toml --data data --out plain");
    for file in ["metrics.csv", "metrics.jsonl", "config.toml", "summary.json"] {
        let text = folder.read(format!("plain/{file}"));
        assert!(!text.contains("sharpness") && !text.contains("curvature"), "{file}");
    }
    for (set, parts) in [
        ("sharpness.top=54", &["config.toml: sharpness.top", "54", "53"][..]),
        ("sharpness.examples=21", &["config.toml: sharpness.examples", "21", "20"]),
        ("sharpness.tolerance=1e-14", &["sharpness.tolerance", "1e-13", "f64"]),
    ] {
        folder.refused(&format!("train config.toml --data data --out x --set {set}"), parts);
    }
}

#[test]
fn a_run_that_diverges_is_measured_until_it_does() {
    let folder = own();
    let set = "--set optimizer.dt=1e9 --set sharpness.critical=true --set sharpness.density=true";
    let summary = folder.json(&format!("train config.toml --data data --out run {set}"));
    assert!(summary["replicas"][0]["diverged"].is_u64(), "{summary}");
    assert!(number(&summary["replicas"][0]["max_sharpness"]["sharpness"]) > 0.0);
}

#[test]
fn a_run_leaves_figures_and_a_record_that_the_report_shows() {
    let folder = own();
    let set = "--set sharpness.layers=true --set sharpness.density=true";
    let text = folder.done(&format!("train config.toml --data data {set}"));
    assert!(text.contains("lastbit report --out lastbit-out/train/config"), "{text}");
    let out = folder.join("lastbit-out/train/config");
    let record = folder.value("lastbit-out/train/config/record.json");
    let figures = items(&record["figures"]);
    let ids: Vec<&str> = figures.iter().map(|figure| figure["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["loss", "sharpness", "layers", "density"]);
    for id in ids {
        for kind in ["svg", "png"] {
            assert!(out.join(format!("figures/{id}.{kind}")).exists(), "{id}.{kind}");
        }
    }
    // 2/dt, and the curves of the three eigenvalues below it.
    assert_eq!(
        (number(&figures[1]["levels"][0]["y"]), items(&figures[1]["traces"]).len()),
        (10.0, 3)
    );
    let peak = number(&record["cells"][0]["numbers"]["max_sharpness-k1"]);
    let measured = numbers(&table(&out.join("metrics.csv")), "sharpness");
    assert_eq!(peak, measured.into_iter().fold(0.0, f64::max));
    // Seen from the folder of all records and from that of the run alone.
    for seen in ["lastbit-out", "lastbit-out/train/config"] {
        folder.done(&format!("report --out {seen}"));
        let page = folder.read(format!("{seen}/report.html"));
        assert!(page.contains("Training: mlp on own, sgd with dt = 0.2"), "{seen}");
        assert!(page.contains("\"label\":\"2/dt\""), "{seen}");
    }
}

#[test]
fn a_loss_that_goes_up_again_has_its_spikes_marked() {
    let folder = own();
    // Beyond the edge of this curve: the loss rises and comes back.
    let set = "--set optimizer.dt=3 --set training.steps=60 --set sharpness.every=20";
    folder.done(&format!("train config.toml --data data --out run {set}"));
    let curve = table(&folder.join("run/series/run-k1.csv"));
    let (losses, marks) = (numbers(&curve, "loss"), numbers(&curve, "spike"));
    let marked: Vec<usize> = (0..marks.len()).filter(|i| !marks[*i].is_nan()).collect();
    assert!(!marked.is_empty(), "{losses:?}");
    for spike in marked {
        let least = losses[..spike].iter().copied().fold(f64::INFINITY, f64::min);
        assert!(marks[spike] == losses[spike] && losses[spike] > 1.01 * least, "row {spike}");
    }
}
