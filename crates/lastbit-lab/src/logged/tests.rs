//! Runs as trainers log them, written to a folder and read.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            folder.write(name, text.as_bytes());
        }
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn read(&self, name: &str) -> LoggedRun {
        read(&self.path(name), &Choice::default()).unwrap()
    }

    fn refusal(&self, name: &str, choice: &Choice) -> String {
        read(&self.path(name), choice).unwrap_err().to_string()
    }
}

fn metric(steps: &[u64], values: &[f64]) -> Metric {
    Metric { steps: steps.to_vec(), values: values.to_vec() }
}

fn names(run: &LoggedRun) -> Vec<&str> {
    run.metrics.keys().map(String::as_str).collect()
}

fn by_step(key: &str) -> Choice {
    Choice { step_key: Some(key.into()), ..Choice::default() }
}

#[test]
fn rows_of_training_and_evaluation_are_one_run() {
    let jsonl = "{\"step\": 1, \"loss\": 0.5, \"time/step\": 3.0}\n\n\
                 {\"step\": 2, \"loss\": NaN, \"lr\": 0.1}\n\
                 {\"step\": 2, \"eval\": {\"accuracy\": 0.75}, \"note\": \"late\"}\n";
    let csv = "step,loss,lr,eval/accuracy,time/step\n1,0.5,,,3\n2,NaN,0.1,,\n2,,,0.75,\n";
    let folder = Folder::new(&[("a.jsonl", jsonl), ("a.csv", csv)]);
    for name in ["a.jsonl", "a.csv"] {
        let run = folder.read(name);
        assert_eq!(names(&run), ["eval/accuracy", "loss", "lr"], "{name}");
        assert_eq!(run.metrics["eval/accuracy"], metric(&[2], &[0.75]));
        assert_eq!(run.metrics["loss"].steps, [1, 2]);
        assert!(run.metrics["loss"].values[1].is_nan());
        assert_eq!((run.notes.len(), run.files), (0, vec![folder.path(name)]));
    }
}

#[test]
fn replicas_have_their_names_if_there_are_several() {
    let row = |step: u64, replica: &str, loss: f64| {
        format!("{{\"step\": {step}, \"replica\": \"{replica}\", \"loss\": {loss}}}\n")
    };
    let one = row(0, "base", 1.5) + &row(5, "base", 0.5);
    let two = row(0, "base", 1.5) + &row(0, "k3", 1.5) + &row(5, "base", 0.5) + &row(5, "k3", 0.25);
    let folder = Folder::new(&[("one.jsonl", &one), ("two.jsonl", &two)]);
    assert_eq!(folder.read("one.jsonl").metrics["loss"], metric(&[0, 5], &[1.5, 0.5]));
    let run = folder.read("two.jsonl");
    assert_eq!(names(&run), ["base/loss", "k3/loss"]);
    assert_eq!(run.metrics["k3/loss"], metric(&[0, 5], &[1.5, 0.25]));
    assert_eq!(run.notes, [""; 0]);
}

#[test]
fn a_resumed_run_counts_from_where_it_resumed() {
    let rows = |steps: &[u64], by: f64| -> String {
        let row = |step: &u64| format!("{{\"step\": {step}, \"loss\": {}}}\n", *step as f64 * by);
        steps.iter().map(row).collect()
    };
    let folder = Folder::new(&[("a.jsonl", &(rows(&[1, 2, 3, 4], 1.0) + &rows(&[3, 4], 2.0)))]);
    let run = folder.read("a.jsonl");
    assert_eq!(run.metrics["loss"], metric(&[1, 2, 3, 4], &[1.0, 2.0, 6.0, 8.0]));
    assert!(run.notes[0].contains("steps go back from 4 to 3"), "{:?}", run.notes);
    assert!(run.notes[0].contains("a.jsonl: ") && run.notes[0].contains("2 values"));
}

#[test]
fn steps_that_are_none_are_named() {
    let folder = Folder::new(&[
        ("a.csv", "epoch,loss\n0.5,2\n1.0,1\n"),
        ("b.csv", "batch,loss\n3,2\n6,1\n"),
    ]);
    let run = folder.read("a.csv");
    assert_eq!(run.metrics["loss"], metric(&[1, 2], &[2.0, 1.0]));
    assert!(run.notes[0].contains("epoch is no step, since line 2 has 0.5"), "{:?}", run.notes);
    assert!(run.notes[1].contains("rows are numbered"), "{:?}", run.notes);
    let run = read(&folder.path("b.csv"), &by_step("batch")).unwrap();
    assert_eq!(run.metrics, [("loss".to_owned(), metric(&[3, 6], &[2.0, 1.0]))].into());
    let message = folder.refusal("a.csv", &by_step("epoch"));
    assert!(message.contains("--step-key: found 0.5 in line 2 of"), "{message}");
    let message = folder.refusal("b.csv", &by_step("bach"));
    assert!(message.contains("did you mean batch?"), "{message}");
}

#[test]
fn a_file_that_still_grows_is_read_up_to_its_last_whole_row() {
    let text = "{\"step\": 1, \"loss\": 0.5}\n{\"step\": 2, \"loss\": 0.25}\n";
    let folder = Folder::new(&[]);
    let first = text.find('\n').unwrap() + 1;
    for length in first..text.len() {
        folder.write("a.jsonl", &text.as_bytes()[..length]);
        let run = folder.read("a.jsonl");
        // An object is whole with its last bracket.
        let is_whole = length == text.len() - 1;
        assert_eq!(run.metrics["loss"].steps.len(), if is_whole { 2 } else { 1 }, "{length}");
        assert_eq!(run.notes.is_empty(), is_whole || length == first, "{length}");
    }
}

#[test]
fn every_fault_names_its_file_and_place() {
    for (name, text, part) in [
        ("a.jsonl", "{\"step\": 1}\n{\"step\": 2,\n{\"step\": 3}\n", "in line 2 what is no row"),
        ("a.jsonl", "loss 0.5\n", "in line 1 what is no row (\"loss 0.5"),
        ("a.csv", "step,loss\n1,2\n2\n", "line: 3"),
        ("a.csv", "step,loss\n", "no metrics"),
        ("a.jsonl", "", "no metrics"),
        ("a.jsonl", "{\"step\": 1}\n", "no metrics"),
        ("a.jsonl", "{\"step\": 1, \"seconds\": 1}\n", "wall time only"),
        ("a.txt", "1\n", "another kind of file"),
    ] {
        let message = Folder::new(&[(name, text)]).refusal(name, &Choice::default());
        assert!(message.contains(name) && message.contains(part), "{part}: {message}");
    }
    let message = Folder::new(&[]).refusal("missing", &Choice::default());
    assert!(message.contains("missing"), "{message}");
}

#[test]
fn text_among_numbers_is_named() {
    let text =
        "{\"step\": 1, \"loss\": 0.5, \"x\": 1}\n{\"step\": 2, \"loss\": 0.25, \"x\": \"n/a\"}\n";
    let run = Folder::new(&[("a.jsonl", text)]).read("a.jsonl");
    assert_eq!(names(&run), ["loss"]);
    assert!(
        run.notes[0].ends_with("x is left out, since line 2 has text there"),
        "{:?}",
        run.notes
    );
}

#[test]
#[cfg(unix)]
fn a_pipe_is_read_to_its_end() {
    let folder = Folder::new(&[]);
    let path = folder.path("pipe.jsonl");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let writer = std::thread::spawn({
        let path: &Path = &path;
        let path = path.to_owned();
        move || fs::write(path, "{\"step\": 1, \"loss\": 0.5}\n").unwrap()
    });
    assert_eq!(folder.read("pipe.jsonl").metrics["loss"], metric(&[1], &[0.5]));
    writer.join().unwrap();
}
