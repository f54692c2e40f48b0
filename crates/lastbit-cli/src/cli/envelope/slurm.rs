//! `lastbit envelope … --slurm`: the runs as a Slurm job array, in one script.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::Envelope;
use crate::cli::CommandOutput;
use crate::cli::run::slurm::{absolute, filled, quoted};
use lastbit_lab::Error;
use lastbit_lab::files::write_atomically;
use lastbit_lab::perturbed_runs::plan;

/// The script, written to `file` if there is one.
pub fn answer(
    envelope: &Envelope,
    file: Option<&Path>,
    out: &Path,
) -> Result<CommandOutput, Error> {
    let runs = plan(envelope.runs.get()).len();
    let script = text(envelope, runs, out)?;
    let mut json = json!({ "runs": runs, "script": script });
    let text = match file {
        None => script,
        Some(path) => {
            write_atomically(path, script.as_bytes()).map_err(|error| error.of_flag("--slurm"))?;
            json["file"] = json!(path);
            format!("{runs} runs in {runs} tasks: bash {}\n", quoted("--slurm", path)?)
        }
    };
    Ok(CommandOutput::new(text, json))
}

fn text(envelope: &Envelope, runs: usize, out: &Path) -> Result<String, Error> {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("lastbit"));
    let words = envelope.command.iter().map(|word| quoted("PROGRAM", Path::new(word)));
    let command = words.collect::<Result<Vec<_>, _>>()?.join(" ");
    let places = [
        ("@runs@", runs.to_string()),
        ("@last@", (runs - 1).to_string()),
        ("@program@", absolute("the path of lastbit", &program)?),
        ("@here@", absolute("the working directory", Path::new("."))?),
        ("@out@", absolute("--out", out)?),
        ("@options@", options(envelope)?.join(" ")),
        ("@command@", command),
    ];
    Ok(filled(include_str!("slurm.sh"), &places))
}

/// The flags of the command, but those that say which part of the work is done.
fn options(envelope: &Envelope) -> Result<Vec<String>, Error> {
    let mut options =
        vec![format!("--runs {}", envelope.runs), format!("--kind {}", envelope.kind)];
    let lists = [
        ("--files", &envelope.files),
        ("--metric", &envelope.metric),
        ("--step-key", &envelope.step_key.iter().cloned().collect()),
    ];
    for (flag, values) in lists {
        for value in values {
            options.push(format!("{flag} {}", quoted(flag, Path::new(value))?));
        }
    }
    if let Some(limit) = envelope.timeout {
        options.push(format!("--timeout {}ms", limit.as_millis()));
    }
    if envelope.no_launcher {
        options.push("--no-launcher".to_owned());
    }
    Ok(options)
}
