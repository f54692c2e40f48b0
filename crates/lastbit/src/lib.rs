//! The mathematics of lastbit: what makes a computation stable, and what one last bit becomes.
//!
//! ```text
//! simd, exp, log2       loops at the machine's widest vectors, the same bits; e^x of slices; log₂ x
//! named                 enums whose variants have names, for flags, files and records
//! real, rng, reduce     f32 | f64 and their bits; counter-based random numbers; sums of fixed order
//! signal, curve         test signals and images; curves of bounded length
//! fft, correlate        Fourier transform; cross-correlation with an image
//! activation, regimes   Swish, ReLU, tanh, sigmoid; which positions are activated
//! dynamics              x_{n+1} = Φ_dt(x_n), the one time loop, watchers
//! growth, verdict       growth rate of a twin; the rule: stable, restrained, diverged, undecided
//! divergence            how far apart two runs are; a twin one last bit away
//! comparison            two arrays entry by entry: ulps, agreeing bits, what is not finite
//! objective             the seam: loss, gradient, Hessian-vector product on a batch; fallible
//! data                  examples in memory
//! pde                   heat, Beltrami, any linear scheme, the one-layer network
//! nn                    the engine: networks with exact first and second derivatives
//! optim                 direction, last-bit perturbation and schedule of a step
//! batches, training     the batch of any step; replicas of a model in lock step; gradient descent
//! attribution           why copies of a run diverge: growth over a step by cause
//! krylov                eigenvalues of an operator that can only be multiplied with a vector: Lanczos
//! spectrum              roots of polynomials, von Neumann analysis, windowed bounds
//! search                edges of stability by probing: doubling or halving, then bisection
//! theory                each layer of a stack as a one-layer network, and what that leaves out
//! statistics            spread of a handful of runs: intervals, tests, power, shares of variance
//! curvature             Hessian of the mean loss: sharpness, trace, spectral density
//! ```
//!
//! A module uses only those above it. No files, clock, printing or serialisation here; a caller's
//! mistake panics with the numbers in the message, and divergence is a value.
//!
//! # Example
//!
//! Which of two step sizes is stable?
//!
//! ```
//! use lastbit::pde::heat::{Ends, Heat};
//! use lastbit::signal::triangle;
//! use lastbit::verdict::{Horizon, VerdictKind, judge};
//!
//! let verdict = |dt: f64| {
//!     let mut heat = Heat::new(dt, 1.0, 1.0, Ends::Dirichlet, triangle(31, 1.5));
//!     let Ok(judged) = judge(&mut heat, Horizon::of(1000), &mut []);
//!     judged.verdict.kind()
//! };
//! assert_eq!(verdict(0.4), VerdictKind::Stable);
//! assert_eq!(verdict(0.8), VerdictKind::Diverged);
//! ```

pub mod activation;
pub mod attribution;
pub mod batches;
pub mod comparison;
pub mod correlate;
pub mod curvature;
pub mod curve;
pub mod data;
pub mod divergence;
mod dynamics;
pub mod exp;
pub mod fft;
pub mod growth;
pub mod krylov;
pub mod log2;
pub mod named;
pub mod nn;
pub mod objective;
pub mod optim;
pub mod pde;
mod real;
pub mod reduce;
pub mod regimes;
pub mod rng;
pub mod search;
pub mod signal;
mod simd;
pub mod spectrum;
pub mod statistics;
pub mod theory;
pub mod training;
pub mod verdict;

pub use dynamics::{Dynamics, Reached, Watcher, evolve};
pub use real::{Real, hash_of_bits};
pub use simd::{Instructions, use_instructions};

/// Property tests draw the same cases at every run.
#[cfg(test)]
fn fixed_seed() -> proptest::test_runner::Config {
    proptest::test_runner::Config {
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        failure_persistence: None,
        ..Default::default()
    }
}
