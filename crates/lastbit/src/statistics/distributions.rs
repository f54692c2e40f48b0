//! Normal, chi-square, Student's t and F: shares below a value, and the values below which a share
//! lies.
//!
//! ```text
//! normal       Φ(x)  = erfc(−x/√2)/2
//! chi-square   P(X ≤ x) = P(ν/2, x/2)
//! Student      P(T > t) = I_{ν/(ν+t²)}(ν/2, 1/2)/2,   t ≥ 0
//! F            P(X ≤ x) = I_{m x/(m x + n)}(m/2, n/2)
//! ```
//!
//! Quantiles are found by bisection of the smaller tail, down to neighbouring floats.

use std::f64::consts::FRAC_1_SQRT_2;

use super::special::{beta, first, gamma};

fn assert_share(p: f64) {
    assert!(0.0 < p && p < 1.0, "a quantile of a share in (0, 1), found {p}");
}

/// Share of the standard normal distribution below `x`.
pub fn normal_cdf(x: f64) -> f64 {
    libm::erfc(-x * FRAC_1_SQRT_2) / 2.0
}

/// Value below which the share `p` of the standard normal distribution lies; infinite at 0 and 1.
pub fn normal_quantile(p: f64) -> f64 {
    let distance = |tail: f64| first(|x| tail > 0.0 && normal_cdf(-x) <= tail);
    if p <= 0.5 { -distance(p) } else { distance(1.0 - p) }
}

/// Value below which the share `p` of the chi-square distribution with `nu` degrees of freedom lies.
///
/// # Panics
///
/// Unless `0 < p < 1`.
pub fn chi_square_quantile(p: f64, nu: f64) -> f64 {
    assert_share(p);
    if p <= 0.5 {
        first(|x| gamma(nu / 2.0, x / 2.0)[0] >= p)
    } else {
        first(|x| gamma(nu / 2.0, x / 2.0)[1] <= 1.0 - p)
    }
}

/// Share of Student's distribution with `nu` degrees of freedom above `|t|`.
fn student_tail(t: f64, nu: f64) -> f64 {
    let square = t * t;
    if square.is_infinite() {
        return 0.0;
    }
    beta(nu / 2.0, 0.5, nu / (nu + square), 1.0 / (1.0 + nu / square))[0] / 2.0
}

/// Share of Student's distribution with `nu` degrees of freedom below `t`.
pub fn student_cdf(t: f64, nu: f64) -> f64 {
    if t <= 0.0 { student_tail(t, nu) } else { 1.0 - student_tail(t, nu) }
}

/// Value below which the share `p` of Student's distribution with `nu` degrees of freedom lies.
///
/// # Panics
///
/// Unless `0 < p < 1`.
pub fn student_quantile(p: f64, nu: f64) -> f64 {
    assert_share(p);
    let distance = |tail: f64| first(|t| student_tail(t, nu) <= tail);
    if p <= 0.5 { -distance(p) } else { distance(1.0 - p) }
}

/// Value below which the share `p` of the F distribution with `m` and `n` degrees of freedom lies.
///
/// # Panics
///
/// Unless `0 < p < 1`.
pub fn f_quantile(p: f64, m: f64, n: f64) -> f64 {
    assert_share(p);
    let tails = |x: f64| {
        let ratio = n / (m * x);
        beta(m / 2.0, n / 2.0, 1.0 / (1.0 + ratio), 1.0 / (1.0 + 1.0 / ratio))
    };
    if p <= 0.5 { first(|x| tails(x)[0] >= p) } else { first(|x| tails(x)[1] <= 1.0 - p) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_lies_beyond_infinity() {
        for t in [1e200, f64::INFINITY] {
            assert_eq!((student_cdf(-t, 7.0), student_cdf(t, 7.0)), (0.0, 1.0));
        }
        assert!(student_cdf(f64::NAN, 7.0).is_nan());
    }

    #[test]
    fn closed_forms() {
        assert_eq!((normal_cdf(0.0), normal_quantile(0.5)), (0.5, 0.0));
        assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(normal_quantile(1.0), f64::INFINITY);
        for p in [1e-6_f64, 0.1, 0.4] {
            // Cauchy's, and that of two degrees of freedom. Tolerances: the tail has a relative
            // error of a few ε, and t moves by at most as much relatively in Cauchy's tail, by
            // half of it in the other.
            let cauchy = -1.0 / libm::tan(std::f64::consts::PI * p);
            assert!((student_quantile(p, 1.0) / cauchy - 1.0).abs() < 1e-13);
            let two = (2.0 * p - 1.0) / (2.0 * p * (1.0 - p)).sqrt();
            assert!((student_quantile(p, 2.0) / two - 1.0).abs() < 1e-13);
            // An exponential of mean 2.
            let exponential = -2.0 * libm::log1p(-p);
            assert!((chi_square_quantile(p, 2.0) / exponential - 1.0).abs() < 1e-13);
            // The square of Student's t is F with 1 and ν degrees of freedom.
            let t = student_quantile(1.0 - p / 2.0, 7.0);
            // 1 − p/2 is rounded: an error of ε/p in the tail.
            let tolerance = 1e-13 + 4.0 * f64::EPSILON / p;
            assert!((f_quantile(1.0 - p, 1.0, 7.0) / (t * t) - 1.0).abs() < tolerance, "{p}");
        }
    }

    #[test]
    fn a_share_and_its_quantile_belong_together() {
        for nu in [1.0, 5.0, 30.0, 2000.0] {
            for p in [0.001, 0.025, 0.5, 0.975, 0.999] {
                // Both directions use one function, whose relative error is about ε ln Γ(ν):
                // below 1e-11 here; bisection adds a rounding.
                assert!((student_cdf(student_quantile(p, nu), nu) - p).abs() < 1e-14);
                assert!((normal_cdf(normal_quantile(p)) - p).abs() < 1e-15);
            }
        }
    }
}
