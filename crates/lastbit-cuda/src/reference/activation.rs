//! Activations with their first two derivatives: `real.cu`, and `Curve` in `tangent.cu`.
//!
//! `1 − r²` of tanh and `1 − s` of the logistic function cancel where these saturate. The error of `r`
//! carries over to the slope, where it is many units in the last place:
//!
//! ```text
//! |δ(1 − r²)| ≤ 2 |r| δr + δr² + u r² + u (1 − r²),    |δ(s (1 − s))| ≤ s δ(1 − s) + (1 − s) δs + …
//! ```
//!
//! The operators of [`Bounded`] compute that, with `δr ≤ 8 u` by [`Arithmetic::tanh`]. The kernels compute
//! tanh always in double precision, the others in their own.

use super::bound::{Arithmetic, Bounded, U_DOUBLE};

/// `r, r', r''` at a number.
pub fn activation(kind: i32, beta: Bounded, n: Bounded, t: Arithmetic) -> [Bounded; 3] {
    let one = Bounded::ONE;
    let logistic = |x: Bounded| t.round(one / t.round(one + t.exp(-x)));
    match kind {
        0 => [n, one, Bounded::ZERO],
        1 if n.x <= 0.0 => [Bounded::ZERO; 3],
        1 => [n, one, Bounded::ZERO],
        2 => {
            let d = Arithmetic::of(U_DOUBLE);
            let r = Arithmetic::tanh(n);
            let rest = d.round(one - d.round(r * r));
            [r, rest, d.round(-Bounded::TWO * r * rest)].map(|x| t.round(x))
        }
        3 => {
            let s = logistic(n);
            let slope = t.round(s * t.round(one - s));
            [s, slope, t.round(slope * t.round(one - Bounded::TWO * s))]
        }
        4 => {
            let beta_n = t.round(beta * n);
            let s = logistic(beta_n);
            let rest = t.round(s * t.round(one - s));
            let slope = t.round(s + t.round(beta_n * rest));
            let bend = t.round(beta_n * t.round(one - Bounded::TWO * s));
            let curvature = t.round(t.round(beta * rest) * t.round(Bounded::TWO + bend));
            [t.round(n * s), slope, curvature]
        }
        other => panic!("activation {other}"),
    }
}

#[cfg(test)]
mod tests {
    use lastbit::Real;
    use lastbit::exp::exp;

    use super::*;
    use crate::reference::bound::exactly;

    /// The kernels' operations; tanh is in double precision.
    fn in_kernel<F: Real>(activation: i32, beta: F, n: F) -> [f64; 3] {
        let [one, two] = [1.0, 2.0].map(F::of);
        let s = one / (one + (-(if activation == 4 { beta * n } else { n })).exp());
        let rest = s * (one - s);
        let found = match activation {
            2 => {
                let n = n.to_f64();
                let q = exp(-2.0 * n.abs());
                let large = ((1.0 - q) / (1.0 + q)).copysign(n);
                let r = if n.abs() < 1e-4 { n - n * n * n / 3.0 } else { large };
                let rest = 1.0 - r * r;
                [r, rest, -2.0 * r * rest].map(F::of)
            }
            3 => [s, rest, rest * (one - two * s)],
            _ => {
                let curvature = beta * rest * (two + beta * n * (one - two * s));
                [n * s, s + beta * n * rest, curvature]
            }
        };
        found.map(F::to_f64)
    }

    /// Formulas in which nothing cancels at saturation: `sech²` and `s(n) s(−n)`.
    fn exact(activation: i32, beta: f64, n: f64) -> [f64; 3] {
        let s = |x: f64| 1.0 / (1.0 + libm::exp(-x));
        let x = if activation == 4 { beta * n } else { n };
        let (rest, bend) = (s(x) * s(-x), -libm::tanh(x / 2.0));
        match activation {
            2 => {
                let (r, q) = (libm::tanh(n), libm::exp(-2.0 * n.abs()));
                let rest = 4.0 * q / ((1.0 + q) * (1.0 + q));
                [r, rest, -2.0 * r * rest]
            }
            3 => [s(x), rest, rest * bend],
            _ => [n * s(x), s(x) + x * rest, beta * rest * (2.0 + x * bend)],
        }
    }

    /// From −40 to 40 and close to zero. A bound is useful if the errors come close to it.
    #[test]
    fn bounds_hold_where_activations_saturate() {
        let (beta, steps) = (1.25_f32, 400_000);
        let single = Arithmetic::of(f64::from(f32::EPSILON) / 2.0);
        for activation in [2, 3, 4] {
            let mut worst = [[0.0_f64; 3]; 3];
            for step in 0..=steps {
                let part = f64::from(step) / f64::from(steps) * 2.0 - 1.0;
                for n in [40.0 * part, 3e-4 * part].map(|n| n as f32) {
                    let (wide, wide_beta) = (f64::from(n), f64::from(beta));
                    let near =
                        |t| super::activation(activation, exactly(wide_beta), exactly(wide), t);
                    let [of_double, of_single] = [near(Arithmetic::of(U_DOUBLE)), near(single)];
                    let all = [
                        (in_kernel(activation, wide_beta, wide), of_double),
                        (exact(activation, wide_beta, wide), of_double),
                        (in_kernel(activation, beta, n), of_single),
                    ];
                    for (worst, (found, expected)) in worst.iter_mut().zip(all) {
                        for k in 0..3 {
                            let (error, bound) = ((found[k] - expected[k].x).abs(), expected[k].e);
                            assert!(
                                error <= bound,
                                "{activation} at {n}, derivative {k}: {:e}, expected {:e} within {bound:e}",
                                found[k],
                                expected[k].x
                            );
                            worst[k] =
                                if error > 0.0 { worst[k].max(error / bound) } else { worst[k] };
                        }
                    }
                }
            }
            // The exact formulas are closer to the reference than the kernels are.
            let of_kernels = [worst[0], worst[2]];
            assert!(of_kernels.as_flattened().iter().all(|share| *share > 0.1), "{worst:?}");
        }
    }
}
