//! The noncentral t distribution, by which the power of a t-test is computed.
//!
//! ```text
//! T = (Z + δ)/S,   Z standard normal,  ν S² chi-square with ν degrees of freedom
//!
//! P(T ≤ t) = ∫ Φ(t s − δ) f(s) ds = Σ w(u) Φ(t eᵘ − δ) / Σ w(u),   w(u) = exp(ν(u − (e²ᵘ − 1)/2))
//! ```
//!
//! With `s = eᵘ` the density of S is `w` up to a constant, 1 at its top `u = 0` and of width
//! `1/√(2ν)`; Φ rises where `t eᵘ = δ`, within a width `1/δ`. The trapezoidal rule on an analytic
//! function that decays at both ends converges faster than any power of its step, once both widths
//! are resolved; weights are summed until they fall below 1e-18. Their sum stands for the constant,
//! so that no gamma function is needed.

use super::distributions::normal_cdf;

/// Steps to the width of the density. (A Gaussian needs 1.4 for sixteen digits, the exponential
/// tail of one degree of freedom 11 to a unit of `u`.)
const STEPS: f64 = 12.0;
/// Steps to the width of Φ, a Gaussian's integral.
const STEPS_OF_RISE: f64 = 2.0;
/// Weights below this one are left out.
const NEGLIGIBLE: f64 = 1e-18;

/// Share of the noncentral t distribution with `nu` degrees of freedom and noncentrality `delta`
/// below `t`.
pub fn noncentral_t_cdf(t: f64, nu: f64, delta: f64) -> f64 {
    // The weights end below eᵘ = 10: where δ is beyond, Φ is 0 or 1 in all of them.
    let rise = delta.abs().min(10.0 * t.abs() + 40.0);
    let step = 1.0 / (STEPS * (2.0 * nu).sqrt() + STEPS_OF_RISE * rise);
    let (mut sum, mut total) = (0.0, 0.0);
    for direction in [-1.0, 1.0] {
        let mut i = if direction > 0.0 { 0.0 } else { 1.0 };
        loop {
            let u = direction * i * step;
            let weight = libm::exp(nu * (u - libm::expm1(2.0 * u) / 2.0));
            if weight < NEGLIGIBLE {
                break;
            }
            total += weight;
            sum += weight * normal_cdf(t * libm::exp(u) - delta);
            i += 1.0;
        }
    }
    sum / total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::distributions::student_cdf;

    #[test]
    fn without_noncentrality_it_is_students() {
        for nu in [1.0, 2.0, 5.0, 18.0, 500.0] {
            for t in [-3.0, -0.5, 0.0, 1.0, 12.7] {
                let found = noncentral_t_cdf(t, nu, 0.0);
                // Sums of some thousand positive terms, each with a few roundings: their mean is
                // off by a few ε at most, and random signs keep a sum of them within 100 ε.
                assert!((found - student_cdf(t, nu)).abs() < 100.0 * f64::EPSILON, "{nu}, {t}");
            }
        }
    }

    #[test]
    fn a_steep_rise_is_resolved() {
        // One degree of freedom: S is the size of a normal variable, with the density 2φ(s). T > t
        // where S < (Z + δ)/t, so P(T > t) is the mean over Z of F((δ + Z)/t), F(s) = 2Φ(s) − 1:
        // F(s) + F″(s)/(2t²) + …  at s = δ/t, where F″ = −2sφ(s).
        let (t, delta) = (2000.0_f64, 2500.0_f64);
        let s = delta / t;
        let density = libm::exp(-s * s / 2.0) / (2.0 * std::f64::consts::PI).sqrt();
        let expected = 2.0 * normal_cdf(s) - 1.0 - 2.0 * s * density / (2.0 * t * t);
        // The next term is F⁗/(8t⁴), below 1e-13; sums of many terms are within 1e-13 too.
        let found = 1.0 - noncentral_t_cdf(t, 1.0, delta);
        assert!((found - expected).abs() < 2e-13, "{found} {expected}");
    }

    #[test]
    fn extremes_are_shares() {
        assert_eq!(noncentral_t_cdf(2.0, 5.0, f64::INFINITY), 0.0);
        assert!((noncentral_t_cdf(1e9, 5.0, 1.0) - 1.0).abs() < 1e-15);
    }
}
