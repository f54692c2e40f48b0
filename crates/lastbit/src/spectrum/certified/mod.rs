//! Certified stability of linear schemes with constant coefficients.
//!
//! ```text
//! ball          numbers with a bound on their error
//! symbol        trigonometric polynomials with coefficients that are polynomials in dt
//! conditions    stability as inequalities for such polynomials (Schur-Cohn, Miller)
//! taylor        remainders of sine and cosine, forms in two variables
//! positivity    their signs over all frequencies: expansion at the corners, branch and bound
//! steps         the set of stable steps, by bisection of intervals of steps
//! ```
//!
//! A scheme is stable at `dt` when no frequency is amplified: the largest root `|A(ω)|` of its
//! characteristic polynomial (see [`von_neumann`](super::von_neumann)) is at most 1 for every real
//! `ω`. Answers are *certainly stable*, *certainly unstable* with a frequency, or *undecided* with a
//! reason; sampling alone never decides for stability.
//!
//! What is certain of what: the coefficients of a scheme are rounded numbers, so the exact question
//! about them is not the one that is meant. Consistency, order and reversibility hold up to rounding only;
//! advection by Lax-Wendroff with rounded coefficients would often be unstable at long waves, by 1e-16.
//! Each coefficient is therefore taken as known to a relative
//! [`COEFFICIENT_ERROR`], and each combination of them, per power of `dt`
//! and order of `ω`, that vanishes within that error is taken to vanish (module `symbol`).
//! Everything after that is rigorous: signs come from balls that hold the error of the coefficients
//! and all rounding, and a sign they leave open is answered by "undecided". The error is relative, so
//! an instability however weak (FTCS for advection exceeds 1 by `(v dt/dx)²/2`) is seen at
//! every `dt`.
//!
//! As in all von Neumann analysis roots that coincide on the unit circle count as stable.

mod ball;
mod conditions;
mod positivity;
mod steps;
mod symbol;
mod taylor;

use std::fmt;

use super::von_neumann::{Mode, amplification, natural_dt};
use crate::pde::scheme::Scheme;
use conditions::{Condition, conditions};
use positivity::{ConditionAt, Sign, Steps};
pub use steps::{End, Kind, Piece, StableInterval, StableSteps, WIDEST_GAP};
pub use symbol::COEFFICIENT_ERROR;
use symbol::{Lag, Symbol};

/// Whether a scheme is stable at a step.
#[derive(Debug, Clone, PartialEq)]
pub enum Stability {
    /// No frequency is amplified.
    CertainlyStable,
    /// This frequency is. Its amplification is a rounded number, which may be 1 where the excess
    /// is below the last digit.
    CertainlyUnstable(Mode),
    /// Neither could be shown.
    Undecided(Why),
}

/// Why a decision was not reached. Frequencies are those of the axes that offsets use, in radians per
/// their greatest common divisor.
#[derive(Debug, Clone, PartialEq)]
pub enum Why {
    /// At this frequency the amplification is 1 to within rounding, as at the edge of stability.
    Touches([f64; 2]),
    /// At this frequency the coefficient of the new time level vanishes to within rounding.
    Singular([f64; 2]),
    /// Branch and bound was given up near this frequency.
    TooManyBoxes([f64; 2]),
    /// The scheme has too many time levels or terms.
    TooLarge,
    /// Rounding grew too large on the way through the time levels.
    LostPrecision,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let at = |omega: &[f64; 2]| match omega {
            [first, 0.0] => format!("omega = {first}"),
            [first, second] => format!("omega = ({first}, {second})"),
        };
        match self {
            Self::Touches(omega) => {
                write!(f, "the amplification at {} is 1 to within rounding", at(omega))
            }
            Self::Singular(omega) => {
                write!(f, "the new time level cannot be solved for at {}", at(omega))
            }
            Self::TooManyBoxes(omega) => {
                write!(f, "the amplification is too close to 1 around {}", at(omega))
            }
            Self::TooLarge => f.write_str("the scheme has too many time levels or terms"),
            Self::LostPrecision => {
                f.write_str("rounding hides the conditions of so many time levels")
            }
        }
    }
}

/// All stable steps of `scheme`.
pub fn stable_steps(scheme: &Scheme) -> StableSteps {
    Analysis::new(scheme).stable_steps()
}

/// A scheme, prepared for decisions at many steps.
#[derive(Debug, Clone)]
pub struct Analysis {
    scheme: Scheme,
    /// The unit of steps, a power of two.
    natural: f64,
    /// For each axis that offsets use: which, and the greatest common divisor of its entries. The mesh
    /// falls apart into as many meshes that do not know of each other.
    axes: Vec<(usize, i32)>,
    conditions: Result<Vec<Condition>, Why>,
}

impl Analysis {
    /// Derives the conditions of stability.
    pub fn new(scheme: &Scheme) -> Self {
        let natural = natural_dt(scheme).unwrap_or(1.0);
        let axes: Vec<(usize, i32)> = (0..scheme.dimensions())
            .map(|axis| {
                let entries = scheme.terms().iter().map(|term| term.offset[axis]);
                (axis, entries.fold(0, greatest_common_divisor))
            })
            .filter(|(_, divisor)| *divisor != 0)
            .collect();
        let conditions = conditions(&characteristic(scheme, natural, &axes), axes.len());
        Self { scheme: scheme.clone(), natural, axes, conditions }
    }

    /// Whether the scheme is stable at `dt` on an infinite mesh, that is at every real frequency.
    ///
    /// ```
    /// use lastbit::pde::textbook::heat;
    /// use lastbit::spectrum::certified::{Analysis, Stability};
    ///
    /// let heat = Analysis::new(&heat(1.0, 1.0));
    /// assert_eq!(heat.at(0.499_999_999), Stability::CertainlyStable);
    /// assert!(matches!(
    ///     heat.at(0.500_000_001),
    ///     Stability::CertainlyUnstable(mode) if mode.omega == [std::f64::consts::PI]
    /// ));
    /// ```
    pub fn at(&self, dt: f64) -> Stability {
        match self.decide(self.steps_at(dt)) {
            Sign::Positive => Stability::CertainlyStable,
            Sign::Negative(omega) => Stability::CertainlyUnstable(self.mode(dt, omega)),
            Sign::Unknown(why) => Stability::Undecided(why),
        }
    }

    /// All stable steps.
    pub fn stable_steps(&self) -> StableSteps {
        steps::stable_steps(self)
    }

    /// The sign that all conditions have in common at all of `steps`.
    fn decide(&self, steps: Steps) -> Sign {
        let conditions = match &self.conditions {
            Ok(conditions) => conditions,
            Err(why) => return Sign::Unknown(why.clone()),
        };
        let at_steps: Vec<_> = conditions.iter().map(|condition| condition.at(steps)).collect();
        if let Some(omega) = at_steps.iter().find_map(ConditionAt::negative_sample) {
            return Sign::Negative(omega);
        }
        let mut open = None;
        for condition in &at_steps {
            match condition.sign() {
                Sign::Positive => {}
                Sign::Negative(omega) => return Sign::Negative(omega),
                Sign::Unknown(why) => open = open.or(Some(why)),
            }
        }
        open.map_or(Sign::Positive, Sign::Unknown)
    }

    fn steps_at(&self, dt: f64) -> Steps {
        // Exact: the unit is a power of two.
        let x = dt / self.natural;
        if x <= steps::TURN {
            Steps { inverse: false, mid: x, rad: 0.0 }
        } else {
            Steps { inverse: true, mid: 1.0 / x, rad: f64::EPSILON / x }
        }
    }

    /// The mode of a frequency on the lattice of `axes`.
    fn mode(&self, dt: f64, omega: [f64; 2]) -> Mode {
        let mut full = vec![0.0; self.scheme.dimensions()];
        for (entry, (axis, divisor)) in omega.into_iter().zip(&self.axes) {
            // A negative zero is none to show.
            full[*axis] = entry / f64::from(*divisor) + 0.0;
        }
        let amplification = amplification(&self.scheme, dt, &full);
        Mode { omega: full, amplification }
    }
}

fn greatest_common_divisor(a: i32, b: i32) -> i32 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a as i32
}

/// `A^m − Σ terms`, steps in units of `natural`, offsets on the lattice of `axes`.
fn characteristic(scheme: &Scheme, natural: f64, axes: &[(usize, i32)]) -> Vec<Symbol> {
    let levels = scheme.levels();
    let mut contributions: Vec<Vec<(Lag, usize, f64)>> = vec![Vec::new(); levels + 1];
    for term in scheme.terms() {
        let mut lag = [0, 0];
        for (entry, (axis, divisor)) in lag.iter_mut().zip(axes) {
            *entry = term.offset[*axis] / divisor;
        }
        let at = &mut contributions[(levels as i32 - 1 + term.level) as usize];
        let mut unit = 1.0;
        for (power, c) in term.coefficient.iter().enumerate() {
            if *c != 0.0 {
                at.push((lag, power, -c * unit));
            }
            unit *= natural;
        }
    }
    let mut p: Vec<Symbol> = contributions.iter().map(|c| Symbol::of(c)).collect();
    let lead = Symbol::constant(1.0);
    p[levels] = lead.minus(&Symbol::default().minus(&p[levels]));
    p
}

#[cfg(test)]
mod tests;
