//! The spacing of metrics that take few values: the accuracy of 300 images, a loss printed with four decimals.
//!
//! Two runs that differ by less than rounding can be seen to differ by one spacing there, and many that differ are equal. So the
//! spacing counts as resolution. It is
//!
//! 1. `10^-d`, the least `d` up to 6 for which all values are multiples of it, if the largest has four digits or more: a
//!    printed value;
//! 2. otherwise the least gap `g` between values, or `g/2 … g/12`, if all values are multiples of it, and the runs are not
//!    equal at all steps: a share of examples. Where all runs are equal, a metric may as well be a setting, such as a learning rate
//!    that is lowered evenly, and one that is off must be found.
//!
//! Four different values are required, and the new run's values must be multiples, too. A metric that is not quantized
//! passes with a chance below 10⁻⁷: each value is near a multiple with a chance of 1/500, and the third and the fourth are
//! free, in twelve attempts.

/// How near a multiple is, in spacings: printed values and quotients in float32 are nearer, up to 10⁴ spacings.
const NEAR: f64 = 1e-3;
const LEAST_VALUES: usize = 4;
const MOST_DECIMALS: i32 = 6;
/// Parts of the least gap that are tried.
const PARTS: u32 = 12;
/// A gap is one of rounding where it is below this share of the largest value.
const LEAST_GAP: f64 = 1e-5;

/// The spacing, or 0.
pub fn spacing(runs: &[Vec<f64>], new: &[f64]) -> f64 {
    let mut values: Vec<f64> = runs.iter().flatten().copied().collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    if values.len() < LEAST_VALUES {
        return 0.0;
    }
    let largest = values[0].abs().max(values[values.len() - 1].abs());
    let are_multiples = |spacing: f64| {
        values.iter().chain(new).all(|value| {
            let multiple = value / spacing;
            (multiple - multiple.round()).abs() <= NEAR
        })
    };
    let mut printed = (0..=MOST_DECIMALS).map(|decimals| 10f64.powi(-decimals));
    if let Some(found) = printed.find(|unit| largest / unit >= 1e3 && are_multiples(*unit)) {
        return found;
    }
    if runs.windows(2).all(|pair| pair[0] == pair[1]) {
        return 0.0;
    }
    let gaps = values.windows(2).map(|pair| pair[1] - pair[0]);
    let least = gaps.filter(|gap| *gap > LEAST_GAP * largest).fold(f64::INFINITY, f64::min);
    // Values with a gap of rounding between them are not on a grid, or equal on it.
    (1..=PARTS).map(|part| least / f64::from(part)).find(|unit| are_multiples(*unit)).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(counts: &[u32], of: f64) -> Vec<f64> {
        counts.iter().map(|count| f64::from(*count) / of).collect()
    }

    #[test]
    fn an_accuracy_has_the_spacing_of_an_example() {
        let runs = [shares(&[120, 200, 240, 251], 300.0), shares(&[120, 202, 239, 251], 300.0)];
        let found = spacing(&runs, &shares(&[120, 200, 241, 250], 300.0));
        assert!((found * 300.0 - 1.0).abs() < 1e-9, "{found}");
        // In float32, as a trainer writes it.
        let single = |run: &Vec<f64>| run.iter().map(|x| f64::from(*x as f32)).collect::<Vec<_>>();
        let runs = [single(&runs[0]), single(&runs[1])];
        let found = spacing(&runs, &runs[0]);
        assert!((found * 300.0 - 1.0).abs() < 1e-4, "{found}");
        // A run that is no multiple is of another kind.
        assert_eq!(spacing(&runs, &[0.4005, 0.6, 0.7, 0.8]), 0.0);
    }

    #[test]
    fn a_printed_loss_has_the_spacing_of_its_last_digit() {
        let loss = vec![2.3126, 2.1187, 1.9034, 1.7021];
        assert_eq!(spacing(&[loss.clone(), loss.clone()], &loss), 1e-4);
    }

    #[test]
    fn a_loss_and_a_schedule_have_none() {
        let loss = vec![2.312_585_1, 2.118_723_4, 1.903_411_2, 1.702_133_7, 1.550_122_9];
        let near: Vec<f64> = loss.iter().map(|x| x * (1.0 + 1e-7)).collect();
        assert_eq!(spacing(&[loss.clone(), near], &loss), 0.0);
        let schedule: Vec<f64> =
            (0..20).map(|step| 5e-5 * (1.0 - f64::from(step) / 20.0)).collect();
        assert_eq!(spacing(&[schedule.clone(), schedule.clone()], &schedule), 0.0);
        assert_eq!(spacing(&[vec![0.1; 9], vec![0.1; 9]], &[0.1; 9]), 0.0);
    }
}
