//! The spacing of metrics that take few values: the accuracy of 300 images, a loss printed with four decimals.
//!
//! Two runs that differ by less than rounding can be seen to differ by one spacing there, and many that differ are equal. So the
//! spacing counts as resolution. It is
//!
//! 1. `10^-d`, the least `d` up to 6 for which all values are multiples of it, if the largest has four digits or more: a
//!    printed value;
//! 2. otherwise the least gap `g` between values, or `g/2 … g/12`, made more exact by the larger gaps, if all values are
//!    multiples of it, and the runs are not equal at all steps: a share of examples. Where all runs are equal, a metric may as well
//!    be a setting, such as a learning rate that is lowered evenly, and one that is off must be found.
//!
//! Values may be rounded to float32, so that of many spacings a multiple is less exact: it may be off by `2⁻²³` of the value.
//! The new run's values must be multiples, too. Values that are not quantized are each near a multiple with a chance of
//! `2 near`, all but the two that make the spacing, in twelve attempts; so many different values are asked for that this chance
//! is below 10⁻⁴: four, and eight where a multiple is least exact.

/// How near a multiple is at least, in spacings, and at most, where rounding to float32 asks for it.
const NEAR: f64 = 1e-3;
const FARTHEST_NEAR: f64 = 0.05;
/// The chance that a metric that is not quantized is taken for one.
const CHANCE: f64 = 1e-4;
const LEAST_VALUES: usize = 4;
const MOST_DECIMALS: i32 = 6;
/// Parts of the least gap that are tried.
const PARTS: u32 = 12;
/// A gap is one of rounding where it is below this share of the largest value: half an example of the most that can be told.
const LEAST_GAP: f64 = 1e-6;

/// The spacing, or 0.
pub fn spacing(runs: &[Vec<f64>], new: &[f64]) -> f64 {
    let mut values: Vec<f64> = runs.iter().flatten().copied().collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    if values.len() < LEAST_VALUES {
        return 0.0;
    }
    let largest = values[0].abs().max(values[values.len() - 1].abs());
    let are_multiples = |spacing: f64, near: f64| {
        values.iter().chain(new).all(|value| {
            let multiple = value / spacing;
            (multiple - multiple.round()).abs() <= near
        })
    };
    let mut printed = (0..=MOST_DECIMALS).map(|decimals| 10f64.powi(-decimals));
    if let Some(found) = printed.find(|unit| largest / unit >= 1e3 && are_multiples(*unit, NEAR)) {
        return found;
    }
    if runs.windows(2).all(|pair| pair[0] == pair[1]) {
        return 0.0;
    }
    // Values with a gap of rounding between them are not on a grid, or equal on it.
    let gaps = values.windows(2).map(|pair| pair[1] - pair[0]);
    let mut gaps: Vec<f64> = gaps.filter(|gap| *gap > LEAST_GAP * largest).collect();
    gaps.sort_by(f64::total_cmp);
    let Some(least) = gaps.first() else { return 0.0 };
    let mut all: Vec<u64> = values.iter().chain(new).map(|value| value.to_bits()).collect();
    all.sort_unstable();
    all.dedup();
    let different = all.len();
    let is_grid = |unit: &f64| {
        let near = NEAR.max(largest / unit / f64::from(1 << 23));
        let chance = f64::from(PARTS) * (2.0 * near).powi(different as i32 - 2);
        near <= FARTHEST_NEAR && chance < CHANCE && are_multiples(*unit, near)
    };
    let mut units = (1..=PARTS).map(|part| more_exact(least / f64::from(part), &gaps, &values));
    units.find(is_grid).unwrap_or(0.0)
}

/// A spacing from one that is known from the least gap alone: larger gaps are counted in spacings, the least first, and the
/// sum of all is divided by their number; then the largest value, from zero.
fn more_exact(unit: f64, gaps: &[f64], values: &[f64]) -> f64 {
    let (mut length, mut count) = (0.0, 0.0);
    let mut unit = unit;
    for gap in gaps {
        length += gap;
        count += (gap / unit).round();
        if count > 0.0 {
            unit = length / count;
        }
    }
    let farthest = values[0].abs().max(values[values.len() - 1].abs());
    let multiples = (farthest / unit).round();
    if multiples > 0.0 { farthest / multiples } else { unit }
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
    fn an_accuracy_of_many_examples_in_float32_has_their_spacing() {
        for of in [4096, 10_000, 40_000, 200_000] {
            let counts = |run: u64| -> Vec<f64> {
                let stream = lastbit::rng::Stream::new(run, 0);
                let count = |step: u64| {
                    of / 10
                        + step as u32 * of / 30
                        + stream.below(step, 9 + u64::from(of) / 2000) as u32
                };
                (0..15)
                    .map(|step| f64::from((f64::from(count(step)) / f64::from(of)) as f32))
                    .collect()
            };
            let runs: Vec<Vec<f64>> = (0..4).map(counts).collect();
            let found = spacing(&runs, &counts(9));
            assert!((found * f64::from(of) - 1.0).abs() < 1e-4, "{found} of {of}");
        }
    }

    #[test]
    fn numbers_that_are_not_quantized_have_none() {
        for seed in 0..2000 {
            let stream = lastbit::rng::Stream::new(seed, 7);
            let value = |i: u64| f64::from(stream.normal(i) as f32);
            let runs: Vec<Vec<f64>> =
                (0..4).map(|run| (0..2).map(|i| value(2 * run + i)).collect()).collect();
            assert_eq!(spacing(&runs, &[value(20), value(21)]), 0.0, "seed {seed}");
        }
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
