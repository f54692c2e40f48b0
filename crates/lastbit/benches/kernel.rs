//! Speed of the one-layer network and of its windowed bounds.
//!
//! ```text
//! cargo bench -p lastbit --bench kernel             criterion groups, then the tables
//! cargo bench -p lastbit --bench kernel -- tables   the tables alone
//! cargo bench -p lastbit --bench kernel -- step     one number: ms per step, for bench/kernel_beside_numpy.py
//! ```
//!
//! A step is what the authors' figure repeats: gradient descent on a 256 x 256 checkerboard with a
//! kernel of 32 x 32, Swish, mean pooling, label 1, α = 20, dt = 0.05, all in `f64` on one thread.
//!
//! What is compared takes turns within rounds of a few milliseconds and the ratio is the median
//! over rounds, so that the drift of a shared machine hits both sides alike.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
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

const SIDE: usize = 256;
const WINDOW: usize = 32;
/// Images and windows whose bounds are timed.
const BOUNDS: [(usize, usize); 2] = [(256, 64), (1024, 128)];
/// Products with `PᵀP` at most; far fewer are needed.
const PRODUCTS: usize = 1000;
/// Time given to one table of turns.
const TABLE_TIME: Duration = Duration::from_secs(3);

fn main() {
    let asked = |word: &str| std::env::args().any(|argument| argument == word);
    if asked("step") {
        println!("{:.4}", 1e3 * seconds_per_step());
        return;
    }
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(150))
        .measurement_time(Duration::from_millis(700))
        .without_plots()
        .configure_from_args();
    groups(&mut criterion);
    criterion.final_summary();
    // `cargo test --benches` asks only whether the benches run.
    if !asked("--test") && !asked("--list") {
        table_of_the_step();
        table_of_bounds();
    }
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

type Call = Box<dyn FnMut()>;

/// Everything timed at the size of the figure; the gradient is the measure of the others.
fn contestants() -> Vec<(&'static str, Call)> {
    vec![
        ("gradient", Box::new(gradient())),
        ("step", Box::new(step())),
        ("Hessian-vector product", Box::new(hessian_vector())),
        ("Hessian-vector product, same kernel again", Box::new(repeated_hessian_vector())),
        ("its two correlations", Box::new(correlations())),
        ("their four transforms", Box::new(transforms())),
    ]
}

fn groups(criterion: &mut Criterion) {
    let mut group =
        criterion.benchmark_group(format!("one-layer {SIDE} x {SIDE}, {WINDOW} x {WINDOW}"));
    for (name, mut call) in contestants() {
        group.bench_function(name, |bencher| bencher.iter(&mut call));
    }
}

// --- Tables -------------------------------------------------------------------------------------

fn table_of_the_step() {
    let (names, mut sides): (Vec<_>, Vec<_>) = contestants().into_iter().unzip();
    let rounds = rounds(&mut sides);
    println!("\n| {SIDE} x {SIDE}, window {WINDOW} x {WINDOW} | ms | of a gradient |");
    println!("|---|---|---|");
    for (side, name) in names.iter().enumerate() {
        let seconds = median(rounds.iter().map(|round| round[side]).collect());
        let ratio = median(rounds.iter().map(|round| round[side] / round[0]).collect());
        println!("| {name} | {:.3} | {ratio:.2} |", 1e3 * seconds);
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

fn seconds_per_step() -> f64 {
    let mut sides: [Call; 1] = [Box::new(step())];
    median(rounds(&mut sides).iter().map(|round| round[0]).collect())
}

/// Seconds per call of each side, by rounds in which every side has its turn.
fn rounds(sides: &mut [Call]) -> Vec<Vec<f64>> {
    let timed = |side: &mut Call| {
        // A few calls, some milliseconds: long beside the clock and beside refilling the cache
        // that another side has taken, short beside the drift of the machine.
        let (start, calls) = (Instant::now(), 4);
        (0..calls).for_each(|_| side());
        start.elapsed().as_secs_f64() / f64::from(calls)
    };
    sides.iter_mut().for_each(|side| {
        timed(side);
    });
    let end = Instant::now() + TABLE_TIME;
    let mut rounds = Vec::new();
    while rounds.len() < 9 || Instant::now() < end {
        rounds.push(sides.iter_mut().map(timed).collect());
    }
    rounds
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
