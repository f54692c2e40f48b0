//! The reference of each kernel, and a test that every kernel has one.

use std::any::Any;
use std::collections::BTreeSet;

use super::Launch;
use super::gemm::{GEMM, PLANE};
use crate::compile::SOURCES;
use crate::kernel_args::Conv3x3Args;

/// Computes what a kernel must write from its arguments.
pub type Reference = fn(&mut Launch, &dyn Any);

/// A method of [`Launch`], called for each replica, as a reference. Replicas are a dimension of the grid,
/// or `args` names their number.
macro_rules! run {
    (args: $method:ident, $extra:expr) => {
        |launch, args| {
            let args: &Conv3x3Args = args.downcast_ref().expect(ONE_TYPE);
            for r in 0..args.replicas as usize {
                launch.r = r;
                launch.$method(args, $extra);
            }
        }
    };
    ($axis:ident: $method:ident $(, $extra:expr)?) => {
        |launch, args| {
            for r in 0..launch.grid.blocks[$axis] as usize {
                launch.r = r;
                launch.$method(args.downcast_ref().expect(ONE_TYPE) $(, $extra)?);
            }
        }
    };
}
const X: usize = 0;
const Y: usize = 1;
const Z: usize = 2;
const ONE_TYPE: &str = "a kernel's arguments have the type of its reference's";

/// The reference of a kernel.
pub fn reference_of(kernel: &str) -> Option<Reference> {
    let family = family_of(kernel);
    REFERENCES.iter().find(|(own, _)| *own == family).map(|(_, reference)| *reference)
}

/// A kernel's name without the size of its tiles or of its vectors.
fn family_of(kernel: &str) -> &str {
    let name = kernel.strip_suffix("_vec4").unwrap_or(kernel);
    let is_size = |end: &str| end.bytes().all(|c| c.is_ascii_digit());
    name.rsplit_once('_').filter(|(_, end)| is_size(end)).map_or(name, |(family, _)| family)
}

/// Kernels that have a test of their own instead of a reference, by the test's name.
pub const TESTED_ELSEWHERE: [(&str, &[&str]); 4] = [
    (
        "a_step_along_a_given_gradient_is_bit_identical_to_the_cpu",
        &["step_prepare", "step_descend"],
    ),
    ("a_replica_that_diverges_ends_at_the_step_of_the_cpu", &["step_finish"]),
    ("batches_are_bit_identical_to_the_cpu", &["batch_form"]),
    ("comparisons_are_bit_identical_to_the_cpu", &["compare_sums", "hash_chunks", "hash_tree"]),
];

/// Whether a kernel has a test of its own.
pub fn is_tested_elsewhere(kernel: &str) -> bool {
    TESTED_ELSEWHERE.iter().any(|(_, kernels)| kernels.contains(&kernel))
}

/// The reference of each family of kernels.
const REFERENCES: &[(&str, Reference)] = &[
    ("conv_pack", run!(Y: conv_pack)),
    ("conv_forward", run!(Z: conv_forward, GEMM)),
    ("conv_forward_tangent", run!(Z: conv_forward_tangent, GEMM)),
    ("conv_data", run!(Z: conv_data)),
    ("conv_data_tangent", run!(Z: conv_data_tangent)),
    ("conv_weights", run!(Z: conv_weights, GEMM)),
    ("conv_weights_tangent", run!(Z: conv_weights_tangent, GEMM)),
    ("conv_weights_finish", run!(Y: conv_weights_finish)),
    ("plane_forward", run!(Y: conv_forward, PLANE)),
    ("plane_forward_tangent", run!(Y: conv_forward_tangent, PLANE)),
    ("plane_data", run!(Y: conv_data)),
    ("plane_data_tangent", run!(Y: conv_data_tangent)),
    ("plane_weights", run!(Y: conv_weights, PLANE)),
    ("plane_weights_tangent", run!(Y: conv_weights_tangent, PLANE)),
    ("plane_finish", run!(X: plane_finish)),
    ("pack_kernels", run!(Y: pack_kernels)),
    ("conv3x3_image", run!(args: conv3x3_forward, 1)),
    ("conv3x3_forward", run!(args: conv3x3_forward, 1)),
    ("conv3x3_halve", run!(args: conv3x3_forward, 2)),
    ("conv3x3_data", run!(args: conv3x3_data, 1)),
    ("conv3x3_double", run!(args: conv3x3_data, 2)),
    ("weights3x3", run!(Z: weights3x3)),
    ("weights3x3_image", run!(Z: weights3x3)),
    ("weights3x3_halve", run!(Z: weights3x3)),
    ("add_forward", run!(Y: forth, Launch::copied)),
    ("add_forward_tangent", run!(Y: forth_tangent, Launch::copied)),
    ("add_backward", run!(Y: back, Launch::copied_back)),
    ("add_backward_tangent", run!(Y: back_tangent, Launch::copied_back)),
    ("pool_forward", run!(Y: forth, Launch::pooled)),
    ("pool_forward_tangent", run!(Y: forth_tangent, Launch::pooled)),
    ("pool_backward", run!(Y: back, Launch::pooled_back)),
    ("pool_backward_tangent", run!(Y: back_tangent, Launch::pooled_back)),
    ("subsample_forward", run!(Y: forth, Launch::subsampled)),
    ("subsample_forward_tangent", run!(Y: forth_tangent, Launch::subsampled)),
    ("subsample_backward", run!(Y: back, Launch::subsampled_back)),
    ("subsample_backward_tangent", run!(Y: back_tangent, Launch::subsampled_back)),
    ("mean_forward", run!(Y: forth, Launch::averaged)),
    ("mean_forward_tangent", run!(Y: forth_tangent, Launch::averaged)),
    ("mean_backward", run!(Y: back, Launch::averaged_back)),
    ("mean_backward_tangent", run!(Y: back_tangent, Launch::averaged_back)),
    ("sum_forward", run!(Y: sum_forward)),
    ("sum_backward", run!(Y: sum_backward)),
    ("norm_moments", run!(Y: norm_moments)),
    ("norm_moments_tangent", run!(Y: norm_moments_tangent)),
    ("norm_forward", run!(Y: norm_forward)),
    ("norm_forward_tangent", run!(Y: norm_forward_tangent)),
    ("norm_running", run!(Y: norm_running)),
    ("norm_gradient_sums", run!(Y: norm_gradient_sums)),
    ("norm_gradient_sums_tangent", run!(Y: norm_gradient_sums_tangent)),
    ("norm_backward", run!(Y: norm_backward)),
    ("norm_backward_tangent", run!(Y: norm_backward_tangent)),
    ("bias_sums", run!(Y: bias_sums)),
    ("bias_sums_tangent", run!(Y: bias_sums_tangent)),
    ("bias_finish", run!(Y: bias_finish)),
    ("loss_examples", run!(Y: loss_examples)),
    ("loss_examples_tangent", run!(Y: loss_examples_tangent)),
    ("loss_mean", run!(X: loss_mean)),
];

/// Names of all kernels that have a reference.
pub fn kernels_with_references() -> BTreeSet<String> {
    kernels().into_iter().filter(|kernel| reference_of(kernel).is_some()).collect()
}

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

mod tests {
    use super::*;

    /// The files with tests of the kernels that have no reference.
    const TESTS: [&str; 4] = [
        include_str!("../engine/tests/steps.rs"),
        include_str!("../device_dataset/tests.rs"),
        include_str!("../compare/tests.rs"),
        include_str!("../tests/against_cpu.rs"),
    ];

    #[test]
    fn every_kernel_has_a_reference_or_a_test_of_its_own() {
        let kernels = kernels();
        let families: Vec<&str> = kernels.iter().map(|kernel| family_of(kernel)).collect();
        for (i, (family, _)) in REFERENCES.iter().enumerate() {
            assert!(families.contains(family), "no kernel of the reference {family}");
            assert!(REFERENCES[..i].iter().all(|(other, _)| other != family), "{family} twice");
        }
        for (test, own) in TESTED_ELSEWHERE {
            let is_there = |text: &str| text.contains(&format!("fn {test}("));
            assert!(TESTS.into_iter().any(is_there), "no test {test}");
            assert!(own.iter().all(|name| kernels.contains(*name)), "no kernel of {own:?}");
        }
        for kernel in &kernels {
            let has_reference = reference_of(kernel).is_some();
            assert!(has_reference != is_tested_elsewhere(kernel), "{kernel} has no test, or two");
        }
    }
}
