//! Which twin is whose, and that every kernel has one.

use std::any::Any;

use super::Run;
use crate::jobs::{
    ConvDotJob, ConvJob, FastJob, LossDotJob, LossJob, NormDotJob, NormJob, OpDotJob, OpJob,
    PackJob, SumJob, WeightsJob,
};

/// A twin, by the job that it takes.
#[derive(Clone, Copy)]
pub enum Twin {
    Conv(fn(&mut Run, &ConvJob)),
    ConvDot(fn(&mut Run, &ConvDotJob)),
    Pack(fn(&mut Run, &PackJob)),
    Fast(fn(&mut Run, &FastJob)),
    Weights(fn(&mut Run, &WeightsJob)),
    Op(fn(&mut Run, &OpJob)),
    OpDot(fn(&mut Run, &OpDotJob)),
    Sum(fn(&mut Run, &SumJob)),
    Norm(fn(&mut Run, &NormJob)),
    NormDot(fn(&mut Run, &NormDotJob)),
    Loss(fn(&mut Run, &LossJob)),
    LossDot(fn(&mut Run, &LossDotJob)),
}

impl Twin {
    /// Runs it on a job of its kind.
    pub fn run(self, run: &mut Run, job: &dyn Any) {
        match self {
            Self::Conv(twin) => twin(run, of_its_kind(job)),
            Self::ConvDot(twin) => twin(run, of_its_kind(job)),
            Self::Pack(twin) => twin(run, of_its_kind(job)),
            Self::Fast(twin) => twin(run, of_its_kind(job)),
            Self::Weights(twin) => twin(run, of_its_kind(job)),
            Self::Op(twin) => twin(run, of_its_kind(job)),
            Self::OpDot(twin) => twin(run, of_its_kind(job)),
            Self::Sum(twin) => twin(run, of_its_kind(job)),
            Self::Norm(twin) => twin(run, of_its_kind(job)),
            Self::NormDot(twin) => twin(run, of_its_kind(job)),
            Self::Loss(twin) => twin(run, of_its_kind(job)),
            Self::LossDot(twin) => twin(run, of_its_kind(job)),
        }
    }
}

fn of_its_kind<J: 'static>(job: &dyn Any) -> &J {
    job.downcast_ref().expect("a kernel's job and its twin's are of one kind")
}

/// The twin of a kernel.
pub fn twin_of(name: &str) -> Option<Twin> {
    TWINS.iter().find(|(own, _)| *own == name).map(|(_, twin)| *twin)
}

/// Kernels that have no twin, and the test that they have instead.
pub const TESTED_ELSEWHERE: [(&str, &str); 9] = [
    ("step_prepare", "a_step_along_a_given_gradient_has_the_bits_of_the_cpu"),
    ("step_descend", "a_step_along_a_given_gradient_has_the_bits_of_the_cpu"),
    ("step_finish", "a_replica_that_diverges_ends_at_the_step_of_the_cpu"),
    ("batch_form", "batches_have_the_bits_of_the_cpu"),
    ("compare_sums", "replicas_beside_the_first_have_the_bits_of_the_cpu"),
    ("fluctuation_add", "fluctuations_of_given_gradients_have_the_bits_of_the_cpu"),
    ("fluctuation_sum", "fluctuations_of_given_gradients_have_the_bits_of_the_cpu"),
    ("hash_chunks", "replicas_beside_the_first_have_the_bits_of_the_cpu"),
    ("hash_tree", "replicas_beside_the_first_have_the_bits_of_the_cpu"),
];

pub const TWINS: [(&str, Twin); 94] = [
    ("conv_pack", Twin::Conv(Run::conv_pack)),
    ("conv_forward_16", Twin::Conv(Run::conv_forward)),
    ("conv_forward_32", Twin::Conv(Run::conv_forward)),
    ("conv_forward_64", Twin::Conv(Run::conv_forward)),
    ("conv_data_16", Twin::Conv(Run::conv_data)),
    ("conv_data_32", Twin::Conv(Run::conv_data)),
    ("conv_data_64", Twin::Conv(Run::conv_data)),
    ("conv_weights_16", Twin::Conv(Run::conv_weights)),
    ("conv_weights_32", Twin::Conv(Run::conv_weights)),
    ("conv_weights_64", Twin::Conv(Run::conv_weights)),
    ("conv_weights_finish", Twin::Conv(Run::conv_weights_finish)),
    ("plane_forward_3", Twin::Conv(Run::plane_forward)),
    ("plane_forward_5", Twin::Conv(Run::plane_forward)),
    ("plane_forward_7", Twin::Conv(Run::plane_forward)),
    ("plane_data_3", Twin::Conv(Run::plane_data)),
    ("plane_data_5", Twin::Conv(Run::plane_data)),
    ("plane_data_7", Twin::Conv(Run::plane_data)),
    ("plane_weights_3", Twin::Conv(Run::plane_weights)),
    ("plane_weights_5", Twin::Conv(Run::plane_weights)),
    ("plane_weights_7", Twin::Conv(Run::plane_weights)),
    ("plane_finish", Twin::Conv(Run::plane_finish)),
    ("conv_forward_dot_16", Twin::ConvDot(Run::conv_forward_dot)),
    ("conv_forward_dot_32", Twin::ConvDot(Run::conv_forward_dot)),
    ("conv_forward_dot_64", Twin::ConvDot(Run::conv_forward_dot)),
    ("conv_data_dot_16", Twin::ConvDot(Run::conv_data_dot)),
    ("conv_data_dot_32", Twin::ConvDot(Run::conv_data_dot)),
    ("conv_data_dot_64", Twin::ConvDot(Run::conv_data_dot)),
    ("conv_weights_dot_16", Twin::ConvDot(Run::conv_weights_dot)),
    ("conv_weights_dot_32", Twin::ConvDot(Run::conv_weights_dot)),
    ("conv_weights_dot_64", Twin::ConvDot(Run::conv_weights_dot)),
    ("plane_forward_dot_3", Twin::ConvDot(Run::plane_forward_dot)),
    ("plane_forward_dot_5", Twin::ConvDot(Run::plane_forward_dot)),
    ("plane_forward_dot_7", Twin::ConvDot(Run::plane_forward_dot)),
    ("plane_data_dot_3", Twin::ConvDot(Run::plane_data_dot)),
    ("plane_data_dot_5", Twin::ConvDot(Run::plane_data_dot)),
    ("plane_data_dot_7", Twin::ConvDot(Run::plane_data_dot)),
    ("plane_weights_dot_3", Twin::ConvDot(Run::plane_weights_dot)),
    ("plane_weights_dot_5", Twin::ConvDot(Run::plane_weights_dot)),
    ("plane_weights_dot_7", Twin::ConvDot(Run::plane_weights_dot)),
    ("pack_kernels", Twin::Pack(Run::pack_kernels)),
    ("conv3x3_image_32", Twin::Fast(Run::conv3x3_forward)),
    ("conv3x3_forward_32", Twin::Fast(Run::conv3x3_forward)),
    ("conv3x3_forward_16", Twin::Fast(Run::conv3x3_forward)),
    ("conv3x3_forward_8", Twin::Fast(Run::conv3x3_forward)),
    ("conv3x3_halve_16", Twin::Fast(Run::conv3x3_halve)),
    ("conv3x3_halve_8", Twin::Fast(Run::conv3x3_halve)),
    ("conv3x3_data_32", Twin::Fast(Run::conv3x3_data)),
    ("conv3x3_data_16", Twin::Fast(Run::conv3x3_data)),
    ("conv3x3_data_8", Twin::Fast(Run::conv3x3_data)),
    ("conv3x3_double_32", Twin::Fast(Run::conv3x3_double)),
    ("conv3x3_double_16", Twin::Fast(Run::conv3x3_double)),
    ("weights3x3_image_32", Twin::Weights(Run::weights3x3)),
    ("weights3x3_32", Twin::Weights(Run::weights3x3)),
    ("weights3x3_16", Twin::Weights(Run::weights3x3)),
    ("weights3x3_8", Twin::Weights(Run::weights3x3)),
    ("weights3x3_halve_16", Twin::Weights(Run::weights3x3)),
    ("weights3x3_halve_8", Twin::Weights(Run::weights3x3)),
    ("add_forward", Twin::Op(Run::add_forward)),
    ("add_forward_fours", Twin::Op(Run::add_forward)),
    ("add_backward", Twin::Op(Run::add_backward)),
    ("add_backward_fours", Twin::Op(Run::add_backward)),
    ("pool_forward", Twin::Op(Run::pool_forward)),
    ("pool_backward", Twin::Op(Run::pool_backward)),
    ("subsample_forward", Twin::Op(Run::subsample_forward)),
    ("subsample_backward", Twin::Op(Run::subsample_backward)),
    ("mean_forward", Twin::Op(Run::mean_forward)),
    ("mean_backward", Twin::Op(Run::mean_backward)),
    ("add_forward_dot", Twin::OpDot(Run::add_forward_dot)),
    ("add_backward_dot", Twin::OpDot(Run::add_backward_dot)),
    ("pool_forward_dot", Twin::OpDot(Run::pool_forward_dot)),
    ("pool_backward_dot", Twin::OpDot(Run::pool_backward_dot)),
    ("subsample_forward_dot", Twin::OpDot(Run::subsample_forward_dot)),
    ("subsample_backward_dot", Twin::OpDot(Run::subsample_backward_dot)),
    ("mean_forward_dot", Twin::OpDot(Run::mean_forward_dot)),
    ("mean_backward_dot", Twin::OpDot(Run::mean_backward_dot)),
    ("sum_forward_fours", Twin::Sum(Run::sum_forward_fours)),
    ("sum_backward_fours", Twin::Sum(Run::sum_backward_fours)),
    ("norm_moments", Twin::Norm(Run::norm_moments)),
    ("norm_moments_fours", Twin::Norm(Run::norm_moments)),
    ("norm_forward", Twin::Norm(Run::norm_forward)),
    ("norm_running", Twin::Norm(Run::norm_running)),
    ("norm_gradient_sums", Twin::Norm(Run::norm_gradient_sums)),
    ("norm_gradient_sums_fours", Twin::Norm(Run::norm_gradient_sums)),
    ("norm_backward", Twin::Norm(Run::norm_backward)),
    ("bias_sums", Twin::Norm(Run::bias_sums)),
    ("bias_finish", Twin::Norm(Run::bias_finish)),
    ("norm_moments_dot", Twin::NormDot(Run::norm_moments_dot)),
    ("norm_forward_dot", Twin::NormDot(Run::norm_forward_dot)),
    ("norm_gradient_sums_dot", Twin::NormDot(Run::norm_gradient_sums_dot)),
    ("norm_backward_dot", Twin::NormDot(Run::norm_backward_dot)),
    ("bias_sums_dot", Twin::NormDot(Run::bias_sums_dot)),
    ("loss_examples", Twin::Loss(Run::loss_examples)),
    ("loss_mean", Twin::Loss(Run::loss_mean)),
    ("loss_examples_dot", Twin::LossDot(Run::loss_examples_dot)),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::compile::SOURCES;

    /// Where those are that have no twin.
    const TESTS: [&str; 5] = [
        include_str!("../engine/tests/steps.rs"),
        include_str!("../resident/tests.rs"),
        include_str!("../compare/tests.rs"),
        include_str!("../fluctuation/tests.rs"),
        include_str!("../../tests/device/against_cpu.rs"),
    ];

    /// Names of all kernels; those that a macro makes for sizes end with `##K`.
    fn kernels() -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for (_, text) in SOURCES {
            let of_macro =
                |line: &str| line.strip_prefix("PLANE(")?.strip_suffix(')').map(str::to_owned);
            let sizes: Vec<String> = text.lines().filter_map(of_macro).collect();
            for part in text.split("extern \"C\" __global__ void ").skip(1) {
                let head = part.split("(const ").next().unwrap_or(part);
                let name = head.rsplit(' ').next().unwrap_or(head);
                match name.strip_suffix("##K") {
                    Some(stem) => names.extend(sizes.iter().map(|size| format!("{stem}{size}"))),
                    None => drop(names.insert(name.to_owned())),
                }
            }
        }
        names
    }

    #[test]
    fn every_kernel_has_a_twin_or_a_test_of_its_own() {
        let twins: BTreeSet<String> = TWINS.iter().map(|(name, _)| (*name).to_owned()).collect();
        let elsewhere = TESTED_ELSEWHERE.iter().map(|(name, _)| (*name).to_owned());
        let tested: BTreeSet<String> = twins.iter().cloned().chain(elsewhere).collect();
        assert_eq!(twins.len(), TWINS.len(), "a kernel has two twins");
        assert_eq!(
            tested.len(),
            TWINS.len() + TESTED_ELSEWHERE.len(),
            "a twin, and tested elsewhere"
        );
        for (name, test) in TESTED_ELSEWHERE {
            let is_there = |text: &str| text.contains(&format!("fn {test}("));
            assert!(TESTS.into_iter().any(is_there), "{name}: no test {test}");
        }
        let kernels = kernels();
        let untested: Vec<_> = kernels.difference(&tested).collect();
        let gone: Vec<_> = tested.difference(&kernels).collect();
        assert!(untested.is_empty(), "kernels without a test: {untested:?}");
        assert!(gone.is_empty(), "tests of kernels that are not there: {gone:?}");
    }
}
