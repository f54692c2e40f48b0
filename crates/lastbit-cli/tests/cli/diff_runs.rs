//! `lastbit diff` of two runs, and `lastbit noise` of envelopes, as a user meets them.

use std::fs;

use lastbit_lab::envelope::{Band, Envelope, FILE, FORMAT};
use lastbit_lab::number::Number;
use lastbit_lab::tensors::{Tensor, TensorFile, Values, write};
use serde_json::{Value, json};

use crate::support::{Folder, items, number};

const CONFIG: &str = r#"
[data]
name = "mnist01"
limit = 64
test-limit = 16
[network]
kind = "mlp"
hidden = [8]
activation = "tanh"
[optimizer]
name = "heavy-ball"
lr = 0.1
momentum = 0.9
[training]
steps = 40
batch = 16
metrics-every = 1
checkpoint-every = 10
[replicas]
k = [1, 3, 5]
"#;

fn rows(folder: &Folder, run: &str) -> Vec<Value> {
    let text = folder.read(format!("{run}/metrics.jsonl"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn replicas_of_a_run_differ_where_its_metrics_say_so() {
    let folder = Folder::with(CONFIG);
    folder.train("config.toml --out run");
    let found = folder.json("diff run:k1 run:k3");
    let rows = rows(&folder, "run");
    let of =
        |name: &str| -> Vec<&Value> { rows.iter().filter(|row| row["replica"] == name).collect() };
    let (k1, k3) = (of("k1"), of("k3"));
    let first = k1.iter().zip(&k3).find(|(a, b)| a["hash"] != b["hash"]).unwrap().0;
    assert_eq!(found["first_different_step"], first["step"]);
    assert_eq!(found["common_steps"], k1.len());
    let different = k1.iter().zip(&k3).filter(|(a, b)| a["hash"] != b["hash"]).count();
    assert_eq!(found["different_steps"], different);
    // The same points, fitted by the same rule.
    let fitted = &found["growth"]["fitted"];
    let last = k3.last().unwrap();
    assert_eq!(fitted["per_step"], last["growth_per_step"]);
    assert_eq!(fitted["standard_error"], last["growth_standard_error"]);
    let tensors = items(&found["tensors"]["different"]);
    assert_eq!(tensors[0]["name"], "fc1.weight", "{tensors:?}");
    assert_eq!(found["settings"], json!([{"key": "replica", "a": "k1", "b": "k3"}]));
    let at = items(&found["steps"]).iter().find(|row| row["step"] == 20).unwrap();
    assert_eq!(at["distance"]["relative"], k3[20]["distance"]);
    let ran = folder.run("diff run:k1 run:k3");
    assert_eq!(ran.code, 1);
    let step = number(&first["step"]);
    let begins = format!(
        "Identical up to step {}; from step {step} on they differ in `fc1.weight`",
        step - 1.0
    );
    assert!(ran.stdout.starts_with(&begins), "{}", ran.stdout);
    // Two replicas neither of which is the first: hashes say where, checkpoints by how much.
    let others = folder.json("diff run:k3 run:k5");
    assert_eq!(others["tensors"]["step"], 30, "the first checkpoint that is there");
    assert_eq!(items(&others["tensors"]["different"]).len(), 5, "four tensors and the momentum");
    let verdict = others["verdict"].as_str().unwrap();
    assert!(
        verdict.contains("the hash of all parameters; tensors are known first at step 30"),
        "{verdict}"
    );
    // A replica beside itself.
    assert_eq!(folder.run("diff run:k3 run:k3").code, 0);
}

#[test]
fn two_runs_are_identical_or_say_which_setting_changed() {
    let folder = Folder::with(CONFIG);
    folder.train("config.toml --out a");
    folder.train("config.toml --out b");
    folder.train("config.toml --out c --set optimizer.lr=0.101");
    let same = folder.run("diff a b");
    assert_eq!(same.code, 0, "{}", same.stdout);
    assert!(
        same.stdout.starts_with("Identical at all 41 common steps, 0 to 40."),
        "{}",
        same.stdout
    );
    assert!(same.stdout.contains("has the replicas k1, k3, k5; compared is k1"), "{}", same.stdout);
    let found = folder.json("diff a c");
    assert_eq!(
        (&found["last_identical_step"], &found["first_different_step"]),
        (&0.into(), &1.into())
    );
    assert_eq!(found["settings"], json!([{"key": "optimizer.dt", "a": "0.1", "b": "0.101"}]));
    assert_eq!(found["first_metric"]["metric"], "lr");
    // One setting changes the weights; another optimizer remembers other things, which is no other model.
    let plain = CONFIG.replace("heavy-ball", "sgd").replace("momentum = 0.9", "");
    folder.write("plain.toml", plain);
    folder.train("plain.toml --out d");
    assert_eq!(folder.json("diff a d")["tensors"]["compared"], 4);
    let other = "config.toml --out e --set network.hidden=[9]";
    folder.train(other);
    folder.refused(
        "diff a e",
        &["step-30.safetensors", "fc1.weight of shape [9, 784], in A [8, 784]"],
    );
}

#[test]
fn files_are_written_and_shown_in_the_report() {
    let folder = Folder::with(CONFIG);
    folder.train("config.toml --out run");
    let ran = folder.run("diff run:k1 run:k3 --out found");
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stdout.ends_with("Written: found/diff.json, diff.csv, record.json, figures\n"));
    let written = folder.value("found/diff.json");
    assert_eq!(written, folder.json("diff run:k1 run:k3"));
    let csv = folder.read("found/diff.csv");
    assert_eq!(csv.lines().count(), 1 + items(&written["steps"]).len());
    assert!(folder.join("found/figures/distance.png").exists());
    folder.done("report --out found");
    let page = folder.read("found/report.html");
    assert!(page.contains("Distance of the two runs"));
    folder.done("verify found");
    // Again into the same folder.
    assert_eq!(folder.run("diff run:k1 run:k3 --out found").code, 1);
}

#[test]
fn what_is_damaged_or_no_run_is_refused() {
    let folder = Folder::with(CONFIG);
    folder.train("config.toml --out a");
    folder.train("config.toml --out b --set optimizer.lr=0.2");
    folder.refused("diff a:k9 b", &["found no replica k9", "one of k1, k3, k5"]);
    folder.refused("diff a b --sort ulps", &["--sort", "two runs"]);
    folder.refused("diff a a/final/k1.safetensors", &["found one file or checkpoint", "a run"]);
    folder.refused("diff a nowhere", &["nowhere: cannot be read: No such file"]);
    folder.refused("diff a b --only x*", &["--only: found x*", "fc1.weight"]);
    fs::create_dir(folder.join("empty")).unwrap();
    folder.refused(
        "diff a empty",
        &["empty: found no checkpoint", "checkpoint-100/model.safetensors"],
    );
    let change = |name: &str, from: &str, to: &str| {
        let bytes = folder.bytes(name);
        let at = bytes.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
        let changed = [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat();
        folder.write(name, changed);
        bytes
    };
    let whole = change("b/metrics.jsonl", "\"loss\":0", "\"loss\":1");
    folder.refused("diff a b", &["b/metrics.jsonl", "hash"]);
    folder.write("b/metrics.jsonl", whole);
    change("b/checkpoints/step-40.safetensors", "k1/fc1.weight", "k1/fc1.wieght");
    folder.refused("diff a b", &["b/checkpoints/step-40.safetensors", "damaged contents"]);
}

/// A checkpoint of one tensor.
fn checkpoint(folder: &Folder, path: &str, values: &[f32]) {
    let tensor = Tensor {
        name: "w".into(),
        shape: vec![values.len()],
        values: Values::F32(values.to_vec()),
    };
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    write(&path, &TensorFile { tensors: vec![tensor], ..TensorFile::default() }).unwrap();
}

#[test]
fn a_checkpoint_in_a_folder_is_compared_like_a_file() {
    let folder = Folder::new();
    checkpoint(&folder, "a/checkpoint-5/model.safetensors", &[1.0, 2.0]);
    checkpoint(&folder, "b.safetensors", &[1.0, 2.0_f32.next_up()]);
    let found = folder.json("diff a/checkpoint-5 b.safetensors");
    assert_eq!(found["tensors"][0]["numbers"]["max_ulps"], 1);
    assert_eq!(found["verdict"], "1 of 1 tensors differ");
    // The weights that a trainer leaves beside its checkpoints make it no checkpoint.
    checkpoint(&folder, "a/model.safetensors", &[1.0, 2.0]);
    checkpoint(&folder, "c/step-5.safetensors", &[1.0, 2.0_f32.next_up()]);
    let found = folder.json("diff a c");
    assert_eq!((&found["kind"], &found["first_different_step"]), (&"runs".into(), &5.into()));
    let notes = found["notes"].to_string();
    assert!(notes.contains("left out: model.safetensors (no step in its name)"), "{notes}");
}

/// An envelope of one metric; one list of values for each run.
fn envelope(folder: &Folder, name: &str, runs: &[[f64; 2]]) {
    let values = runs.iter().map(|run| run.map(Number).to_vec()).collect();
    let band = Band { steps: vec![10, 20], values };
    let names = (1..=runs.len()).map(|i| format!("perturbed-{i}")).collect();
    let envelope = Envelope {
        format: FORMAT,
        version: "0".into(),
        command: vec!["python".into(), "train.py".into()],
        perturbation: "ulps".into(),
        runs: names,
        reproducibility: None,
        metrics: [("eval/accuracy".to_owned(), band)].into(),
        notes: vec![],
        warnings: vec![],
    };
    fs::create_dir(folder.join(name)).unwrap();
    envelope.write(&folder.join(name).join(FILE)).unwrap();
}

#[test]
fn envelopes_are_groups_of_runs_that_differ_by_rounding() {
    let folder = Folder::new();
    let runs = |mean: f64| [-2.0, -1.0, 0.0, 0.0, 1.0, 2.0].map(|x| [0.0, mean + x]);
    envelope(&folder, "base", &runs(90.0));
    envelope(&folder, "new", &runs(95.0));
    let found = folder.json("noise --from base,new --metric eval/accuracy");
    let comparison = &found["comparisons"][0];
    assert_eq!((&comparison["base"], &comparison["new"]), (&"base".into(), &"new".into()));
    assert_eq!((&comparison["gain"], &comparison["paired"]), (&5.0.into(), &false.into()));
    // All of new lie above all of base: 2 of the 924 splits of twelve runs into halves are as far apart.
    let p = number(&comparison["p"]);
    assert!((p - 2.0 / 924.0).abs() < 1e-15, "{p}");
    assert_eq!((&found["metric"], &found["step"]), (&"eval/accuracy".into(), &20.into()));
    let sentences = found["verdict"]["sentences"].to_string();
    assert!(sentences.contains("differ by rounding alone"), "{sentences}");
    let csv = "group,value\n".to_owned()
        + &[("base", 90.0), ("new", 95.0)]
            .map(|(name, mean)| runs(mean).map(|run| format!("{name},{}\n", run[1])).concat())
            .concat();
    folder.write("results.csv", csv);
    let table = folder.json("noise --from results.csv");
    assert_eq!(found["groups"], table["groups"], "the numbers of the same table");
    assert_eq!(found["comparisons"], table["comparisons"]);
    // One alone: what rounding does.
    let alone = folder
        .json("noise --from base --from new --compare new,base --at 10 --expect not-significant");
    assert_eq!(alone["comparisons"][0]["gain"], 0.0);
    let alone = folder.done("noise --from base/envelope.json --gain 5");
    assert!(alone.contains("the last bit alone moves eval/accuracy by"), "{alone}");
    folder
        .refused("noise --from base,new --metric loss", &["--metric: found loss", "eval/accuracy"]);
    folder.refused("noise --from base,new --at 15", &["--at: found 15"]);
    folder.refused("noise --from results.csv --at 15", &["--at: found 15", "a CSV has no steps"]);
    folder.refused("noise --from base,results.csv", &["results.csv"]);
    let bytes = folder.read("base/envelope.json");
    folder.write("base/envelope.json", bytes.replacen("92.0", "93.0", 1));
    folder.refused("noise --from base", &["base/envelope.json: damaged"]);
}
