//! The set of stable steps.
//!
//! All steps from 0 to infinity are divided into intervals, until each is certainly stable,
//! certainly unstable or too narrow to be divided: a decision for an interval holds for every
//! step in it, the smallest and the largest included, so no band of instability is overlooked. An
//! edge is what is left between: a bracket of a certainly stable and a certainly unstable step.
//! The set may be empty, begin above 0, and be a union.

use super::positivity::{Sign, Steps};
use super::{Analysis, Why};
use crate::spectrum::von_neumann::Mode;

/// Steps up to so many natural ones are divided as they are, those beyond by their inverses.
pub(super) const TURN: f64 = 64.0;

/// Relative width at which division ends and brackets are narrowed from their ends.
const NARROW: f64 = 2.5e-7;

/// Nothing below this many natural steps, or above its inverse, is divided further.
const FURTHEST: f64 = 1e-18;

/// Most intervals decided on before the rest is left undecided.
const MOST_DECISIONS: usize = 1000;

/// So often branch and bound may be given up before an edge is not narrowed further.
const MOST_GIVEN_UP: usize = 4;

/// What is known of the steps of an interval.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// All are stable.
    Stable,
    /// None is: here are frequencies that are amplified at its first and its last step.
    Unstable {
        /// At the first (where the interval begins at 0: within it).
        first: Mode,
        /// At the last (where the interval has no end: within it).
        last: Mode,
    },
    /// Neither is known.
    Undecided(Why),
}

/// An interval of steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// Where it begins, 0 for all small steps.
    pub from: f64,
    /// Where it ends, infinite for all large steps.
    pub to: f64,
    /// What is known of it.
    pub kind: Kind,
}

/// All steps from 0 to infinity, in ascending pieces.
#[derive(Debug, Clone, PartialEq)]
pub struct StableSteps {
    /// Neighbours are of different kinds.
    pub pieces: Vec<Piece>,
}

/// An interval of stable steps.
///
/// At single steps within it the amplification may touch 1 (Beam-Warming at `|v| dt/dx = 1`, where it
/// is a shift): narrow gaps around them, stable on both sides, that rounding hides.
#[derive(Debug, Clone, PartialEq)]
pub struct StableInterval {
    /// Its lower end.
    pub from: End,
    /// Its upper end.
    pub to: End,
    /// Gaps of relative width up to [`WIDEST_GAP`] that are undecided.
    pub gaps: Vec<(f64, f64)>,
}

/// Relative width up to which an undecided gap between stable steps counts as a touching.
pub const WIDEST_GAP: f64 = 1e-4;

/// An end of an interval of stable steps.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// None: all small, or all large steps are stable.
    Unbounded,
    /// The edge lies between these.
    Bracket {
        /// Certainly stable.
        stable: f64,
        /// Certainly unstable.
        unstable: f64,
        /// A frequency that is amplified at `unstable`.
        mode: Mode,
    },
    /// Beyond `stable` nothing is known up to `open`.
    Undecided {
        /// Certainly stable.
        stable: f64,
        /// Where something is known again; 0 or infinite if nowhere.
        open: f64,
        /// What hides it.
        why: Why,
    },
}

impl StableSteps {
    /// The stable intervals, ascending.
    pub fn intervals(&self) -> Vec<StableInterval> {
        let pieces = &self.pieces;
        let end = |stable: f64, near: Option<&Piece>, far: Option<&Piece>, below: bool| {
            let mode = |kind: &Kind| match kind {
                Kind::Unstable { first, last } => Some(if below { last } else { first }.clone()),
                _ => None,
            };
            let edge = |piece: &Piece| if below { piece.to } else { piece.from };
            match (near, far) {
                (None, _) => End::Unbounded,
                (Some(Piece { kind: Kind::Undecided(why), .. }), far) => {
                    match far.and_then(|far| Some((edge(far), mode(&far.kind)?))) {
                        Some((unstable, mode)) => End::Bracket { stable, unstable, mode },
                        None => {
                            let nowhere = if below { 0.0 } else { f64::INFINITY };
                            let open = far.map_or(nowhere, edge);
                            End::Undecided { stable, open, why: why.clone() }
                        }
                    }
                }
                (Some(near), _) => match mode(&near.kind) {
                    Some(mode) => End::Bracket { stable, unstable: edge(near), mode },
                    None => End::Unbounded,
                },
            }
        };
        let is_stable = |i: usize| pieces.get(i).is_some_and(|piece| piece.kind == Kind::Stable);
        let is_gap = |i: usize| {
            let narrow = pieces.get(i).is_some_and(|gap| gap.to - gap.from <= WIDEST_GAP * gap.to);
            narrow && is_stable(i + 1) && i > 0 && is_stable(i - 1)
        };
        let before = |i: usize, by: usize| i.checked_sub(by).and_then(|i| pieces.get(i));
        let mut intervals = Vec::new();
        let mut i = 0;
        while i < pieces.len() {
            if is_stable(i) {
                let first = i;
                let mut gaps = Vec::new();
                while is_gap(i + 1) {
                    gaps.push((pieces[i + 1].from, pieces[i + 1].to));
                    i += 2;
                }
                intervals.push(StableInterval {
                    from: end(pieces[first].from, before(first, 1), before(first, 2), true),
                    to: end(pieces[i].to, pieces.get(i + 1), pieces.get(i + 2), false),
                    gaps,
                });
            }
            i += 1;
        }
        intervals
    }

    /// Whether every step is certainly stable.
    pub fn is_always(&self) -> bool {
        self.pieces.iter().all(|piece| piece.kind == Kind::Stable)
    }

    /// Whether every step is certainly unstable.
    pub fn is_never(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece.kind, Kind::Unstable { .. }))
    }

    /// What is known at `dt`.
    pub fn at(&self, dt: f64) -> Option<&Kind> {
        self.pieces.iter().find(|piece| piece.from <= dt && dt <= piece.to).map(|piece| &piece.kind)
    }
}

/// An interval in the coordinate of a chart, with what was found.
#[derive(Clone)]
struct Leaf {
    low: f64,
    high: f64,
    found: Found,
}

#[derive(Clone)]
enum Found {
    Stable,
    /// Frequencies amplified at the low and at the high end.
    Unstable([f64; 2], [f64; 2]),
    Undecided(Why),
}

impl Found {
    /// One finding for neighbours, `self` the lower, if they are of one kind.
    fn joined(&self, upper: &Self) -> Option<Self> {
        match (self, upper) {
            (Self::Stable, Self::Stable) => Some(Self::Stable),
            (Self::Unstable(low, _), Self::Unstable(_, high)) => Some(Self::Unstable(*low, *high)),
            (Self::Undecided(why), Self::Undecided(_)) => Some(Self::Undecided(why.clone())),
            _ => None,
        }
    }
}

pub(super) fn stable_steps(analysis: &Analysis) -> StableSteps {
    let natural = analysis.natural;
    let mut pieces: Vec<Piece> = Vec::new();
    for inverse in [false, true] {
        let chart = Chart { analysis, inverse };
        let end = if inverse { 1.0 / TURN } else { TURN };
        let mut leaves = chart.divided(end);
        if inverse {
            leaves.reverse();
        }
        for leaf in leaves {
            let (from, to) = if inverse {
                (inverted(natural, leaf.high, 1.0), inverted(natural, leaf.low, -1.0))
            } else {
                (leaf.low * natural, leaf.high * natural)
            };
            let kind = match leaf.found {
                Found::Stable => Kind::Stable,
                Found::Undecided(why) => Kind::Undecided(why),
                Found::Unstable(low, high) => {
                    let (first, last) = if inverse { (high, low) } else { (low, high) };
                    let at = |dt: f64, other: f64, omega| {
                        let inside = if dt > 0.0 && dt.is_finite() { dt } else { other };
                        analysis.mode(inside, omega)
                    };
                    let middle = if to.is_finite() { to } else { from * 2.0 };
                    Kind::Unstable { first: at(from, middle, first), last: at(to, middle, last) }
                }
            };
            push(&mut pieces, Piece { from, to, kind });
        }
    }
    StableSteps { pieces }
}

/// `natural/y`, moved by `side` into the interval that it ends if it was rounded.
fn inverted(natural: f64, y: f64, side: f64) -> f64 {
    let is_power_of_two = libm::frexp(y).0 == 0.5;
    let dt = natural / y;
    if y == 0.0 || is_power_of_two { dt } else { dt * (1.0 + side * 2.0 * f64::EPSILON) }
}

/// Appends, joined to the last piece if both are of one kind.
fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    // Narrowed to nothing.
    if piece.to <= piece.from {
        return;
    }
    let Some(last) = pieces.last_mut() else {
        pieces.push(piece);
        return;
    };
    match (&mut last.kind, &piece.kind) {
        (Kind::Stable, Kind::Stable) | (Kind::Undecided(_), Kind::Undecided(_)) => {}
        (Kind::Unstable { last: mode, .. }, Kind::Unstable { last: further, .. }) => {
            *mode = further.clone();
        }
        _ => {
            pieces.push(piece);
            return;
        }
    }
    last.to = piece.to;
}

/// Steps as they are, or by their inverses.
struct Chart<'a> {
    analysis: &'a Analysis,
    inverse: bool,
}

impl Chart<'_> {
    fn decide(&self, low: f64, high: f64) -> Found {
        let mid = low + (high - low) / 2.0;
        // Wide enough for the rounding of the middle.
        let rad = if low == high { 0.0 } else { (high - low) / 2.0 + 2.0 * f64::EPSILON * high };
        match self.analysis.decide(Steps { inverse: self.inverse, mid, rad }) {
            Sign::Positive => Found::Stable,
            Sign::Negative(omega) => Found::Unstable(omega, omega),
            Sign::Unknown(why) => Found::Undecided(why),
        }
    }

    /// The interval from 0 to `end` in ascending leaves, neighbours of different kinds.
    fn divided(&self, end: f64) -> Vec<Leaf> {
        let mut leaves: Vec<Leaf> = Vec::new();
        let mut open = vec![(0.0, end)];
        let mut decisions = 0;
        while let Some((low, high)) = open.pop() {
            decisions += 1;
            let found = if decisions <= MOST_DECISIONS {
                self.decide(low, high)
            } else {
                Found::Undecided(Why::TooLarge)
            };
            let is_open = matches!(found, Found::Undecided(_));
            if is_open && decisions <= MOST_DECISIONS && self.is_worth_dividing(low, high) {
                let middle = low + (high - low) / 2.0;
                open.push((middle, high));
                open.push((low, middle));
                continue;
            }
            match leaves.last_mut() {
                Some(last) if last.found.joined(&found).is_some() => {
                    last.found = last.found.joined(&found).expect("just seen");
                    last.high = high;
                }
                _ => leaves.push(Leaf { low, high, found }),
            }
        }
        self.narrowed(leaves)
    }

    /// Whether parts of an undecided interval may be decided.
    fn is_worth_dividing(&self, low: f64, high: f64) -> bool {
        if high - low <= NARROW * high || high <= FURTHEST {
            return false;
        }
        // Where single steps cannot be decided either, their neighbourhoods cannot.
        let point = |share: f64| low + (high - low) * share;
        high - low > high / 64.0
            || [0.3, 0.5, 0.7].iter().any(|share| {
                !matches!(self.decide(point(*share), point(*share)), Found::Undecided(_))
            })
    }

    /// Narrows each undecided leaf from the decided ones at its sides.
    fn narrowed(&self, mut leaves: Vec<Leaf>) -> Vec<Leaf> {
        for i in 0..leaves.len() {
            if !matches!(leaves[i].found, Found::Undecided(_)) {
                continue;
            }
            let Leaf { mut low, mut high, .. } = leaves[i];
            for below in [true, false] {
                let neighbour = if below { i.checked_sub(1) } else { Some(i + 1) };
                let Some(n) = neighbour.filter(|n| *n < leaves.len()) else { continue };
                let mut width = (high - low) / 2.0;
                let mut given_up = 0;
                while width > f64::EPSILON * high && high > FURTHEST && given_up < MOST_GIVEN_UP {
                    let part = if below { (low, low + width) } else { (high - width, high) };
                    let found = self.decide(part.0, part.1);
                    // A narrower interval of steps would hardly need fewer boxes.
                    given_up +=
                        usize::from(matches!(found, Found::Undecided(Why::TooManyBoxes(_))));
                    let joined = if below {
                        leaves[n].found.joined(&found)
                    } else {
                        found.joined(&leaves[n].found)
                    };
                    match joined {
                        Some(joined) if !matches!(joined, Found::Undecided(_)) => {
                            leaves[n].found = joined;
                            if below { low = part.1 } else { high = part.0 }
                        }
                        _ => width /= 2.0,
                    }
                    if high - low <= width {
                        width = (high - low) / 2.0;
                    }
                }
                if below { leaves[n].high = low } else { leaves[n].low = high }
            }
            (leaves[i].low, leaves[i].high) = (low, high);
        }
        leaves
    }
}
