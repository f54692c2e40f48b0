//! The runs of each envelope as a group of the noise floor ([`crate::noise`]).
//!
//! Runs of one envelope differ by rounding alone, so what they say of a gain is whether it is larger than what rounding does;
//! other seeds may do more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use lastbit::named::Named;
use serde::{Serialize, Serializer};

use super::{Band, Envelope, FILE, open};
use crate::error::Error;
use crate::input::{self, refuse};
use crate::nearest::suggestion;
use crate::noise::{Analysis, Group, Question, Run, analyse_table};

/// Groups from envelopes.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvelopeGroups {
    /// One for each envelope, named after its folder.
    pub groups: Vec<Group>,
    /// The metric.
    pub metric: String,
    /// The step of the values; none for the best of each run.
    pub step: Option<u64>,
    /// Hash of the files.
    pub hash: String,
}

impl EnvelopeGroups {
    /// Analyses the groups. One envelope alone says what rounding does; of several each is compared with the first.
    pub fn analyse(&self, question: &mut Question, from: &Path) -> Result<Analysis, Error> {
        if let [only] = self.groups.as_slice() {
            question.rounding = vec![only.name.clone()];
        }
        let mut analysis = analyse_table(&self.groups, question, from)?;
        let place = match self.step {
            Some(step) => format!("at step {step}"),
            None => "at its best over the common steps".to_owned(),
        };
        analysis.verdict.sentences.push(format!(
            "Each value is {} {place}. Runs of an envelope differ by rounding alone: this compares with what rounding does; \
             other seeds may move it more.",
            self.metric
        ));
        Ok(analysis)
    }
}

/// Which value of a metric stands for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// That at the last step that all runs have.
    Last,
    /// The best over the steps that all runs have.
    Best,
    /// That at this step.
    Step(u64),
}

lastbit::named_enum! {
    /// Words for [`At`].
    enum Word {
        /// At the last common step.
        Last = "last",
        /// The best over the common steps.
        Best = "best",
    }
}

impl At {
    /// Reads `last`, `best` or a step.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let word = Word::ALL.iter().find(|word| word.name() == text);
        match (word, text.parse()) {
            (Some(Word::Last), _) => Ok(Self::Last),
            (Some(Word::Best), _) => Ok(Self::Best),
            (None, Ok(step)) => Ok(Self::Step(step)),
            (None, Err(_)) => Err(Error::setting("--at", text, "last, best or a step")),
        }
    }
}

impl Serialize for At {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Last => serializer.serialize_str(Word::Last.name()),
            Self::Best => serializer.serialize_str(Word::Best.name()),
            Self::Step(step) => serializer.serialize_u64(*step),
        }
    }
}

/// Whether a path leads to an envelope and not to a table of results.
pub fn is_envelope(path: &Path) -> bool {
    path.is_dir() || input::extension(path) == "json"
}

/// Reads envelopes: their folders, or the files.
pub fn read_groups(
    paths: &[PathBuf],
    metric: Option<&str>,
    at: At,
    lower_is_better: bool,
) -> Result<EnvelopeGroups, Error> {
    let all: Vec<(&PathBuf, Envelope)> =
        paths.iter().map(|path| Ok((path, open(path)?))).collect::<Result<_, Error>>()?;
    let mut hasher = blake3::Hasher::new();
    for path in paths {
        let file = if path.is_dir() { &path.join(FILE) } else { path };
        hasher.update(&input::read(file)?);
    }
    let hash = hasher.finalize().to_hex()[..32].to_owned();
    let metric = chosen(&all, metric)?;
    let bands: Vec<&Band> = all.iter().map(|(_, envelope)| &envelope.metrics[&metric]).collect();
    let steps = common_steps(&bands);
    let Some(last) = steps.last().copied() else {
        let found = format!("no step of {metric} in common with {}", paths[0].display());
        return Err(refuse(&paths[paths.len() - 1], found, "envelopes of as many steps"));
    };
    let step = match at {
        At::Last => Some(last),
        At::Best => None,
        At::Step(step) if steps.contains(&step) => Some(step),
        At::Step(step) => {
            let near = steps.iter().min_by_key(|own| own.abs_diff(step)).copied();
            let expected = format!(
                "a step at which all runs have {metric}; the nearest is {}",
                near.unwrap_or(last)
            );
            return Err(Error::setting("--at", step, expected));
        }
    };
    let mut groups: Vec<Group> = Vec::new();
    for ((path, _), band) in all.iter().zip(bands) {
        let name = name_of(path);
        if groups.iter().any(|group| group.name == name) {
            let found = format!("a second envelope called {name}");
            return Err(refuse(path, found, "folders of different names: each is a group"));
        }
        let value = |run: usize| value(band, run, step, &steps, lower_is_better);
        let values: Vec<f64> = (0..band.values.len()).map(value).collect();
        let run = |value: &f64| Run { seed: None, value: *value };
        let runs: Vec<Run> = values.iter().filter(|value| value.is_finite()).map(run).collect();
        if runs.is_empty() {
            let found = format!("no run with a finite {metric}");
            return Err(refuse(path, found, "a metric or a step (--at) at which some run has one"));
        }
        let diverged = values.len() - runs.len();
        groups.push(Group { name, runs, diverged, answers: None });
    }
    Ok(EnvelopeGroups { groups, metric, step, hash })
}

/// The name of its folder; of a file by another name, that name.
fn name_of(path: &Path) -> String {
    let is_plain = path.file_name().is_some_and(|name| name == FILE);
    let full = if is_plain { path.parent().unwrap_or(path) } else { path };
    // A path such as "." has a name of its own.
    let full = full.canonicalize().unwrap_or_else(|_| full.to_owned());
    let name = if full.is_dir() { full.file_name() } else { full.file_stem() };
    name.unwrap_or(full.as_os_str()).to_string_lossy().into_owned()
}

/// The metric that was asked for, or the only one.
fn chosen(all: &[(&PathBuf, Envelope)], metric: Option<&str>) -> Result<String, Error> {
    let in_all = |name: &&String| all.iter().all(|(_, one)| one.metrics.contains_key(*name));
    let names: Vec<&String> =
        all.iter().take(1).flat_map(|(_, one)| one.metrics.keys()).filter(in_all).collect();
    let listed = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    match (metric, names.as_slice()) {
        (Some(metric), names) if names.iter().any(|name| *name == metric) => Ok(metric.to_owned()),
        (Some(metric), names) => {
            let near = suggestion(metric, names.iter().map(|name| name.as_str()));
            let near = near.map_or_else(
                || format!("one of {listed}"),
                |near| format!("{near} one of {listed}"),
            );
            Err(Error::setting("--metric", metric, near))
        }
        (None, [only]) => Ok((*only).clone()),
        (None, _) => Err(Error::setting("--metric", "none", format!("one of {listed}"))),
    }
}

fn common_steps(bands: &[&Band]) -> Vec<u64> {
    let sets: Vec<BTreeSet<u64>> =
        bands.iter().map(|band| band.steps.iter().copied().collect()).collect();
    let in_all = |step: &u64| sets.iter().all(|set| set.contains(step));
    sets.first().into_iter().flatten().copied().filter(in_all).collect()
}

/// The value that stands for a run. NaN is never best.
fn value(band: &Band, run: usize, step: Option<u64>, steps: &[u64], lower: bool) -> f64 {
    let at = |step: &u64| {
        let place = band.steps.binary_search(step).expect("a common step");
        band.values[run][place].0
    };
    let best = |x: f64, y: f64| if lower { x.min(y) } else { x.max(y) };
    match step {
        Some(step) => at(&step),
        None => steps.iter().map(at).fold(f64::NAN, best),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;
    use crate::envelope::FORMAT;
    use crate::number::Number;

    /// A metric: name, steps, and the values of each run.
    type Values<'a> = (&'a str, &'a [u64], &'a [&'a [f64]]);

    fn put(folder: &Path, name: &str, metrics: &[Values]) -> PathBuf {
        let band = |(name, steps, runs): &Values| {
            let values = runs.iter().map(|run| run.iter().map(|x| Number(*x)).collect()).collect();
            ((*name).to_owned(), Band { steps: steps.to_vec(), values })
        };
        let metrics: BTreeMap<String, Band> = metrics.iter().map(band).collect();
        let count = metrics.values().next().unwrap().values.len();
        let envelope = Envelope {
            format: FORMAT,
            version: "0".into(),
            command: vec![],
            perturbation: "ulps".into(),
            runs: (1..=count).map(|i| format!("perturbed-{i}")).collect(),
            reproducibility: None,
            metrics,
            notes: vec![],
            warnings: vec![],
        };
        let path = folder.join(name);
        fs::create_dir_all(&path).unwrap();
        envelope.write(&path.join(FILE)).unwrap();
        path
    }

    fn values(found: &EnvelopeGroups) -> Vec<Vec<f64>> {
        found.groups.iter().map(Group::values).collect()
    }

    #[test]
    fn the_value_of_a_run_is_that_of_the_last_common_step_the_best_or_that_of_a_step() {
        let folder = tempfile::tempdir().unwrap();
        let a = put(
            folder.path(),
            "a",
            &[("acc", &[1, 2, 3], &[&[0.1, 0.9, 0.5], &[0.2, 0.3, f64::NAN]])],
        );
        let b =
            put(folder.path(), "b", &[("acc", &[1, 3, 5], &[&[0.4, 0.6, 1.0], &[0.3, 0.7, 1.0]])]);
        let paths = [a, b.join(FILE)];
        let read = |at: &str| read_groups(&paths, None, At::parse(at).unwrap(), false);
        let last = read("last").unwrap();
        let names: Vec<&str> = last.groups.iter().map(|group| group.name.as_str()).collect();
        assert_eq!((names, last.step), (vec!["a", "b"], Some(3)));
        assert_eq!((values(&last), last.groups[0].diverged), (vec![vec![0.5], vec![0.6, 0.7]], 1));
        assert_eq!(values(&read("best").unwrap()), [vec![0.5, 0.2], vec![0.6, 0.7]]);
        assert_eq!(values(&read("1").unwrap()), [vec![0.1, 0.2], vec![0.4, 0.3]]);
        let low = read_groups(&paths, Some("acc"), At::Best, true).unwrap();
        assert_eq!(values(&low), [vec![0.1, 0.2], vec![0.4, 0.3]]);
        let message = read("4").unwrap_err().to_string();
        assert!(message.contains("--at: found 4") && message.contains("nearest is 3"), "{message}");
    }

    #[test]
    fn what_is_no_envelope_or_lacks_the_metric_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let a = put(
            folder.path(),
            "a",
            &[("loss", &[1], &[&[0.1], &[0.2]]), ("acc", &[1], &[&[0.1], &[0.2]])],
        );
        let c = put(
            folder.path(),
            "x/a",
            &[("loss", &[2], &[&[0.1], &[0.2]]), ("acc", &[1], &[&[f64::NAN], &[f64::NAN]])],
        );
        let read = |paths: &[&PathBuf], metric: Option<&str>| {
            let paths: Vec<PathBuf> = paths.iter().map(|path| (*path).clone()).collect();
            read_groups(&paths, metric, At::Last, false).unwrap_err().to_string()
        };
        assert!(read(&[&a], None).contains("--metric: found none, expected one of acc, loss"));
        assert!(
            read(&[&a], Some("los")).contains("did you mean loss?"),
            "{}",
            read(&[&a], Some("los"))
        );
        assert!(read(&[&a, &c], Some("loss")).contains("no step of loss in common"));
        assert!(read(&[&a, &c], Some("acc")).contains("a second envelope called a"));
        assert!(read(&[&c], Some("acc")).contains("no run with a finite acc"));
        let nothing = folder.path().join("x");
        assert!(read(&[&nothing], None).contains("found no file"));
    }
}
