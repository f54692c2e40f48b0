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

use std::path::Path;

use serde_json::Value;

use super::prepare::Prepared;
use super::told::of_folder;
use crate::error::Error;
use crate::number::Number;
use crate::plot::write_figures;
use crate::record::{FORMAT, Outcome, Page, Record, Store, variant_of};
use crate::series::Series;

const ID: &str = "train";
/// The one cell of such a record.
const CELL: &str = "run";
/// A density below this share of its largest value is the tail of the Gaussians it is smoothed by.
const LEAST_DENSITY: f64 = 1e-8;

/// Writes the page of an ended run.
pub fn write(prepared: &Prepared, folder: &Path, summary: &Value) -> Result<(), Error> {
    let mut outcome = of_folder(prepared, folder)?;
    outcome.commit = summary["commit"].as_str().map(str::to_owned);
    outcome.series.iter_mut().filter(|(name, _)| name.ends_with("-density")).for_each(
        |(_, density)| {
            leave_out_tails(density);
        },
    );
    let settings = prepared.found.to_json();
    let page = Page {
        title: title(&settings),
        claim: in_words(prepared, &outcome, summary),
        method: String::new(),
        reference: String::new(),
        differences: vec![],
    };
    let figures = figures::of(prepared, &outcome);
    let store = Store::at(folder, &["series", "figures"])?;
    let record = Record {
        format: FORMAT,
        id: ID.to_owned(),
        variant: variant_of(&settings),
        page,
        settings: settings.clone(),
        planned: 1,
        cells: vec![store.save_outcome(CELL, &settings, outcome)?],
        checks: vec![],
        figures,
    };
    store.save(&record)?;
    write_figures(&store, &record)
}

fn title(settings: &Value) -> String {
    let word = |section: &str, key: &str| settings[section][key].as_str().unwrap_or("?").to_owned();
    let dt = settings["optimizer"]["dt"].as_f64().unwrap_or(f64::NAN);
    format!(
        "Training: {} on {}, {} with dt = {}",
        word("network", "kind"),
        word("data", "name"),
        word("optimizer", "name"),
        Number(dt)
    )
}

/// What there is to say of the first replica, and the spread of all.
fn in_words(prepared: &Prepared, outcome: &Outcome, summary: &Value) -> String {
    let first = &prepared.variants.named[0].name;
    let number = |what: &str| outcome.numbers.get(&format!("{what}-{first}")).copied();
    let read = |value: &Value| serde_json::from_value::<Number>(value.clone()).ok();
    let mut sentences =
        vec![format!("{} of {} steps.", summary["steps"], summary["steps_planned"])];
    if let Some(step) = number("diverged_at") {
        sentences.push(format!("{first} diverged at step {step}."));
    }
    let curvature = &summary["replicas"][0]["curvature"];
    if let (Some(most), Some(last)) = (number("max_sharpness"), number("last_sharpness")) {
        let of_threshold = match read(&curvature["edge_ratio"]) {
            Some(ratio) => format!(", {ratio} of the threshold of its optimizer"),
            None => String::new(),
        };
        sentences.push(format!(
            "The sharpness of {first} was {most} at most and {last} at the end{of_threshold}."
        ));
    }
    if let Some(Number(spikes)) = number("spikes") {
        let plural = if spikes == 1.0 { "" } else { "s" };
        sentences.push(format!("Its loss had {} spike{plural}.", Number(spikes)));
    }
    let accuracy = &summary["test_accuracy"];
    if let (Some(mean), Some(std)) = (read(&accuracy["mean"]), read(&accuracy["std"])) {
        let count = &accuracy["replicas"];
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
