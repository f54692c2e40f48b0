//! `lastbit train`: what a run leaves, the same bytes for any number of threads, and forks.

mod refusals;
mod resumes;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::support::{assert_same_files, json, reproducible_files, run};

const CONFIG: &str = r#"
[data]
name = "mnist01"
limit = 160
test-limit = 40

[network]
kind = "cnn"
channels = [2]
kernel = 5
stride = 3
pooling = "average"
batch-norm = true

[optimizer]
name = "nesterov"
dt = 0.05
alpha = 5e-4
schedule = { kind = "cosine", epochs = 5 }

[training]
epochs = 5
batch = 16
metrics-every = 3
checkpoint-every = 4
keep-every = 2
fluctuation-batches = 2

[replicas]
k = [1, 3, 4]
flip-bit = [{ tensor = "conv1.weight", index = 7, step = 5 }]
permute-order = [1]
"#;

/// Steps in all: 5 epochs of 160/16.
const STEPS: usize = 50;

fn folder_with(config: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.toml"), config).unwrap();
    folder
}

/// Trains and expects it to work.
#[track_caller]
fn trained(folder: &Path, arguments: &str) {
    let ran = run(folder, &format!("train {arguments}"));
    assert_eq!(ran.code, 0, "{arguments}: {}", ran.stderr);
}

/// Trains and expects to be refused with a message that has all these parts.
#[track_caller]
fn refused(folder: &Path, arguments: &str, parts: &[&str]) {
    let ran = run(folder, &format!("train {arguments}"));
    assert_eq!(ran.code, 2, "{arguments}: {}{}", ran.stdout, ran.stderr);
    assert!(!ran.stderr.contains("internal error"), "{arguments}: {}", ran.stderr);
    for part in parts {
        assert!(ran.stderr.contains(part), "{arguments}: \"{part}\" is missing in: {}", ran.stderr);
    }
}

#[test]
fn a_run_leaves_what_it_promises() {
    let folder = folder_with(CONFIG);
    let summary = json(folder.path(), "train config.toml");
    let run = folder.path().join("lastbit-out/train/config");
    let names: Vec<String> = reproducible_files(&run).into_iter().map(|file| file.0).collect();
    let expected = [
        "answers.safetensors",
        // Every second epoch (20 and 40 steps) stays, and the last two.
        "checkpoints/step-20.safetensors",
        "checkpoints/step-40.safetensors",
        "checkpoints/step-48.safetensors",
        "checkpoints/step-50.safetensors",
        "config.toml",
        "figures/accuracy.png",
        "figures/accuracy.svg",
        "figures/loss.png",
        "figures/loss.svg",
        "figures/rel-l1.png",
        "figures/rel-l1.svg",
        "final/flip-conv1.weight-7-at5.safetensors",
        "final/k1.safetensors",
        "final/k3.safetensors",
        "final/k4.safetensors",
        "final/order1.safetensors",
        "metrics.csv",
        "metrics.jsonl",
        "record.json",
        "series/run-butterfly.csv",
        "series/run-flip-conv1.weight-7-at5-bits.csv",
        "series/run-flip-conv1.weight-7-at5-rel-l1.csv",
        "series/run-flip-conv1.weight-7-at5-tests.csv",
        "series/run-flip-conv1.weight-7-at5.csv",
        "series/run-k1-tests.csv",
        "series/run-k1.csv",
        "series/run-k3-bits.csv",
        "series/run-k3-rel-l1.csv",
        "series/run-k3-tests.csv",
        "series/run-k3.csv",
        "series/run-k4-bits.csv",
        "series/run-k4-rel-l1.csv",
        "series/run-k4-tests.csv",
        "series/run-k4.csv",
        "series/run-order1-bits.csv",
        "series/run-order1-rel-l1.csv",
        "series/run-order1-tests.csv",
        "series/run-order1.csv",
        "summary.json",
    ];
    assert_eq!(names, expected);
    assert_eq!(summary["steps"], STEPS);
    let replicas = summary["replicas"].as_array().unwrap();
    let hash = |i: usize| replicas[i]["hash"].as_str().unwrap();
    assert_eq!(hash(2), hash(0), "k = 4 changes no bit");
    assert_eq!(replicas[2]["rel_l1"], 0.0);
    for other in [1, 3, 4] {
        assert_ne!(hash(other), hash(0), "{}", replicas[other]);
        assert!(replicas[other]["rel_l1"].as_f64().unwrap() > 0.0);
        assert!(replicas[other]["max_ulps"].as_u64().unwrap() > 0);
    }
    for replica in replicas {
        assert!(replica["test_accuracy"].as_f64().unwrap() > 0.5, "{replica}");
        assert!(replica["median_gradient_fluctuation"].as_f64().unwrap() > 0.0);
    }
    // Steps 0, 3, 6, …, 48 and the ends of epochs 10, 20, 40, 50; 30 is among the former.
    let rows = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    assert_eq!(rows.lines().count(), 5 * (17 + 4));
    let csv = fs::read_to_string(run.join("metrics.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 5 * (17 + 4));
    let last: serde_json::Value = serde_json::from_str(rows.lines().last().unwrap()).unwrap();
    assert_eq!(last["replica"], "order1");
    assert!(last["rel_l1_of"]["conv1.weight"].as_f64().unwrap() > 0.0);

    // A replica has one colour, whichever figures it is in.
    let record = fs::read_to_string(run.join("record.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let mut colours = BTreeMap::new();
    for figure in record["figures"].as_array().unwrap() {
        for trace in figure["traces"].as_array().unwrap() {
            let replica = trace["label"].as_str().unwrap().split([' ', ':']).next().unwrap();
            let colour = &trace["colour"];
            let known = colours.entry(replica.to_owned()).or_insert(colour.clone());
            assert_eq!(known, colour, "{replica} in {}", figure["id"]);
        }
    }
    assert_eq!((colours.len(), &colours["k3"]), (5, &1.into()));

    // What is left is what other commands read.
    let same = json(&run, "diff final/k1.safetensors final/k4.safetensors");
    assert_eq!(same["identical"], true, "{same}");
    // The settings written out are the settings.
    trained(folder.path(), "lastbit-out/train/config/config.toml --out again");
    assert_same_files(&run, &folder.path().join("again"), "settings written out");
}

/// A curve to be learned, so small that nearly all time goes into writing.
const CURVE: &str = r#"
[data]
name = "curve"

[network]
kind = "mlp"
hidden = [4]
activation = "tanh"

[loss]
name = "half-mse"

[optimizer]
name = "adam"
dt = 0.01

[training]
steps = 60
batch = 8
keep-last = true
precision = "f64"
metrics-every = 1
checkpoint-every = 3

[replicas]
k = [1, 3]
seeds = { init = [0, 1] }

[sharpness]
every = 2
top = 2
critical = true
"#;

/// The configuration, and the curve in a folder of data sets.
fn folder_with_curve() -> tempfile::TempDir {
    let folder = folder_with(CURVE);
    let point = |i: i32| format!("{},{}\n", f64::from(i) / 40.0, f64::from(i * i) / 800.0);
    let points: String = (-40..40).map(point).collect();
    fs::write(folder.path().join("curve.csv"), format!("x,y\n{points}")).unwrap();
    let ran = run(folder.path(), "data import curve.csv --target y --name curve --data data");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    folder
}

#[test]
fn numbers_are_learned_as_well_as_classes() {
    let folder = folder_with_curve();
    let longer = "--set training.steps=600 --set training.metrics-every=never --set training.checkpoint-every=never";
    let summary = json(folder.path(), &format!("train config.toml --data data {longer}"));
    assert_eq!(summary["test_accuracy"], serde_json::Value::Null);
    let replicas = summary["replicas"].as_array().unwrap();
    let names: Vec<&str> = replicas.iter().map(|r| r["replica"].as_str().unwrap()).collect();
    assert_eq!(names, ["k1-init0", "k3-init0", "k1-init1", "k3-init1"]);
    for replica in replicas {
        assert!(replica.get("train_accuracy").is_none());
        // A constant at the mean would have half the variance of 2x², which is 8/45.
        assert!(replica["test_loss"].as_f64().unwrap() < 8.0 / 45.0 / 10.0, "{replica}");
    }
    let refuse = |set: &str, parts: &[&str]| {
        refused(folder.path(), &format!("config.toml --data data --out x --set {set}"), parts);
    };
    refuse("loss.name=cross-entropy", &["loss.name", "numbers", "half-mse"]);
    refuse("loss.name=binary-cross-entropy", &["loss.name", "the target", "from 0 to 1"]);
    refuse("data.classes=[0,1]", &["data.classes", "numbers"]);
}

#[test]
fn a_start_close_to_zero_is_no_divergence() {
    let folder = folder_with_curve();
    let set = "--set network.init={normal=1e-8}";
    let summary = json(folder.path(), &format!("train config.toml --data data {set}"));
    for replica in summary["replicas"].as_array().unwrap() {
        assert!(replica.get("diverged").is_none(), "{replica}");
    }
}

#[test]
fn threads_and_precisions() {
    for precision in ["f32", "f64"] {
        let folder = folder_with(CONFIG);
        let set = format!("--set training.precision={precision}");
        for threads in [1, 2, 7] {
            let out = format!("--threads {threads} --out threads-{threads}");
            trained(folder.path(), &format!("config.toml {set} {out}"));
        }
        for other in ["threads-2", "threads-7"] {
            let [one, other] = ["threads-1", other].map(|name| folder.path().join(name));
            assert_same_files(&one, &other, precision);
        }
    }
}

#[test]
fn a_fork_without_change_is_the_run_and_one_with_change_is_not() {
    let folder = folder_with(CONFIG);
    trained(folder.path(), "config.toml --out run");
    let hashes = |out: &str| {
        let text = fs::read_to_string(folder.path().join(out).join("summary.json")).unwrap();
        let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
        let replicas = summary["replicas"].as_array().unwrap().clone();
        replicas.iter().map(|r| r["hash"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let fork = "--fork run/checkpoints/step-20.safetensors";
    trained(folder.path(), &format!("{fork} --out same"));
    assert_eq!(hashes("same"), hashes("run"), "RelL1 is exactly 0");
    trained(folder.path(), &format!("config.toml {fork} --out with-config"));
    assert_eq!(hashes("with-config"), hashes("run"));
    trained(folder.path(), &format!("{fork} --set optimizer.dt=0.01 --out slower"));
    assert_ne!(hashes("slower"), hashes("run"));
    // Replicas that the checkpoint does not know start as copies of its first.
    trained(folder.path(), &format!("{fork} --set replicas.k=[1,2,5] --out others"));
    let others = hashes("others");
    assert_eq!(others[..2], [hashes("run")[0].clone(), hashes("run")[0].clone()]);
    assert_ne!(others[2], others[0]);
    // Under a longer name a replica is the same.
    trained(folder.path(), &format!("{fork} --set replicas.seeds={{batch=[0,1]}} --out renamed"));
    assert_eq!(hashes("renamed")[..3], hashes("run")[..3]);
    refused(
        folder.path(),
        &format!("{fork} --set replicas.seeds={{init=[0,1]}} --out wrong"),
        &["replicas.seeds.init", "found 1", "checkpoint"],
    );
    refused(
        folder.path(),
        &format!("{fork} --set replicas.flip-bit=[{{tensor=\"fc.bias\",step=3}}] --out wrong"),
        &["replicas.flip-bit.step", "found 3", "at least 20"],
    );
    // Another optimizer starts with a memory of its own, a longer run goes on.
    let set = "--set optimizer.name=adam --set optimizer.dt=0.001";
    trained(folder.path(), &format!("{fork} {set} --out adam"));
    let last = "--fork run/checkpoints/step-50.safetensors";
    refused(folder.path(), &format!("{last} --out longer"), &["training.epochs", "50 steps"]);
    trained(folder.path(), &format!("{last} --set training.epochs=6 --out longer"));
    // A fork that is killed goes on as a fork.
    trained(folder.path(), "--resume --out same");
    let wrong = "--set training.precision=f64 --out wrong";
    refused(folder.path(), &format!("{fork} {wrong}"), &["step-20", "F32", "f64"]);
    let wrong = "--set network.channels=[3] --set replicas.flip-bit=[] --out wrong";
    refused(
        folder.path(),
        &format!("{fork} {wrong}"),
        &["conv1.weight", "[2, 1, 5, 5]", "[3, 1, 5, 5]"],
    );
}

#[test]
fn trained_weights_are_a_start() {
    let folder = folder_with(CONFIG);
    trained(folder.path(), "config.toml --out run");
    let set = "--set network.weights=\"run/final/k1.safetensors\" --set replicas.flip-bit=[] --set training.epochs=1";
    trained(folder.path(), &format!("config.toml {set} --out second"));
    let first_row = |out: &str| {
        let text = fs::read_to_string(folder.path().join(out).join("metrics.jsonl")).unwrap();
        serde_json::from_str::<serde_json::Value>(text.lines().next().unwrap()).unwrap()
    };
    let text = fs::read_to_string(folder.path().join("run/summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(first_row("second")["hash"], summary["replicas"][0]["hash"]);
    assert_eq!(first_row("second")["test_accuracy"], summary["replicas"][0]["test_accuracy"]);
    let other = format!("config.toml {set} --set network.channels=[3] --out third");
    refused(folder.path(), &other, &["k1.safetensors", "conv1.weight", "[2, 1, 5, 5]"]);
}

#[test]
fn divergence_is_data() {
    let folder = folder_with(CONFIG);
    let set = "--set optimizer.dt=1e15 --set network.batch-norm=false";
    let summary = json(folder.path(), &format!("train config.toml {set} --out run"));
    let replicas = summary["replicas"].as_array().unwrap();
    assert!(replicas.iter().all(|replica| replica["diverged"].is_u64()), "{summary}");
    assert_eq!(summary["test_accuracy"], serde_json::Value::Null);
    assert!(summary["steps"].as_u64().unwrap() < 50, "nothing is left to train");
    trained(folder.path(), &format!("config.toml {set} --out run --resume"));
}

#[test]
fn the_example_is_a_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(folder.path(), "train --example");
    assert_eq!(ran.code, 0);
    fs::write(folder.path().join("config.toml"), &ran.stdout).unwrap();
    // Smaller, to be quick.
    let set = "--set data.limit=64 --set data.test-limit=32 --set training.batch=32 --set training.epochs=1 --set sharpness.examples=64";
    trained(folder.path(), &format!("config.toml {set}"));
}
