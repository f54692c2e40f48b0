//! A one-layer network under gradient descent, or one of its linear equations.

use lastbit::correlate::Edges;
use lastbit::hash_of_bits;
use lastbit::optim::perturbation::Form;
use lastbit::signal::normal;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::PdeRun;
use super::figures::{over_steps, snapshots_reached, state_figure};
use super::run::CELL;
use crate::error::Error;
use crate::figure::{Axis, Figure};
use crate::input::{self, Source};
use crate::record::Record;
use crate::series::Field;
use crate::settings::{Flow, Given, Network};
use crate::simulate::kernel::{KernelRun, regime_pictures};
use crate::simulate::pde::snapshot_name;
use crate::validate::{positive, within};

/// Settings of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct KernelSettings {
    /// The network and its image.
    #[serde(flatten)]
    pub network: Network,
    /// The equation and how it is stepped.
    #[serde(flatten)]
    pub flow: Flow,
    /// Whether the kernel is as large as the image, periodic, with sides that are powers of two.
    pub no_window: bool,
    /// Factor k of the perturbed copy, whose steps are rounded as (dt/k)(k g).
    pub k: f64,
    /// Where k stands.
    pub form: Form,
    /// Initial kernel; normal, mean 0, variance 1 otherwise.
    pub initial: Option<Source<Field>>,
    /// Steps to run: at least 64; growing runs are extended up to 20 times.
    pub steps: usize,
    /// Steps between two measurements of the sharpness; 0 for none.
    pub sharpness_every: usize,
    /// Steps at which to keep the kernel; five at the end otherwise.
    pub snapshots: Option<Vec<usize>>,
}

impl Default for KernelSettings {
    fn default() -> Self {
        Self {
            network: Network::default(),
            flow: Flow::default(),
            no_window: false,
            k: 3.0,
            form: Form::Paper,
            initial: None,
            steps: 1000,
            sharpness_every: 10,
            snapshots: None,
        }
    }
}

impl KernelSettings {
    /// The run that these settings describe.
    pub fn run(self, given: Given) -> Result<PdeRun, Error> {
        let run = self.kernel_run(given)?;
        let mut settings = json!(self);
        settings["snapshots"] = json!(run.snapshots);
        settings["image-hash"] = json!(Network::image_hash(&run.image));
        settings["initial-hash"] = json!(hash_of_bits(&run.initial));
        Ok(PdeRun {
            id: "pde-kernel",
            title: format!(
                "One-layer network, {} pooling, dt = {}, alpha = {}",
                self.network.pooling, run.dt, self.flow.alpha
            ),
            method: "Gradient descent on the kernel of a one-layer network, beside a twin whose \
                     rounding is perturbed at each step.",
            settings,
            steps: run.steps,
            dt: run.dt,
            dt_max: None,
            snapshots: run.snapshots.clone(),
            snapshot_name: |step, _| snapshot_name(step),
            headline: &[KernelRun::LOSS, KernelRun::LAMBDA_MAX, KernelRun::REL_L1],
            simulate: Box::new(move |progress| run.run(progress)),
            figures,
        })
    }

    fn kernel_run(&self, given: Given) -> Result<KernelRun, Error> {
        positive("--k", self.k)?;
        let mut run = self.flow.run(given, &self.network, self.steps)?;
        for step in self.snapshots.iter().flatten() {
            within("--snapshots", *step, 0, self.steps)?;
        }
        if self.no_window {
            given.refuse_unused(&["kernel"], "--no-window")?;
            let (height, width) = (run.image.height, run.image.width);
            if !(height.is_power_of_two() && width.is_power_of_two() && height.min(width) > 1) {
                let expected = "sides that are powers of two with --no-window";
                return Err(Error::setting("--image", format!("{height}x{width}"), expected));
            }
            (run.edges, run.window) = (Edges::Periodic, (height, width));
            run.initial = normal(height * width, self.flow.seed);
        }
        if let Some(source) = &self.initial {
            given.refuse_unused(&["seed"], "--initial")?;
            let (name, field) = (source.name("initial"), source.get(input::image)?);
            input::all_finite(name, &field.values)?;
            if (field.height, field.width) != run.window {
                let (height, width) = run.window;
                let found = format!("{} x {} values", field.height, field.width);
                let expected = format!("{height} x {width}, the size of the kernel");
                return Err(input::refuse(name, found, expected));
            }
            run.initial = field.values;
        }
        let late = || (self.steps.saturating_sub(4)..=self.steps).collect();
        Ok(KernelRun {
            k: self.k,
            form: self.form,
            sharpness_every: self.sharpness_every,
            snapshots: self.snapshots.clone().unwrap_or_else(late),
            ..run
        })
    }
}

fn figures(record: &Record) -> Vec<Figure> {
    const TWIN: &str = "RelL1 of the perturbed twin";
    let wanted = record.settings["snapshots"].as_array().into_iter().flatten();
    let wanted = wanted.filter_map(serde_json::Value::as_u64).map(|step| step as usize);
    let steps = snapshots_reached(record, wanted);
    let names: Vec<String> = steps.into_iter().map(snapshot_name).collect();
    let regimes = ["activated", "transitioning", "not_activated", "changed"];
    let mut figures = vec![
        state_figure(record, &[], &names),
        over_steps("loss", "Loss", "curves", &["loss"], Axis::log("L")),
        over_steps("rel-l1", TWIN, "curves", &["rel_l1"], Axis::log("RelL1")),
        over_steps("regimes", "Positions by regime", "curves", &regimes, Axis::linear("share")),
    ];
    if record.cell(CELL).is_some_and(|cell| cell.fields.contains_key(KernelRun::REGIMES)) {
        figures.push(regime_pictures("regime-map", &[(CELL, "at the end".to_owned())]));
    }
    if record.cell(CELL).is_some_and(|cell| cell.series.contains_key("sharpness")) {
        let axis = Axis::linear("unstable above 2");
        let title = "Sharpness, normalized";
        figures.push(over_steps("sharpness", title, "sharpness", &["normalized"], axis));
    }
    figures
}
