//! The median edge over orders of the mini-batches, and how probable stability is at each learning rate.
//!
//! With mini-batches an edge depends on their order, so one search is one draw. Searches from the same
//! initial weights with `n` seeds of the order are `n` independent draws; the order statistics of their
//! brackets give an interval for the median edge with an exact confidence
//! ([`median`](lastbit::statistics::median), also on why this is no isotonic fit). The share of orders whose
//! edge lies above a learning rate is the share of trainings that are stable there: it falls
//! monotonically by construction, as far as the verdicts of each order do.
//!
//! The bracket of an order is the widest its probes permit ([`PossibleEdges`]): every probe below it held, every
//! probe above it failed. Undecided probes lie inside; where verdicts contradict each other, so do all learning rates over
//! which they do, and the result says so; where no probe held or none failed, the bracket ends at 0 or at
//! infinity. No order is left out.
//!
//! All searches begin at the same learning rate. Beginning each at the bracket of earlier ones would make the draws
//! dependent where verdicts are not monotone, since a search finds the change nearest to where it begins; one stray order
//! would then send all later searches to where it ended.

use lastbit::search::PossibleEdges;
use lastbit::statistics::Interval;
use lastbit::statistics::median::MedianInterval;
use serde::Serialize;

use super::{Draw, EdgeNumber, End, ProbeResult, Search, SearchResult};
use crate::number::Number;
use crate::record::Outcome;
use crate::series::Series;

/// Confidence asked for, where there are orders enough.
const LEVEL: f64 = 0.95;

/// Series of the counts in the cell of a median.
pub const STABILITY: &str = "stability";

/// The median edge over the orders of the batches, from the initial weights of one seed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MedianEdge {
    /// Seed of the first weights.
    pub seed: u64,
    /// Orders that were searched.
    pub repeats: usize,
    /// Lower end of the interval for the median; 0 where there is none.
    pub low: Number,
    /// Upper end; infinite where there is none.
    pub high: Number,
    /// Probability, at least, that the interval contains the median.
    pub confidence: f64,
    /// The interval reaches from the `rank`-th smallest lower end of a bracket to the `rank`-th largest upper end.
    pub rank: usize,
    /// The bracket of each order.
    pub orders: Vec<OrderEdge>,
    /// For each value that was tried, how many orders have the property there.
    pub stability: Vec<Stability>,
}

/// Where the edge of one order may lie.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OrderEdge {
    /// Seed of the order.
    pub batch_seed: u64,
    /// Lower end of the bracket; 0 where the property held nowhere below all failures.
    pub low: Number,
    /// Upper end; infinite where it failed nowhere above all successes.
    pub high: Number,
    /// First failure and last success, where verdicts are not monotone.
    pub contradiction: Option<(f64, f64)>,
    /// Whether contradictory or undecided probes elsewhere make it wider than the bracket that was found.
    pub is_widened: bool,
}

/// In how many orders the property holds at a value: those whose edge lies above it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stability {
    /// Value of the parameter.
    pub at: f64,
    /// Orders whose bracket lies above.
    pub holds: usize,
    /// Orders whose bracket has the value inside.
    pub undecided: usize,
    /// Orders whose bracket lies below.
    pub fails: usize,
}

fn possible(search: &Search, found: &SearchResult) -> PossibleEdges {
    let answer = |probe: &ProbeResult| (probe.at, search.property.holds(&probe.verdict));
    PossibleEdges::of(&found.probes.iter().map(answer).collect::<Vec<_>>())
}

/// The median edges, one for each seed of the first weights; none where nothing was repeated.
pub fn medians(search: &Search, found: &[(Draw, SearchResult)]) -> Vec<MedianEdge> {
    let mut seeds: Vec<u64> = Vec::new();
    for (draw, _) in found {
        if draw.batch.is_some() && !seeds.contains(&draw.seed) {
            seeds.push(draw.seed);
        }
    }
    seeds.into_iter().map(|seed| median(search, seed, found)).collect()
}

fn median(search: &Search, seed: u64, found: &[(Draw, SearchResult)]) -> MedianEdge {
    let own = || found.iter().filter(|(draw, _)| draw.seed == seed);
    let orders: Vec<OrderEdge> = own()
        .filter_map(|(draw, found)| {
            let PossibleEdges { low, high, contradiction } = possible(search, found);
            let bracket = found.edges.first().map(|(_, bracket)| (bracket.holds, bracket.fails));
            let is_widened = bracket.is_some_and(|bracket| bracket != (low, high));
            let (low, high) = (Number(low), Number(high));
            Some(OrderEdge { batch_seed: draw.batch?, low, high, contradiction, is_widened })
        })
        .collect();
    let mut tried: Vec<f64> =
        own().flat_map(|(_, found)| found.probes.iter().map(|probe| probe.at)).collect();
    tried.sort_by(f64::total_cmp);
    tried.dedup();
    let count = |at: f64| {
        let holds = orders.iter().filter(|order| at <= order.low.0).count();
        let fails = orders.iter().filter(|order| at >= order.high.0).count();
        Stability { at, holds, undecided: orders.len() - holds - fails, fails }
    };
    let brackets: Vec<Interval> =
        orders.iter().map(|order| Interval { low: order.low.0, high: order.high.0 }).collect();
    let MedianInterval { interval, confidence, rank } = MedianInterval::of(&brackets, LEVEL);
    MedianEdge {
        seed,
        repeats: orders.len(),
        low: Number(interval.low),
        high: Number(interval.high),
        confidence,
        rank,
        stability: tried.into_iter().map(count).collect(),
        orders,
    }
}

impl MedianEdge {
    /// Key of its cell.
    pub fn key(&self) -> String {
        format!("median-seed{}", self.seed)
    }

    /// Its numbers, and the counts as a series.
    pub fn outcome(&self) -> Outcome {
        let mut outcome = Outcome::default();
        outcome.number("repeats", self.repeats as f64);
        outcome.number(&EdgeNumber::MedianLow.of(End::Largest), self.low.0);
        outcome.number(&EdgeNumber::MedianHigh.of(End::Largest), self.high.0);
        outcome.number(EdgeNumber::Confidence.name(), self.confidence);
        let column = |of: &dyn Fn(&Stability) -> f64| self.stability.iter().map(of).collect();
        let series = Series::new([
            ("at", column(&|counts| counts.at)),
            ("holds", column(&|counts| counts.holds as f64)),
            ("undecided", column(&|counts| counts.undecided as f64)),
            ("fails", column(&|counts| counts.fails as f64)),
        ]);
        outcome.series.insert(STABILITY.to_owned(), series);
        outcome
    }

    /// What is known of the median, as a clause; `shown` writes a value of the parameter.
    pub fn in_words(&self, property: &str, shown: impl Fn(f64) -> String) -> String {
        let (low, high) = (self.low.0, self.high.0);
        let place = match (low > 0.0, high.is_finite()) {
            (true, true) => format!("between {} and {}", shown(low), shown(high)),
            (true, false) => format!("above {}", shown(low)),
            (false, true) => format!("below {}", shown(high)),
            (false, false) => "unknown".to_owned(),
        };
        // Rounded down: no more is claimed than is known.
        let percent = (1e4 * self.confidence).floor() / 100.0;
        let mut words = format!("{place} with {percent} % confidence");
        let is_open = |order: &&OrderEdge| order.low.0 == 0.0 || order.high.0.is_infinite();
        match self.orders.iter().filter(is_open).count() {
            0 => {}
            open => words += &format!("; {open} of the orders have no edge in the range tried"),
        }
        let widened: Vec<String> = self
            .orders
            .iter()
            .filter(|order| order.is_widened)
            .map(|order| match order.contradiction {
                None => format!("{} (undecided elsewhere)", order.batch_seed),
                Some((fails, holds)) => format!(
                    "{} (not monotone: not {property} at {}, {property} again at {})",
                    order.batch_seed,
                    shown(fails),
                    shown(holds)
                ),
            })
            .collect();
        if !widened.is_empty() {
            words += &format!("; wider because of batch seeds {}", widened.join(", "));
        }
        words
    }
}
