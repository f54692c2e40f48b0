//! Runs whose answer is known in closed form and that are easy to get wrong: offsets that rounding
//! swallows, steps a hair beyond an edge, transients. Each must be right or undecided.

use std::convert::Infallible;
use std::f64::consts::PI;

use lastbit::activation::Activation;
use lastbit::correlate::{Correlator, Edges};
use lastbit::optim::direction::Optimizer;
use lastbit::pde::beltrami::Beltrami;
use lastbit::pde::beltrami_1d::Beltrami1d;
use lastbit::pde::beltrami_2d::Beltrami2d;
use lastbit::pde::heat::{Ends, Heat};
use lastbit::pde::linear::Linear;
use lastbit::pde::one_layer::{OneLayer, Pooling, Settings};
use lastbit::pde::textbook;
use lastbit::rng::Stream;
use lastbit::signal::{blocks_and_ramp, checkerboard, normal, shapes, triangle};
use lastbit::training::GradientDescent;
use lastbit::verdict::{Horizon, Judgement, Verdict, VerdictKind, judge};
use lastbit::{Dynamics, Real};

fn judged<D: Dynamics<Error = Infallible>>(mut run: D, steps: usize) -> Judgement {
    let Ok(judged) = judge(&mut run, Horizon::of(steps), &mut []);
    judged
}

/// Right, or undecided.
#[track_caller]
fn assert_not_wrong(judged: &Judgement, right: VerdictKind, what: &str) {
    let kind = judged.verdict.kind();
    assert!(kind == right || kind == VerdictKind::Undecided, "{what}: {judged:?}");
}

const UNIT: Beltrami = Beltrami { dt: 1.0, dx: 1.0, delta: 0.01, lambda: 1.0 };

fn with_offset<F: Real>(offset: f64, overdrive: f64) -> Beltrami1d<F> {
    let parameters = Beltrami { dt: overdrive * UNIT.dt_sharp(1), ..UNIT };
    let signal = blocks_and_ramp(256, 0.05, 1);
    Beltrami1d::new(parameters, signal.iter().map(|value| F::of(value + offset)).collect())
}

#[test]
fn an_offset_that_swallows_the_rest_is_not_stability() {
    for (offset, overdrive, right) in [
        (293.0, 2.0, VerdictKind::Restrained),
        (2000.0, 10.0, VerdictKind::Restrained),
        (1e4, 10.0, VerdictKind::Restrained),
        (101_325.0, 100.0, VerdictKind::Restrained),
        (1e8, 1000.0, VerdictKind::Diverged),
    ] {
        let single = judged(with_offset::<f32>(offset, overdrive), 4000);
        assert_not_wrong(&single, right, &format!("f32, {offset}, {overdrive}"));
        let double = judged(with_offset::<f64>(offset, overdrive), 4000);
        assert_eq!(double.verdict.kind(), right, "f64, {offset}, {overdrive}: {double:?}");
    }
}

#[test]
fn an_offset_does_not_make_a_stable_run_unstable() {
    for offset in [0.0, 293.0, 1e4, 1e5, 1e8] {
        let single = judged(with_offset::<f32>(offset, 0.9), 4000);
        assert_not_wrong(&single, VerdictKind::Stable, &format!("f32, {offset}"));
        let double = judged(with_offset::<f64>(offset, 0.9), 4000);
        assert_not_wrong(&double, VerdictKind::Stable, &format!("f64, {offset}"));
    }
    assert_eq!(judged(with_offset::<f64>(0.0, 0.9), 4000).verdict.kind(), VerdictKind::Stable);
}

#[test]
fn an_image_of_eight_bits_is_not_called_stable_where_it_is_not() {
    let parameters = Beltrami { dt: 3.0 * UNIT.dt_sharp(2), ..UNIT };
    // With more noise no place is flat enough to be unstable.
    for noise in [0.0, 0.005, 0.01, 0.02] {
        let pixels = shapes(48, 48, noise, 1);
        let eight_bits = |value: &f64| (255.0 * value.clamp(0.0, 1.0)).round();
        let single = pixels.iter().map(|value| eight_bits(value) as f32).collect();
        let single = judged(Beltrami2d::new(parameters, 48, 48, single), 2000);
        assert_not_wrong(&single, VerdictKind::Restrained, &format!("f32, noise {noise}"));
        let double = pixels.iter().map(eight_bits).collect();
        let double = judged(Beltrami2d::new(parameters, 48, 48, double), 2000);
        assert_eq!(
            double.verdict.kind(),
            VerdictKind::Restrained,
            "f64, noise {noise}: {double:?}"
        );
    }
}

#[test]
fn a_hair_beyond_two_over_lambda_is_not_called_restrained() {
    for beyond in [1e-5, 1e-4, 1e-3] {
        let parameters = Beltrami { dt: 2.0 * (1.0 + beyond), ..UNIT };
        let signal = blocks_and_ramp(64, 0.05, 1);
        let single = signal.iter().map(|value| *value as f32).collect();
        let single = judged(Beltrami1d::new(parameters, single), 4000);
        assert_not_wrong(&single, VerdictKind::Diverged, &format!("f32, {beyond}"));
        let double = judged(Beltrami1d::new(parameters, signal), 4000);
        assert_not_wrong(&double, VerdictKind::Diverged, &format!("f64, {beyond}"));
    }
    let parameters = Beltrami { dt: 2.02, ..UNIT };
    let clear = judged(Beltrami1d::new(parameters, blocks_and_ramp(64, 0.05, 1)), 4000);
    assert_eq!(clear.verdict.kind(), VerdictKind::Diverged, "{clear:?}");
}

#[test]
fn a_flat_signal_a_hair_beyond_its_edge_is_not_called_stable() {
    let n = 50;
    let top = 4.0 * libm::cos(PI / (2.0 * n as f64)).powi(2);
    let edge = 2.0 / (1.0 + top / 0.01);
    for beyond in [1e-5, 1e-4, 1e-3, 1e-2] {
        let parameters = Beltrami { dt: (1.0 + beyond) * edge, ..UNIT };
        let judged = judged(Beltrami1d::new(parameters, vec![0.5; n]), 4000);
        assert_not_wrong(&judged, VerdictKind::Restrained, &format!("{beyond}"));
        assert!(beyond < 1e-2 || judged.verdict.kind() == VerdictKind::Restrained, "{judged:?}");
    }
}

#[test]
fn a_scheme_that_is_unstable_at_every_step_is_never_called_stable() {
    let scheme = textbook::advection_ftcs(1.0, 1.0);
    let start = [blocks_and_ramp(64, 0.01, 1)];
    for dt in [1e-3, 1e-2, 0.1, 1.0] {
        let judged = judged(Linear::new(&scheme, dt, 1, 64, &start), 2000);
        assert_not_wrong(&judged, VerdictKind::Diverged, &format!("dt = {dt}"));
        assert!(dt < 1.0 || judged.verdict.kind() == VerdictKind::Diverged, "{judged:?}");
    }
}

#[test]
fn the_exact_rate_lies_within_the_error_also_where_a_transient_lasts() {
    // Each mode of the heat equation grows by exactly |1 − 4r sin²(ω/2)|; the largest wins in the end.
    let highest = PI * 29.0 / 30.0;
    for r in [0.6, 0.7, 0.8] {
        let exact = libm::log(4.0 * r * libm::sin(highest / 2.0).powi(2) - 1.0);
        for steps in [28, 40, 64, 128] {
            let mut run = Heat::new(r, 1.0, 1.0, Ends::Dirichlet, triangle(31, 1.5));
            let Ok(judged) = judge(&mut run, Horizon::exactly(steps), &mut []);
            let growth = judged.growth;
            let error = (growth.per_step - exact).abs();
            assert!(error <= 3.0 * growth.standard_error, "{r}, {steps}: {exact}, {growth:?}");
            assert!(growth.standard_error < 0.1, "{r}, {steps}: {growth:?}");
        }
    }
}

/// `x ← A x`.
#[derive(Clone)]
struct Map {
    matrix: [[f64; 2]; 2],
    x: [f64; 2],
}

impl Dynamics for Map {
    type Scalar = f64;
    type Error = Infallible;

    fn dt(&self) -> f64 {
        1.0
    }

    fn state(&self) -> &[f64] {
        &self.x
    }

    fn load(&mut self, state: &[f64]) {
        self.x.copy_from_slice(state);
    }

    fn step(&mut self) -> Result<(), Infallible> {
        self.x = self.matrix.map(|row| row[0] * self.x[0] + row[1] * self.x[1]);
        Ok(())
    }
}

/// Random linear maps with a known spectral radius: eigenvalues on the diagonal, some coupling above.
fn judge_random_maps(cases: u64) {
    let mut undecided = 0;
    for case in 0..cases {
        let draw = Stream::new(case, 7);
        let radius = f64::exp(0.2 * draw.normal(0));
        let other = radius * draw.uniform(1);
        let matrix = [[radius * draw.sign(2), 2.0 * draw.normal(3)], [0.0, other]];
        let judged = judged(Map { matrix, x: [draw.normal(4), draw.normal(5)] }, 1000);
        match judged.verdict.kind() {
            VerdictKind::Undecided => undecided += 1,
            VerdictKind::Stable => {
                assert!(radius <= 1.0 + judged.resolution, "{matrix:?}: {judged:?}");
            }
            VerdictKind::Diverged | VerdictKind::Restrained => {
                assert!(radius > 1.0, "{matrix:?}: {judged:?}");
            }
        }
    }
    println!("{undecided} of {cases} random maps undecided");
    assert!(undecided * 20 <= cases, "{undecided} of {cases} undecided");
}

#[test]
fn random_maps_are_never_judged_against_their_spectral_radius() {
    judge_random_maps(400);
}

/// `cargo test --release -p lastbit --test mathematics -- --ignored --nocapture ten_thousand`
#[test]
#[ignore = "takes a minute"]
fn ten_thousand_random_maps_are_never_judged_against_their_spectral_radius() {
    judge_random_maps(10_000);
}

/// The loss of this network is a mean of 50,625 positions, and all of them round alike: at rest it rises by hundreds
/// of ulps at every second step, and the kernel jumps by 10⁴ roundings. The edge is 0.0323.
#[test]
fn a_network_at_rest_is_stable_although_its_sums_round() {
    let (side, window) = (256, 32);
    let image = checkerboard(side, side);
    let correlator = Correlator::new(&image, (side, side), (window, window), Edges::Valid);
    let activation = Activation::Swish { beta: 1.0 };
    let settings =
        Settings { activation, pooling: Pooling::Mean, label: 1.0, bias: 0.0, alpha: 20.0 };
    let network = OneLayer::new(settings, correlator);
    let kernel = normal(window * window, 1);
    // Beyond the edge the kernel is on a cycle that forgets the last bit.
    for (dt, expected) in [(0.03, Verdict::Stable), (0.034, Verdict::Restrained)] {
        let mut run =
            GradientDescent::full_batch(network.clone(), Optimizer::SGD, dt, kernel.clone());
        let Ok(found) = judge(&mut run, Horizon::exactly(400), &mut []);
        assert_eq!(found.verdict, expected, "{found:?}");
    }
}
