//! Winograd convolution F(2×2, 3×3) of stride one: 16 multiplications for 2×2 outputs and a pair of channels instead of 36.
//!
//! A 4×4 patch `d` of the input and a kernel `g` give a 2×2 tile of outputs
//!
//! ```text
//! Y = Aᵀ [ (G g Gᵀ) ⊙ (Bᵀ d B) ] A
//!
//!      1  0 −1  0          1   0   0
//! Bᵀ = 0  1  1  0     G =  ½   ½   ½      Aᵀ = 1  1  1  0
//!      0 −1  1  0          ½  −½   ½           0  1 −1 −1
//!      0  1  0 −1          0   0   1
//! ```
//!
//! so that a convolution becomes sixteen matrix products over channels, one for each number of a transformed patch.
//! The weight gradient is `Gᵀ [ Σ (Bᵀ d B) ⊙ (A dY Aᵀ) ] G`; the input gradient is a convolution again.
//!
//! ```text
//! kernels    G g Gᵀ of all kernels, in panels; and Gᵀ m G of their gradients
//! patches    Bᵀ d B and A dY Aᵀ of some tiles: sixteen matrices tiles × channels, in column blocks
//! multiply   patches times kernels, and Aᵀ m A into the outputs
//! outer      weight gradients of the transformed kernels
//! ```
//!
//! `G g Gᵀ` and `Gᵀ m G` are computed in double precision and rounded once. The other transforms only add and
//! subtract, the left factor first. Each of the sixteen sums over channels, or over tiles, is one chain of fused multiply-adds. The
//! error is that of the direct sum times a small constant (the transforms' norms).
//!
//! Reference: Lavin and Gray, *Fast algorithms for convolutional neural networks*, CVPR 2016.

mod kernels;
mod multiply;
#[cfg(test)]
mod naive;
mod outer;
mod patches;

pub(super) use kernels::{pack, unpack};
pub(super) use multiply::multiply;
pub(super) use outer::{OUTPUTS, Summed, outer};
pub(super) use patches::{Patches, Transform, tiles_together};

/// Numbers of a transformed patch.
pub(super) const PATCH: usize = 16;
/// Channels come in multiples of this, which every register's width divides.
pub(super) const CHANNELS: usize = 16;

/// How images lie in memory: numbers from a pixel to the one below, and channels of a pixel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    pub stride: usize,
    pub channels: usize,
}
