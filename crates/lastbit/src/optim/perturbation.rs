//! The last-bit perturbation: a factor that cancels in exact arithmetic and not in floats.
//!
//! ```text
//! paper      θ ← fl( θ − fl( fl(dt/k) · fl(k g) ) )
//! released   θ ← fl( θ − fl( fl(dt k) · fl(g/k) ) )       the authors' code
//! ```
//!
//! Four roundings in this order, no fused multiply-add. For `k` a power of two all but the last two
//! are exact (short of under- and overflow), and the result has the bits of `k = 1`.
//!
//! Reference: the paper, Section 4.1.

use crate::Real;
use crate::simd::vectorized;

crate::named_enum! {
    /// Where `k` stands.
    pub enum Form, default Paper {
        /// `(dt/k)(k g)`, as printed.
        Paper = "paper",
        /// `(dt k)(g/k)`, as in the authors' code.
        Released = "released",
    }
}

/// A perturbation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Perturbation {
    /// The factor; 1 perturbs nothing.
    pub k: f64,
    /// Where it stands.
    pub form: Form,
}

impl Perturbation {
    /// The unperturbed step.
    pub const NONE: Self = Self { k: 1.0, form: Form::Paper };

    /// `θ ← θ − dt g`, rounded as the module doc says.
    pub fn step<F: Real>(self, theta: &mut [F], g: &[F], dt: f64) {
        let (k, dt) = (F::of(self.k), F::of(dt));
        match self.form {
            Form::Paper => {
                let rate = dt / k;
                vectorized(
                    #[inline(always)]
                    move || theta.iter_mut().zip(g).for_each(|(t, g)| *t -= rate * (k * *g)),
                );
            }
            Form::Released => {
                let rate = dt * k;
                vectorized(
                    #[inline(always)]
                    move || theta.iter_mut().zip(g).for_each(|(t, g)| *t -= rate * (*g / k)),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash_of_bits;
    use crate::rng::Stream;

    fn stepped<F: Real>(k: f64, form: Form) -> String {
        let stream = Stream::new(1, 0);
        let mut theta: Vec<F> = (0..1000).map(|i| F::of(stream.normal(i))).collect();
        let g: Vec<F> = (1000..2000).map(|i| F::of(stream.normal(i))).collect();
        Perturbation { k, form }.step(&mut theta, &g, 0.1);
        hash_of_bits(&theta)
    }

    #[test]
    fn powers_of_two_change_no_bit_and_others_do() {
        fn check<F: Real>() {
            for form in [Form::Paper, Form::Released] {
                let plain = stepped::<F>(1.0, form);
                for k in [2.0, 4.0, 0.5, 1024.0] {
                    assert_eq!(stepped::<F>(k, form), plain, "k = {k}");
                    assert_eq!(stepped::<F>(3.0 * k, form), stepped::<F>(3.0, form), "3 x {k}");
                }
                for k in [3.0, 5.0, 7.0] {
                    assert_ne!(stepped::<F>(k, form), plain, "k = {k}");
                }
            }
            assert_ne!(stepped::<F>(3.0, Form::Paper), stepped::<F>(3.0, Form::Released));
        }
        check::<f32>();
        check::<f64>();
    }
}
