//! Which metrics of a run are of interest.

use std::collections::BTreeMap;
use std::path::Path;

use lastbit_formats::listed;

use super::LoggedRun;
use crate::error::Error;
use crate::input::refuse;
use crate::nearest::suggestion;

/// Metrics of wall time, which differ between any two runs: patterns of their names, or of what follows the last `/`, in small letters
/// with `_` for blanks and dashes.
pub const WALL_TIME: &[&str] = &[
    "*runtime",
    "*per_second",
    "*per_sec",
    "*_per_s",
    "*/sec",
    "*/s",
    "*_seconds",
    "seconds",
    "*elapsed*",
    "*wall_time*",
    "*walltime*",
    "*throughput*",
    "*timestamp*",
    "time",
    "*_time",
    "time/*",
    "*/time/*",
    "time_*",
    "*_ms",
    "fps",
    "*_fps",
    "mfu",
    "*_mfu",
];

/// Whether a metric is one of wall time.
pub fn is_wall_time(name: &str) -> bool {
    let name = name.to_lowercase().replace([' ', '-'], "_");
    let last = name.rsplit('/').next().unwrap_or_default();
    WALL_TIME.iter().any(|text| {
        let pattern = glob::Pattern::new(text).expect("a pattern of this file");
        pattern.matches(&name) || pattern.matches(last)
    })
}

/// Leaves in a run what was asked for: names and patterns, or all but wall time.
pub fn choose(mut run: LoggedRun, path: &Path, asked: &[String]) -> Result<LoggedRun, Error> {
    if asked.is_empty() {
        run.metrics.retain(|name, _| !is_wall_time(name));
        if run.metrics.is_empty() {
            return Err(refuse(path, "metrics of wall time only", "metrics of the training"));
        }
        return Ok(run);
    }
    let of = path.display().to_string();
    run.metrics = matching(run.metrics, &of, asked)?;
    Ok(run)
}

/// What has a name that was asked for, by name or by pattern, of all that `of` has.
///
/// # Errors
///
/// A name or pattern that nothing has is refused, with the names that are near to it.
pub fn matching<T>(
    mut all: BTreeMap<String, T>,
    of: &str,
    asked: &[String],
) -> Result<BTreeMap<String, T>, Error> {
    let mut patterns = Vec::new();
    for text in asked {
        let pattern = glob::Pattern::new(text).map_err(|error| {
            let expected = "a name, in which * stands for any characters and ? for one";
            Error::setting("--metric", format!("{text} ({})", error.msg), expected)
        });
        // A name may have brackets of its own.
        let is_name = all.contains_key(text);
        let pattern = if is_name { None } else { Some(pattern?) };
        let matches =
            |name: &str| name == text || pattern.as_ref().is_some_and(|p| p.matches(name));
        if !all.keys().any(|name| matches(name)) {
            let names: Vec<&str> = all.keys().map(String::as_str).collect();
            let near = suggestion(text, names.iter().copied()).map(|near| near + " ");
            let near = near.unwrap_or_default();
            let expected = format!("a metric of {of}; {near}there are {}", listed(&names));
            return Err(Error::setting("--metric", text, expected));
        }
        patterns.push((text, pattern));
    }
    all.retain(|name, _| {
        patterns.iter().any(|(text, pattern)| {
            name == *text || pattern.as_ref().is_some_and(|p| p.matches(name))
        })
    });
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logged::Metric;

    #[test]
    fn wall_time_is_told_from_what_is_trained() {
        for name in [
            "train_runtime",
            "eval_samples_per_second",
            "perf/tokens-per-sec",
            "elapsed_seconds",
            "Wall time",
            "time/forward",
            "train/step_time",
            "_timestamp",
            "_runtime",
            "it/s",
            "throughput/tokens",
        ] {
            assert!(is_wall_time(name), "{name}");
        }
        for name in [
            "loss",
            "eval/accuracy",
            "epoch",
            "learning_rate",
            "grad_norm",
            "timestep_loss",
            "eta",
            "times_clipped",
            "params",
            "loss/step",
            "rms",
        ] {
            assert!(!is_wall_time(name), "{name}");
        }
    }

    fn run(names: &[&str]) -> LoggedRun {
        let metrics = names.iter().map(|name| ((*name).to_owned(), Metric::default())).collect();
        LoggedRun { metrics, ..LoggedRun::default() }
    }

    fn chosen(names: &[&str], asked: &[&str]) -> Result<Vec<String>, String> {
        let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
        let run = choose(run(names), Path::new("R"), &asked).map_err(|error| error.to_string())?;
        Ok(run.metrics.into_keys().collect())
    }

    #[test]
    fn metrics_are_chosen_by_name_and_by_pattern() {
        let names = ["eval/accuracy", "eval/loss", "eval/top[5]", "loss", "train_runtime"];
        assert_eq!(chosen(&names, &[]).unwrap(), names[..4]);
        assert_eq!(chosen(&names, &["train_runtime"]).unwrap(), names[4..]);
        assert_eq!(chosen(&names, &["eval/*", "loss"]).unwrap(), names[..4]);
        assert_eq!(chosen(&names, &["eval/top[5]"]).unwrap(), names[2..3]);
        let message = chosen(&names, &["los"]).unwrap_err();
        assert!(
            message.contains("--metric: found los") && message.contains("did you mean loss?"),
            "{message}"
        );
        assert!(chosen(&names, &["accuracy"]).unwrap_err().contains("did you mean eval/accuracy?"));
        assert!(chosen(&names, &["a[b"]).unwrap_err().contains("a[b"));
    }
}
