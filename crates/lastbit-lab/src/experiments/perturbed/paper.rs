//! The paper's tables: accuracies in percent, a row for each `k`, a column for each seed.

use lastbit::statistics::quotient::Pooled;

/// A table of accuracies.
pub type Table = [[f64; 6]; 6];

/// Table 1, left: ResNet-56 with ReLU, SGD, 32 bit.
pub const RELU: Table = [
    [93.36, 93.40, 93.10, 93.14, 93.34, 93.33],
    [93.49, 93.37, 93.08, 93.68, 93.16, 93.12],
    [93.64, 93.22, 93.39, 93.17, 93.26, 93.42],
    [93.36, 93.31, 93.12, 93.23, 93.14, 93.28],
    [93.87, 93.55, 93.08, 93.35, 93.42, 93.41],
    [92.99, 93.31, 93.49, 93.48, 93.14, 93.56],
];

/// Appendix C: the same in 64 bit.
pub const F64: Table = [
    [93.10, 93.63, 93.31, 93.45, 93.26, 93.60],
    [93.35, 93.16, 93.42, 93.43, 93.20, 93.49],
    [93.32, 93.38, 93.23, 92.74, 93.37, 93.29],
    [93.05, 93.39, 93.46, 93.20, 93.58, 93.26],
    [93.21, 93.60, 93.28, 93.53, 93.39, 93.66],
    [93.22, 93.26, 93.33, 93.35, 93.56, 93.62],
];

/// Appendix C: the same with Swish.
pub const SWISH: Table = [
    [93.81, 93.79, 93.62, 93.83, 93.72, 93.59],
    [93.52, 93.94, 93.29, 93.59, 93.73, 93.60],
    [93.39, 93.89, 93.89, 93.60, 93.71, 93.62],
    [93.35, 93.59, 93.52, 93.48, 93.37, 93.43],
    [93.49, 93.50, 93.70, 93.79, 93.55, 93.71],
    [93.84, 93.71, 93.72, 93.91, 93.71, 93.56],
];

/// Appendix C: the same with Adam.
pub const ADAM: Table = [
    [88.16, 88.36, 88.88, 88.43, 88.63, 88.39],
    [88.68, 88.52, 88.45, 88.32, 88.56, 87.81],
    [88.59, 88.30, 88.33, 88.25, 88.62, 88.79],
    [88.71, 88.68, 88.74, 88.11, 88.32, 88.78],
    [88.79, 88.65, 88.72, 88.59, 88.48, 88.73],
    [88.00, 88.73, 88.78, 88.71, 88.21, 88.42],
];

/// What a table says in short.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Mean accuracy in percent.
    pub mean: f64,
    /// Mean over seeds of the standard deviation over `k`, in points.
    pub std_over_k: f64,
    /// Mean over `k` of the standard deviation over seeds, in points.
    pub std_over_seeds: f64,
}

/// What the paper prints of a table.
#[derive(Debug, Clone, Copy)]
pub enum Printed {
    /// All of it.
    Table(&'static Table),
    /// Mean and deviations. The paper divides by the number of networks and not by one less: its
    /// table of ReLU has 0.16 and 0.17 so, 0.18 and 0.19 as samples.
    Summary(Summary),
}

/// Mean of the standard deviation of six normal values, over σ: `√(2/5) Γ(3)/Γ(5/2)`.
const MEAN_DEVIATION_OF_SIX: f64 = 0.951_533;

impl Printed {
    /// The paper's standard deviation over `k`, pooled over its six seeds. Where only a mean of
    /// deviations is printed, that is brought to the scale of pooled variances.
    pub fn over_k(self) -> Pooled {
        match self {
            Self::Table(table) => {
                let column = |i: usize| table.iter().map(|row| row[i]).collect();
                let seeds: Vec<Vec<f64>> = (0..6).map(column).collect();
                Pooled::within(&seeds).expect("six values of k")
            }
            Self::Summary(_) => {
                let sigma = self.summary().std_over_k / MEAN_DEVIATION_OF_SIX;
                Pooled { sigma, degrees: 30.0 }
            }
        }
    }

    /// The paper's numbers with deviations of samples, as ours are.
    pub fn summary(self) -> Summary {
        match self {
            Self::Table(table) => {
                let rows: Vec<Vec<f64>> = table.iter().map(|row| row.to_vec()).collect();
                super::grid::summary(&rows)
            }
            Self::Summary(Summary { mean, std_over_k, std_over_seeds }) => {
                let as_sample = (6.0_f64 / 5.0).sqrt();
                Summary {
                    mean,
                    std_over_k: as_sample * std_over_k,
                    std_over_seeds: as_sample * std_over_seeds,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pooled_deviations_and_the_mean_of_deviations_agree() {
        assert!(
            (MEAN_DEVIATION_OF_SIX - (0.4_f64).sqrt() * libm::tgamma(3.0) / libm::tgamma(2.5))
                .abs()
                < 1e-6
        );
        for table in [&RELU, &F64, &SWISH, &ADAM] {
            let pooled = Printed::Table(table).over_k();
            let mean = Printed::Table(table).summary().std_over_k / MEAN_DEVIATION_OF_SIX;
            assert_eq!(pooled.degrees, 30.0);
            // A mean of six deviations has a standard error of 13 %, which it shares with the root of
            // their mean square but for the spread among the six: the two differ by a tenth at most.
            assert!((mean / pooled.sigma - 1.0).abs() < 0.1, "{mean} {pooled:?}");
        }
    }

    #[test]
    fn the_tables_have_the_deviations_that_the_paper_prints_for_them() {
        // Of the population, rounded to two digits; each is a mean of six that were rounded before.
        let population = (5.0_f64 / 6.0).sqrt();
        for (table, mean, over_k, over_seeds) in [
            (&RELU, 93.33, 0.16, 0.17),
            (&F64, 93.35, 0.15, 0.17),
            (&SWISH, 93.64, 0.15, 0.13),
            (&ADAM, 88.51, 0.23, 0.22),
        ] {
            let found = Printed::Table(table).summary();
            assert!((found.mean - mean).abs() < 0.006, "{found:?}");
            assert!((population * found.std_over_k - over_k).abs() < 0.006, "{found:?}");
            assert!((population * found.std_over_seeds - over_seeds).abs() < 0.006, "{found:?}");
        }
    }
}
