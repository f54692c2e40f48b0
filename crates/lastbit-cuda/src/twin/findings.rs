//! What comparisons of kernels with their twins find.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::{Kind, Ram, Written};

/// What was found out about the kernels.
#[derive(Debug, Default)]
pub struct Findings {
    /// By kernel.
    pub kernels: BTreeMap<&'static str, Finding>,
}

/// What was found out about a kernel.
#[derive(Debug, Clone, Default)]
pub struct Finding {
    pub launches: usize,
    /// Numbers that were compared.
    pub numbers: usize,
    /// The largest error as a share of its bound.
    pub share: f64,
    /// Where, in words.
    pub place: String,
    /// The mean bound of what a launch writes as a share of the mean size of its numbers, where it is
    /// smallest: sums that cancel, such as the gradient of a bias before a batch norm, are nothing but
    /// their errors.
    pub width: f64,
    /// The largest mean error of what a launch writes as a share of the mean size of its numbers, which have
    /// not [`CANCELLED`].
    pub error: f64,
}

/// Numbers whose mean bound is a larger share of their mean size have cancelled.
const CANCELLED: f64 = 0.1;

/// Several devices may tell one who asks.
pub type Asked = Arc<Mutex<Findings>>;

impl Finding {
    /// Counts a launch and measures its bounds: one that says nothing would hide every error.
    pub fn count(&mut self, written: &[Written]) {
        let mut width = 0.0_f64;
        for Written { kind, values, .. } in written {
            let bounds: f64 = values.iter().map(|value| value.e).sum();
            let sizes: f64 = values.iter().map(|value| value.x.abs()).sum();
            assert!(bounds.is_finite() && sizes.is_finite(), "{kind:?}: {sizes} within {bounds}");
            width = width.max(if bounds > 0.0 { bounds / sizes } else { 0.0 });
        }
        self.width = if self.launches == 0 { width } else { self.width.min(width) };
        self.launches += 1;
        self.numbers += written.iter().map(|written| written.values.len()).sum::<usize>();
    }

    /// Looks for the largest error.
    pub fn compare(&mut self, written: &Written, ram: &dyn Ram) {
        let Written { kind, at, start, values } = written;
        // Numbers below the smallest normal one are not rounded in proportion to their size.
        let smallest = if *kind == Kind::Int { 0.0 } else { f64::from(f32::MIN_POSITIVE) };
        let found = ram.read(*kind, *at, *start, values.len());
        let [mut errors, mut bounds, mut sizes] = [0.0; 3];
        for (i, (found, expected)) in found.iter().zip(values).enumerate() {
            let error = (found - expected.x).abs();
            errors += error;
            bounds += expected.e;
            sizes += expected.x.abs();
            let share = match error {
                0.0 => 0.0,
                error if error.is_finite() => error / (expected.e + smallest),
                _ => f64::INFINITY,
            };
            if share > self.share {
                self.share = share;
                self.place = format!(
                    "{kind:?} {i} of {}: {found:e}, expected {:e} within {:e}",
                    values.len(),
                    expected.x,
                    expected.e
                );
            }
        }
        if bounds < CANCELLED * sizes {
            self.error = self.error.max(errors / sizes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::bound::Near;
    use super::*;
    use crate::jobs::Address;

    /// One number, wherever it is looked for.
    struct Lonely(f64);

    impl Ram for Lonely {
        fn read(&self, _: Kind, _: Address, _: usize, _: usize) -> Vec<f64> {
            vec![self.0]
        }
    }

    #[test]
    fn what_is_beyond_its_bound_is_found() {
        for (number, share) in [(3.5, 0.5), (1.0, 2.0), (f64::NAN, f64::INFINITY)] {
            let values = vec![Near { x: 3.0, e: 1.0 }];
            let written = Written { kind: Kind::Real, at: 0, start: 0, values };
            let mut finding = Finding::default();
            finding.compare(&written, &Lonely(number));
            assert_eq!(finding.share, share, "{}", finding.place);
        }
        let values = vec![Near { x: 3.0, e: 1e-3 }];
        let written = Written { kind: Kind::Real, at: 0, start: 0, values };
        let mut finding = Finding::default();
        finding.compare(&written, &Lonely(3.0 - 1.5e-6));
        assert!((finding.error - 5e-7).abs() < 1e-15, "{}", finding.error);
    }
}
