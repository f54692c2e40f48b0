//! Folders of checkpoints and runs of probes, written by hand.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::*;
use crate::diff::Only;
use crate::probe::{FingerprintRow, ProbeRun, Row, Settings};
use crate::progress::Silent;
use crate::tensors::{Tensor, TensorFile, Values, write};

const NAMES: [&str; 3] = ["h.10.weight", "h.2.weight", "embed.weight"];

fn tensor(name: &str, values: &[f32]) -> Tensor {
    Tensor {
        name: name.to_owned(),
        shape: vec![values.len()],
        values: Values::F32(values.to_vec()),
    }
}

fn put(path: &Path, tensors: Vec<Tensor>, metadata: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let metadata = [("format".to_owned(), metadata.to_owned())].into();
    write(path, &TensorFile { metadata, tensors }).unwrap();
}

/// Tensors of 1, in which the first entry of some is moved by so many ulps.
fn model(moved: &[(&str, u32)]) -> Vec<Tensor> {
    let values = |name: &str| {
        let ulps = moved.iter().find(|(own, _)| *own == name).map_or(0, |(_, ulps)| *ulps);
        [f32::from_bits(1.0_f32.to_bits() + ulps), 1.0, 1.0, 1.0]
    };
    NAMES.iter().map(|name| tensor(name, &values(name))).collect()
}

/// A file for each step, moved as `moved` says.
fn files(
    folder: &Path,
    steps: impl Iterator<Item = u64>,
    moved: impl Fn(u64) -> Vec<(&'static str, u32)>,
) {
    for step in steps {
        put(&folder.join(format!("step-{step}.safetensors")), model(&moved(step)), "pt");
    }
}

/// The same in folders, each with a file per tensor and an index.
fn shards(
    folder: &Path,
    steps: impl Iterator<Item = u64>,
    moved: impl Fn(u64) -> Vec<(&'static str, u32)>,
) {
    for step in steps {
        let folder = folder.join(format!("checkpoint-{step}"));
        let mut map = Vec::new();
        for (i, tensor) in model(&moved(step)).into_iter().enumerate() {
            let file = format!("model-{:05}-of-00003.safetensors", i + 1);
            map.push(format!("{:?}: {file:?}", tensor.name));
            put(&folder.join(file), vec![tensor], "pt");
        }
        let index = format!("{{\"metadata\": {{}}, \"weight_map\": {{{}}}}}", map.join(", "));
        fs::write(folder.join("model.safetensors.index.json"), index).unwrap();
    }
}

struct Pair(TempDir);

impl Pair {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn a(&self) -> PathBuf {
        self.0.path().join("a")
    }

    fn b(&self) -> PathBuf {
        self.0.path().join("b")
    }

    fn diff(&self) -> RunDiff {
        of(&self.a(), &self.b(), &Only::parse(None).unwrap()).unwrap()
    }

    #[track_caller]
    fn refused(&self, parts: &[&str]) {
        let error = of(&self.a(), &self.b(), &Only::parse(None).unwrap()).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
}

fn nothing(_: u64) -> Vec<(&'static str, u32)> {
    vec![]
}

/// From step 20 on `h.2.weight` is off by 2^((step − 20)/10) ulps.
fn doubling(step: u64) -> Vec<(&'static str, u32)> {
    if step < 20 { vec![] } else { vec![("h.2.weight", 1 << ((step - 20) / 10))] }
}

#[test]
fn the_first_step_the_first_tensor_its_ulps_and_the_rate_are_found() {
    let pair = Pair::new();
    files(&pair.a(), (0..=90).step_by(10), nothing);
    shards(&pair.b(), (0..=90).step_by(10), doubling);
    let found = pair.diff();
    assert_eq!((found.last_identical_step, found.first_different_step), (Some(10), Some(20)));
    assert_eq!((found.common_steps, found.different_steps), (10, 8));
    let tensors = found.tensors.as_ref().unwrap();
    assert_eq!((tensors.step, tensors.compared, tensors.different.len()), (20, 3, 1));
    let first = &tensors.different[0];
    assert_eq!((first.name.as_str(), first.max_ulps), ("h.2.weight", Some(1)));
    assert_eq!((first.entries_different, first.entries), (Some(1), Some(4)));
    let GrowthOfDistance::Fitted { per_step, standard_error, points, .. } = &found.growth else {
        panic!("{:?}", found.growth)
    };
    // The distance doubles every ten steps exactly; logarithms are rounded to a few u of 16.
    assert!((per_step.0 - std::f64::consts::LN_2 / 10.0).abs() < 1e-14, "{per_step}");
    assert!(standard_error.0 < 1e-14 && *points == 8);
    let row = found.steps.iter().find(|row| row.step == 30).unwrap();
    // Two ulps of 2⁻²³ over the norm of twelve ones.
    let exact = 2.0_f64.powi(-22) / 12.0_f64.sqrt();
    assert!((row.distance.unwrap().relative.0 / exact - 1.0).abs() < 4.0 * f64::EPSILON);
    assert!(found.verdict.starts_with(
        "Identical up to step 10; at step 20, the next in common, they differ in `h.2.weight` by 1 ulp, one of 3 tensors. \
         The distance grows by 0.069315 ± "
    ), "{}", found.verdict);
    assert!(!found.identical && found.identical_again_at.is_none());
}

#[test]
fn tensors_are_in_the_order_of_their_names_with_numbers_as_numbers() {
    let pair = Pair::new();
    files(&pair.a(), [0].into_iter(), nothing);
    files(&pair.b(), [0].into_iter(), |_| NAMES.iter().map(|name| (*name, 3)).collect());
    let found = pair.diff();
    let names: Vec<String> =
        found.tensors.unwrap().different.into_iter().map(|one| one.name).collect();
    assert_eq!(names, ["embed.weight", "h.2.weight", "h.10.weight"]);
    assert!(found.verdict.starts_with(
        "They differ from step 0 in `embed.weight` by up to 3 ulps and all other tensors (3 in all). No growth rate: one \
         step alone has a distance between 0 and 0.01; a rate needs 3."
    ), "{}", found.verdict);
}

#[test]
fn runs_that_are_identical_again_later_are_searched_to_the_end() {
    let pair = Pair::new();
    files(&pair.a(), 1..=60, nothing);
    // A search by halves would see identity at 30, 45 and 60.
    let once = |step: u64| if step == 7 { vec![("embed.weight", 1)] } else { vec![] };
    files(&pair.b(), 1..=60, once);
    let found = pair.diff();
    assert_eq!((found.last_identical_step, found.first_different_step), (Some(6), Some(7)));
    assert_eq!((found.different_steps, found.identical_again_at), (1, Some(8)));
    assert!(found.verdict.starts_with(
        "Identical up to step 6; at step 7 they differ in `embed.weight` by 1 ulp, one of 3 tensors."
    ), "{}", found.verdict);
    assert!(found.verdict.ends_with("They are identical again at step 8."), "{}", found.verdict);
}

#[test]
fn runs_without_a_difference_are_identical_also_if_their_files_are_not() {
    let pair = Pair::new();
    files(&pair.a(), [5, 10, 20].into_iter(), nothing);
    shards(&pair.b(), [10, 20, 30].into_iter(), nothing);
    let found = pair.diff();
    assert!(found.identical, "{found:?}");
    assert!(found.verdict.starts_with("Identical at all 2 common steps, 10 to 20."));
    put(&pair.a().join("step-30.safetensors"), model(&[]), "another writer");
    assert_eq!(pair.diff().common_steps, 3);
    assert!(pair.diff().identical);
}

#[test]
fn of_very_many_checkpoints_some_are_compared_and_more_of_them_where_the_distance_is_small() {
    let pair = Pair::new();
    files(&pair.a(), 0..400, nothing);
    // Saturated, relative to a norm of √12, from step 42 on: 2⁻²³ 2²⁰ = 1/8.
    let growing = |step: u64| match step {
        0..2 => vec![],
        _ => vec![("embed.weight", 1 << ((step - 2) / 2).min(20))],
    };
    files(&pair.b(), 0..400, growing);
    let found = pair.diff();
    let compared: Vec<u64> =
        found.steps.iter().filter(|row| row.by == Evidence::Values).map(|row| row.step).collect();
    assert_eq!((compared[0], compared.len(), *compared.last().unwrap()), (2, 51, 399));
    assert!(compared.iter().filter(|step| **step < 42).count() > 20, "{compared:?}");
    assert_eq!((found.common_steps, found.different_steps), (400, 398));
    let GrowthOfDistance::Fitted { per_step, .. } = found.growth else { panic!() };
    // Doubles every second step; the staircase of pairs of steps adds less than a tenth.
    assert!((per_step.0 / (std::f64::consts::LN_2 / 2.0) - 1.0).abs() < 0.1, "{per_step}");
    assert!(found.steps.len() <= 120 && found.steps[0].step == 0, "{}", found.steps.len());
}

#[test]
fn a_nan_ends_the_fit_and_is_named() {
    let pair = Pair::new();
    files(&pair.a(), 0..4, nothing);
    files(&pair.b(), 0..3, doubling);
    let nan = [f32::NAN, 1.0, 1.0, 1.0];
    let broken = [tensor(NAMES[0], &nan), model(&[]).remove(1), model(&[]).remove(2)];
    put(&pair.b().join("step-3.safetensors"), broken.into(), "pt");
    let found = pair.diff();
    assert_eq!(found.first_different_step, Some(3));
    assert!(
        found.verdict.contains("`h.10.weight` (NaN or infinite on one side)"),
        "{}",
        found.verdict
    );
    assert!(
        found.verdict.contains("no step has a distance between 0 and 0.01"),
        "{}",
        found.verdict
    );
    let row = found.steps.last().unwrap();
    assert!(row.distance.unwrap().relative.0.is_nan() && row.distance.unwrap().max_ulps.is_none());
}

#[test]
fn a_log_is_finer_than_checkpoints() {
    let pair = Pair::new();
    files(&pair.a(), [0, 10].into_iter(), nothing);
    files(&pair.b(), [0, 10].into_iter(), |step| {
        if step == 10 { vec![("h.2.weight", 9)] } else { vec![] }
    });
    let log =
        |loss: &str| format!("{{\"step\": 3, \"loss\": 0.5}}\n{{\"step\": 4, \"loss\": {loss}}}\n");
    fs::write(pair.a().join("metrics.jsonl"), log("0.25")).unwrap();
    fs::write(pair.b().join("metrics.jsonl"), log("0.26")).unwrap();
    let found = pair.diff();
    let first = found.first_metric.unwrap();
    assert_eq!((first.metric.as_str(), first.step, first.last_equal_step), ("loss", 4, Some(3)));
    assert!(
        found.verdict.ends_with("The logged `loss` differs from step 4 on, equal up to step 3."),
        "{}",
        found.verdict
    );
    // Weights alike, losses not: no checkpoint says so.
    files(&pair.b(), [10].into_iter(), nothing);
    let found = pair.diff();
    assert!(!found.identical && found.first_different_step.is_none());
    assert!(
        found
            .verdict
            .contains("Identical at all 2 common steps, 0 to 10. But the logged `loss` differs")
    );
}

#[test]
fn settings_beside_checkpoints_are_compared_and_pickles_are_not() {
    let pair = Pair::new();
    shards(&pair.a(), [1].into_iter(), nothing);
    shards(&pair.b(), [1].into_iter(), nothing);
    for (folder, version) in [(pair.a(), "4.1"), (pair.b(), "4.2")] {
        let place = folder.join("checkpoint-1");
        fs::write(place.join("optimizer.pt"), version).unwrap();
        let config = format!("{{\"transformers_version\": \"{version}\", \"n_layer\": 2}}");
        fs::write(place.join("config.json"), config).unwrap();
    }
    let found = pair.diff();
    assert!(found.identical);
    assert_eq!(found.settings.len(), 1);
    assert_eq!(found.settings[0].key, "transformers_version");
    assert!(found.notes.iter().any(|note| note.contains("optimizer.pt")), "{:?}", found.notes);
}

#[test]
fn folders_that_other_programs_laid_out_like_a_run_are_read_as_theirs() {
    let pair = Pair::new();
    for (folder, lr) in [(pair.a(), "0.1"), (pair.b(), "0.2")] {
        files(&folder.join("checkpoints"), 0..3, nothing);
        fs::write(folder.join("config.toml"), format!("lr = {lr}\n")).unwrap();
        let log = format!("{{\"step\": 2, \"loss\": {lr}}}\n");
        fs::write(folder.join("metrics.jsonl"), log).unwrap();
    }
    let found = pair.diff();
    assert_eq!((found.a.kind, found.common_steps, found.different_steps), ("checkpoints", 3, 0));
    assert_eq!(found.first_metric.unwrap().metric, "loss");
    assert_eq!(found.settings[0].key, "lr");
    // Settings that cannot be read hinder no comparison.
    fs::write(pair.b().join("config.toml"), "lr: 0.2\n").unwrap();
    let found = pair.diff();
    assert_eq!((found.common_steps, found.settings.len()), (3, 0));
    assert!(found.notes.iter().any(|note| note.contains("b/config.toml")), "{:?}", found.notes);
}

#[test]
fn a_trainer_state_with_nan_is_read() {
    let pair = Pair::new();
    for (folder, batch) in [(pair.a(), 8), (pair.b(), 16)] {
        shards(&folder, [1, 2].into_iter(), nothing);
        let state = format!(
            "{{\"global_step\": 2, \"train_batch_size\": {batch}, \"log_history\": [\
             {{\"step\": 1, \"loss\": 0.5, \"grad_norm\": NaN}}, {{\"step\": 2, \"loss\": {batch}}}]}}"
        );
        fs::write(folder.join("checkpoint-2/trainer_state.json"), state).unwrap();
    }
    let found = pair.diff();
    let keys: Vec<&str> = found.settings.iter().map(|one| one.key.as_str()).collect();
    assert_eq!(
        (keys, found.metrics),
        (vec!["train_batch_size"], vec!["grad_norm".into(), "loss".to_owned()])
    );
    let first = found.first_metric.unwrap();
    assert_eq!((first.metric.as_str(), first.step), ("loss", 2));
    assert!(found.notes.is_empty(), "{:?}", found.notes);
}

#[test]
fn a_pattern_leaves_other_tensors_aside() {
    let pair = Pair::new();
    files(&pair.a(), 0..3, nothing);
    files(&pair.b(), 0..3, |_| vec![("embed.weight", 1)]);
    let only = |pattern| of(&pair.a(), &pair.b(), &Only::parse(Some(pattern)).unwrap());
    assert!(only("h.*").unwrap().identical);
    assert_eq!(only("emb*").unwrap().first_different_step, Some(0));
    let error = only("nothing").unwrap_err().to_string();
    assert!(error.contains("--only: found nothing") && error.contains("embed.weight"), "{error}");
}

#[test]
fn what_cannot_be_compared_is_refused_by_name() {
    let pair = Pair::new();
    files(&pair.a(), 0..3, nothing);
    fs::create_dir(pair.b()).unwrap();
    pair.refused(&["b: found no checkpoint", "step-100.safetensors"]);
    files(&pair.b(), 5..9, nothing);
    pair.refused(&[
        "found no step in common with",
        "4 steps from 5 to 8 here, 3 steps from 0 to 2 there",
    ]);
    let path = pair.b().join("step-1.safetensors");
    put(&path, vec![tensor("embed.weight", &[1.0; 5]), tensor("x", &[1.0])], "pt");
    pair.refused(&["step-1.safetensors", "embed.weight of shape [5], in A [4]", "--only"]);
    files(&pair.b(), [1].into_iter(), doubling);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    pair.refused(&["step-1.safetensors: found"]);
    fs::remove_file(&path).unwrap();
    shards(&pair.b(), [1].into_iter(), nothing);
    let shard = pair.b().join("checkpoint-1/model-00002-of-00003.safetensors");
    fs::remove_file(&shard).unwrap();
    pair.refused(&["model-00002-of-00003.safetensors: cannot be read"]);
    put(&shard, vec![tensor("another", &[1.0])], "pt");
    pair.refused(&["model.safetensors.index.json", "h.2.weight", "which lacks it"]);
    put(&shard, vec![tensor("embed.weight", &[1.0])], "pt");
    pair.refused(&["a second tensor \"embed.weight\""]);
    let index = pair.b().join("checkpoint-1/model.safetensors.index.json");
    fs::write(&index, "{\"weight_map\": {\"x\": \"../../a/step-1.safetensors\"}}").unwrap();
    pair.refused(&[
        "model.safetensors.index.json: found what is no index",
        "no path below its folder",
    ]);
    files(&pair.b(), [1].into_iter(), nothing);
    pair.refused(&["of one step", "one checkpoint of each step"]);
}

#[test]
fn pickles_and_checkpoints_of_epochs_are_said_to_be_such() {
    let pair = Pair::new();
    files(&pair.a(), 0..3, nothing);
    fs::create_dir_all(pair.b().join("checkpoint-5")).unwrap();
    fs::write(pair.b().join("checkpoint-5/pytorch_model.bin"), "").unwrap();
    fs::write(pair.b().join("epoch=0-step=3.ckpt"), "").unwrap();
    pair.refused(&["b: found no checkpoint; left out: checkpoint-5 (pickles are never read), epoch=0-step=3.ckpt (pickles"]);
    put(&pair.b().join("epoch-1.safetensors"), model(&[]), "pt");
    pair.refused(&["checkpoints of epochs", "of steps"]);
    put(&pair.b().join("epoch=1-step=2.safetensors"), model(&[]), "pt");
    let found = pair.diff();
    assert_eq!((found.unit, found.common_steps, found.last_common_step), (Unit::Step, 1, 2));
    assert!(
        found.notes.iter().any(|note| note.contains("epoch-1.safetensors")),
        "{:?}",
        found.notes
    );
}

/// A run of a probe with two tensors, whose second changes at a step.
fn probe(folder: &Path, steps: u64, changes_at: u64, lr: f64) {
    let settings = format!("{{\"model\": {{\"class\": \"M\"}}, \"optimizer\": {{\"lr\": {lr}}}}}");
    let settings = Settings::from_json(&settings).unwrap();
    let mut run = ProbeRun::open(folder, settings, false, &Silent).unwrap();
    for step in 0..steps {
        let other = if step < changes_at { "same" } else { "other" };
        let row = format!(
            "{{\"step\": {step}, \"loss\": 0.5, \"edge_ratio\": 0.{step}, \"elapsed_seconds\": 0, \"measuring_seconds\": 0}}"
        );
        let print = format!(
            "{{\"step\": {step}, \"hash\": \"{step}{other}\", \"tensors\": {{\"w\": \"{step}\", \"b\": \"{other}\"}}}}"
        );
        let print = FingerprintRow::parse(&print).unwrap();
        run.append(Row::parse(&row).unwrap(), Some(&print)).unwrap();
    }
    run.finish(Default::default()).unwrap();
}

#[test]
fn hashes_of_a_probe_name_the_tensor_and_say_that_values_are_not_there() {
    let pair = Pair::new();
    probe(&pair.a(), 6, 9, 0.5);
    probe(&pair.b(), 9, 4, 0.25);
    let found = pair.diff();
    assert_eq!((found.common_steps, found.first_different_step), (6, Some(4)));
    assert!(found.verdict.starts_with(
        "Identical up to step 3; from step 4 on they differ in `b` (its values were not saved), one of 2 tensors. No growth \
         rate: no step has the values of both; a rate needs 3."
    ), "{}", found.verdict);
    assert_eq!(found.settings.len(), 1);
    assert_eq!(
        (found.settings[0].key.as_str(), found.settings[0].b.as_deref()),
        ("optimizer.lr", Some("0.25"))
    );
    let edge = found.edge[0].unwrap();
    assert_eq!((edge.step, edge.edge_ratio.0), (4, 0.4));
    let only = of(&pair.a(), &pair.b(), &Only::parse(Some("w")).unwrap()).unwrap();
    assert!(only.first_different_step.is_none());
    // A changed hash in a finished run is damage, not a difference.
    let path = pair.a().join("fingerprints.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("same", "tame", 1)).unwrap();
    pair.refused(&["fingerprints.jsonl", "hash"]);
}

#[test]
fn a_record_with_the_figure_of_the_distance_is_written() {
    let pair = Pair::new();
    files(&pair.a(), (0..=90).step_by(10), nothing);
    files(&pair.b(), (0..=90).step_by(10), doubling);
    let out = pair.0.path().join("out");
    let found = pair.diff();
    assert!(keep(&found, &out).unwrap());
    let record = crate::record::Store::open(&out).load().unwrap().unwrap();
    assert_eq!(record.page.claim, found.verdict);
    let svg = fs::read_to_string(out.join("figures/distance.svg")).unwrap();
    assert!(svg.contains("Distance of the two runs") && svg.contains("per step"));
    let text = String::from_utf8(csv(&found)).unwrap();
    assert_eq!(text.lines().count(), 1 + found.steps.len());
    assert!(text.lines().all(|line| line.matches(',').count() == 9), "{text}");
}
