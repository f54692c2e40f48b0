//! Errors of kernels against their references.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::{Expected, Kind, MemoryReader};

/// Errors of all kernels, by name.
#[derive(Debug, Default)]
pub struct ErrorStats {
    pub kernels: BTreeMap<&'static str, KernelErrors>,
}

/// Errors of a kernel.
#[derive(Debug, Clone, Default)]
pub struct KernelErrors {
    pub launches: usize,
    /// Numbers that were compared.
    pub numbers: usize,
    /// The largest error as a share of its bound.
    pub share: f64,
    /// A description of that error.
    pub worst: String,
    /// Mean bound of a launch as a share of the mean size of its numbers, the smallest of all launches:
    /// sums that cancel, such as the gradient of a bias before a batch norm, are nothing but errors.
    pub width: f64,
    /// Mean error of a launch as a share of the mean size of its numbers, the largest of all launches whose
    /// numbers have not [`CANCELLED`].
    pub error: f64,
}

/// Numbers whose mean bound is a larger share of their mean size have cancelled.
const CANCELLED: f64 = 0.1;

/// Several devices may add to the same statistics.
pub type SharedStats = Arc<Mutex<ErrorStats>>;

impl KernelErrors {
    /// Counts a launch and measures its bounds: one that is too wide would hide every error.
    pub fn count(&mut self, expected: &[Expected]) {
        let mut width = 0.0_f64;
        for Expected { kind, values, .. } in expected {
            let bounds: f64 = values.iter().map(|value| value.e).sum();
            let sizes: f64 = values.iter().map(|value| value.x.abs()).sum();
            assert!(bounds.is_finite() && sizes.is_finite(), "{kind:?}: {sizes} within {bounds}");
            width = width.max(if bounds > 0.0 { bounds / sizes } else { 0.0 });
        }
        self.width = if self.launches == 0 { width } else { self.width.min(width) };
        self.launches += 1;
        self.numbers += expected.iter().map(|expected| expected.values.len()).sum::<usize>();
    }

    /// Finds the largest error.
    pub fn compare(&mut self, expected: &Expected, memory: &dyn MemoryReader) {
        let Expected { kind, at, start, values } = expected;
        // Numbers below the smallest normal one are not rounded in proportion to their size.
        let smallest = if *kind == Kind::Int { 0.0 } else { f64::from(f32::MIN_POSITIVE) };
        let found = memory.read(*kind, *at, *start, values.len());
        let [mut errors, mut bounds, mut sizes] = [0.0; 3];
        for (i, (found, value)) in found.iter().zip(values).enumerate() {
            let error = (found - value.x).abs();
            errors += error;
            bounds += value.e;
            sizes += value.x.abs();
            let share = match error {
                0.0 => 0.0,
                error if error.is_finite() => error / (value.e + smallest),
                _ => f64::INFINITY,
            };
            if share > self.share {
                self.share = share;
                self.worst = format!(
                    "{kind:?} {i} of {}: {found:e}, expected {:e} within {:e}",
                    values.len(),
                    value.x,
                    value.e
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
    use super::super::bound::Bounded;
    use super::*;
    use crate::kernel_args::Address;

    /// Memory with the same number at every address.
    struct OneValue(f64);

    impl MemoryReader for OneValue {
        fn read(&self, _: Kind, _: Address, _: usize, _: usize) -> Vec<f64> {
            vec![self.0]
        }
    }

    #[test]
    fn errors_beyond_their_bound_are_found() {
        for (number, share) in [(3.5, 0.5), (1.0, 2.0), (f64::NAN, f64::INFINITY)] {
            let values = vec![Bounded { x: 3.0, e: 1.0 }];
            let expected = Expected { kind: Kind::Real, at: 0, start: 0, values };
            let mut errors = KernelErrors::default();
            errors.compare(&expected, &OneValue(number));
            assert_eq!(errors.share, share, "{}", errors.worst);
        }
        let values = vec![Bounded { x: 3.0, e: 1e-3 }];
        let expected = Expected { kind: Kind::Real, at: 0, start: 0, values };
        let mut errors = KernelErrors::default();
        errors.compare(&expected, &OneValue(3.0 - 1.5e-6));
        assert!((errors.error - 5e-7).abs() < 1e-15, "{}", errors.error);
    }
}
