//! The one-layer network on a checkerboard, as the exhibits of the paper's Sections 5 and 6 use it.

use lastbit::activation::Activation;
use lastbit::correlate::Edges;
use lastbit::optim::perturbation::Form;
use lastbit::pde::one_layer::{Pooling, Settings};
use lastbit::signal::{checkerboard, normal};
use lastbit::verdict::VerdictKind;
use serde_json::{Value, json};

use crate::figure::{Axis, Chart, Figure, Level, Trace};
use crate::plan::Task;
use crate::record::{Record, Scale};
use crate::simulate::Precision;
use crate::simulate::kernel::{Equation, KernelRun};

/// Step sizes of the paper's non-linear figures, and one beyond the last.
pub const STEPS: [(&str, f64, VerdictKind); 6] = [
    ("dt-0.01", 0.01, VerdictKind::Stable),
    ("dt-0.03", 0.03, VerdictKind::Stable),
    ("dt-0.05", 0.05, VerdictKind::Restrained),
    ("dt-0.07", 0.07, VerdictKind::Restrained),
    ("dt-0.09", 0.09, VerdictKind::Restrained),
    ("dt-0.101", 0.101, VerdictKind::Diverged),
];

/// Rows and columns of the image.
pub fn side(scale: Scale) -> usize {
    if scale == Scale::Smoke { 64 } else { 256 }
}

/// Steps of a non-linear run.
pub fn steps(scale: Scale) -> usize {
    if scale == Scale::Smoke { 200 } else { 1000 }
}

/// Everything but what an exhibit varies.
fn base(side: usize, window: usize) -> KernelRun {
    KernelRun {
        image: crate::series::Field { height: side, width: side, values: checkerboard(side, side) },
        edges: Edges::Valid,
        window: (window, window),
        equation: Equation::NonLinear,
        a: -0.5,
        network: Settings {
            activation: Activation::Swish { beta: 1.0 },
            pooling: Pooling::Mean,
            label: 1.0,
            bias: 0.0,
            alpha: 20.0,
        },
        dt: 0.03,
        mu: None,
        k: 3.0,
        form: Form::Paper,
        precision: Precision::F64,
        steps: 1000,
        sharpness_every: 0,
        snapshots: vec![],
        initial: normal(window * window, 1),
    }
}

/// The non-linear equation: `alpha = 20`, a kernel of 32 x 32, mean pooling.
pub fn non_linear(scale: Scale, dt: f64) -> KernelRun {
    KernelRun { dt, steps: steps(scale), ..base(side(scale), 32) }
}

/// The equation linearized with `a = -0.5` held constant, pooled by the sum; forward Euler, or
/// Nesterov's scheme with `mu = 0.9`. The step is the paper's on 256 pixels, and on another side
/// scaled so that the largest decay stands in the same proportion to the smallest.
pub fn linear(scale: Scale, window: usize, nesterov: bool) -> KernelRun {
    let side = side(scale);
    let share = (side as f64 / 256.0).powi(4);
    let mut run = base(side, window);
    run.equation = Equation::Linear;
    run.network.pooling = Pooling::Sum;
    run.steps = 500;
    if nesterov {
        (run.dt, run.mu) = (1e-4 / share.sqrt(), Some(0.9));
    } else {
        run.dt = 1e-8 / share;
    }
    run
}

/// Settings that all cells of such a run share.
pub fn settings(run: &KernelRun) -> Value {
    json!({
        "image": "checkerboard", "side": run.image.height, "window": run.window.0,
        "equation": run.equation, "a": run.a, "beta": 1.0, "label": 1, "mu": run.mu,
        "pooling": match run.network.pooling {
            Pooling::Sum => "sum",
            Pooling::Mean => "mean",
        },
        "alpha": run.network.alpha, "k": run.k, "steps": run.steps, "precision": "f64",
        "seed": 1,
    })
}

/// A cell that runs.
pub fn task(key: &str, settings: Value, run: KernelRun) -> Task {
    Task::simulation(key, settings, run.steps, move |progress| run.run(progress))
}

/// The cells of the step sizes, each made of the run at its step size.
pub fn cells_over_dt(scale: Scale, change: impl Fn(KernelRun) -> KernelRun) -> Vec<Task> {
    let cell = |(key, dt, _): &(&str, f64, VerdictKind)| {
        task(key, json!({"dt": dt}), change(non_linear(scale, *dt)))
    };
    STEPS.iter().map(cell).collect()
}

/// A column over the steps for each of the cells.
pub fn over_dt(
    record: &Record,
    text: [&str; 3],
    series: &str,
    column: &str,
    y: Axis,
    levels: Vec<Level>,
) -> Figure {
    let [id, title, caption] = text;
    let label = |key: &str| key.replace("dt-", "dt = ");
    let trace = |key: &str| Trace::new(&label(key), key, series, "step", column);
    let traces = record
        .cells
        .iter()
        .filter(|cell| cell.series.contains_key(series))
        .map(|cell| trace(&cell.key))
        .collect();
    Figure::chart(
        id,
        title,
        caption,
        Chart { levels, ..Chart::new(Axis::linear("step"), y, traces) },
    )
}
