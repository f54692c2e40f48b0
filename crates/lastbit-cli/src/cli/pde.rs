//! `lastbit pde`.

mod beltrami;
mod heat;
mod kernel;
mod scheme;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, Subcommand};
use lastbit::verdict::{Doubt, VerdictKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::settings::Called;
use super::table::table;
use super::{CommandOutput, capitalized};
use crate::cli::values::choice;
use crate::terminal::Terminal;
use lastbit_lab::Error;
use lastbit_lab::figure::{Axis, Chart, Figure, Panel, Pictures, Trace};
use lastbit_lab::number::Number;
use lastbit_lab::plan::{Compute, Plan, Task};
use lastbit_lab::progress::Monitor;
use lastbit_lab::record::{Cell, Outcome, Page, Record, Store, VerdictRecord};
use lastbit_lab::relative_path::RelativePath;
use lastbit_lab::runner::{Existing, Job, run};

/// The PDEs.
#[derive(Debug, Subcommand)]
pub enum Pde {
    /// The heat equation on an interval.
    Heat(heat::Heat),
    /// Beltrami reaction-diffusion of a signal or an image.
    Beltrami(beltrami::Beltrami),
    /// Any explicit linear scheme on a periodic mesh.
    Scheme(scheme::Scheme),
    /// A one-layer network under gradient descent, or one of its linear equations.
    Kernel(kernel::Kernel),
}

impl Pde {
    /// Runs and judges.
    pub fn answer(&self, called: Called, out: &Path) -> Result<CommandOutput, Error> {
        match self {
            Self::Heat(heat) => heat.own_run(called)?.answer(out),
            Self::Beltrami(beltrami) => beltrami.own_run(called)?.answer(out),
            Self::Scheme(scheme) => scheme.own_run(called)?.answer(out),
            Self::Kernel(kernel) => kernel.own_run(called)?.answer(out),
        }
    }
}

/// Options of every PDE that are not settings of the run.
#[derive(Debug, Clone, Default, Args)]
pub struct RunOptions {
    /// Settings from a TOML file with the names of the flags; flags win over it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Exit with code 1 unless the verdict is this one.
    #[arg(long, value_parser = choice::<VerdictKind>(), value_name = "VERDICT")]
    pub expect: Option<VerdictKind>,

    /// Compute again, even if the result is there.
    #[arg(long)]
    pub fresh: bool,
}

/// Rows by columns, written `64x48`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size {
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('x').map(|(h, w)| (h.parse(), w.parse()));
        match parts {
            Some((Ok(height), Ok(width))) => Ok(Self { height, width }),
            _ => Err(format!("found \"{text}\", expected rows x columns, such as 64x48")),
        }
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        format!("{}x{}", size.height, size.width)
    }
}

/// A run of one's own: one cell, named by the hash of its settings.
pub struct OwnRun<'a> {
    /// Name of the record.
    pub id: &'a str,
    /// One line about it.
    pub title: String,
    /// How it is computed, in words.
    pub method: &'a str,
    /// Resolved settings, with the hash of the data where it comes from a file.
    pub settings: Value,
    /// Steps, for the progress bar.
    pub steps: usize,
    /// Numbers that stand at the top of the JSON answer, with their curves at the top of its series.
    pub headline: &'a [&'a str],
    /// Options.
    pub options: &'a RunOptions,
    /// The computation.
    pub compute: Compute,
    /// Figures of the finished record.
    pub figures: &'a (dyn Fn(&Record) -> Vec<Figure> + Sync),
}

/// Key of the one cell of a run of one's own.
pub const OWN: &str = "run";

impl OwnRun<'_> {
    fn answer(self, out: &Path) -> Result<CommandOutput, Error> {
        let task = Task {
            key: OWN.to_owned(),
            settings: self.settings.clone(),
            steps: self.steps as u64,
            compute: self.compute,
        };
        let page = Page {
            title: self.title,
            claim: "A run of one's own.".to_owned(),
            method: self.method.to_owned(),
            reference: String::new(),
            differences: vec![],
        };
        let job = Job {
            id: self.id,
            scale: None,
            device: None,
            page,
            plan: Plan { settings: self.settings, cells: vec![task] },
            not_tested: None,
            checks: &|_| vec![],
            figures: self.figures,
            shows_parts: false,
        };
        let existing = if self.options.fresh { Existing::Discard } else { Existing::Reuse };
        let monitor = Terminal::new(None);
        let (store, record) = run(job, out, existing, &monitor)?;
        let Some(cell) = record.cell(OWN) else {
            let reason = monitor.stop_requested().expect("finished unless stopped");
            let again = "an unfinished run is not saved. The same command starts it again.";
            return Ok(CommandOutput::stopped(reason, again));
        };
        let verdict = cell.verdict.as_ref().expect("every PDE run is judged");
        let holds = self.options.expect.is_none_or(|expected| expected == verdict.kind);
        let mut text = format!("{}\n{}", record.page.title, text(&store, cell, verdict));
        if let (Some(expected), false) = (self.options.expect, holds) {
            text.push_str(&format!("Expected {expected}: the check fails.\n"));
        }
        let json = as_json(&store, &record, cell, self.headline)?;
        Ok(CommandOutput::new(text, json).holds(holds))
    }
}

fn text(store: &Store, cell: &Cell, verdict: &VerdictRecord) -> String {
    let rows = cell.numbers.iter().map(|(name, number)| vec![name.clone(), number.to_string()]);
    format!(
        "{}\n\n{}\nhash {}\nRecord, curves and figures: {}\n",
        in_words(verdict),
        table(&["measured", ""], rows),
        cell.hash.as_deref().unwrap_or("none"),
        store.folder().display()
    )
}

/// The verdict as a sentence.
fn in_words(verdict: &VerdictRecord) -> String {
    let (growth, error) = (verdict.growth_per_step.0, verdict.growth_standard_error);
    let rate = format!("{} ± {error} per step", Number(growth.abs()));
    let twins = if growth > 3.0 * error.0 {
        format!("a small difference grows by {rate}")
    } else if growth < -3.0 * error.0 {
        format!("a small difference shrinks by {rate}")
    } else {
        format!(
            "a small difference neither grows nor shrinks ({} ± {error} per step)",
            Number(growth)
        )
    };
    let steps = verdict.steps;
    match (verdict.kind, verdict.diverged_at) {
        (VerdictKind::Undecided, _) => {
            let why = verdict.doubt.map_or("the record does not say why", Doubt::why);
            let remedy = verdict.doubt.map_or("more steps may decide it", Doubt::remedy);
            format!(
                "undecided after {steps} steps: {why}; {twins} (growth below {} per step cannot be \
                 told from a transient). {}.",
                verdict.resolution,
                capitalized(remedy)
            )
        }
        (VerdictKind::Stable, _) => format!(
            "stable: over {steps} steps {twins} (growth below {} per step cannot be told from a \
             transient).",
            verdict.resolution
        ),
        (VerdictKind::Diverged, Some(step)) => {
            format!("diverged: unbounded, as seen by step {step}.")
        }
        (kind @ (VerdictKind::Restrained | VerdictKind::Diverged), _) => {
            let meaning = if growth > 3.0 * error.0 {
                ": the last bit decides"
            } else if growth < -3.0 * error.0 {
                ": a cycle that forgets the last bit"
            } else {
                ""
            };
            let raised = Number((100.0 * verdict.unstable_share.0).round());
            format!(
                "{kind}: bounded over {steps} steps without settling; {raised} % of the later \
                 steps do not lower the energy, and {twins}{meaning}.",
            )
        }
    }
}

fn as_json(store: &Store, record: &Record, cell: &Cell, headline: &[&str]) -> Result<Value, Error> {
    let mut series = Map::new();
    for (name, file) in &cell.series {
        let columns = store.read_series(cell, file)?.to_json();
        // The curves of the run itself stand at the top; other series under their names.
        if name == "curves" {
            series.extend(columns);
        } else {
            series.insert(name.clone(), Value::Object(columns));
        }
    }
    let path = |file: &RelativePath| json!(store.folder().join(&**file));
    let fields: Map<String, Value> =
        cell.fields.iter().map(|(name, file)| (name.clone(), path(file))).collect();
    let mut answer = json!({
        "id": record.id,
        "settings": record.settings,
        "verdict": cell.verdict,
        "numbers": cell.numbers,
        "hash": cell.hash,
        "folder": store.folder(),
        "series": series,
        "fields": fields,
    });
    for name in headline {
        answer[*name] = json!(Number(record.number(OWN, name)));
        // Its curve stands at the top too, whichever series it is a column of.
        let nested = cell.series.keys().find_map(|s| answer["series"][s].get(*name).cloned());
        if let Some(curve) = nested {
            answer["series"][*name] = curve;
        }
    }
    Ok(answer)
}

/// A chart of columns of one series over the steps.
fn over_steps(id: &str, title: &str, series: &str, columns: &[&str], y: Axis) -> Figure {
    let trace = |column: &&str| Trace::new(column, OWN, series, "step", column);
    let traces = columns.iter().map(trace).collect();
    Figure::chart(id, title, "", Chart::new(Axis::linear("step"), y, traces))
}

/// The chart of the last-bit twin.
fn twin_figure() -> Figure {
    let title = "Two runs kept one last bit apart";
    over_steps("twin", title, "twin", &["rel_l1", "distance"], Axis::log("distance"))
}

/// The steps among `wanted` that the run reached, and that of its divergence if those are few.
fn snapshots_reached(record: &Record, wanted: impl Iterator<Item = usize>) -> Vec<usize> {
    let Some(verdict) = record.cell(OWN).and_then(|cell| cell.verdict.as_ref()) else {
        return vec![];
    };
    let mut reached: Vec<usize> = wanted.filter(|step| *step <= verdict.steps).collect();
    reached.dedup();
    if reached.len() < 2 {
        reached.extend(verdict.diverged_at.filter(|step| !reached.contains(step)));
    }
    reached
}

/// The state at some steps: curves over `x`, or pictures where the cell has fields.
fn state_figure(record: &Record, columns: &[&str], steps: &[String]) -> Figure {
    if record.cell(OWN).is_some_and(|cell| cell.fields.is_empty()) {
        let names = columns.iter().copied().chain(steps.iter().map(String::as_str));
        let traces = names.map(|name| Trace::new(name, OWN, "profiles", "x", name)).collect();
        let (x, y) = (Axis::linear("x"), Axis::linear("u"));
        return Figure::chart("state", "State", "", Chart::new(x, y, traces));
    }
    let panel =
        |name: &String| Panel { label: name.clone(), cell: OWN.to_owned(), field: name.clone() };
    let panels = steps.iter().map(panel).collect();
    let [low, high] =
        [Outcome::FIELD_LOW, Outcome::FIELD_HIGH].map(|name| record.number(OWN, name));
    // A field of one value, or without any that is finite, has no range of its own.
    let range = if low < high { [low, high] } else { [0.0, 1.0] };
    Figure::pictures("state", "State", "", Pictures { range, panels })
}
