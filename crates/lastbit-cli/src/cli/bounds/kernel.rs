//! `lastbit bounds kernel`.

use std::path::{Path, PathBuf};

use clap::Args;
use lastbit::activation::ActivationKind;
use lastbit::correlate::{Correlator, Edges};
use lastbit::optim::method::Method;
use lastbit::spectrum::window::{
    AlphaInterval, Range, alpha_interval, largest_dt, nesterov_limit_of_the_paper, patch_extremes,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::cli::CommandOutput;
use crate::cli::kernel::Network;
use crate::cli::settings::{Called, resolve};
use crate::cli::table::table;
use crate::terminal::Terminal;
use lastbit_lab::Error;
use lastbit_lab::figure::{Figure, Panel, Pictures};
use lastbit_lab::number::Number;
use lastbit_lab::plan::{Plan, Task};
use lastbit_lab::record::{Outcome, Page};
use lastbit_lab::runner::{Existing, Job, run};
use lastbit_lab::series::Field;
use lastbit_lab::validate::positive;

/// Settings of an analysis.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[command(after_help = "Examples:
  lastbit bounds kernel --kernel 16x16
  lastbit bounds kernel --image photo.png --kernel 5x5 --dt 0.1 --label 0
  lastbit bounds kernel --pooling sum --dt 1e-8 --mu 0.9 --json")]
pub struct Kernel {
    /// Settings from a TOML file with the names of the flags; flags win over it.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    config: Option<PathBuf>,

    #[command(flatten)]
    #[serde(flatten)]
    network: Network,

    /// Residual a = yhat - y [default: that of an untrained network, s(-bias) - label].
    #[arg(long)]
    a: Option<f64>,

    /// Step size for which to bound the weight decay.
    #[arg(long, alias = "lr", default_value_t = 0.001)]
    dt: f64,

    /// Momentum of Nesterov's scheme.
    #[arg(long, default_value_t = 0.9)]
    mu: f64,

    /// Weight decay for which to bound the step.
    #[arg(long)]
    alpha: Option<f64>,

    /// Also write a record with a picture of the amplification factor over frequencies.
    #[arg(long)]
    #[serde(skip)]
    map: bool,

    /// Most products with the patch operator.
    #[arg(long, default_value_t = 400)]
    products: usize,
}

impl Kernel {
    /// The bounds.
    pub fn answer(&self, called: Called, out: &Path) -> Result<CommandOutput, Error> {
        let settings = resolve(self, called, self.config.as_deref())?;
        positive("--dt", settings.dt)?;
        if !(0.0..1.0).contains(&settings.mu) {
            return Err(Error::setting("--mu", settings.mu, "a number from 0 to below 1"));
        }
        if settings.network.activation != ActivationKind::Swish {
            let expected = "swish: the bounds are those of the linear equation of Swish at 0";
            return Err(Error::setting("--activation", settings.network.activation, expected));
        }
        if settings.a.is_some() {
            called.refuse_unused(&["label", "bias"], "--a")?;
        }
        let image = settings.network.image(called)?;
        let network = settings.network.settings(settings.alpha.unwrap_or(0.0))?;
        let size = (image.height, image.width);
        let mut correlator =
            Correlator::new(&image.values, size, settings.network.window(), Edges::Valid);
        let positions = correlator.positions().0 * correlator.positions().1;
        let a = settings.a.unwrap_or(lastbit::exp::sigmoid(-network.bias) - network.label);
        if !a.is_finite() {
            return Err(Error::setting("--a", a, "a finite number"));
        }
        let q = a * network.pooling.weight(positions) * settings.network.beta / 2.0;
        let (min, max) = correlator.extreme_power();
        let whole = Range { min, max };
        let found = patch_extremes(&mut correlator, settings.products.max(2));
        let windowed = Range { min: found.lambda_min().max(0.0), max: found.lambda_max() };
        let residuals = found.largest.iter().chain(&found.smallest).map(|pair| pair.residual);
        let residual = residuals.fold(f64::NAN, f64::max);

        let limits = [
            ("forward Euler", Method::Sgd.threshold(settings.dt)),
            ("Nesterov, the paper's", nesterov_limit_of_the_paper(settings.dt)),
            ("Nesterov, exact", Method::NesterovPde { mu: settings.mu }.threshold(settings.dt)),
        ];
        let bounds = |range: Range| limits.map(|(_, limit)| alpha_interval(q, range, limit));
        let (of_whole, of_window) = (bounds(whole), bounds(windowed));
        let steps =
            settings.alpha.map(|alpha| [whole, windowed].map(|range| largest_dt(alpha, q, range)));
        let mut text = format!(
            "One-layer network, {} pooling, residual a = {}, dt = {}\n\n{}",
            settings.network.pooling,
            Number(a),
            settings.dt,
            text(&limits, &of_whole, &of_window, steps, &found.matvecs, residual, windowed)
        );
        let interval = |i: AlphaInterval| json!({"alpha_min": i.min, "alpha_max": i.max, "empty": i.is_empty()});
        let mut window = interval(of_window[0]);
        window["eig_max"] = json!(windowed.max);
        window["eig_min"] = json!(windowed.min);
        window["residual"] = json!(residual);
        window["products"] = json!(found.matvecs);
        let mut json = interval(of_whole[0]);
        json["settings"] = json!(settings);
        json["a"] = json!(a);
        json["windowed"] = window;
        json["nesterov"] = json!({
            "alpha_min": of_whole[1].min,
            "alpha_max": of_whole[1].max,
            "alpha_max_exact": of_whole[2].max,
            "windowed_alpha_min": of_window[2].min,
            "windowed_alpha_max": of_window[2].max,
        });
        if let Some([whole, windowed]) = steps {
            json["dt_max"] = json!(whole);
            json["windowed"]["dt_max"] = json!(windowed);
        }
        json["image_hash"] = json!(Network::image_hash(&image));
        if self.map {
            let alpha = settings.alpha.unwrap_or(0.0);
            let (height, width, mut values) = correlator.power_map();
            values.iter_mut().for_each(|e| *e = 1.0 - settings.dt * (alpha + q * *e));
            let mut settings = json["settings"].clone();
            settings["image-hash"] = json["image_hash"].clone();
            let map = Field { height, width, values };
            let folder = write_map(&settings, [of_whole[0], of_window[0]], map, out)?;
            text.push_str(&format!("Picture of the amplifier: {}\n", folder.display()));
            json["folder"] = json!(folder);
        }
        Ok(CommandOutput::new(text, json))
    }
}

fn text(
    limits: &[(&str, f64); 3],
    whole: &[AlphaInterval; 3],
    windowed: &[AlphaInterval; 3],
    steps: Option<[Option<f64>; 2]>,
    products: &usize,
    residual: f64,
    range: Range,
) -> String {
    let words = |interval: &AlphaInterval| {
        let bounds = format!("{} to {}", Number(interval.min), Number(interval.max));
        if interval.is_empty() {
            format!("none ({bounds}): no weight decay stabilizes this step")
        } else {
            bounds
        }
    };
    let rows = limits
        .iter()
        .zip(whole.iter().zip(windowed))
        .map(|((name, _), (a, b))| vec![(*name).to_owned(), words(a), words(b)]);
    let mut text =
        table(&["stable weight decays", "image-sized kernel", "actual kernel size"], rows);
    text.push_str(&format!(
        "\nEigenvalues of the patch operator: {} to {} (residual {}, {products} products).\n",
        Number(range.min),
        Number(range.max),
        Number(residual)
    ));
    if let Some([whole, windowed]) = steps {
        let step = |dt: Option<f64>| dt.map_or("none".to_owned(), |dt| Number(dt).to_string());
        text.push_str(&format!(
            "Largest stable step at this weight decay: {} for an image-sized kernel, {} for this one.\n",
            step(whole),
            step(windowed)
        ));
    }
    text
}

/// A record of the bounds with the amplifier as a picture.
fn write_map(
    settings: &Value,
    [whole, windowed]: [AlphaInterval; 2],
    amplifier: Field,
    out: &Path,
) -> Result<PathBuf, Error> {
    let task = Task::simulation("bounds", settings.clone(), 1, move |_| {
        let mut outcome = Outcome::default();
        outcome.number("alpha_min", whole.min);
        outcome.number("alpha_max", whole.max);
        outcome.number("windowed_alpha_min", windowed.min);
        outcome.number("windowed_alpha_max", windowed.max);
        outcome.field("amplifier".to_owned(), amplifier.clone());
        Ok(outcome)
    });
    let page = Page {
        title: "Amplifier of the linearized one-layer network".to_owned(),
        claim: "An analysis of one's own.".to_owned(),
        method: "A(omega) = 1 - dt (alpha + a p beta |I^(omega)|²/2), for a kernel as large as the image."
            .to_owned(),
        reference: String::new(),
        differences: vec![],
    };
    let job = Job {
        id: "bounds-kernel",
        scale: None,
        device: None,
        page,
        plan: Plan { settings: settings.clone(), cells: vec![task] },
        not_tested: None,
        checks: &|_| vec![],
        figures: &|_| {
            let caption = "Frequencies 0 to pi downwards, -pi to pi across. Grey: attenuated; blue: \
                           below -1, red: above 1, both amplified.";
            let panel = Panel {
                label: "A(omega)".to_owned(),
                cell: "bounds".to_owned(),
                field: "amplifier".to_owned(),
            };
            let pictures = Pictures { range: [-1.0, 1.0], panels: vec![panel] };
            vec![Figure::pictures("amplifier", "Amplifier", caption, pictures)]
        },
        shows_parts: false,
    };
    let (store, _) = run(job, out, Existing::Reuse, &Terminal::showing())?;
    Ok(store.folder().to_owned())
}
