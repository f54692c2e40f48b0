//! Certain signs of a condition at a step, or at all steps of an interval.
//!
//! The frequencies are divided into cells around the corners, where each entry of `ω` is 0 or π.
//! There conditions touch zero for good: every consistent scheme has `A = 1` at `ω = 0`, and
//! differences that are odd vanish at π as well. In a cell, with `ω = corner + ξ`, `r = |ξ|` and the
//! lower orders known to vanish,
//!
//! ```text
//! D(ξ) = F_J(ξ) + F_{J+1}(ξ) + …  = Σ_k ± d_k tail_J(k·ξ),   tail_J(x) = cos x − its terms below x^{2J}
//! ```
//!
//! 1. **Near the corner**, direction by direction (`e` a unit vector, `t = r²`):
//!    `D ≥ t^J (F_J(e) + t F_{J+1}(e) − t² C)`, `C = Σ_k |d_k| |k|^{2J+4}/(2J+4)!`. The bracket is
//!    concave in `t`: positive at `0` and at `T`, it is positive between. More terms may be kept: as
//!    long as they are not negative, the last of them against the remainder gives another `T`. The
//!    sign of `F_J` alone decides the longest waves; where it is negative the scheme is unstable
//!    however small its size.
//! 2. **Elsewhere** branch and bound: on a box of half widths `h` around `ξ`
//!    `D ≥ D(ξ) − Σ |∂D| h − ½ Σ_k |d_k| (|k|·h)² sup |tail_J''|`.
//!
//! All numbers are balls. A sign that rounding (or the width of the interval of steps) hides is
//! unknown; no tolerance decides it.

use super::Why;
use super::ball::Ball;
use super::conditions::{Condition, Corner, Demand, factorial};
use super::symbol::{Lag, sign_at};
use super::taylor::{form_slope, form_value, tail, tail_bound, turn};

/// Boxes looked at before a cell is given up, in one dimension and in two.
const MOST_BOXES: [usize; 2] = [3_000, 60_000];

/// A cell reaches a quarter turn to each side of its corner, rounded up.
const REACH: f64 = std::f64::consts::FRAC_PI_2 * (1.0 + 2.0 * f64::EPSILON);

/// A step or an interval of steps: those within `rad` of `mid`, or, if `inverse`, those whose inverses
/// are; in units of the natural step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steps {
    pub(super) inverse: bool,
    pub(super) mid: f64,
    pub(super) rad: f64,
}

impl Steps {
    /// A polynomial in the step, a power of it divided out.
    fn evaluate(self, polynomial: &[Ball]) -> Ball {
        let degree = polynomial.len() - 1;
        let coefficient = |n: usize| polynomial[if self.inverse { degree - n } else { n }];
        let x = Ball::exact(self.mid);
        let far = self.mid + self.rad;
        let (mut value, mut slope, mut curvature) = (Ball::ZERO, Ball::ZERO, 0.0_f64);
        for n in (0..=degree).rev() {
            slope = slope * x + value;
            value = value * x + coefficient(n);
            if n >= 2 {
                curvature = curvature * far + (n * (n - 1)) as f64 * coefficient(n).size();
            }
        }
        value.widened(self.rad * slope.size() + self.rad * self.rad * curvature)
    }
}

/// The sign of a condition over all frequencies.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Sign {
    /// Positive, but at the corners where it vanishes.
    Positive,
    /// Negative at this frequency.
    Negative([f64; 2]),
    /// Not known.
    Unknown(Why),
}

/// A condition at some steps.
pub(super) struct ConditionAt<'a> {
    condition: &'a Condition,
    steps: Steps,
    demand: Demand,
    terms: Vec<(Lag, Ball)>,
    corners: Vec<CornerAt>,
    dimensions: usize,
}

struct CornerAt {
    at: [bool; 2],
    order: Option<usize>,
    forms: Vec<FormAt>,
}

struct FormAt {
    whole: Vec<Ball>,
    trimmed: Vec<Ball>,
}

impl Corner {
    fn at(&self, steps: Steps) -> CornerAt {
        let evaluate = |form: &[Vec<Ball>]| form.iter().map(|c| steps.evaluate(c)).collect();
        let forms = self
            .forms
            .iter()
            .map(|form| FormAt { whole: evaluate(&form.whole), trimmed: evaluate(&form.trimmed) });
        CornerAt { at: self.at, order: self.order, forms: forms.collect() }
    }
}

impl Condition {
    pub(super) fn at(&self, steps: Steps) -> ConditionAt<'_> {
        let terms = self.terms.iter().map(|(lag, c)| (*lag, steps.evaluate(c))).collect();
        let corners: Vec<CornerAt> = self.corners.iter().map(|corner| corner.at(steps)).collect();
        let dimensions = corners.len().trailing_zeros() as usize;
        ConditionAt { condition: self, steps, demand: self.demand, terms, corners, dimensions }
    }
}

impl ConditionAt<'_> {
    /// A frequency at which it is negative, from few samples: quick, and not complete.
    pub(super) fn negative_sample(&self) -> Option<[f64; 2]> {
        self.corners
            .iter()
            .find_map(|corner| match self.near(corner) {
                Ok(_) => None,
                Err(Sign::Negative(omega)) => Some(omega),
                Err(_) => None,
            })
            .or_else(|| {
                let per_axis: i32 = match self.dimensions {
                    0 => return None,
                    1 => 24,
                    _ => 6,
                };
                let at = |i: i32| f64::from(i) * REACH / f64::from(per_axis);
                let rows = if self.dimensions == 2 { -per_axis..=per_axis } else { 0..=0 };
                self.corners.iter().find_map(|corner| {
                    (1..=per_axis).find_map(|i| {
                        rows.clone().find_map(|j| {
                            let xi = [at(i), at(j)];
                            self.value(corner, xi).is_negative().then(|| place(corner, xi))
                        })
                    })
                })
            })
    }

    /// Its sign over all frequencies.
    pub(super) fn sign(&self) -> Sign {
        for corner in &self.corners {
            let radius = match self.near(corner) {
                Ok(radius) => radius,
                Err(sign) => return sign,
            };
            if self.demand == Demand::PositiveAtCorners {
                continue;
            }
            match self.cell(corner, radius) {
                Sign::Positive => {}
                other => return other,
            }
        }
        Sign::Positive
    }

    fn value(&self, corner: &CornerAt, xi: [f64; 2]) -> Ball {
        let n = 2 * corner.order.unwrap_or(0);
        let wave = |lag: Lag| Ball::exact(sign_at(lag, corner.at) * turn(n)) * tail(n, lag, xi);
        if self.steps.rad == 0.0 {
            return self.terms.iter().fold(Ball::ZERO, |sum, (lag, d)| sum + *d * wave(*lag));
        }
        // Summed over the lags first: what cancels there does so at all steps of the interval.
        let powers = self.condition.terms.first().map_or(1, |(_, polynomial)| polynomial.len());
        let mut sum = vec![Ball::ZERO; powers];
        for (lag, polynomial) in &self.condition.terms {
            let wave = wave(*lag);
            for (sum, d) in sum.iter_mut().zip(polynomial).filter(|(_, d)| **d != Ball::ZERO) {
                *sum = *sum + *d * wave;
            }
        }
        self.steps.evaluate(&sum)
    }

    /// A radius within which it is positive, the corner itself excepted if its order there is
    /// not 0.
    fn near(&self, corner: &CornerAt) -> Result<f64, Sign> {
        let omega = place(corner, [0.0, 0.0]);
        let Some(order) = corner.order else {
            return Err(Sign::Unknown(Why::Touches(omega)));
        };
        if self.demand != Demand::NotNegative && order > 0 {
            return Err(Sign::Unknown(Why::Singular(omega)));
        }
        match self.directions(&[(&corner.forms[0].trimmed, 1.0)], 0.0) {
            Directions::Positive => {}
            Directions::Negative(e) => {
                // D ≤ t^J (F_J + t C) < 0 up to t = |F_J|/C; half of it.
                let size = form_value(&corner.forms[0].whole, e).mid.abs();
                let t = (size / (2.0 * self.remainder(order + 1))).min(1.0);
                let r = if order == 0 { 0.0 } else { t.sqrt() };
                return Err(Sign::Negative(place(corner, [r * e[0], r * e[1]])));
            }
            Directions::Unknown => return Err(Sign::Unknown(Why::Touches(omega))),
        }
        let mut radius = self.radius(corner, order, 1, &[&corner.forms[0].whole]);
        // Forms that are not negative may be left out, down to one that outweighs the remainder.
        for m in 1..corner.forms.len() {
            let form = &corner.forms[m];
            let vanishes = form.whole.iter().all(|c| *c == Ball::ZERO);
            if !vanishes {
                match self.directions(&[(&form.trimmed, 1.0)], 0.0) {
                    Directions::Positive => radius = radius.max(self.radius(corner, order, m, &[])),
                    _ => break,
                }
            }
        }
        if radius > 0.0 || order == 0 {
            Ok(radius)
        } else {
            Err(Sign::Unknown(Why::Touches(omega)))
        }
    }

    /// The largest radius found within which `first + t^m (F_{J+m} − t C)` is positive, in the units of
    /// module doc's bracket.
    fn radius(&self, corner: &CornerAt, order: usize, m: usize, first: &[&Vec<Ball>]) -> f64 {
        let rest = self.remainder(order + m + 1);
        let mut t = 1.0;
        for _ in 0..60 {
            let mut forms: Vec<(&Vec<Ball>, f64)> = first.iter().map(|form| (*form, 1.0)).collect();
            let weight = if first.is_empty() { 1.0 } else { t };
            forms.push((&corner.forms[m].whole, weight));
            if matches!(self.directions(&forms, weight * t * rest), Directions::Positive) {
                // A little less, for the rounding of the square root.
                return libm::sqrt(t) * (1.0 - 1e-12);
            }
            t /= 2.0;
        }
        0.0
    }

    /// `Σ_k |d_k| |k|^{2i}/(2i)!`.
    fn remainder(&self, i: usize) -> f64 {
        let size = |(lag, d): &(Lag, Ball)| {
            let square =
                f64::from(lag[0]) * f64::from(lag[0]) + f64::from(lag[1]) * f64::from(lag[1]);
            d.size() * (0..i).fold(1.0, |power, _| power * square)
        };
        self.terms.iter().map(size).sum::<f64>() / factorial(2 * i) * (1.0 + 1e-12)
    }

    /// The sign of a weighted sum of forms, less a constant, over all directions.
    fn directions(&self, forms: &[(&Vec<Ball>, f64)], minus: f64) -> Directions {
        let sum = |of: &dyn Fn(&[Ball]) -> Ball| {
            let add =
                |sum, (form, weight): &(&Vec<Ball>, f64)| sum + Ball::exact(*weight) * of(form);
            forms.iter().fold(Ball::ZERO, add)
        };
        let value = |e: [f64; 2]| sum(&|form| form_value(form, e)) - Ball::exact(minus);
        if self.dimensions < 2 {
            let e = [1.0, 0.0];
            return Directions::of(value(e), e).unwrap_or(Directions::Unknown);
        }
        // A form of degree n with coefficients c is, as a function of the angle, a trigonometric
        // polynomial of that degree; by Bernstein's inequality |f''| ≤ n² Σ |c|.
        let curvature = |(form, weight): &(&Vec<Ball>, f64)| {
            let degree = (form.len() - 1) as f64;
            weight * degree * degree * form.iter().map(|c| c.size()).sum::<f64>()
        };
        let curvature: f64 = forms.iter().map(curvature).sum();
        if let Some(e) = negative_direction(&value) {
            return Directions::Negative(e);
        }
        let parts = 8;
        let half = REACH / f64::from(parts);
        let mut boxes: Vec<(f64, f64)> =
            (0..parts).map(|i| (f64::from(2 * i + 1) * half, half * (1.0 + 1e-12))).collect();
        let mut looked_at = 0;
        while let Some((angle, h)) = boxes.pop() {
            looked_at += 1;
            let e = [libm::cos(angle), libm::sin(angle)];
            let here = value(e);
            match Directions::of(here, e) {
                Some(Directions::Positive) if looked_at <= MOST_BOXES[0] => {}
                Some(negative @ Directions::Negative(_)) => return negative,
                _ => return Directions::Unknown,
            }
            let slope = sum(&|form| form_slope(form, e)).size();
            if here.low() <= (slope * h + curvature * h * h / 2.0) * (1.0 + 1e-12) {
                // A little wider, so that rounding leaves no gap.
                let quarter = h / 2.0;
                boxes.push((angle - quarter, quarter * (1.0 + 1e-12)));
                boxes.push((angle + quarter, quarter * (1.0 + 1e-12)));
            }
        }
        Directions::Positive
    }

    /// Branch and bound in the cell of a corner, outside of a disk around it.
    fn cell(&self, corner: &CornerAt, radius: f64) -> Sign {
        let half = REACH / 2.0;
        let mut boxes: Vec<([f64; 2], [f64; 2])> = match self.dimensions {
            0 => return Sign::Positive,
            1 => vec![([half, 0.0], [half, 0.0])],
            _ => vec![([half, -half], [half, half]), ([half, half], [half, half])],
        };
        let mut looked_at = 0;
        while let Some((xi, h)) = boxes.pop() {
            looked_at += 1;
            if looked_at > MOST_BOXES[self.dimensions - 1] {
                return Sign::Unknown(Why::TooManyBoxes(place(corner, xi)));
            }
            let size = |x: [f64; 2]| (x[0] * x[0] + x[1] * x[1]).sqrt();
            if size([xi[0].abs() + h[0], xi[1].abs() + h[1]]) <= radius {
                continue;
            }
            let value = self.value(corner, xi);
            if value.is_negative() {
                return Sign::Negative(place(corner, xi));
            }
            if !value.is_positive() && size(xi) > radius {
                return Sign::Unknown(Why::Touches(place(corner, xi)));
            }
            if value.is_positive() && value.low() > self.variation(corner, xi, h) {
                continue;
            }
            let axis = usize::from(h[1] > h[0]);
            for side in [1.0, -1.0] {
                let (mut centre, mut half) = (xi, h);
                // A little wider, so that rounding leaves no gap.
                half[axis] = h[axis] / 2.0 * (1.0 + 1e-12);
                centre[axis] += side * h[axis] / 2.0;
                boxes.push((centre, half));
            }
        }
        Sign::Positive
    }

    /// How far it can fall below its value at `xi` within a box.
    fn variation(&self, corner: &CornerAt, xi: [f64; 2], h: [f64; 2]) -> f64 {
        let n = 2 * corner.order.unwrap_or(0);
        let mut slope = [Ball::ZERO; 2];
        let mut curvature = 0.0;
        for (lag, d) in &self.terms {
            let derivative = if n == 0 { -tail(1, *lag, xi) } else { tail(n - 1, *lag, xi) };
            let k = lag.map(f64::from);
            let along = *d * Ball::exact(sign_at(*lag, corner.at) * turn(n)) * derivative;
            slope = [slope[0] + along * Ball::exact(k[0]), slope[1] + along * Ball::exact(k[1])];
            let reach = k[0].abs() * h[0] + k[1].abs() * h[1];
            let furthest = k[0].abs() * xi[0].abs() + k[1].abs() * xi[1].abs() + reach;
            curvature += d.size() * reach * reach * tail_bound(n.saturating_sub(2), furthest);
        }
        (slope[0].size() * h[0] + slope[1].size() * h[1] + curvature / 2.0) * (1.0 + 1e-12)
    }
}

/// The sign of a function of the direction.
enum Directions {
    Positive,
    /// Negative in this direction.
    Negative([f64; 2]),
    Unknown,
}

impl Directions {
    fn of(value: Ball, e: [f64; 2]) -> Option<Self> {
        if value.is_positive() {
            Some(Self::Positive)
        } else if value.is_negative() {
            Some(Self::Negative(e))
        } else {
            None
        }
    }
}

/// A direction in which a function is negative: the least of samples, refined.
fn negative_direction(value: &dyn Fn([f64; 2]) -> Ball) -> Option<[f64; 2]> {
    let direction = |angle: f64| [libm::cos(angle), libm::sin(angle)];
    let mid = |angle: f64| value(direction(angle)).mid;
    let mut step = REACH / 8.0;
    let samples = (0..16).map(|i| f64::from(i) * step);
    let mut best = samples.min_by(|a, b| mid(*a).total_cmp(&mid(*b)))?;
    while step > 1e-9 {
        match [best - step, best + step].into_iter().find(|angle| mid(*angle) < mid(best)) {
            Some(lower) => best = lower,
            None => step /= 2.0,
        }
    }
    let e = direction(best);
    value(e).is_negative().then_some(e)
}

/// The frequency `corner + ξ`, from −π to π, the first entry not negative.
fn place(corner: &CornerAt, xi: [f64; 2]) -> [f64; 2] {
    use std::f64::consts::PI;
    let entry = |i: usize| match corner.at[i] {
        true if xi[i] > 0.0 => xi[i] - PI,
        true => xi[i] + PI,
        false => xi[i],
    };
    let omega = [entry(0), entry(1)];
    let flip = omega[0] < 0.0 || (omega[0] == 0.0 && omega[1] < 0.0);
    if flip { omega.map(|w| 0.0 - w) } else { omega }
}
