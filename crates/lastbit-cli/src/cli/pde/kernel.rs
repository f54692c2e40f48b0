//! `lastbit pde kernel`.

use std::path::PathBuf;

use clap::Args;
use lastbit::correlate::Edges;
use lastbit::hash_of_bits;
use lastbit::optim::perturbation::Form;
use lastbit::signal::normal;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{OwnRun, RunOptions, snapshots_reached, state_figure};
use crate::cli::kernel::{Flow, Network};
use crate::cli::settings::{Called, resolve};
use crate::cli::values::choice;
use lastbit_lab::Error;
use lastbit_lab::figure::{Axis, Figure};
use lastbit_lab::input;
use lastbit_lab::plan::Compute;
use lastbit_lab::record::Record;
use lastbit_lab::simulate::kernel::{KernelRun, regime_pictures};
use lastbit_lab::simulate::pde::snapshot_name;
use lastbit_lab::validate::{positive, within};

/// Settings of a run.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[command(after_help = "Examples:
  lastbit pde kernel --dt 0.05
  lastbit pde kernel --dt 0.03 --sharpness-every 5 --expect stable
  lastbit pde kernel --equation linear --a -0.5 --pooling sum --dt 1e-8 --alpha 1e8
  lastbit pde kernel --image photo.png --kernel 9x9 --initial kernel.npy --mu 0.9 --dt 0.1")]
pub struct Kernel {
    #[command(flatten)]
    #[serde(skip)]
    options: RunOptions,

    #[command(flatten)]
    #[serde(flatten)]
    network: Network,

    #[command(flatten)]
    #[serde(flatten)]
    flow: Flow,

    /// Kernel as large as the image, periodic, with sides that are powers of two.
    #[arg(long)]
    no_window: bool,

    /// Factor k of the perturbed copy, whose steps are rounded as (dt/k)(k g).
    #[arg(long, default_value_t = 3.0)]
    k: f64,

    /// Where k stands.
    #[arg(long, value_parser = choice::<Form>(), default_value = "paper")]
    form: Form,

    /// Initial kernel as .npy [default: normal, mean 0, variance 1].
    #[arg(long, value_name = "FILE")]
    initial: Option<PathBuf>,

    /// Steps to run: at least 64; growing runs are extended up to 20 times.
    #[arg(long, default_value_t = 1000)]
    steps: usize,

    /// Steps between two measurements of the sharpness; 0 for none.
    #[arg(long, default_value_t = 10)]
    sharpness_every: usize,

    /// Steps at which to keep the kernel [default: five at the end].
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    snapshots: Option<Vec<usize>>,
}

impl Kernel {
    /// The run these settings describe.
    pub fn own_run(&self, called: Called) -> Result<OwnRun<'_>, Error> {
        let settings: Self = resolve(self, called, self.options.config.as_deref())?;
        let run = settings.kernel_run(called)?;
        let mut recorded = json!(settings);
        recorded["snapshots"] = json!(run.snapshots);
        recorded["image-hash"] = json!(Network::image_hash(&run.image));
        recorded["initial-hash"] = json!(hash_of_bits(&run.initial));
        Ok(OwnRun {
            id: "pde-kernel",
            title: format!(
                "One-layer network, {} pooling, dt = {}, alpha = {}",
                settings.network.pooling, run.dt, settings.flow.alpha
            ),
            method: "Gradient descent on the kernel of a one-layer network, beside a twin whose \
                     rounding is perturbed at each step.",
            settings: recorded,
            steps: run.steps,
            headline: &[KernelRun::LOSS, KernelRun::LAMBDA_MAX, KernelRun::REL_L1],
            options: &self.options,
            compute: Compute::simulation(move |progress| run.run(progress)),
            figures: &figures,
        })
    }

    fn kernel_run(&self, called: Called) -> Result<KernelRun, Error> {
        positive("--k", self.k)?;
        let mut run = self.flow.run(called, &self.network, self.steps)?;
        for step in self.snapshots.iter().flatten() {
            within("--snapshots", *step, 0, self.steps)?;
        }
        if self.no_window {
            called.refuse_unused(&["kernel"], "--no-window")?;
            let (height, width) = (run.image.height, run.image.width);
            if !(height.is_power_of_two() && width.is_power_of_two() && height.min(width) > 1) {
                let expected = "sides that are powers of two with --no-window";
                return Err(Error::setting("--image", format!("{height}x{width}"), expected));
            }
            (run.edges, run.window) = (Edges::Periodic, (height, width));
            run.initial = normal(height * width, self.flow.seed);
        }
        if let Some(path) = &self.initial {
            called.refuse_unused(&["seed"], "--initial")?;
            let field = input::image(path)?;
            if (field.height, field.width) != run.window {
                let (height, width) = run.window;
                let found = format!("{} x {} values", field.height, field.width);
                let expected = format!("{height} x {width}, the size of the kernel");
                return Err(input::refuse(path, found, expected));
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
    let over_steps = super::over_steps;
    let mut figures = vec![
        state_figure(record, &[], &names),
        over_steps("loss", "Loss", "curves", &["loss"], Axis::log("L")),
        over_steps("rel-l1", TWIN, "curves", &["rel_l1"], Axis::log("RelL1")),
        over_steps("regimes", "Positions by regime", "curves", &regimes, Axis::linear("share")),
    ];
    if record.cell(super::OWN).is_some_and(|cell| cell.fields.contains_key(KernelRun::REGIMES)) {
        figures.push(regime_pictures("regime-map", &[(super::OWN, "at the end".to_owned())]));
    }
    if record.cell(super::OWN).is_some_and(|cell| cell.series.contains_key("sharpness")) {
        let axis = Axis::linear("unstable above 2");
        let title = "Sharpness, normalized";
        figures.push(over_steps("sharpness", title, "sharpness", &["normalized"], axis));
    }
    figures
}
