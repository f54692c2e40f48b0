//! Runs a loop with the widest vector instructions of the machine.
//!
//! Only loops without reductions go through here: each element is computed by itself with
//! correctly rounded operations and no fused multiply-add, so the width cannot change a bit.

/// Calls `kernel` compiled for the best of AVX-512, AVX2 and the baseline that this machine has.
///
/// Write `#[inline(always)]` before the closure: one that is not inlined into the function with
/// the wide instructions is compiled for the baseline.
#[inline]
pub(crate) fn vectorized<T>(kernel: impl FnOnce() -> T) -> T {
    pulp::Arch::new().dispatch(kernel)
}
