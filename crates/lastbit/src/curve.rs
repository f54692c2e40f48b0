//! A curve of bounded length along a run of any length.
//!
//! Every step is kept at first; each time 1024 are, every second one is dropped and from then on
//! skipped. What is kept depends on the steps alone, and a run that ends early is seen in full.

use std::convert::Infallible;

const MOST: usize = 1024;

/// Values at steps that are multiples of a power of two.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve<T> {
    stride: usize,
    points: Vec<(usize, T)>,
}

impl<T> Default for Curve<T> {
    fn default() -> Self {
        Self { stride: 1, points: Vec::new() }
    }
}

impl<T> Curve<T> {
    /// Keeps the value at `step`, if that step is wanted; `value` is not computed otherwise.
    pub fn push_with(&mut self, step: usize, value: impl FnOnce() -> T) {
        let Ok(()) = self.try_push_with(step, || Ok::<_, Infallible>(value()));
    }

    /// The same for a value that may fail.
    ///
    /// # Errors
    ///
    /// That of the value.
    pub fn try_push_with<E>(
        &mut self,
        step: usize,
        value: impl FnOnce() -> Result<T, E>,
    ) -> Result<(), E> {
        if step.is_multiple_of(self.stride) {
            self.points.push((step, value()?));
            if self.points.len() == MOST {
                self.stride *= 2;
                self.points.retain(|(step, _)| step.is_multiple_of(self.stride));
            }
        }
        Ok(())
    }

    /// What was kept, in order.
    pub fn points(&self) -> &[(usize, T)] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_runs_are_kept_in_full_and_long_ones_evenly() {
        for steps in [0, 5, 1022, 1023, 5000, 100_000] {
            let mut curve = Curve::default();
            (0..=steps).for_each(|step| curve.push_with(step, || step));
            let kept = curve.points();
            assert!(kept.len() < MOST);
            assert!(kept.len() > (steps / 2).min(MOST / 2 - 2), "{steps}: {}", kept.len());
            assert!(
                kept.iter().enumerate().all(|(i, p)| *p == (i * curve.stride, i * curve.stride))
            );
        }
    }
}
