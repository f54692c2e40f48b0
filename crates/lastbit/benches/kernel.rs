//! Speed of the one-layer network and of its windowed bounds.
//!
//! ```text
//! cargo bench -p lastbit --bench kernel             the tables
//! cargo bench -p lastbit --bench kernel -- step     one number: ms per step, for bench/kernel_beside_numpy.py
//! ```
//!
//! A step is what the authors' figure repeats: gradient descent on a 256 x 256 checkerboard with a
//! kernel of 32 x 32, Swish, mean pooling, label 1, α = 20, dt = 0.05, all in `f64` on one thread.

mod rounds;

use std::hint::black_box;
use std::time::{Duration, Instant};

use lastbit::Dynamics;
use lastbit::activation::Activation;
use lastbit::correlate::{Correlator, Edges};
use lastbit::fft::Fft2;
use lastbit::objective::Objective;
use lastbit::optim::direction::Optimizer;
use lastbit::pde::one_layer::{OneLayer, Pooling, Settings};
use lastbit::signal::{checkerboard, normal};
use lastbit::spectrum::window::patch_extremes;
use lastbit::training::GradientDescent;
use rounds::{Rounds, Side};

const SIDE: usize = 256;
const WINDOW: usize = 32;
/// Images and windows whose bounds are timed.
const BOUNDS: [(usize, usize); 2] = [(256, 64), (1024, 128)];
/// Products with `PᵀP` at most; far fewer are needed.
const PRODUCTS: usize = 1000;
/// Time given to one table of turns.
const TABLE_TIME: Duration = Duration::from_secs(3);

fn main() {
    if std::env::args().any(|argument| argument == "step") {
        let rounds = Rounds::of(&mut [Box::new(step())], TABLE_TIME);
        println!("{:.4}", 1e3 * rounds.seconds(0));
        return;
    }
    table_of_the_step();
    table_of_bounds();
}

// --- What is timed ------------------------------------------------------------------------------

fn correlator() -> Correlator {
    let image = checkerboard(SIDE, SIDE);
    Correlator::new(&image, (SIDE, SIDE), (WINDOW, WINDOW), Edges::Valid)
}

fn network() -> OneLayer {
    let activation = Activation::Swish { beta: 1.0 };
    let settings =
        Settings { activation, pooling: Pooling::Mean, label: 1.0, bias: 0.0, alpha: 20.0 };
    OneLayer::new(settings, correlator())
}

fn kernel() -> Vec<f64> {
    normal(WINDOW * WINDOW, 1)
}

fn step() -> impl FnMut() {
    let mut run = GradientDescent::full_batch(network(), Optimizer::SGD, 0.05, kernel());
    move || {
        run.step();
        black_box(run.state());
    }
}

/// Two kernels in turn: the network remembers the map of the last one.
fn alternating() -> impl FnMut() -> Vec<f64> {
    let mut kernels = [kernel(), normal(WINDOW * WINDOW, 2)];
    move || {
        kernels.swap(0, 1);
        kernels[0].clone()
    }
}

fn gradient() -> impl FnMut() {
    let (mut network, mut next, mut out) = (network(), alternating(), kernel());
    move || network.gradient(black_box(&next()), black_box(&mut out)).unwrap()
}

fn hessian_vector() -> impl FnMut() {
    let (mut network, mut next, mut out) = (network(), alternating(), kernel());
    let direction = normal(WINDOW * WINDOW, 3);
    move || network.hessian_vector(black_box(&next()), &direction, black_box(&mut out)).unwrap()
}

/// At a kernel that stays, as when the largest curvature is sought.
fn repeated_hessian_vector() -> impl FnMut() {
    let (mut network, kernel, mut out) = (network(), kernel(), kernel());
    let direction = normal(WINDOW * WINDOW, 3);
    move || network.hessian_vector(black_box(&kernel), &direction, black_box(&mut out)).unwrap()
}

/// The two correlations of a gradient.
fn correlations() -> impl FnMut() {
    let (mut correlator, kernel, mut back) = (correlator(), kernel(), kernel());
    let mut map = vec![0.0; (SIDE - WINDOW + 1).pow(2)];
    move || {
        correlator.valid(black_box(&kernel), &mut map);
        correlator.adjoint(black_box(&map), black_box(&mut back));
    }
}

/// The four transforms of a gradient: kernel to map and map to kernel.
fn transforms() -> impl FnMut() {
    let mut fft = Fft2::new(SIDE, SIDE);
    let mut spectrum = fft.spectrum();
    let positions = SIDE - WINDOW + 1;
    let (mut kernel, mut map) = (kernel(), vec![0.0; positions * positions]);
    move || {
        fft.forward(&kernel, WINDOW, &mut spectrum);
        fft.inverse(&mut spectrum, positions, &mut map);
        fft.forward(&map, positions, &mut spectrum);
        fft.inverse(&mut spectrum, WINDOW, &mut kernel);
        black_box(&mut kernel);
    }
}

/// Everything timed at the size of the figure; the gradient is the measure of the others.
fn contestants() -> Vec<(&'static str, Side<'static>)> {
    vec![
        ("gradient", Box::new(gradient())),
        ("step", Box::new(step())),
        ("Hessian-vector product", Box::new(hessian_vector())),
        ("Hessian-vector product, same kernel again", Box::new(repeated_hessian_vector())),
        ("its two correlations", Box::new(correlations())),
        ("their four transforms", Box::new(transforms())),
    ]
}

// --- Tables -------------------------------------------------------------------------------------

fn table_of_the_step() {
    let (names, mut sides): (Vec<_>, Vec<_>) = contestants().into_iter().unzip();
    let rounds = Rounds::of(&mut sides, TABLE_TIME);
    println!("\n| {SIDE} x {SIDE}, window {WINDOW} x {WINDOW} | ms | of a gradient |");
    println!("|---|---|---|");
    for (side, name) in names.iter().enumerate() {
        println!("| {name} | {:.3} | {:.2} |", 1e3 * rounds.seconds(side), rounds.ratio(side, 0));
    }
}

fn table_of_bounds() {
    println!(
        "\n| windowed bounds of a random image | window | products | seconds | residuals / e_max |"
    );
    println!("|---|---|---|---|---|");
    for (side, window) in BOUNDS {
        let image = normal(side * side, 1);
        let start = Instant::now();
        let mut correlator = Correlator::new(&image, (side, side), (window, window), Edges::Valid);
        let found = patch_extremes(&mut correlator, PRODUCTS);
        let seconds = start.elapsed().as_secs_f64();
        let [low, high] = [found.smallest.as_ref(), found.largest.first()]
            .map(|end| end.expect("both ends were asked for").residual / found.lambda_max());
        println!(
            "| {side} x {side} | {window} x {window} | {} | {seconds:.2} | {low:.0e}, {high:.0e} |",
            found.matvecs
        );
    }
}
