//! The parts of a growth, and which of them amplify.

use super::spectral_measure::{Node, SpectralMeasure};

/// Signed contributions to the growth of a difference over a step. In what units they are, says who returns them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Parts {
    /// Growth of modes that leave the unit circle at −1, or as a complex pair.
    pub overshoot: f64,
    /// Growth of modes that leave the unit circle at +1.
    pub negative_curvature: f64,
    /// Growth that no unstable mode explains; 0 for gradient descent.
    pub transient: f64,
    /// All that shrinks: at most 0.
    pub contraction: f64,
    /// Change of Adam's denominator; 0 for the others.
    pub preconditioner: f64,
    /// What no linearization sees: kinks, change of the curvature; and rounding.
    pub kinks: f64,
}

impl Parts {
    /// Names in files and records, in the order of [`values`](Self::values).
    pub const NAMES: [&str; 6] =
        ["overshoot", "negative_curvature", "transient", "contraction", "preconditioner", "kinks"];

    /// The parts in the order of their names.
    pub fn values(&self) -> [f64; 6] {
        [
            self.overshoot,
            self.negative_curvature,
            self.transient,
            self.contraction,
            self.preconditioner,
            self.kinks,
        ]
    }

    /// The growth that they add up to.
    pub fn total(&self) -> f64 {
        self.values().iter().sum()
    }

    pub(super) fn map(&self, of: impl Fn(f64) -> f64) -> Self {
        let [overshoot, negative_curvature, transient, contraction, preconditioner, kinks] =
            self.values().map(of);
        Self { overshoot, negative_curvature, transient, contraction, preconditioner, kinks }
    }

    /// What a held linear step with the matrix `M(lambda)` does at all nodes: `|M z|² − |z|²`, by cause.
    pub(super) fn of_nodes(nodes: &[Node], matrix: impl Fn(f64) -> Matrix) -> Self {
        let mut parts = Self::default();
        for (lambda, components) in nodes {
            let z = [components[0], components.get(1).copied().unwrap_or(0.0)];
            parts.add(matrix(*lambda), z);
        }
        parts
    }

    fn add(&mut self, matrix: Matrix, z: [f64; 2]) {
        let rest = match unstable_mode(matrix) {
            None => square(apply(matrix, z)) - square(z),
            Some(Mode::Pair) => {
                self.overshoot += square(apply(matrix, z)) - square(z);
                return;
            }
            Some(Mode::Real { root, other }) => {
                // (root − M)/(root − other) projects to the stable eigenvector along the unstable one: exactly
                // zero where there is none, as in gradient descent.
                let [[a, b], [c, d]] = matrix;
                let stable = apply([[root - a, -b], [-c, root - d]], z).map(|x| x / (root - other));
                let unstable = [z[0] - stable[0], z[1] - stable[1]];
                let growth = (root * root - 1.0) * square(unstable);
                if root > 0.0 {
                    self.negative_curvature += growth;
                } else {
                    self.overshoot += growth;
                }
                let across = unstable[0] * stable[0] + unstable[1] * stable[1];
                (other * other - 1.0) * square(stable) + 2.0 * (root * other - 1.0) * across
            }
        };
        if rest > 0.0 {
            self.transient += rest;
        } else {
            self.contraction += rest;
        }
    }
}

/// A 2x2 matrix by rows.
pub type Matrix = [[f64; 2]; 2];

enum Mode {
    /// The root outside the unit circle, and the other one.
    Real { root: f64, other: f64 },
    /// No single root is outside: a complex pair, or both real ones.
    Pair,
}

/// What leaves the unit circle, if anything does.
fn unstable_mode([[a, b], [c, d]]: Matrix) -> Option<Mode> {
    let (half, determinant) = ((a + d) / 2.0, a * d - b * c);
    let discriminant = half * half - determinant;
    if discriminant < 0.0 {
        return (determinant > 1.0).then_some(Mode::Pair);
    }
    let root = half + discriminant.sqrt().copysign(half);
    let other = if root == 0.0 { 0.0 } else { determinant / root };
    match (root.abs() > 1.0, other.abs() > 1.0) {
        (false, _) => None,
        (true, false) => Some(Mode::Real { root, other }),
        (true, true) => Some(Mode::Pair),
    }
}

fn apply([[a, b], [c, d]]: Matrix, [x, y]: [f64; 2]) -> [f64; 2] {
    [a * x + b * y, c * x + d * y]
}

fn square([x, y]: [f64; 2]) -> f64 {
    x * x + y * y
}

/// What was seen of one step besides its linear part, in the norm of the [module](super).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepSeen {
    /// `|d|²` before the step, and `|d'|²` after it.
    pub squares: [f64; 2],
    /// What a change of Adam's denominator adds to `|J d|²`.
    pub preconditioner: f64,
    /// How well `d'` is known: what rounding of the stored states can do to it.
    pub rounding: f64,
}

impl StepSeen {
    /// The growth by cause: `measure` is that of the Hessian at `d`, and `mode(lambda)` what the step does along a
    /// mode of curvature `lambda`.
    pub fn attributed(
        &self,
        measure: &SpectralMeasure,
        mode: impl Fn(f64) -> Matrix,
    ) -> Attribution {
        let Self { squares: [was, is], preconditioner, rounding } = *self;
        let products = measure.products();
        let by_cause = |count: usize| Parts::of_nodes(&measure.nodes(count), &mode);
        let mut parts = by_cause(products);
        let coarse = if measure.is_complete { parts } else { by_cause(products / 2) };
        let changes = parts.values().into_iter().zip(coarse.values()).map(|(a, b)| (a - b).abs());
        let split_change = changes.fold(0.0, f64::max);
        parts.preconditioner = preconditioner;
        parts.kinks = is - was - parts.total();
        Attribution {
            distance: was.sqrt(),
            growth: 0.5 * libm::log(is / was),
            parts: parts.map(|part| part / was),
            split_change: split_change / was,
            rounding: (2.0 * is.sqrt() * rounding + rounding * rounding) / was,
            products,
        }
    }
}

/// The growth of a difference over one step, by cause.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Attribution {
    /// `|d|` in the norm of the [module](super).
    pub distance: f64,
    /// `ln(|d'|/|d|)`.
    pub growth: f64,
    /// Contributions to `(|d'|² − |d|²)/|d|²`, which they add up to.
    pub parts: Parts,
    /// The most by which a linear part changed when the number of nodes doubled.
    pub split_change: f64,
    /// What rounding of the stored states can do to the sum of the parts.
    pub rounding: f64,
    /// Hessian-vector products made.
    pub products: usize,
}

impl Attribution {
    /// Contributions to [`growth`](Self::growth), in e-folds of the step: the parts in proportion.
    pub fn e_folds(&self) -> Parts {
        let factor = self.factor();
        // The factor is infinite where the copies coincide after the step.
        self.parts.map(|part| if part == 0.0 { 0.0 } else { factor * part })
    }

    /// A contribution to the relative change of `|d|²` in e-folds of the step.
    pub fn in_e_folds(&self, contribution: f64) -> f64 {
        self.factor() * contribution
    }

    /// ln(1 + t)/(2t), which tends to 1/2, with `t` the sum of the parts.
    fn factor(&self) -> f64 {
        let total = self.parts.total();
        if total == 0.0 { 0.5 } else { self.growth / total }
    }

    /// Whether the part that no linearization sees is more than rounding could make of it.
    pub fn kinks_are_resolved(&self) -> bool {
        self.parts.kinks.abs() > self.rounding
    }

    /// Shares of what amplifies, with sum 1; 0 for what does not. Kinks that are not told from rounding are left
    /// out. None where nothing amplifies by more than rounding could.
    pub fn shares(&self) -> Option<Parts> {
        let kinks = if self.kinks_are_resolved() { self.parts.kinks } else { 0.0 };
        let amplifying = Parts { kinks, ..self.parts }.map(|part| part.max(0.0));
        let total = amplifying.total();
        (total > self.rounding).then(|| amplifying.map(|part| part / total))
    }
}
