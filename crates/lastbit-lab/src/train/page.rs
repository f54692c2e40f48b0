//! The page of a training run: a record in the run's own folder, which `lastbit report` shows like any
//! other.
//!
//! ```text
//! DIR/record.json           settings, how the run ended, which figures there are
//!    /series/*.csv          the curves they are drawn from
//!    /figures/*.svg, *.png
//! ```
//!
//! It is written when the run has ended, from the run's files alone: the same run gives the same bytes,
//! and one that was killed in between is brought to its page by `--resume`.

mod figures;

use super::names::{ReplicaNumber, ReplicaSeries};
use super::prepare::Prepared;
use super::run_outcome::of_folder;
use super::settings::Settings;
use super::summary::RunSummary;
use crate::error::Error;
use crate::lock::Lock;
use crate::number::Number;
use crate::plot::write_figures;
use crate::record::{Outcome, Page, Record, Store};
use crate::series::Series;

const ID: &str = "train";
/// The one cell of such a record.
const CELL: &str = "run";
/// A density below this share of its largest value is the tail of the Gaussians it is smoothed by.
const LEAST_DENSITY: f64 = 1e-8;

/// Writes the page of an ended run.
pub fn write(prepared: &Prepared, lock: &Lock, summary: &RunSummary) -> Result<(), Error> {
    let folder = lock.folder();
    let mut outcome = of_folder(prepared, folder)?;
    outcome.commit = Some(summary.commit.clone());
    for named in &prepared.variants.named {
        if let Some(density) = outcome.series.get_mut(&ReplicaSeries::Density.of(&named.name)) {
            leave_out_tails(density);
        }
    }
    let settings = prepared.found.to_json();
    let page = Page {
        title: title(&prepared.found.settings),
        claim: in_words(prepared, &outcome, summary),
        method: String::new(),
        reference: String::new(),
        differences: vec![],
    };
    let figures = figures::of(prepared, &outcome);
    lock.check()?;
    let store = Store::at(folder, &["series", "figures"])?;
    let cell = store.save_outcome(CELL, &settings, outcome)?;
    let mut record = Record { figures, ..Record::new(ID, None, None, page, settings, 1) };
    record.cells.push(cell);
    record.files = write_figures(&store, &record)?;
    store.save(&record)
}

fn title(settings: &Settings) -> String {
    format!(
        "Training: {} on {}, {} with dt = {}",
        settings.network.kind.name(),
        settings.data.name,
        settings.optimizer.name,
        Number(settings.optimizer.dt)
    )
}

/// What there is to say of the first replica, and the spread of all.
fn in_words(prepared: &Prepared, outcome: &Outcome, summary: &RunSummary) -> String {
    let first = &prepared.variants.named[0].name;
    let number = |what: ReplicaNumber| outcome.numbers.get(&what.of(first)).copied();
    let mut sentences = vec![format!("{} of {} steps.", summary.steps, summary.steps_planned)];
    if let Some(step) = number(ReplicaNumber::DivergedAt) {
        sentences.push(format!("{first} diverged at step {step}."));
    }
    if let (Some(most), Some(last)) =
        (number(ReplicaNumber::MaxSharpness), number(ReplicaNumber::LastSharpness))
    {
        let last_row = summary.replicas[0].as_ref().map(|replica| &replica.last);
        let ratio = last_row.and_then(|row| row.curvature.as_ref()?.edge_ratio);
        let of_threshold = match ratio {
            Some(ratio) => format!(", {ratio} of the threshold of its optimizer"),
            None => String::new(),
        };
        sentences.push(format!(
            "The sharpness of {first} was {most} at most and {last} at the end{of_threshold}."
        ));
        sentences
            .extend(summary.mini_batch_threshold.filter(|_| ratio.is_some()).map(|t| t.in_words()));
    }
    if let Some(Number(spikes)) = number(ReplicaNumber::Spikes) {
        let plural = if spikes == 1.0 { "" } else { "s" };
        sentences.push(format!("Its loss had {} spike{plural}.", Number(spikes)));
    }
    sentences.extend(summary.attribution.iter().map(|found| found.in_words(first)));
    if let Some(accuracy) = &summary.test_accuracy
        && let Some(std) = accuracy.std
    {
        let (mean, count) = (accuracy.mean, accuracy.replicas);
        sentences.push(format!("Test accuracy {mean} ± {std} over {count} replicas."));
    }
    sentences.join(" ")
}

/// On a logarithmic axis the tails would be most of the picture.
fn leave_out_tails(density: &mut Series) {
    let Some((_, values)) = density.columns.iter_mut().find(|(name, _)| name == "density") else {
        return;
    };
    let most = values.iter().copied().fold(0.0, f64::max);
    values.iter_mut().filter(|value| **value < LEAST_DENSITY * most).for_each(|v| *v = f64::NAN);
}
