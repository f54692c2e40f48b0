//! Why two copies of a training run diverge: attribution of the growth of their difference over one step.
//!
//! ```text
//! d = copy − run before a step,   d' after it,      J the linearization of the step at the run
//! d' = J d + rest
//! ```
//!
//! `J` follows exactly from the optimizer and the Hessian `H` of the batch's loss (weight decay included).
//! [`Linearization::attribute`] splits the growth `(|d'|² − |d|²)/|d|²` into [`Parts`] that add up to it:
//!
//! ```text
//! overshoot            modes that leave the unit circle at −1: lambda > 2/dt for gradient descent. The sign
//!                      alternates. A numerical instability: a smaller step cures it
//! negative curvature   modes that leave it at +1: lambda < 0. The flow's own: no step size cures it
//! transient            growth that no unstable mode explains: momentum turning into distance
//! contraction          all that shrinks
//! preconditioner       Adam: what a change of its denominator adds to the step with a held denominator
//! kinks                |d'|² − |J d|²: what no linearization sees (kinks, change of the curvature), and rounding
//! ```
//!
//! # Coordinates and norm
//!
//! What a copy differs in is a pair `z = (x, y)` of a position and of the step that it remembers, both in the
//! units of the parameters; growth is measured in `|z|² = |x|² + |y|²`. With `q = dt lambda` a mode of
//! curvature `lambda` goes from `z` to `M z`:
//!
//! ```text
//! SGD             x = δθ                                            M = 1 − q
//! heavy ball      x = δθ           y = dt δb                        M = | 1 − q          −mu       |
//!                                                                       | q               mu       |
//! Nesterov        x = δθ           y = dt δb                        M = | 1 − (1+mu)q    −mu²      |
//!                                                                       | q               mu       |
//! Nesterov (PDE)  x = δK           y = δK − δK₋₁    q = s lambda    M = | 1 − q           mu(1−q)  |
//!                                                                       | −q              mu(1−q)  |
//! Adam            x = P^{1/2} δθ   y = dt P^{−1/2} δm               M = | 1 − (1−β₁)q    −β₁       |
//!                                                                       | (1−β₁)q         β₁       |
//! ```
//!
//! For Adam `lambda` is an eigenvalue of `P^{−1/2} H P^{−1/2}`, with `P` the denominator of the run's own step
//! (bias corrections included), held; the norm is that of this step, before and after it. Differences of
//! `v` are not part of `z`: what they do to the step is the part `preconditioner`,
//! `|J d|² − |J_held d|²` with `J` the exact linearization, the change of `v` by the gradient included.
//! The Hessian is taken where the run takes its gradient (Nesterov (PDE): at the point ahead).
//!
//! # Modes
//!
//! The measure of `H` at `d` ([`SpectralMeasure`]) has nodes `lambda_i`, and along each a `z_i` of two numbers:
//!
//! ```text
//! |d|² = Σ_i |z_i|²,       |J d|² = Σ_i |M(lambda_i) z_i|²
//! ```
//!
//! both exact from two matrix-vector products on for each of `x` and `y`, since `|M z|²` is of degree two in
//! `lambda` and `m` products integrate degree `2m − 1`. The *split* needs more nodes: it integrates functions with a
//! corner at the thresholds. A few tens resolve eigenvalues that stand out, which are those that overshoot;
//! of the many near zero each contributes little wherever it is counted. [`Attribution::split_change`] says
//! how much a part changed when the number of nodes doubled to what was asked for; 0 where the nodes are all there are.
//!
//! Of a node with a real root `r` outside the unit circle, `z = z_u + z_s` along the two eigenvectors of `M`:
//!
//! ```text
//! |M z|² − |z|² = (r² − 1)|z_u|²  +  the rest
//! ```
//!
//! The first is the growth of the unstable mode: overshoot for `r < −1`, negative curvature for `r > 1`. It goes to zero
//! with `lambda`, so the many eigenvalues near zero are told apart by how much they amplify and not by their sign. The
//! rest, and the whole of a stable node, is transient where positive and contraction where negative. `M` is
//! not normal: a stable mode can grow for some steps. For gradient descent there is no transient part.
//!
//! # Rounding
//!
//! Both copies round what they store: `d'` is known up to `2u(|z'| + |z' − z|)`, with `z` the state of the run
//! itself in the coordinates above; the error of the gradient's own arithmetic, which a step multiplies by `dt`, comes on
//! top and is not known. [`Attribution::rounding`] is what this can do to the parts. Nodes are free of it: they
//! say what `J` does to the difference that is there. Only the rest, `kinks`, holds rounding; below
//! [`Attribution::rounding`] it is not told from it, and [`Attribution::shares`] leaves it out. Where all
//! that amplifies is below it there are no shares.
//!
//! # Distance
//!
//! The linear parts do not depend on the size of `d`, the rest does. Of a smooth loss it falls in proportion to the
//! distance. A kink of a ReLU makes the gradient jump: nearer copies have fewer kinks between them, but what one
//! adds does not shrink with the distance, so the rest becomes rare and large instead. Attribution is of growth *at
//! the distance of the copies*. [`Pair`] carries a copy along at the geometric mean of roundoff and the linear
//! range, as the verdict's twin is.
//!
//! # A second, independent answer
//!
//! [`refinement()`] measures the growth per unit of time at `dt`, `dt/2`, `dt/4`, …: what stays is the flow's own, what
//! vanishes was numerical.
//!
//! References: Golub and Meurant, *Matrices, moments and quadrature*, 1994; Ruhe, *Implementation aspects of band
//! Lanczos algorithms*, Math. Comp. 33 (1979); Benettin et al., Meccanica 15 (1980).

mod linearization;
mod pair;
mod parts;
mod refinement;
mod spectral_measure;
#[cfg(test)]
mod tests;

pub use linearization::{Linearization, ModeStep, Undefined};
pub use pair::{Pair, State};
pub use parts::{Attribution, Matrix, Parts, StepSeen};
pub use refinement::{Refined, refinement};
pub use spectral_measure::SpectralMeasure;
