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

/// The losses at spikes, and NaN everywhere else. A loss that is not a number is not high.
pub fn spikes(losses: &[f64]) -> Vec<f64> {
    let mut marked = vec![f64::NAN; losses.len()];
    let (mut least, mut highest, mut calm): (f64, Option<usize>, usize) = (f64::INFINITY, None, 0);
    for (row, loss) in losses.iter().enumerate() {
        if *loss > (1.0 + RISE) * least {
            calm = 0;
            if highest.is_none_or(|highest| *loss > losses[highest]) {
                highest = Some(row);
            }
        } else {
            calm += 1;
            if let Some(highest) = highest.take_if(|_| calm >= CALM) {
                marked[highest] = losses[highest];
            }
        }
        least = least.min(*loss);
    }
    if let Some(highest) = highest {
        marked[highest] = losses[highest];
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(losses: &[f64]) -> Vec<usize> {
        let marked = spikes(losses);
        assert!((0..losses.len()).all(|i| marked[i].is_nan() || marked[i] == losses[i]));
        (0..losses.len()).filter(|i| !marked[*i].is_nan()).collect()
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
