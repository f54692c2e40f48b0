//! Roots of small complex polynomials.
//!
//! Coefficients stand in ascending order: `p(z) = a₀ + a₁ z + … + a_d z^d`.
//!
//! [`roots`] is for looking at: near a double root it is accurate to `√u` only. Whether roots lie in
//! the unit disk is decided without forming them ([`certified`](super::certified)). Only `+ − × ÷ √`
//! are used (start values apart), so the bits are the same everywhere; a dense eigenvalue routine would
//! not give that.

use num_complex::Complex64;

const ZERO: Complex64 = Complex64::new(0.0, 0.0);

fn modulus(z: Complex64) -> f64 {
    z.norm_sqr().sqrt()
}

/// The root with non-negative real part.
fn square_root(z: Complex64) -> Complex64 {
    let r = modulus(z);
    let re = ((r + z.re.abs()) / 2.0).sqrt();
    if re == 0.0 {
        return ZERO;
    }
    let im = z.im / (2.0 * re);
    if z.re >= 0.0 {
        Complex64::new(re, im)
    } else {
        Complex64::new(im.abs(), if z.im < 0.0 { -re } else { re })
    }
}

fn evaluate(coefficients: &[Complex64], z: Complex64) -> (Complex64, Complex64) {
    coefficients
        .iter()
        .rev()
        .fold((ZERO, ZERO), |(value, slope), a| (value * z + a, slope * z + value))
}

/// All roots, in no particular order. Leading zeros are dropped: a root at infinity is not listed.
pub fn roots(coefficients: &[Complex64]) -> Vec<Complex64> {
    let degree = coefficients.iter().rposition(|a| *a != ZERO).unwrap_or(0);
    let low = coefficients.iter().position(|a| *a != ZERO).unwrap_or(0);
    let mut found = vec![ZERO; low.min(degree)];
    let rest = &coefficients[low..=degree];
    found.extend(match rest {
        [] | [_] => vec![],
        [c, b] => vec![-c / b],
        [c, b, a] => quadratic(*c, *b, *a),
        _ => aberth(rest),
    });
    found
}

/// Both roots of `a z² + b z + c`, the larger by the sum that does not cancel.
fn quadratic(c: Complex64, b: Complex64, a: Complex64) -> Vec<Complex64> {
    let root = square_root(b * b - 4.0 * a * c);
    let (plus, minus) = (b + root, b - root);
    let larger = if plus.norm_sqr() >= minus.norm_sqr() { plus } else { minus };
    let q = -0.5 * larger;
    if q == ZERO { vec![ZERO, ZERO] } else { vec![q / a, c / q] }
}

/// Ehrlich-Aberth iteration: Newton's step for each root, corrected by the others.
fn aberth(coefficients: &[Complex64]) -> Vec<Complex64> {
    let degree = coefficients.len() - 1;
    let lead = modulus(coefficients[degree]);
    let largest = coefficients[..degree].iter().map(|a| modulus(*a) / lead).fold(0.0, f64::max);
    // Cauchy: every root lies within 1 + largest. The start circle is smaller and off the axis,
    // so that no symmetry of the polynomial can hold the iteration up.
    let radius = (1.0 + largest) / 2.0;
    let mut z: Vec<Complex64> = (0..degree)
        .map(|j| {
            let angle = std::f64::consts::TAU * (j as f64 + 0.3) / degree as f64 + 0.5;
            Complex64::new(radius * libm::cos(angle), radius * libm::sin(angle))
        })
        .collect();
    for _ in 0..200 {
        let mut moved = 0.0_f64;
        for j in 0..degree {
            let (value, slope) = evaluate(coefficients, z[j]);
            if value == ZERO {
                continue;
            }
            let newton = value / slope;
            let repulsion: Complex64 =
                (0..degree).filter(|k| *k != j).map(|k| 1.0 / (z[j] - z[k])).sum();
            let step = newton / (1.0 - newton * repulsion);
            if step.re.is_finite() && step.im.is_finite() {
                z[j] -= step;
                moved = moved.max(modulus(step) / modulus(z[j]).max(f64::MIN_POSITIVE));
            }
        }
        if moved < 4.0 * f64::EPSILON {
            break;
        }
    }
    z
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn expand(roots: &[Complex64]) -> Vec<Complex64> {
        let mut p = vec![Complex64::new(1.0, 0.0)];
        for root in roots {
            let mut product = vec![ZERO; p.len() + 1];
            for (j, a) in p.iter().enumerate() {
                product[j + 1] += a;
                product[j] -= root * a;
            }
            p = product;
        }
        p
    }

    fn distance_to_nearest(z: Complex64, all: &[Complex64]) -> f64 {
        all.iter().map(|w| modulus(z - w)).fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn roots_of_unity_at_every_degree() {
        for degree in 1..=8 {
            let mut p = vec![ZERO; degree + 1];
            (p[0], p[degree]) = (Complex64::new(-1.0, 0.0), Complex64::new(1.0, 0.0));
            let found = roots(&p);
            assert_eq!(found.len(), degree);
            for z in found {
                // A simple root of a polynomial of slope `degree` there: a few roundings.
                assert!((modulus(z) - 1.0).abs() < 1e-14, "degree {degree}: {z}");
                assert!(modulus(evaluate(&p, z).0) < 1e-13, "degree {degree}: {z}");
            }
        }
    }

    #[test]
    fn square_roots_on_all_sides() {
        for (re, im) in [(4.0, 0.0), (-4.0, 0.0), (3.0, 4.0), (-3.0, 4.0), (-3.0, -4.0), (0.0, 2.0)]
        {
            let z = Complex64::new(re, im);
            let w = square_root(z);
            assert!(modulus(w * w - z) < 1e-15 * modulus(z), "{z} -> {w}");
            assert!(w.re >= 0.0);
        }
    }

    proptest! {
        #![proptest_config(crate::fixed_seed())]

        #[test]
        fn roots_of_a_product_are_its_factors(
            parts in prop::collection::vec((-2.0..2.0_f64, -2.0..2.0_f64), 1..6)
        ) {
            let expected: Vec<Complex64> =
                parts.iter().map(|(re, im)| Complex64::new(*re, *im)).collect();
            let found = roots(&expand(&expected));
            prop_assert_eq!(found.len(), expected.len());
            for z in &expected {
                // Five roots within 2: a cluster of m roots is lost to u^(1/m), and coefficients
                // reach 4⁵; u^(1/5) · 4 is 3e-3.
                prop_assert!(distance_to_nearest(*z, &found) < 3e-3, "{} not in {:?}", z, found);
            }
        }
    }

    #[test]
    fn a_root_at_infinity_is_not_listed() {
        let p = [1.0, 0.0].map(|a| Complex64::new(a, 0.0));
        assert!(roots(&p).is_empty());
    }
}
