//! `lastbit noise`.

mod format;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use clap::Args;
use lastbit::statistics::Resampling;
use lastbit_formats::results;
use serde_json::{Value, json};

use super::{CommandOutput, resumes_with};
use crate::cli::values::choice;
use crate::terminal::Terminal;
use lastbit_lab::Error;
use lastbit_lab::input;
use lastbit_lab::noise::{
    Analysis, Compare, Group, Question, Source, Trainings, analyse, keep, trained,
};
use lastbit_lab::number::digits;
use lastbit_lab::progress::Monitor;
use lastbit_lab::runner::Existing;
use lastbit_lab::validate::within;

/// A table of results or a training configuration, and the question about it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lastbit noise config.toml                       the last bit and batch seeds, 6 runs of each
  lastbit noise config.toml --n 10 --sources last-bit,batch,init --gain 0.2
  lastbit noise --from results.csv                compare every group with the first
  lastbit noise --from results.csv --compare resnet,mine --expect significant
  lastbit noise --from results.csv --last-bit same-seed --metric-name accuracy --gain 0.2

results.csv has one run per line and a header with the columns group, value and seed (in any order;
other columns are ignored). Runs of two groups with the same seed are paired.

A gain is significant if a permutation test says so: sign flips of pairs, otherwise a two-sample
test; two-sided, Holm-adjusted for several comparisons. With n pairs the smallest p is 2/2^n, so
fewer than 6 pairs are never significant at 5 %. Without groups to compare, --gain is taken as the
difference of two single runs, and is significant if it exceeds the noise of one method.

sigma is the standard deviation, with a chi-square interval (normal runs) and a bootstrap interval
(BCa; too short for few runs). The minimum detectable effect is that of as many runs per side (or
pairs) at the power of --power.

With CONFIG, interrupted trainings are resumed by the same command. The section [replicas] is
replaced: last-bit takes k = 1, 3, 5, ..., the others as many seeds. Accuracies are in percent,
gains in percentage points.

Exit codes: 0 done (whatever the verdict), 1 not what --expect says, 2 wrong input or environment,
130 interrupted.")]
pub struct Noise {
    /// A configuration of `lastbit train`, whose noise is measured by training.
    #[arg(value_name = "CONFIG", conflicts_with = "from")]
    config: Option<PathBuf>,

    /// Table of results you already have.
    #[arg(long, value_name = "CSV")]
    from: Option<PathBuf>,

    /// Runs of each source.
    #[arg(long, default_value_t = 6, conflicts_with = "from")]
    n: usize,

    /// Sources of noise to measure.
    #[arg(
        long,
        value_parser = choice::<Source>(),
        value_delimiter = ',',
        default_value = "last-bit,batch",
        conflicts_with = "from"
    )]
    sources: Vec<Source>,

    /// Change a setting of the configuration. A path is relative to the current folder.
    #[arg(long, value_name = "SECTION.KEY=VALUE", conflicts_with = "from")]
    set: Vec<String>,

    /// Folder of the data sets.
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    data: Option<PathBuf>,

    /// Groups to compare [default: every group with the first].
    #[arg(long, value_name = "BASE,NEW", value_delimiter = ',', conflicts_with = "config")]
    compare: Option<Vec<String>>,

    /// The group whose runs differ only in rounding.
    #[arg(long, value_name = "GROUP", conflicts_with = "config")]
    last_bit: Option<String>,

    /// Groups (one for each k) differ only in rounding and share their seeds: split the variance.
    #[arg(long, conflicts_with_all = ["config", "compare", "last_bit"])]
    grid: bool,

    /// Do not pair runs by their seeds.
    #[arg(long, conflicts_with = "config")]
    unpaired: bool,

    /// A lower value is a gain.
    #[arg(long, conflicts_with = "config")]
    lower_is_better: bool,

    /// What the values are called.
    #[arg(long, value_name = "NAME", default_value = "value", conflicts_with = "config")]
    metric_name: String,

    /// A gain to test or to plan for, in the units of the values; with CONFIG in percentage points.
    #[arg(long)]
    gain: Option<f64>,

    /// Significance level; intervals have confidence 1 - level.
    #[arg(long, default_value_t = 0.05)]
    level: f64,

    /// Power, for the minimum detectable effect and the number of runs needed.
    #[arg(long, default_value_t = 0.8)]
    power: f64,

    /// Bootstrap resamples, and random permutations where there are too many to enumerate.
    #[arg(long, default_value_t = 9999)]
    resamples: usize,

    /// Seed of the resampling.
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Exit with code 1 unless the verdict (of every comparison) is this one.
    #[arg(long, value_parser = choice::<Expected>(), value_name = "VERDICT")]
    expect: Option<Expected>,

    /// Train again, even if finished runs are there.
    #[arg(long, conflicts_with = "from")]
    fresh: bool,
}

lastbit::named_enum! {
    /// A verdict to be expected.
    enum Expected {
        /// The gain is larger than the noise.
        Significant = "significant",
        /// It is not.
        NotSignificant = "not-significant",
    }
}

impl Noise {
    /// Measures and judges.
    pub fn answer(&self, out: &Path) -> Result<CommandOutput, Error> {
        self.check()?;
        match (&self.from, &self.config) {
            (Some(path), _) => self.of_table(path, out),
            (None, Some(path)) => self.of_trainings(path, out),
            (None, None) => {
                let expected =
                    "a configuration of `lastbit train`, or --from with a CSV of results";
                Err(Error::setting("CONFIG", "none", expected))
            }
        }
    }

    fn check(&self) -> Result<(), Error> {
        // Two runs a side know their sigma so badly that at smaller levels nothing is detectable.
        for (flag, value, low) in
            [("--level", self.level, 1e-4), ("--power", self.power, self.level)]
        {
            if !(low..1.0).contains(&value) || flag == "--level" && value > 0.5 {
                let high = if flag == "--level" { "0.5" } else { "below 1" };
                let expected = format!("a number from {low} to {high}");
                return Err(Error::setting(flag, digits(value), expected));
            }
        }
        if let Some(gain) = self.gain.filter(|gain| !(*gain > 0.0 && *gain <= 1e100)) {
            return Err(Error::setting("--gain", digits(gain), "a number greater than 0"));
        }
        within("--n", self.n, 2, 1000)?;
        within("--resamples", self.resamples, 99, 10_000_000)?;
        for (i, source) in self.sources.iter().enumerate() {
            if self.sources[..i].contains(source) {
                let found = format!("{} twice", source.name());
                return Err(Error::setting("--sources", found, "each once"));
            }
        }
        Ok(())
    }

    fn question(&self) -> Question {
        Question {
            metric: self.metric_name.clone(),
            unit: String::new(),
            level: self.level,
            power: self.power,
            gain: self.gain,
            lower_is_better: self.lower_is_better,
            rounding: self.last_bit.iter().cloned().collect(),
            compare: if self.grid { Compare::Nothing } else { Compare::WithFirst },
            pairs: !self.unpaired,
            grid: self.grid,
            resampling: Resampling { resamples: self.resamples, seed: self.seed },
        }
    }

    fn of_table(&self, path: &Path, out: &Path) -> Result<CommandOutput, Error> {
        let bytes = input::read(path)?;
        let runs = results::parse(&bytes).map_err(|error| Error::input(path, error))?;
        let groups = Group::all_of(runs);
        if !self.unpaired {
            each_seed_once(&groups, path)?;
        }
        let mut question = self.question();
        if let Some(pair) = self.compared(&groups)? {
            question.compare = Compare::Pair(pair);
        }
        if let Some(name) = &self.last_bit {
            self.known("--last-bit", name, &groups)?;
        }
        let analysis = analyse(&groups, &question);
        if self.grid && analysis.grid.is_none() {
            return Err(Error::Input {
                path: path.to_owned(),
                found: "no two groups with two seeds in common".to_owned(),
                expected: "the same seeds in every group, for --grid".to_owned(),
            });
        }
        let mut settings = self.settings(&question);
        settings["from"] = json!(path);
        settings["from-hash"] = json!(blake3::hash(&bytes).to_hex()[..32].to_owned());
        settings["compare"] = json!(question.compare);
        settings["last-bit"] = json!(self.last_bit);
        let title = format!("Noise floor of {}", path.display());
        self.answered((&analysis, &groups, &question), None, (&title, &settings), out)
    }

    fn of_trainings(&self, path: &Path, out: &Path) -> Result<CommandOutput, Error> {
        let data = self.data.as_deref();
        let trainings = Trainings::prepare(path, &self.set, data, &self.sources, self.n)?;
        let mut question = self.question();
        question.metric =
            if trainings.has_classes { "test accuracy" } else { "test loss" }.to_owned();
        question.unit = if trainings.has_classes { "points" } else { "" }.to_owned();
        question.lower_is_better = !trainings.has_classes;
        let rounding = self.sources.iter().filter(|source| source.is_rounding());
        question.rounding = rounding.map(|source| source.name().to_owned()).collect();
        question.compare = Compare::Nothing;
        let mut settings = self.settings(&question);
        settings["n"] = json!(self.n);
        settings["sources"] = json!(self.sources);
        settings["training"] = trainings.found.to_json();
        settings["data-hash"] = json!(trainings.data_hash);
        let title = format!("Noise floor of {}", path.display());
        let existing = if self.fresh { Existing::Discard } else { Existing::Reuse };
        let monitor = Terminal::new(None);
        let record = trained(&trainings, &title, &settings, out, existing, &monitor)?;
        if !record.is_complete() {
            let reason = monitor.stop_requested().expect("finished unless stopped");
            let resume = resumes_with("trainings are saved at a checkpoint", self.fresh);
            return Ok(CommandOutput::stopped(reason, &resume));
        }
        let groups = trainings.groups(&record, out)?;
        let analysis = analyse(&groups, &question);
        let said = (&title[..], &settings);
        let found = (&analysis, &groups[..], &question);
        let mut answer = self.answered(found, Some(&trainings), said, out)?;
        let has_runs = |name: &str| groups.iter().any(|group| group.name == name);
        let names = self.sources.iter().map(|source| source.name());
        let lost: Vec<&str> = names.filter(|name| !has_runs(name)).collect();
        answer.json["diverged"] = json!(lost);
        if !lost.is_empty() {
            answer.text = format!("All runs of {} diverged.\n{}", lost.join(", "), answer.text);
        }
        if trainings.replaces_replicas() {
            let note = "its section [replicas] is replaced by the sources";
            answer.text = format!("{}: {note}\n{}", path.display(), answer.text);
        }
        Ok(answer)
    }

    fn settings(&self, question: &Question) -> Value {
        json!({
            "metric-name": question.metric,
            "gain": self.gain,
            "level": self.level,
            "power": self.power,
            "lower-is-better": question.lower_is_better,
            "grid": question.grid,
            "unpaired": self.unpaired,
            "resamples": self.resamples,
            "seed": self.seed,
        })
    }

    fn answered(
        &self,
        (analysis, groups, question): (&Analysis, &[Group], &Question),
        trainings: Option<&Trainings>,
        (title, settings): (&str, &Value),
        out: &Path,
    ) -> Result<CommandOutput, Error> {
        let store = keep((analysis, groups, question), trainings, title, settings, out)?;
        let mut json = json!(analysis);
        json["metric"] = json!(question.metric);
        json["unit"] = json!(question.unit);
        json["settings"] = settings.clone();
        json["folder"] = json!(store.folder());
        let holds = self.expect.is_none_or(|expected| {
            (expected == Expected::Significant) == analysis.verdict.significant
        });
        let mut text = format::text(analysis, question);
        if let (Some(expected), false) = (self.expect, holds) {
            let word = expected.name().replace('-', " ");
            text += &format!("Expected {word}: the check fails.\n");
        }
        text += &format!("Record and figures: {}\n", store.folder().display());
        Ok(CommandOutput::new(text, json).holds(holds))
    }

    /// The groups of `--compare`.
    fn compared(&self, groups: &[Group]) -> Result<Option<[String; 2]>, Error> {
        let Some(names) = &self.compare else { return Ok(None) };
        match &names[..] {
            [base, new] if base != new => {
                self.known("--compare", base, groups)?;
                self.known("--compare", new, groups)?;
                Ok(Some([base.clone(), new.clone()]))
            }
            _ => Err(Error::setting("--compare", names.join(","), "two groups, BASE,NEW")),
        }
    }

    fn known(&self, flag: &str, name: &str, groups: &[Group]) -> Result<(), Error> {
        if groups.iter().any(|group| group.name == name) {
            return Ok(());
        }
        let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
        Err(Error::setting(flag, name, format!("one of {}", names.join(", "))))
    }
}

/// A seed that comes twice in a group is a run pasted twice, or a column that was forgotten: taken for
/// runs of their own, they would show what is not there.
fn each_seed_once(groups: &[Group], path: &Path) -> Result<(), Error> {
    for group in groups {
        let mut seen = HashSet::new();
        let mut seeds = group.runs.iter().filter_map(|run| run.seed.as_deref());
        if let Some(seed) = seeds.find(|seed| !seen.insert(*seed)) {
            return Err(Error::Input {
                path: path.to_owned(),
                found: format!("seed {seed} more than once in group {}", group.name),
                expected: "each seed once in a group; --unpaired leaves seeds aside".to_owned(),
            });
        }
    }
    Ok(())
}
