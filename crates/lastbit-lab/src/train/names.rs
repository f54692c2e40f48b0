//! Names of what the record of a training run holds, each declared once.

lastbit::named_enum! {
    /// Numbers of one replica. The record calls them `NUMBER-REPLICA`; one that was not measured is absent.
    pub enum ReplicaNumber {
        /// Test accuracy before the first step.
        FirstTestAccuracy = "first_test_accuracy",
        /// Test accuracy at the end, as a share of 1.
        TestAccuracy = "test_accuracy",
        /// Mean loss on the test set at the end.
        TestLoss = "test_loss",
        /// Mean loss of the batches of the last epoch.
        TrainLoss = "train_loss",
        /// The step after which it had diverged.
        DivergedAt = "diverged_at",
        /// RelL1 to the first replica at the end.
        RelL1 = "rel_l1",
        /// Distance to the first replica in the 2-norm at the end, over the norm of that replica.
        Distance = "distance",
        /// Significant bits on which it agrees with the first replica, mean over the weights.
        AgreeingBits = "agreeing_bits",
        /// Share of the test set classified unlike the first replica.
        Churn = "churn",
        /// Growth rate per step of RelL1 while it was small.
        GrowthPerStep = "growth_per_step",
        /// Standard error of that rate.
        GrowthStandardError = "growth_standard_error",
        /// Where the line fitted to that growth begins: step.
        FitFromStep = "fit_from_step",
        /// Where it begins: RelL1.
        FitFrom = "fit_from",
        /// Where it ends: step.
        FitToStep = "fit_to_step",
        /// Where it ends: RelL1.
        FitTo = "fit_to",
        /// Largest sharpness that was measured.
        MaxSharpness = "max_sharpness",
        /// Sharpness at the end.
        LastSharpness = "last_sharpness",
        /// Largest sharpness over the threshold of the optimizer.
        MaxEdgeRatio = "max_edge_ratio",
        /// Spikes of the loss, where a step sees all examples.
        Spikes = "spikes",
        /// Growth of its difference from the first replica in e-folds per step, mean over the steps attributed.
        AttributedGrowth = "attributed_growth",
    }
}

impl ReplicaNumber {
    /// Its name in the record.
    pub fn of(self, replica: &str) -> String {
        format!("{}-{replica}", self.name())
    }
}

/// A part of [`ReplicaNumber::AttributedGrowth`], by the name that [`lastbit::attribution::Parts`] has for it.
pub fn part_of_growth(part: &str, replica: &str) -> String {
    format!("growth_by_{part}-{replica}")
}

/// Its share in all that amplified over the steps attributed, from 0 to 1.
pub fn share_of_growth(part: &str, replica: &str) -> String {
    format!("share_of_{part}-{replica}")
}

/// Median over evaluations of the relative gradient fluctuation of the first replica: a number.
pub const GRADIENT_FLUCTUATION: &str = "gradient_fluctuation";

/// How the replicas with a flipped bit ended, over `flipped_at`: a series.
pub const BUTTERFLY: &str = "butterfly";

/// Series of one replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicaSeries {
    /// step, epoch, time, loss, train_loss, rel_l1, distance, max_ulps; where a step sees all examples also
    /// spike: the loss where it spikes, else NaN.
    Curves,
    /// step, epoch, test_loss, test_accuracy, train_accuracy.
    Tests,
    /// step, epoch, time and a column of significant bits for each tensor.
    Bits,
    /// step, epoch, time and a column of RelL1 for each tensor.
    RelL1,
    /// step, epoch, time, the columns of the Hessian that metrics.csv has, and one for each weight tensor that
    /// was measured.
    Sharpness,
    /// step and the numbers of attribution.csv: the growth of its difference from the first replica, by cause.
    Attribution,
    /// lambda, density: the spectrum of the Hessian at the end.
    Density,
}

impl ReplicaSeries {
    /// Its name in the record.
    pub fn of(self, replica: &str) -> String {
        let end = match self {
            Self::Curves => "",
            Self::Tests => "-tests",
            Self::Bits => "-bits",
            Self::RelL1 => "-rel-l1",
            Self::Sharpness => "-sharpness",
            Self::Attribution => "-attribution",
            Self::Density => "-density",
        };
        format!("{replica}{end}")
    }
}
