//! Spikes of a loss: where a descent went up again.
//!
//! Gradient descent over all examples lowers the loss at every step that is short enough for the
//! curvature it meets. Where it is too long the loss oscillates, rises, and falls again once the run has
//! left the sharp place. An excursion begins with a row whose loss lies more than a hundredth above the
//! least loss before it and ends where two rows in a row do not; a spike is the highest row of an
//! excursion. The unstable direction is crossed back and forth, so that high and low rows take turns: one
//! low row ends nothing. Ripples of less than a hundredth are no spikes.

/// How far above the least loss before it a row must lie.
const RISE: f64 = 0.01;
/// Rows that do not, in a row, after which it is over.
const CALM: usize = 2;

/// The search for spikes along a run. A loss that is not a number is not high.
#[derive(Debug, Clone)]
pub struct Spikes {
    rows: usize,
    least: f64,
    /// The highest row of an excursion that is not over.
    highest: Option<(usize, f64)>,
    calm: usize,
}

impl Default for Spikes {
    fn default() -> Self {
        Self { rows: 0, least: f64::INFINITY, highest: None, calm: 0 }
    }
}

impl Spikes {
    /// Looks at the loss of the next row; the row, counted from 0, and the loss of a spike whose excursion it ends.
    pub fn push(&mut self, loss: f64) -> Option<(usize, f64)> {
        let row = self.rows;
        self.rows += 1;
        let is_high = loss > (1.0 + RISE) * self.least;
        self.least = self.least.min(loss);
        if is_high {
            self.calm = 0;
            if self.highest.is_none_or(|(_, highest)| loss > highest) {
                self.highest = Some((row, loss));
            }
            return None;
        }
        self.calm += 1;
        self.highest.take_if(|_| self.calm >= CALM)
    }

    /// The spike of an excursion that lasts until the end of the run.
    pub fn end(&mut self) -> Option<(usize, f64)> {
        self.highest.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(losses: &[f64]) -> Vec<usize> {
        let mut search = Spikes::default();
        let mut found: Vec<(usize, f64)> = losses.iter().filter_map(|l| search.push(*l)).collect();
        found.extend(search.end());
        assert!(found.iter().all(|(row, loss)| *loss == losses[*row]));
        found.into_iter().map(|(row, _)| row).collect()
    }

    #[test]
    fn a_descent_has_none() {
        let falling: Vec<f64> = (0..50).map(|step| 1.0 / f64::from(1 + step)).collect();
        assert!(places(&falling).is_empty());
        assert!(places(&[1.0, 1.009, 1.0, 1.009]).is_empty(), "ripples");
        assert!(places(&[]).is_empty() && places(&[f64::NAN, 1.0]).is_empty());
    }

    #[test]
    fn an_excursion_with_its_oscillations_is_one_spike_at_its_top() {
        assert_eq!(places(&[2.0, 1.0, 1.1, 1.05, 1.6, 1.2, 0.9, 0.8, 1.5, 0.7]), [4, 8]);
        let back_and_forth = [1.0, 0.5, 0.8, 0.49, 0.9, 0.48, 0.7, 0.47, 0.46, 0.6, 0.45];
        assert_eq!(places(&back_and_forth), [4, 9]);
    }

    #[test]
    fn a_run_may_end_high_or_without_a_number() {
        assert_eq!(places(&[1.0, 0.5, 0.7, 2.0, f64::INFINITY]), [4]);
        assert_eq!(places(&[1.0, 0.5, 0.7, f64::NAN]), [2]);
    }

    #[test]
    fn the_least_loss_is_that_before_the_row() {
        // Back to the height of the first row, far above the second.
        assert_eq!(places(&[1.0, 0.1, 1.0]), [2]);
    }
}
