//! Limits of layers in closed form, against dense eigenvalues, and the bits where they do not bind.

use super::*;
use crate::krylov::symmetric;
use crate::optim::direction::Optimizer;
use crate::optim::method::Method;
use crate::optim::perturbation::Perturbation;
use crate::reduce::sum_by;
use crate::rng::Stream;

const SAFETY: f64 = 0.9;
const METHOD: Method = Method::Cfl { every: 1, safety: SAFETY, by_layer: true };

/// All of a network of `n` parameters as one layer.
fn one_layer(n: usize) -> Vec<Range<usize>> {
    std::iter::once(0..n).collect()
}

fn multiply(h: &[Vec<f64>], v: &[f64]) -> Vec<f64> {
    h.iter().map(|row| sum_by(v.len(), |i| row[i] * v[i])).collect()
}

/// The memory after so many products with a Hessian that stays.
fn followed(h: &[Vec<f64>], layers: &[Range<usize>], products: usize) -> Memory<f64> {
    let n = h.len();
    let mut memory = Memory { steps: 0, values: vec![0.0; 2 * n] };
    let stream = Stream::new(3, n as u64);
    let gradient: Vec<f64> = (0..n as u64).map(|i| stream.normal(i)).collect();
    for _ in 0..products {
        let product = multiply(h, directions(layers, &mut memory, &gradient));
        follow(layers, &mut memory, &product);
    }
    memory
}

/// Largest eigenvalue of `D^{1/2} H D^{1/2}` with the limits as steps.
fn sharpness_of_steps(h: &[Vec<f64>], memory: &Memory<f64>) -> f64 {
    let n = h.len();
    // A nominal step so large that every limit binds.
    let root: Vec<f64> =
        memory.values[n..].iter().map(|s| (1e9 * factor(*s, 0.0, 1e9, SAFETY)).sqrt()).collect();
    let scaled: Vec<Vec<f64>> =
        (0..n).map(|i| (0..n).map(|j| root[i] * h[i][j] * root[j]).collect()).collect();
    symmetric::eigenpairs(&scaled)[0].0
}

#[test]
fn layers_coupled_with_full_strength_share_one_limit() {
    // H = h hᵀ with layers of one parameter: λ_l = |h_l| Σ |h_m|, and Σ h_l²/λ_l = 1.
    let h = [10.0, -1.0, 0.5, 3.0];
    let matrix: Vec<Vec<f64>> = h.iter().map(|a| h.iter().map(|b| a * b).collect()).collect();
    let layers: Vec<Range<usize>> = (0..4).map(|i| i..i + 1).collect();
    let memory = followed(&matrix, &layers, 5);
    for (found, h) in memory.values[4..].iter().zip(h) {
        // Four products and sums.
        assert!((found - h.abs() * 14.5).abs() < 1e-13 * found, "{found}");
    }
    let together = sharpness_of_steps(&matrix, &memory);
    assert!((together - 2.0 * SAFETY).abs() < 1e-12, "{together}");
    // The blocks by themselves, h_l², would give every layer a limit at which all four are
    // together four times over theirs.
}

#[test]
fn one_layer_is_the_power_method() {
    let matrix = vec![vec![2.0, 1.0], vec![1.0, 2.0]];
    let memory = followed(&matrix, &one_layer(2), 60);
    // Eigenvalues 3 and 1: an error of (1/3)^60.
    assert!((memory.values[2] - 3.0).abs() < 1e-14 && memory.values[2] == memory.values[3]);
}

/// `GᵀG` with entries of `G` normal and layers of different size and strength.
fn coupled(seed: u64) -> (Vec<Vec<f64>>, Vec<Range<usize>>) {
    let layers = vec![0..6, 6..8, 8..20, 20..25];
    let strength = |i: usize| match layers.iter().position(|layer| layer.contains(&i)) {
        Some(0) => 3.0,
        Some(1) => 0.1,
        _ => 1.0,
    };
    let (n, rows) = (25, 5);
    let stream = Stream::new(seed, 0);
    let g = |r: usize, i: usize| strength(i) * stream.normal((r * n + i) as u64);
    let entry = |i: usize, j: usize| sum_by(rows, |r| g(r, i) * g(r, j));
    ((0..n).map(|i| (0..n).map(|j| entry(i, j)).collect()).collect(), layers)
}

#[test]
fn the_limits_solve_their_equation_and_no_direction_crosses_two() {
    let mut exact = 0;
    for seed in 0..20 {
        let (h, layers) = coupled(seed);
        let memory = followed(&h, &layers, 400);
        let (v, sharpness) = memory.values.split_at(25);
        let product = multiply(&h, v);
        for i in 0..25 {
            // 400 products leave an error of the ratio of two eigenvalues to that power.
            let error = (product[i] - sharpness[i] * v[i]).abs();
            assert!(error < 1e-6 * sharpness[i], "seed {seed}: {error}");
        }
        let together = sharpness_of_steps(&h, &memory);
        // 2c is an eigenvalue; another may lie above it, which is what the safety is for.
        assert!(together > 2.0 * SAFETY * (1.0 - 1e-6), "seed {seed}: {together}");
        assert!(together < 2.0, "seed {seed}: {together}");
        exact += usize::from(together < 2.0 * SAFETY * (1.0 + 1e-6));
    }
    assert!(exact >= 18, "the largest in {exact} of 20");
}

#[test]
fn a_layer_is_shortened_only_as_far_as_it_must() {
    // Curvatures 100 and 1, uncoupled, at a step that the second permits.
    let h = vec![vec![100.0, 0.0], vec![0.0, 1.0]];
    let layers = [0..1, 1..2];
    let optimizer = Optimizer { method: METHOD, alpha: 0.0 };
    let mut theta = [1.0, 1.0];
    let mut memory = optimizer.at_rest(&theta);
    for step in 0..50 {
        let mut g = multiply(&h, &theta);
        for _ in 0..optimizer.products(&memory) {
            let product = multiply(&h, directions(&layers, &mut memory, &g));
            follow(&layers, &mut memory, &product);
        }
        optimizer.step(&mut theta, &mut g, &mut memory, 0.5, Perturbation::NONE);
        // 1 − 0.018 x 100 and 1 − 0.5.
        let expected = [-0.8_f64, 0.5].map(|x| x.powi(step + 1));
        for (found, expected) in theta.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-13, "step {step}: {found} {expected}");
        }
    }
}

#[test]
fn where_no_limit_binds_the_bits_are_those_of_gradient_descent() {
    fn check<F: Real>() {
        let (h, layers) = coupled(1);
        let stream = Stream::new(8, 0);
        let start: Vec<F> = (0..25).map(|i| F::of(stream.normal(i))).collect();
        let run = |method: Method, dt: f64| {
            let optimizer = Optimizer { method, alpha: 1e-3 };
            let (mut theta, mut memory) = (start.clone(), optimizer.at_rest(&start));
            for _ in 0..30 {
                let product = |v: &[F]| -> Vec<F> {
                    let v: Vec<f64> = v.iter().map(|x| x.to_f64()).collect();
                    multiply(&h, &v).into_iter().map(F::of).collect()
                };
                let mut g = product(&theta);
                for _ in 0..optimizer.products(&memory) {
                    let product = product(directions(&layers, &mut memory, &g));
                    follow(&layers, &mut memory, &product);
                }
                optimizer.step(&mut theta, &mut g, &mut memory, dt, Perturbation::NONE);
            }
            theta
        };
        assert_eq!(run(METHOD, 1e-4), run(Method::Sgd, 1e-4), "{}", F::NAME);
        assert_ne!(run(METHOD, 1.0), run(Method::Sgd, 1.0), "{}", F::NAME);
    }
    check::<f32>();
    check::<f64>();
}

#[test]
fn a_product_that_is_no_number_leaves_what_is_known() {
    let mut memory = Memory { steps: 1, values: vec![1.0_f64, 0.0, 5.0, 5.0] };
    follow(&one_layer(2), &mut memory, &[f64::NAN, 1.0]);
    assert_eq!(memory.values, [1.0, 0.0, 5.0, 5.0]);
    follow(&one_layer(2), &mut memory, &[0.0, 0.0]);
    assert_eq!(memory.values, [1.0, 0.0, 4.5, 4.5], "a tenth is forgotten");
}

#[test]
fn products_are_dense_at_first_and_then_as_told() {
    let due: Vec<u64> = (0..60).filter(|steps| is_due(*steps, 4)).collect();
    let mut expected: Vec<u64> = (0..16).collect();
    expected.extend([16, 18, 20, 22, 24, 27, 30]);
    expected.extend((32..60).step_by(4));
    assert_eq!(due, expected);
    assert!((0..50).all(|steps| is_due(steps, 1)));
}
