//! `lastbit check`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::CommandOutput;
use super::settings::Called;
use super::table::table;
use lastbit_lab::Error;
use lastbit_lab::envelope::{CheckResult, Settings, Verdict, check_all, keep, open};
use lastbit_lab::logged::{self, Choice};
use lastbit_lab::noise::short;

/// Runs, and the envelope that they are compared with.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lastbit envelope -n 8 --out E -- python train.py      make an envelope of 8 perturbed runs
  lastbit check new-run --envelope E                    is this run a bug, or rounding?
  lastbit check new.jsonl --envelope baseline.json      a metrics file, a committed envelope
  lastbit check new --envelope E --metric 'loss,eval/*' compare some metrics only
  lastbit check a b c --envelope E --json               several runs, for a program to read
  lastbit check new --envelope E --out checked          also write a record with figures

A RUN is a file of metrics or the folder of a run. What it logged is compared with the envelope step
by step and metric by metric: how many standard deviations is it off the mean, relative to the
farthest of the envelope's runs nearby? The largest such number over all steps and metrics is the
deviation of the run. It is compared with the deviations of the envelope's own n runs, each beside
all others, in two ways, and the larger p counts:
  rank p  share of the n + 1 runs that are as far off. Exact, but never below 1/(n + 1). Below that
          it is continued by a tail that falls as T^-1.5 (of less than six runs T^-n/4), more slowly
          than that of any distribution with a finite variance.
  t p     predictive t of the logarithms of the deviations
The run is outside if p is at most --level. It is undecided if it is farther off than all n runs,
but these are too few for that level; the text says how many would decide. It is undecided, too, if
it was not compared with all of the envelope: it lacks a metric or ends early. --metric chooses what
is compared. More runs describe rounding better: the answer becomes surer.

The step at which a run leaves is the first at which its deviation exceeds the limit, which may be
later than the bug. At 1 %, the limit of 8 runs is at least five times the largest deviation of the
envelope's own runs. docs/envelope.md has measured false alarms and power.

With several runs the level is that of all together: each of k runs is checked at level/k.

With --out DIR, and only then, files are written: check.json, a record, and figures of the run and the
band, which `lastbit report --out DIR` shows.

Exit codes: 0 no run is outside, 1 a run is (with --strict also: undecided), 2 wrong input or
environment.")]
pub struct Check {
    /// Metrics files, or folders of runs.
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,

    /// The envelope: a file, or the folder that `lastbit envelope` wrote.
    #[arg(long, value_name = "FILE|DIR")]
    envelope: PathBuf,

    /// The chance of a false alarm is to be at most this.
    #[arg(long, default_value_t = Settings::default().level)]
    level: f64,

    /// Metrics to compare; * stands for any characters, ? for one [default: all but wall time].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    metric: Vec<String>,

    /// The name under which the run has its steps [default: step, global_step, ...].
    #[arg(long, value_name = "KEY")]
    step_key: Option<String>,

    /// Exit with code 1 also where the verdict is undecided.
    #[arg(long)]
    strict: bool,
}

impl Check {
    /// Compares, and writes a record where a folder was given.
    pub fn answer(&self, called: Called, out: &Path) -> Result<CommandOutput, Error> {
        let envelope = open(&self.envelope)?.chosen(&self.metric)?;
        let choice = Choice { metrics: self.metric.clone(), step_key: self.step_key.clone() };
        let read = |path: &PathBuf| Ok((path.display().to_string(), logged::read(path, &choice)?));
        let runs: Vec<_> = self.runs.iter().map(read).collect::<Result<_, Error>>()?;
        let found = check_all(&envelope, &runs, Settings { level: self.level })?;
        let results: Vec<(PathBuf, CheckResult)> = self.runs.iter().cloned().zip(found).collect();
        let settings = json!({
            "envelope": self.envelope,
            "runs": self.runs,
            "level": self.level,
            "metric": self.metric,
            "step-key": self.step_key,
        });
        let rows: Vec<_> =
            results.iter().map(|(path, result)| json!({ "run": path, "result": result })).collect();
        let outside = results.iter().filter(|(_, result)| self.fails(result.verdict)).count();
        let json = json!({ "settings": settings, "results": rows });
        let mut text = self.text(&results);
        if called.is_given("out") {
            let store = keep(&results, &settings, &json, out)?;
            text += &format!("Written: {}\n", store.folder().display());
        }
        Ok(CommandOutput::new(text, json).holds(outside == 0))
    }

    fn fails(&self, verdict: Verdict) -> bool {
        match verdict {
            Verdict::Outside => true,
            Verdict::Undecided => self.strict,
            Verdict::Inside => false,
        }
    }

    fn text(&self, results: &[(PathBuf, CheckResult)]) -> String {
        let many = results.len() > 1;
        let mut text = String::new();
        if many {
            let header = ["run", "verdict", "deviation", "limit", "p", "leaves at", "metric"];
            let row = |(path, result): &(PathBuf, CheckResult)| {
                let leaves = result.leaves.as_ref();
                vec![
                    path.display().to_string(),
                    result.verdict.name().to_owned(),
                    short(result.deviation.0),
                    short(result.limit.0),
                    short(result.p.0),
                    leaves.map_or("-".to_owned(), |leaves| leaves.step.to_string()),
                    leaves.map_or("-".to_owned(), |leaves| leaves.metric.clone()),
                ]
            };
            text += &table(&header, results.iter().map(row));
            let (k, level) = (results.len(), self.level);
            text += &format!(
                "{k} runs: each is checked at {level}/{k}, so that false alarms of all together are held to {level}.\n\n"
            );
        }
        for (path, result) in results {
            if many {
                text += &format!("{}\n", path.display());
            }
            text += &one(result);
            if many {
                text.push('\n');
            }
        }
        text
    }
}

/// Verdict, metrics, p-values and notes of a run.
fn one(result: &CheckResult) -> String {
    let header = ["metric", "steps", "deviation", "at step", "SDs off", "leaves at"];
    let row = |metric: &lastbit_lab::envelope::MetricResult| {
        let farthest = metric.farthest.as_ref();
        vec![
            metric.metric.clone(),
            metric.steps.to_string(),
            farthest.map_or("-".to_owned(), |at| short(at.deviation())),
            farthest.map_or("-".to_owned(), |at| at.step.to_string()),
            farthest.map_or("-".to_owned(), |at| short(at.score.0)),
            metric.leaves_at.map_or("-".to_owned(), |step| step.to_string()),
        ]
    };
    let mut text = format!("{}\n\n", result.sentence);
    text += &table(&header, result.metrics.iter().map(row));
    if result.verdict != Verdict::Inside {
        text += &format!(
            "\np = {}: the larger of {} (rank p = {}, continued by the tail) and {} (t p).\n{}\n",
            short(result.p.0),
            short(result.tail_p.0),
            short(result.rank_p.0),
            short(result.t_p.0),
            result.support
        );
    }
    for note in &result.notes {
        text += &format!("Note: {note}\n");
    }
    text
}
