//! `lastbit noise`.

mod format;

use std::path::{Path, PathBuf};

use clap::Args;
use lastbit::statistics::Resampling;
use lastbit::statistics::sequential::Boundary;
use serde_json::{Value, json};

use super::{CommandOutput, resumes_with};
use crate::cli::values::choice;
use crate::terminal::Terminal;
use lastbit_lab::Error;
use lastbit_lab::envelope::{At, is_envelope, read_groups};
use lastbit_lab::noise::{
    Analysis, Compare, Group, PlanRequest, PlannedDesign, Question, Side, Source, Target,
    Trainings, analyse, analyse_table, keep, plan_with_sigma, positive, read_table, trained,
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
  lastbit noise --from losses.csv --below 3.28 --level 0.01       is the mean loss below 3.28?
  lastbit noise --from results.csv --equivalent 0.1               the same within 0.1?
  lastbit noise --plan 3 --gain 0.2 --sigma 0.15                  when to look, when to stop
  lastbit noise --from base-E,new-E --metric eval/accuracy        two folders of `lastbit envelope`
  lastbit noise --from E --metric loss --at 500                   what rounding alone does at step 500

results.csv has one run per line and a header with the columns group, value and seed (in any order;
other columns are ignored). Runs of two groups with the same seed are paired.

The runs of an envelope are a group with the name of its folder; each run's value is that of
--metric at the last step that all runs have, at --at STEP, or its best (--at best). They differ by
rounding alone: a significant gain is larger than what rounding does; other seeds may move it more.

A gain is significant if a permutation test says so: sign flips of pairs, otherwise a two-sample
test; two-sided, Holm-adjusted for several comparisons. With n pairs the smallest p is 2/2^n, so
fewer than 6 pairs are never significant at 5 %. The interval of a gain is Student's for pairs and
Welch's for two groups; the bootstrap interval (BCa) is printed beside it and is too short for few
runs.

--gain G adds to each comparison: whether the interval excludes G, whether this many runs detect G
with the power --power, and how many runs are needed. Without groups to compare, --gain is taken as the difference
of two single runs, and is significant if it exceeds the noise of one method.

--below T (--above T) tests each group against a fixed target: one-sided t-test, with a confidence
bound of the mean. --equivalent M asks whether two groups differ by less than M: two one-sided
t-tests (TOST). Without it, \"not significant\" never means \"the same\".

--plan LOOKS says at how many runs to look, what the p-value of the t-test (p (t)) must not exceed
there, and how many runs to expect, so that all looks together have no more false positives than
--level. sigma is that of --sigma or of the runs at hand, which do not count as runs of the plan.

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

    /// Table of results you already have, or envelopes: their folders are the groups.
    #[arg(long, value_name = "CSV|ENVELOPE,...", value_delimiter = ',')]
    from: Vec<PathBuf>,

    /// The metric of the envelopes [default: the only one].
    #[arg(long, value_name = "NAME", requires = "from", conflicts_with = "config")]
    metric: Option<String>,

    /// The step of an envelope whose values are taken: last, best (of each run) or a step.
    #[arg(long, value_name = "STEP", default_value = LAST)]
    at: String,

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

    /// What the values are called [default: value, or the metric of the envelopes].
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    metric_name: Option<String>,

    /// A gain to test or to plan for, in the units of the values; with CONFIG in percentage points.
    #[arg(long)]
    gain: Option<f64>,

    /// Is the mean of each group below this value?
    #[arg(
        long,
        value_name = "TARGET",
        allow_negative_numbers = true,
        conflicts_with_all = ["config", "compare", "above", "equivalent", "grid"]
    )]
    below: Option<f64>,

    /// Is the mean of each group above this value?
    #[arg(
        long,
        value_name = "TARGET",
        allow_negative_numbers = true,
        conflicts_with_all = ["config", "compare", "equivalent", "grid"]
    )]
    above: Option<f64>,

    /// Do the groups differ by less than this?
    #[arg(long, value_name = "MARGIN", conflicts_with_all = ["config", "grid"])]
    equivalent: Option<f64>,

    /// Plan a sequential study of so many looks that finds --gain.
    #[arg(long, value_name = "LOOKS", requires = "gain")]
    plan: Option<usize>,

    /// How a plan spreads the level over its looks.
    #[arg(
        long,
        value_parser = choice::<Boundary>(),
        default_value = Boundary::ObrienFleming.name(),
        requires = "plan"
    )]
    boundary: Boundary,

    /// Standard deviation to plan with, if there are no runs (for pairs: of the differences).
    #[arg(long, requires = "plan", conflicts_with_all = ["config", "from"])]
    sigma: Option<f64>,

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

/// The default of `--at`.
const LAST: &str = "last";

lastbit::named_enum! {
    /// A verdict to be expected.
    enum Expected {
        /// The gain is larger than the noise.
        Significant = "significant",
        /// It is not.
        NotSignificant = "not-significant",
        /// All groups compared are equivalent within --equivalent.
        Equivalent = "equivalent",
    }
}

impl Noise {
    /// Measures and judges.
    pub fn answer(&self, out: &Path) -> Result<CommandOutput, Error> {
        self.check()?;
        match (&self.from[..], &self.config, self.sigma) {
            ([path], ..) if !is_envelope(path) => self.of_table(path, out),
            ([_, ..], ..) => self.of_envelopes(out),
            ([], Some(path), _) => self.of_trainings(path, out),
            ([], None, Some(sigma)) => self.of_sigma(sigma),
            ([], None, None) => {
                let expected = "a configuration of `lastbit train`, or --from with a CSV of \
                                results or with envelopes";
                Err(Error::setting("CONFIG", "none", expected))
            }
        }
    }

    fn check(&self) -> Result<(), Error> {
        self.question().check()?;
        positive("--sigma", self.sigma)?;
        if self.expect == Some(Expected::Equivalent) && self.equivalent.is_none() {
            let expected = "--equivalent MARGIN beside it, or another verdict";
            return Err(Error::setting("--expect", "equivalent", expected));
        }
        within("--n", self.n, 2, 1000)?;
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
            metric: self.metric_name.clone().unwrap_or_else(|| "value".to_owned()),
            unit: String::new(),
            level: self.level,
            power: self.power,
            gain: self.gain,
            lower_is_better: self.lower_is_better,
            target: self.target(),
            equivalent: self.equivalent,
            plan: self.plan.map(|looks| PlanRequest { looks, boundary: self.boundary }),
            rounding: self.last_bit.iter().cloned().collect(),
            compare: if self.grid || self.target().is_some() {
                Compare::Nothing
            } else {
                Compare::WithFirst
            },
            pairs: !self.unpaired,
            grid: self.grid,
            resampling: Resampling { resamples: self.resamples, seed: self.seed },
        }
    }

    fn target(&self) -> Option<Target> {
        let below = self.below.map(|value| Target { side: Side::Below, value });
        below.or(self.above.map(|value| Target { side: Side::Above, value }))
    }

    /// A plan alone; nothing is written.
    fn of_sigma(&self, sigma: f64) -> Result<CommandOutput, Error> {
        let question = self.question();
        let design = match (question.target, self.unpaired) {
            (Some(_), _) => PlannedDesign::Target,
            (None, true) => PlannedDesign::Unpaired,
            (None, false) => PlannedDesign::Paired,
        };
        let plan = plan_with_sigma(sigma, None, design, &question).map_err(|reason| {
            let found = self.gain.map_or_else(String::new, digits);
            Error::setting("--gain", found, format!("a larger one ({reason})"))
        })?;
        let sentence = plan.sentence(&question);
        let text = format!("{}{sentence}\n", format::plan(&plan));
        let mut json = json!({ "plan": plan, "verdict": { "sentences": [sentence] } });
        json["settings"] = self.settings(&question);
        Ok(CommandOutput::new(text, json))
    }

    fn of_envelopes(&self, out: &Path) -> Result<CommandOutput, Error> {
        let at = At::parse(&self.at)?;
        let found = read_groups(&self.from, self.metric.as_deref(), at, self.lower_is_better)?;
        let mut question = self.question();
        if self.metric_name.is_none() {
            question.metric.clone_from(&found.metric);
        }
        if let Some(pair) = self.compared()? {
            question.compare = Compare::Pair(pair);
        }
        let names: Vec<String> = self.from.iter().map(|path| path.display().to_string()).collect();
        let names = names.join(", ");
        let analysis = found.analyse(&mut question, Path::new(&names))?;
        let mut settings = self.settings(&question);
        settings["from"] = json!(self.from);
        settings["from-hash"] = json!(found.hash);
        settings["metric"] = json!(found.metric);
        settings["at"] = json!(at);
        settings["compare"] = json!(question.compare);
        let title = format!("Noise floor of {} in {names}", found.metric);
        let mut answer =
            self.answered((&analysis, &found.groups, &question), None, (&title, &settings), out)?;
        answer.json["step"] = json!(found.step);
        Ok(answer)
    }

    fn of_table(&self, path: &Path, out: &Path) -> Result<CommandOutput, Error> {
        if let Some(metric) = &self.metric {
            return Err(Error::setting(
                "--metric",
                metric,
                "--from with envelopes; a CSV has one column of values",
            ));
        }
        if self.at != LAST {
            return Err(Error::setting(
                "--at",
                &self.at,
                "--from with envelopes; a CSV has no steps",
            ));
        }
        let (groups, hash) = read_table(path)?;
        let mut question = self.question();
        if let Some(pair) = self.compared()? {
            question.compare = Compare::Pair(pair);
        }
        let analysis = analyse_table(&groups, &question, path)?;
        let mut settings = self.settings(&question);
        settings["from"] = json!(path);
        settings["from-hash"] = json!(hash);
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
            "target": question.target,
            "equivalent": question.equivalent,
            "plan": question.plan,
            "sigma": self.sigma,
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
        let verdict = &analysis.verdict;
        let holds = self.expect.is_none_or(|expected| match expected {
            Expected::Significant => verdict.significant,
            Expected::NotSignificant => !verdict.significant,
            Expected::Equivalent => verdict.equivalent == Some(true),
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
    fn compared(&self) -> Result<Option<[String; 2]>, Error> {
        match self.compare.as_deref() {
            None => Ok(None),
            Some([base, new]) => Ok(Some([base.clone(), new.clone()])),
            Some(names) => {
                Err(Error::setting("--compare", names.join(","), "two groups, BASE,NEW"))
            }
        }
    }
}
