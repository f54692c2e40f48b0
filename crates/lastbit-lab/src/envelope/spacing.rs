//! The spacing of metrics that take few values: the accuracy of 300 images, a loss printed with four decimals.
//!
//! Two runs that differ by less than rounding can be seen to differ by one spacing there, and many that differ are equal. So the
//! spacing counts as resolution. It is `1/N`, or `100/N` for percentages, of the least `N` up to 10⁵ or of 10⁶ for
//! which all values, the new run's too, are multiples of it: to within the rounding of float32, or of float64.
//!
//! A value that is not quantized is within `near` of a multiple with a chance of `2 near`. So the chance that `N` or a smaller number fits
//! `m` different values is at most `N·Π 2 near`. Spacings for which it is larger than 10⁻⁴ are not taken.
//!
//! Where all runs are equal at all steps, the metric may be a setting, such as a learning rate that is lowered evenly, and one that is off
//! must be found. It is taken for one, and has no spacing, if at most half of its points are bends: the others lie on a line with their
//! neighbours.

/// Numbers of examples that are tried.
const MOST: u32 = 100_000;
/// Six decimals.
const MOST_PRINTED: u32 = 1_000_000;
/// The chance that a metric that is not quantized is taken for one.
const CHANCE: f64 = 1e-4;
/// How far a quotient in float32, and one in float64, may be off, relative to it: some ulps, for it may be a product of two.
const PRECISIONS: [f64; 2] = [2.0 / (1u64 << 24) as f64, 4.0 / (1u64 << 53) as f64];
/// Two slopes are equal if they differ by less than this share of the steepest.
const SAME_SLOPE: f64 = 1e-6;

/// The spacing of a metric at these steps, or 0.
pub fn spacing(steps: &[u64], runs: &[Vec<f64>], new: &[f64]) -> f64 {
    let all = runs.iter().flatten().chain(new);
    let mut values: Vec<f64> = all.map(|value| value.abs()).filter(|value| *value > 0.0).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let is_constant = runs.windows(2).all(|pair| pair[0] == pair[1]);
    if values.is_empty() || is_constant && is_schedule(steps, &runs[0]) {
        return 0.0;
    }
    let counts = (1..=MOST).chain([MOST_PRINTED]).map(f64::from);
    for count in counts {
        for unit in [1.0 / count, 100.0 / count] {
            if is_spacing(unit, count, &values) {
                return unit;
            }
        }
    }
    0.0
}

/// Whether all values are multiples of a unit, and this is no chance.
fn is_spacing(unit: f64, tried: f64, values: &[f64]) -> bool {
    PRECISIONS.iter().any(|precision| {
        let mut chance = tried;
        values.iter().all(|value| {
            let multiple = value / unit;
            let near = precision * multiple;
            chance *= 2.0 * near;
            (multiple - multiple.round()).abs() <= near
        }) && chance <= CHANCE
    })
}

/// Whether most points lie on a line with their neighbours.
fn is_schedule(steps: &[u64], values: &[f64]) -> bool {
    let slope =
        |(steps, values): (&[u64], &[f64])| (values[1] - values[0]) / (steps[1] - steps[0]) as f64;
    let slopes: Vec<f64> = steps.windows(2).zip(values.windows(2)).map(slope).collect();
    let steepest = slopes.iter().fold(0.0, |most: f64, slope| most.max(slope.abs()));
    let bends =
        slopes.windows(2).filter(|pair| (pair[1] - pair[0]).abs() > SAME_SLOPE * steepest).count();
    slopes.len() > 1 && 2 * bends < slopes.len()
}

#[cfg(test)]
mod tests {

    /// At evenly spaced steps.
    fn spacing(runs: &[Vec<f64>], new: &[f64]) -> f64 {
        let steps: Vec<u64> = (0..new.len() as u64).collect();
        super::spacing(&steps, runs, new)
    }

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
        // A run of other multiples has no such spacing.
        assert!(spacing(&runs, &[0.400_512_37, 0.6, 0.7, 0.8]) < 1.0 / 3000.0);
    }

    #[test]
    fn an_accuracy_of_many_examples_in_float32_has_their_spacing() {
        for of in [100, 1000, 4096, 10_000, 40_000, 100_000] {
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
    fn few_evaluations_on_a_round_number_of_examples_will_do() {
        let runs: Vec<Vec<f64>> =
            (0..8).map(|run| vec![0.62 + f64::from(run % 2) / 100.0, 0.8]).collect();
        assert_eq!(spacing(&runs, &[0.62, 0.81]), 0.01);
        let percent: Vec<Vec<f64>> =
            runs.iter().map(|run| run.iter().map(|x| 100.0 * x).collect()).collect();
        assert_eq!(spacing(&percent, &[62.0, 81.0]), 1.0);
    }

    #[test]
    fn an_accuracy_that_happens_to_be_equal_in_all_runs_is_none() {
        let equal = shares(&[30, 71, 88, 93, 99], 300.0);
        let runs = vec![equal; 4];
        let found = spacing(&runs, &shares(&[30, 71, 88, 93, 98], 300.0));
        assert!((found * 300.0 - 1.0).abs() < 1e-9, "{found}");
    }

    #[test]
    fn a_printed_loss_has_the_spacing_of_its_last_digit() {
        let loss = vec![2.3126, 2.1187, 1.9034, 1.7021];
        assert_eq!(spacing(&[loss.clone(), loss.clone()], &loss), 1e-4);
        let other = vec![2.3126, 2.1188, 1.9034, 1.7025];
        assert_eq!(spacing(&[loss.clone(), other], &loss), 1e-4);
        let fine = [vec![2.312_585, 2.118_723], vec![2.312_585, 2.118_724]];
        assert_eq!(spacing(&fine, &fine[0]), 1e-6);
    }

    #[test]
    fn a_schedule_is_a_setting() {
        // A rate that is lowered evenly, and epochs that are printed: one step late is no rounding.
        for unit in [1e-3, 1e-2] {
            let rate: Vec<f64> =
                (0..800).map(|step| unit * (1.0 - f64::from(step) / 1000.0)).collect();
            let late: Vec<f64> =
                (0..800).map(|step| unit * (1.0 - f64::from(step - 1) / 1000.0)).collect();
            assert_eq!(spacing(&[rate.clone(), rate], &late), 0.0);
        }
        let epochs: Vec<f64> = (1..300).map(|i| f64::from(i) / 100.0).collect();
        assert_eq!(spacing(&[epochs.clone(), epochs.clone()], &epochs), 0.0);
        let warm_up = (0..200).map(|step| f64::from(step.min(400 - 2 * step)) / 1000.0);
        let warm_up: Vec<f64> = warm_up.collect();
        assert_eq!(spacing(&[warm_up.clone(), warm_up.clone()], &warm_up), 0.0);
        let stairs = [[0.1; 5], [0.01; 5], [0.001; 5]].concat();
        assert_eq!(spacing(&[stairs.clone(), stairs.clone()], &stairs), 0.0);
    }

    #[test]
    fn a_loss_in_full_has_none() {
        let loss = vec![2.312_585_1, 2.118_723_4, 1.903_411_2, 1.702_133_7, 1.550_122_9];
        let near: Vec<f64> = loss.iter().map(|x| x * (1.0 + 1e-7)).collect();
        assert_eq!(spacing(&[loss.clone(), near], &loss), 0.0);
        let constant = vec![vec![0.1; 9], vec![0.1; 9]];
        assert_eq!(spacing(&constant, &constant[0]), 0.0);
    }
}
