//! Damaged files: mended from the last whole checkpoint to the same bytes, or refused by name.

use std::fs;
use std::path::{Path, PathBuf};

use super::{CONFIG, refused};
use crate::support::{Files, Folder, Ran, reproducible_files, run};

/// Three replicas, checkpoints at 8 and 10 in the end.
const SHORT: [(&str, &str); 4] = [
    ("limit = 160", "limit = 32"),
    ("keep-every = 2", "keep-every = 0"),
    ("epochs = 5\nbatch", "epochs = 5\nevaluate-every = 3\nbatch"),
    ("flip-bit = [{ tensor = \"conv1.weight\", index = 7, step = 5 }]\npermute-order = [1]\n", ""),
];

/// A finished run and its files.
struct Finished {
    folder: Folder,
    whole: Files,
}

impl Finished {
    fn new() -> Self {
        let config = SHORT.iter().fold(CONFIG.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replace(from, to)
        });
        let folder = Folder::with(&config);
        let ran = run(folder.path(), "train config.toml --out run");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let whole = reproducible_files(&folder.path().join("run"));
        Self { folder, whole }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("run").join(name)
    }

    fn checkpoint(&self, step: usize) -> PathBuf {
        self.path(&format!("checkpoints/step-{step}.safetensors"))
    }

    /// Changes the text of a file.
    #[track_caller]
    fn edit(&self, name: &str, change: impl Fn(&str) -> String) {
        let text = fs::read_to_string(self.path(name)).unwrap();
        let changed = change(&text);
        assert_ne!(text, changed, "{name}");
        fs::write(self.path(name), changed).unwrap();
    }

    /// Puts all files back.
    fn restore(&self) {
        fs::remove_dir_all(self.folder.path().join("run")).unwrap();
        for (name, bytes) in &self.whole {
            fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
            fs::write(self.path(name), bytes).unwrap();
        }
    }

    /// Resumes and expects the bytes of the run without damage, and a word about the file.
    #[track_caller]
    fn mends(&self, file: &str, step: usize) -> Ran {
        let ran = run(self.folder.path(), "train --out run --resume");
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let note = format!("resuming from run/checkpoints/step-{step}.safetensors");
        assert!(ran.stderr.contains(file) && ran.stderr.contains(&note), "{}", ran.stderr);
        let found = reproducible_files(&self.folder.path().join("run"));
        for (expected, found) in self.whole.iter().zip(&found) {
            assert!(expected == found, "{}: other bytes", found.0);
        }
        assert_eq!(self.whole.len(), found.len());
        ran
    }

    #[track_caller]
    fn refuses(&self, parts: &[&str]) {
        let before = reproducible_files(&self.folder.path().join("run"));
        refused(&self.folder, "--out run --resume", parts);
        let after = reproducible_files(&self.folder.path().join("run"));
        assert!(before == after, "what is refused is not touched");
    }
}

fn flip_last_bit(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(path, bytes).unwrap();
}

fn replaced_in_last_line(text: &str, from: &str, to: &str) -> String {
    let place = text.rfind(from).unwrap();
    format!("{}{to}{}", &text[..place], &text[place + from.len()..])
}

#[test]
fn the_checkpoint_before_a_damaged_one_leads_to_the_same_bytes() {
    let run = Finished::new();
    let whole = fs::read(run.checkpoint(10)).unwrap();
    for damaged in [&whole[..whole.len() / 2], &[]] {
        fs::write(run.checkpoint(10), damaged).unwrap();
        run.mends("step-10.safetensors", 8);
    }
    flip_last_bit(&run.checkpoint(10));
    run.mends("step-10.safetensors", 8);
    flip_last_bit(&run.checkpoint(8));
    flip_last_bit(&run.checkpoint(10));
    run.refuses(&["step-10.safetensors", "no checkpoint is whole", "--fork", "another folder"]);
}

#[test]
fn damage_at_the_end_of_a_run_is_computed_again() {
    let run = Finished::new();
    let digit =
        |text: &str| replaced_in_last_line(text, "\"agreeing_bits\":", "\"agreeing_bits\":1");
    run.edit("metrics.jsonl", digit);
    run.mends("metrics.jsonl", 8);
    run.edit("metrics.csv", |text| replaced_in_last_line(text, ",0.", ",1."));
    run.mends("metrics.csv", 8);
    run.edit("metrics.jsonl", |text| text[..text.len() - 9].to_owned());
    run.mends("metrics.jsonl", 8);
    run.edit("metrics.jsonl", |text| replaced_in_last_line(text, "\"k4\"", "\"k9\""));
    let ran = run.mends("metrics.jsonl", 8);
    assert!(ran.stderr.contains("no replica is called k9"), "{}", ran.stderr);
    flip_last_bit(&run.path("answers.safetensors"));
    run.mends("answers.safetensors", 8);
    // What the end writes from the last checkpoint is written again without a word.
    flip_last_bit(&run.path("final/k3.safetensors"));
    run.edit("summary.json", |text| text.replace("\"steps\": 10", "\"steps\": 11"));
    run.edit("files.json", |text| text.replacen('0', "1", 1));
    let again = crate::support::run(run.folder.path(), "train --out run --resume");
    assert_eq!((again.code, again.stderr.as_str()), (0, ""));
    assert!(reproducible_files(&run.folder.path().join("run")) == run.whole);
}

#[test]
fn damage_before_every_checkpoint_is_refused_by_name() {
    let run = Finished::new();
    let advice = "put the files back";
    run.edit("metrics.jsonl", |text| text.replacen("\"max_ulps\":0", "\"max_ulps\":1", 1));
    run.refuses(&["run/metrics.jsonl", "hash", advice]);
    run.restore();
    run.edit("metrics.jsonl", |text| text.replacen("\"k3\"", "\"k9\"", 1));
    run.refuses(&["run/metrics.jsonl", "line 2", "no replica is called k9", advice]);
    run.restore();
    run.edit("metrics.csv", |text| text.lines().next().unwrap().to_owned());
    run.refuses(&["run/metrics.csv", "bytes", advice]);
    run.restore();
    fs::remove_file(run.path("metrics.jsonl")).unwrap();
    run.refuses(&["run/metrics.jsonl", "no such file", advice]);
}

#[test]
fn settings_are_those_of_the_checkpoints() {
    let run = Finished::new();
    run.edit("config.toml", |text| text.replace("0.05", "0.5"));
    let parts = ["run/config.toml", "optimizer.dt", "found 0.5", "0.05", "step-10", "--fork"];
    run.refuses(&parts);
    run.edit("config.toml", |text| text.replace("[optimizer]", "[optimiser"));
    run.refuses(&["run/config.toml", "--resume takes the settings from the last checkpoint"]);
    // Without the file they are taken from a checkpoint, with a file of the user's compared.
    fs::remove_file(run.path("config.toml")).unwrap();
    refused(&run.folder, "config.toml --out run", &["a run", "--resume"]);
    let other = "config.toml --out run --resume --set optimizer.dt=0.5";
    refused(&run.folder, other, &["optimizer.dt", "found 0.5", "0.05", "--fork"]);
    let again = crate::support::run(run.folder.path(), "train --out run --resume");
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(reproducible_files(&run.folder.path().join("run")) == run.whole);
    // With the last checkpoint gone too, the one before has them.
    fs::remove_file(run.path("config.toml")).unwrap();
    fs::write(run.checkpoint(10), "").unwrap();
    run.mends("step-10.safetensors", 8);
}

#[test]
fn an_exhibit_computes_damaged_trainings_again() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let command = "run tab-power-of-two --scale smoke --out out";
    let ran = run(folder.path(), command);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let whole = reproducible_files(&out);
    let run_folder = fs::read_dir(out.join("runs")).unwrap().flatten();
    let run_folder = run_folder.map(|entry| entry.path()).find(|path| path.is_dir()).unwrap();
    let mut checkpoints: Vec<PathBuf> = fs::read_dir(run_folder.join("checkpoints"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    checkpoints.sort_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
    let last = checkpoints.pop().unwrap();
    let again = |part: &str| {
        fs::remove_dir_all(out.join("tab-power-of-two")).unwrap();
        let ran = run(folder.path(), command);
        assert!(ran.code == 0 && ran.stderr.contains(part), "{}", ran.stderr);
        assert!(reproducible_files(&out) == whole, "{part}: other bytes");
    };
    flip_last_bit(&last);
    again("resuming from");
    checkpoints.iter().chain([&last]).for_each(|path| flip_last_bit(path));
    again("this training begins again");
}
