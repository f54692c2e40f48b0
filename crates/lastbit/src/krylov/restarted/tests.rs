use super::*;
use crate::fixed_seed;
use crate::krylov::lanczos::laplacian;
use crate::krylov::{self, block, infallible};
use crate::reduce::{norm, sum_by};
use proptest::prelude::*;

const TIGHT: EigenOptions =
    EigenOptions { top: 3, smallest: true, tolerance: 1e-10, max_matvecs: 1000, probe: Some(0) };
const ONE: EigenOptions =
    EigenOptions { top: 1, smallest: false, tolerance: 1e-3, max_matvecs: 100, probe: Some(0) };

fn eigenpairs(
    n: usize,
    known: &[Vec<f64>],
    draw: u64,
    options: EigenOptions,
    multiply: impl FnMut(&[f64], &mut [f64]),
) -> EigenResult {
    let options = EigenOptions { probe: Some(draw), ..options };
    let Ok(found) =
        krylov::eigenpairs(&vec![0.0; n], known.to_vec(), options, infallible(multiply));
    found
}

/// A symmetric operator with this spectrum: a diagonal between two reflections.
fn with_spectrum(spectrum: &[f64]) -> impl Fn(&[f64], &mut [f64]) + use<> {
    let spectrum = spectrum.to_vec();
    let n = spectrum.len();
    let stream = Stream::new(5, 5);
    let mut axis: Vec<f64> = (0..n as u64).map(|i| stream.normal(i)).collect();
    let size = norm(&axis);
    axis.iter_mut().for_each(|x| *x /= size);
    move |v, out| {
        let reflect = |x: &mut [f64]| {
            let twice = 2.0 * sum_by(n, |i| x[i] * axis[i]);
            x.iter_mut().zip(&axis).for_each(|(x, a)| *x -= twice * a);
        };
        out.copy_from_slice(v);
        reflect(out);
        out.iter_mut().zip(&spectrum).for_each(|(x, value)| *x *= value);
        reflect(out);
    }
}

/// Values found are those of the spectrum, with residuals that hold.
fn check(
    found: &EigenResult,
    spectrum: &[f64],
    options: EigenOptions,
    multiply: impl Fn(&[f64], &mut [f64]),
) {
    let n = spectrum.len();
    let mut exact = spectrum.to_vec();
    exact.sort_by(|a, b| b.total_cmp(a));
    let scale = exact[0].abs().max(exact[n - 1].abs());
    assert_eq!(found.largest.len(), options.top.min(n));
    let expected = exact.iter().take(options.top).chain(options.smallest.then(|| &exact[n - 1]));
    for (pair, expected) in found.largest.iter().chain(&found.smallest).zip(expected) {
        let off = (pair.value - expected).abs();
        // A residual bounds the distance; a few roundings of the products come on top.
        assert!(off <= pair.residual + 1e-13 * scale, "{} {expected}", pair.value);
        assert!(pair.residual <= options.tolerance * scale, "{:e}", pair.residual);
        let mut image = vec![0.0; n];
        multiply(&pair.vector, &mut image);
        let off: Vec<f64> = (0..n).map(|i| image[i] - pair.value * pair.vector[i]).collect();
        assert!((norm(&off) - pair.residual).abs() <= 1e-12 * scale, "a residual that is none");
    }
}

proptest! {
    #![proptest_config(fixed_seed())]

    #[test]
    fn any_spectrum(
        spectrum in prop::collection::vec(-1.0..1.0_f64, 1..90),
        top in 1..6_usize,
        smallest: bool,
        scale in -30..30_i32,
    ) {
        let spectrum: Vec<f64> = spectrum.iter().map(|x| x * f64::powi(10.0, scale)).collect();
        let options = EigenOptions { top, smallest, ..TIGHT };
        let multiply = with_spectrum(&spectrum);
        let found = eigenpairs(spectrum.len(), &[], 0, options, &multiply);
        check(&found, &spectrum, options, &multiply);
        let again = eigenpairs(spectrum.len(), &found.into_vectors(), 1, options, &multiply);
        check(&again, &spectrum, options, &multiply);
    }

    #[test]
    fn multiple_eigenvalues_come_as_often_as_they_are(
        values in prop::collection::vec(-1.0..1.0_f64, 1..4),
        times in prop::collection::vec(1..6_usize, 4),
        zeros in 0..60_usize,
    ) {
        let repeated = values.iter().zip(&times).flat_map(|(v, times)| vec![*v; *times]);
        let spectrum: Vec<f64> = repeated.chain(vec![0.0; zeros]).collect();
        let multiply = with_spectrum(&spectrum);
        let found = eigenpairs(spectrum.len(), &[], 0, TIGHT, &multiply);
        check(&found, &spectrum, TIGHT, &multiply);
    }
}

/// Three that stand out above a bulk, as Hessians of networks have them.
fn outliers(n: usize, top: [f64; 3]) -> Vec<f64> {
    let bulk = Stream::new(1, 1);
    top.into_iter().chain((3..n as u64).map(|i| 0.02 * bulk.uniform(i) - 0.01)).collect()
}

#[test]
fn work_of_cold_and_warm_starts() {
    let options = ONE;
    let spectrum = outliers(10_000, [1.0, 0.8, 0.7]);
    let cold = eigenpairs(10_000, &[], 0, options, with_spectrum(&spectrum));
    check(&cold, &spectrum, options, with_spectrum(&spectrum));
    // Two known vectors, and a probe.
    let warm =
        eigenpairs(10_000, &cold.clone().into_vectors(), 1, options, with_spectrum(&spectrum));
    assert_eq!((cold.matvecs, warm.matvecs), (9, 5));
}

#[test]
fn an_eigenvalue_that_has_overtaken_from_afar_is_found() {
    // Known are the largest and the guard before; a third is the largest now.
    let options = ONE;
    let (before, now) = (outliers(10_000, [1.0, 0.8, 0.0]), outliers(10_000, [1.0, 0.8, 1.3]));
    let known = eigenpairs(10_000, &[], 0, options, with_spectrum(&before));
    let found = eigenpairs(10_000, &known.clone().into_vectors(), 1, options, with_spectrum(&now));
    check(&found, &now, options, with_spectrum(&now));
    // Of the first vector alone, without guard, which now belongs to the smallest eigenvalue.
    let now = outliers(10_000, [-1.0, 0.8, 0.0]);
    let known = vec![known.largest[0].vector.clone()];
    let found = eigenpairs(10_000, &known, 1, options, with_spectrum(&now));
    check(&found, &now, options, with_spectrum(&now));
}

#[test]
fn a_slow_spectrum_needs_restarts_and_gets_there() {
    // Second differences: the gap at the top is 3e-4 of the largest eigenvalue.
    let n = 200;
    let sine = |j: usize| libm::sin(std::f64::consts::PI * j as f64 / (2 * (n + 1)) as f64);
    let spectrum: Vec<f64> = (1..=n).map(|j| 4.0 * sine(j) * sine(j)).collect();
    for smallest in [false, true] {
        let options = EigenOptions { smallest, ..TIGHT };
        let found = eigenpairs(n, &[], 0, options, laplacian);
        check(&found, &spectrum, options, laplacian);
        assert!(found.matvecs > ROOM, "{} products: no restart", found.matvecs);
    }
}

#[test]
fn blocks_see_their_part_of_the_operator() {
    // [[2, 1, 0], [1, 2, 1], [0, 1, 2]]: the last two coordinates have the eigenvalues 3 and 1.
    let multiply = |v: &[f64], out: &mut [f64]| {
        out.copy_from_slice(&[2.0 * v[0] + v[1], v[0] + 2.0 * v[1] + v[2], v[1] + 2.0 * v[2]]);
    };
    let multiply = block(3, 1..3, infallible(multiply));
    let Ok(found) = krylov::eigenpairs(&vec![0.0; 2], vec![], TIGHT, multiply);
    let values: Vec<f64> = found.largest.iter().map(|pair| pair.value).collect();
    assert!((values[0] - 3.0).abs() < 1e-14 && (values[1] - 1.0).abs() < 1e-14, "{values:?}");
}

#[test]
fn an_operator_that_overflows_gives_no_number_and_nothing_to_start_from() {
    let found = eigenpairs(9, &[], 0, TIGHT, |_, out| out.fill(f64::INFINITY));
    assert!(found.largest.iter().all(|pair| pair.value.is_nan() && pair.residual.is_nan()));
    assert!(found.into_vectors().is_empty());
}

#[test]
fn an_operator_of_zeros_has_zeros() {
    let found = eigenpairs(50, &[], 0, TIGHT, |_, out| out.fill(0.0));
    assert!(found.largest.iter().all(|pair| pair.value == 0.0 && pair.residual == 0.0));
}

#[test]
fn residuals_hold_for_an_operator_that_is_not_quite_symmetric() {
    // As products in single precision are: a part u wᵀ of 1e-7.
    let n = 300;
    let spectrum = outliers(n, [1.0, 0.8, 0.7]);
    let symmetric = with_spectrum(&spectrum);
    let [u, w] = [7, 8].map(|seed| {
        let stream = Stream::new(seed, 0);
        let x: Vec<f64> = (0..n as u64).map(|i| stream.normal(i)).collect();
        let size = norm(&x);
        x.into_iter().map(|x| x / size).collect::<Vec<f64>>()
    });
    let multiply = |v: &[f64], out: &mut [f64]| {
        symmetric(v, out);
        let along = 1e-7 * sum_by(n, |i| w[i] * v[i]);
        out.iter_mut().zip(&u).for_each(|(out, u)| *out += along * u);
    };
    let found = eigenpairs(n, &[], 0, EigenOptions { tolerance: 1e-6, ..TIGHT }, multiply);
    for pair in found.largest.iter().chain(&found.smallest) {
        let mut image = vec![0.0; n];
        multiply(&pair.vector, &mut image);
        let off: Vec<f64> = (0..n).map(|i| image[i] - pair.value * pair.vector[i]).collect();
        // Some hundred roundings of numbers below 1; above it, what restarts lose of the part that is not symmetric.
        let above = pair.residual - norm(&off);
        assert!((-1e-13..1e-7).contains(&above), "{:e} {:e}", norm(&off), pair.residual);
        assert!(pair.residual <= 1e-6);
    }
}
