//! Runs as trainers log them, written to a folder and read.

use std::fs;
use std::path::{Path, PathBuf};

use lastbit_formats::logs::events::framed;

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
        let texts = if name == "a.jsonl" { 1 } else { 0 };
        assert_eq!((run.notes.len(), run.files), (texts, vec![folder.path(name)]));
        assert!(run.notes.iter().all(|note| note.ends_with("since it is text: note")));
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
fn what_was_logged_from_where_a_run_resumed_on_counts_in_no_metric() {
    let row = |step: u64, rest: &str| format!("{{\"step\": {step}, \"loss\": 0.5{rest}}}\n");
    let eval = ", \"eval\": 7, \"text\": \"a\"";
    let first = row(1, "") + &row(2, "") + &row(3, eval);
    let resumed = row(2, "") + &row(3, "");
    let folder = Folder::new(&[
        ("one.jsonl", &(first.clone() + &resumed)),
        ("sessions/version_0/metrics.csv", "step,loss,eval\n1,0.5,\n2,0.5,\n3,0.5,7\n"),
        ("sessions/version_1/metrics.csv", "step,loss\n2,0.5\n3,0.5\n"),
        ("train.jsonl", &(first + "{\"step\": 3, \"test\": 1}\n")),
    ]);
    let of_events = [(1, "loss", 0.5), (3, "loss", 0.5), (3, "eval", 7.0), (2, "loss", 0.5)];
    folder.write(&format!("events/{EVENTS}"), &event_file(&of_events));
    for (name, count) in [("one.jsonl", 3), ("sessions", 3), ("events", 2)] {
        let run = folder.read(name);
        assert_eq!(names(&run), ["loss"], "{name}");
        let note = run.notes.iter().find(|note| note.contains("steps go back from 3 to 2"));
        let note = note.unwrap_or_else(|| panic!("{name}: {:?}", run.notes));
        assert!(note.contains(&format!("{count} values")), "{note}");
    }
    // The same step again is no seam.
    let run = folder.read("train.jsonl");
    assert_eq!((run.metrics["eval"].steps[0], run.metrics["test"].steps[0]), (3, 3));
    assert_eq!(run.notes.len(), 1, "{:?}", run.notes);
}

#[test]
fn replicas_that_were_logged_one_after_the_other_are_not_resumed() {
    let row = |step: u64, replica: &str| {
        format!("{{\"step\": {step}, \"replica\": \"{replica}\", \"loss\": 0.5}}\n")
    };
    let text = row(1, "a") + &row(2, "a") + &row(1, "b") + &row(2, "b");
    let run = Folder::new(&[("a.jsonl", &text)]).read("a.jsonl");
    assert_eq!(run.metrics["a/loss"].steps, run.metrics["b/loss"].steps);
    assert!(run.notes.is_empty(), "{:?}", run.notes);
}

#[test]
fn a_step_that_comes_late_takes_no_metrics_away() {
    let epochs = "{\"epoch\": 1, \"loss\": 0.5}\n{\"epoch\": 2, \"loss\": 0.4}\n";
    let text = epochs.to_owned() + "{\"step\": 500, \"test_acc\": 0.9}\n";
    let folder = Folder::new(&[
        ("a.jsonl", &text),
        ("b.jsonl", &text.replace("epoch", "cycle")),
        ("c.jsonl", "{\"parameters\": 9}\n{\"step\": 1, \"loss\": 0.5}\n{\"loss\": 0.4}\n"),
        ("d.csv", "epoch,train,valid\n1,0.5,\n1,,0.6\n2,0.4,\n2,,0.5\n"),
    ]);
    let run = folder.read("a.jsonl");
    assert_eq!(run.metrics["loss"], metric(&[1, 2], &[0.5, 0.4]));
    assert_eq!(
        (&run.metrics["test_acc"], &run.metrics["step"]),
        (&metric(&[2], &[0.9]), &metric(&[2], &[500.0]))
    );
    let notes = &run.notes;
    assert!(
        notes[0]
            .ends_with("step is no step, since line 3 has the first one, below rows with metrics"),
        "{notes:?}"
    );
    assert!(
        notes[1].ends_with("1 row has no epoch: it belongs to that of the row above"),
        "{notes:?}"
    );
    let run = folder.read("b.jsonl");
    assert_eq!(run.metrics["loss"].steps, [1, 2]);
    assert!(run.notes[1].ends_with("rows are numbered from 1"), "{:?}", run.notes);
    let run = folder.read("c.jsonl");
    assert_eq!(run.metrics, [("loss".to_owned(), metric(&[1], &[0.4]))].into());
    assert!(
        run.notes[0]
            .ends_with("1 row has no step and is left out, above the first one: parameters"),
        "{:?}",
        run.notes
    );
    let run = read(&folder.path("a.jsonl"), &by_step("step")).unwrap();
    assert!(
        run.notes[0]
            .ends_with("2 rows have no step and are left out, above the first one: epoch, loss"),
        "{:?}",
        run.notes
    );
    let twice = "{\"step\": 1, \"step\": 2, \"loss\": 0.5}\n";
    folder.write("e.jsonl", twice.as_bytes());
    assert_eq!(folder.read("e.jsonl").notes, [""; 0]);
    // An epoch with a row of training and one of validation.
    assert_eq!(folder.read("d.csv").metrics["valid"], metric(&[1, 2], &[0.6, 0.5]));
}

#[test]
fn what_is_left_out_is_said() {
    let row = |step: u64, epoch: u64| {
        format!(
            "{{\"step\": {step}, \"epoch\": {epoch}, \"b\": \"x\", \"a\": \"0.5\", \"loss\": 1}}\n"
        )
    };
    let text = row(1, 1) + &row(2, 1) + &row(1, 2);
    let run = Folder::new(&[("a.jsonl", &text)]).read("a.jsonl");
    for (note, end) in run.notes.iter().zip([
        "left out, since it is text: a, b",
        "step is no step, since line 3 has 1 after 2 while the epoch goes on",
        "epoch is no step, since line 1 has the same in several rows of one metric",
        "rows are numbered from 1",
    ]) {
        assert!(note.ends_with(end), "{note}");
    }
    assert_eq!(run.notes.len(), 4);
    let text = "{\"step\": \"1\", \"loss\": 0.5}\n";
    let run = Folder::new(&[("a.jsonl", text)]).read("a.jsonl");
    assert!(run.notes[0].ends_with("since it is text: step"), "{:?}", run.notes);
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
    assert!(message.contains("missing: cannot be read"), "{message}");
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

/// An event file of scalars with steps below 128, by the definition of the format.
fn event_file(scalars: &[(u8, &str, f32)]) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
    let mut file = Vec::new();
    for (step, tag, value) in scalars {
        let value = [&field(1, tag.as_bytes())[..], &[2 << 3 | 5], &value.to_le_bytes()].concat();
        let data = [&[2 << 3, *step][..], &field(5, &field(1, &value))].concat();
        file.extend(framed(&data));
    }
    file
}

const EVENTS: &str = "events.out.tfevents.1700000000.host.1.0";

fn state(step: u64, rows: &str) -> String {
    format!("{{\"global_step\": {step}, \"log_history\": [{rows}]}}")
}

#[test]
fn event_files_of_a_folder_are_one_log() {
    let folder = Folder::new(&[]);
    folder.write(EVENTS, &event_file(&[(1, "loss", 0.5), (2, "loss", 0.25), (3, "loss", 8.0)]));
    let later = event_file(&[(3, "loss", 0.125), (4, "loss", f32::INFINITY)]);
    folder.write("events.out.tfevents.1700000009.host.2.0", &later);
    let run = folder.read("");
    let whole = metric(&[1, 2, 3, 4], &[0.5, 0.25, 0.125, f64::INFINITY]);
    assert_eq!(run.metrics, [("loss".to_owned(), whole)].into());
    assert_eq!((run.files.len(), run.notes.len()), (2, 1), "{:?}", run.notes);
    // Cut within its second record, and damaged in its first.
    folder.write("events.out.tfevents.1700000009.host.2.0", &later[..later.len() - 3]);
    let run = folder.read("");
    assert_eq!(run.metrics["loss"].steps, [1, 2, 3]);
    let size = later.len() / 2;
    assert!(
        run.notes[0].contains(&format!("the last record (byte {size}) has no end")),
        "{:?}",
        run.notes
    );
    folder.write(EVENTS, &[0; 16]);
    let message = folder.refusal("", &Choice::default());
    assert!(
        message.contains(EVENTS) && message.contains("length in record 1 (byte 0)"),
        "{message}"
    );
}

#[test]
fn the_last_checkpoint_of_a_trainer_counts() {
    let rows = [
        "{\"step\": 9, \"loss\": 1}",
        "{\"step\": 10, \"loss\": 2}",
        "{\"step\": 11, \"loss\": 3}",
    ];
    let folder = Folder::new(&[
        ("out/checkpoint-9/trainer_state.json", &state(9, rows[0])),
        ("out/checkpoint-10/trainer_state.json", &state(10, &rows[..2].join(","))),
    ]);
    let run = folder.read("");
    assert_eq!(run.metrics["loss"], metric(&[9, 10], &[1.0, 2.0]));
    assert_eq!(run.files, [folder.path("out/checkpoint-10/trainer_state.json")]);
    folder.write("out/trainer_state.json", state(11, &rows.join(",")).as_bytes());
    assert_eq!(folder.read("out").metrics["loss"].steps, [9, 10, 11]);
    // A run that was resumed is further than what an earlier one left.
    folder.write("out/trainer_state.json", state(9, rows[0]).as_bytes());
    assert_eq!(folder.read("out").metrics["loss"].steps, [9, 10]);
    assert_eq!(folder.read("out/checkpoint-9").metrics["loss"].steps, [9]);
    folder.write("out/checkpoint-10/trainer_state.json", &state(10, rows[0]).as_bytes()[..40]);
    let message = folder.refusal("out", &Choice::default());
    assert!(message.contains("checkpoint-10/trainer_state.json: found EOF"), "{message}");
}

#[test]
fn text_counts_before_event_files_which_fill_what_it_lacks() {
    let rows = "{\"step\": 1, \"loss\": 0.1, \"epoch\": 0.5}, {\"step\": 1, \"eval_loss\": 0.3}";
    let folder = Folder::new(&[("checkpoint-1/trainer_state.json", &state(1, rows))]);
    let events = [
        (1, "train/loss", 0.1),
        (1, "eval/loss", 0.3),
        (2, "train/loss", 0.5),
        (2, "extra/loss", 0.25),
    ];
    folder.write(&format!("runs/Nov19_14-05-01_host/{EVENTS}"), &event_file(&events));
    let run = folder.read("");
    assert_eq!(names(&run), ["epoch", "eval_loss", "extra/loss", "loss"]);
    assert_eq!(run.metrics["loss"], metric(&[1, 2], &[0.1, 0.5]));
    assert_eq!(run.metrics["eval_loss"], metric(&[1], &[0.3]));
    assert!(run.notes[0].contains("eval_loss, loss; the others count"), "{:?}", run.notes);
    assert!(run.notes[1].ends_with("that the other file lacks: loss"), "{:?}", run.notes);
    // Epochs on one side, steps on the other: nothing can be filled.
    let folder = Folder::new(&[("metrics.csv", "epoch,loss\n3,0.1\n5,0.2\n")]);
    folder.write(EVENTS, &event_file(&[(10, "loss", 0.1), (20, "loss", 0.2)]));
    assert_eq!(folder.read("").metrics["loss"], metric(&[3, 5], &[0.1, 0.2]));
}

#[test]
fn names_of_several_logs_are_told_apart() {
    let csv = |loss: f64| format!("step,loss\n1,{loss}\n");
    let folder = Folder::new(&[
        ("train.csv", &csv(0.5)),
        ("eval.csv", &csv(0.25)),
        ("metrics.jsonl", "{\"step\": 1, \"acc\": 0.75}\n"),
        ("metrics.csv", "step,acc,top5\n1,0.75,1\n"),
        ("data/words.csv", "word,count\na,1\n"),
        (".hidden/metrics.csv", "not read"),
    ]);
    let run = folder.read("");
    assert_eq!(names(&run), ["acc", "eval/loss", "top5", "train/loss"]);
    assert_eq!(run.metrics["train/loss"].values, [0.5]);
    assert!(run.notes[0].ends_with("no step key: data/words.csv"), "{:?}", run.notes);
    assert!(run.notes[1].contains("preceded by the name of each: loss"), "{:?}", run.notes);
    assert_eq!(run.notes.len(), 2, "{:?}", run.notes);
    let sub = Folder::new(&[]);
    for name in ["train", "validation"] {
        sub.write(&format!("logs/{name}/{EVENTS}"), &event_file(&[(1, "epoch_loss", 0.5)]));
    }
    assert_eq!(names(&sub.read("")), ["logs/train/epoch_loss", "logs/validation/epoch_loss"]);
}

#[test]
fn a_run_directory_is_told_from_one_that_is_laid_out_like_it() {
    let foreign = "{\"step\": 1, \"loss\": 0.5}\n";
    let folder = Folder::new(&[
        ("metrics.jsonl", foreign),
        ("config.toml", "lr = 0.1\n"),
        ("checkpoints/notes.txt", ""),
        ("eval.csv", "step,accuracy\n1,0.75\n"),
    ]);
    folder.write(EVENTS, &event_file(&[(1, "extra", 0.25)]));
    assert_eq!(names(&folder.read("")), ["accuracy", "extra", "loss"]);
    // The first row of a run is there before its settings and checkpoints.
    let own = "{\"step\": 0, \"epoch\": 0.0, \"replica\": \"base\", \"loss\": 0.5, \"rel_l1\": 0.0, \
               \"max_ulps\": 0, \"agreeing_bits\": 24.0, \"distance\": 0.0, \"hash\": \"00\"}\n";
    for begun in [true, false] {
        if begun {
            fs::remove_file(folder.path("config.toml")).unwrap();
            fs::remove_dir_all(folder.path("checkpoints")).unwrap();
        } else {
            folder.write("config.toml", b"");
            folder.write("checkpoints/step-0.safetensors", b"");
        }
        folder.write("metrics.jsonl", own.as_bytes());
        let run = folder.read("");
        assert_eq!(run.files, [folder.path("metrics.jsonl")]);
        assert!(run.metrics.contains_key("loss") && !run.metrics.contains_key("accuracy"));
    }
}

#[test]
fn sessions_of_a_run_continue_each_other() {
    let folder = Folder::new(&[
        ("lightning_logs/version_2/metrics.csv", "epoch,loss,step\n0,0.5,9\n0,0.25,19\n"),
        ("lightning_logs/version_10/metrics.csv", "epoch,loss,step\n0,0.125,19\n1,0.1,29\n"),
    ]);
    let run = folder.read("");
    assert_eq!(run.metrics["loss"], metric(&[9, 19, 29], &[0.5, 0.125, 0.1]));
    assert!(
        run.notes.iter().any(|note| note.contains("one run that was resumed")),
        "{:?}",
        run.notes
    );
    assert_eq!(folder.read("lightning_logs/version_2").metrics["loss"].steps, [9, 19]);
    let folder = Folder::new(&[]);
    let dec = format!("runs/Dec01_10-00-00_host/{EVENTS}");
    folder.write(&dec, &event_file(&[(1, "loss", 0.5), (2, "loss", 0.25)]));
    let jan = "runs/Jan01_10-00-00_host/events.out.tfevents.1800000000.host.1.0";
    folder.write(jan, &event_file(&[(2, "loss", 0.125)]));
    assert_eq!(folder.read("").metrics["loss"], metric(&[1, 2], &[0.5, 0.125]));
}

#[test]
fn a_folder_without_a_log_says_what_was_looked_for() {
    let folder = Folder::new(&[("words.csv", "word,count\na,1\n"), ("notes.txt", "none")]);
    let message = folder.refusal("", &Choice::default());
    assert!(
        message.contains("no step key in words.csv") && message.contains("--step-key"),
        "{message}"
    );
    let run = read(&folder.path(""), &by_step("count"));
    assert!(run.unwrap_err().to_string().contains("no metrics"));
    let message = Folder::new(&[]).refusal("", &Choice::default());
    assert!(message.contains("a folder without a log of metrics"), "{message}");
}
