//! The edges of a training configuration: brackets by doubling and halving, then bisection.
//!
//! Stable step sizes are those below one edge. Stable weight decays may have two: too small a decay
//! leaves the minimum too sharp, too large a one is itself a curvature beyond the threshold.

use std::fmt;

use lastbit::search::{Bracket, EdgeSearch};

use super::{Over, ProbeResult};
use crate::number::Number;
use crate::record::VerdictRecord;

/// Doublings or halvings that look for the other side of an edge.
const DOUBLINGS: usize = 20;

lastbit::named_enum! {
    /// What holds on one side of the edge.
    pub enum Property {
        /// The verdict is "stable".
        Stable = "stable",
        /// The verdict is not "diverged".
        Bounded = "bounded",
    }
}

impl Property {
    /// Name of the edge at which it is lost.
    pub fn edge_name(self) -> &'static str {
        match self {
            Self::Stable => "growth edge",
            Self::Bounded => "divergence edge",
        }
    }

    /// Whether it holds; none where the verdict leaves that open.
    pub fn holds(self, verdict: &VerdictRecord) -> Option<bool> {
        match self {
            Self::Stable => verdict.is_stable(),
            Self::Bounded => verdict.is_bounded(),
        }
    }
}

lastbit::named_enum! {
    /// Which end of the values with the property.
    pub enum End {
        /// It holds below.
        Largest = "largest",
        /// It holds above.
        Smallest = "smallest",
    }
}

/// What a search drew at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    /// Seed of the first weights.
    pub seed: u64,
    /// Seed of the order of the batches, where searches are repeated over it; that of the configuration
    /// otherwise.
    pub batch: Option<u64>,
}

impl Draw {
    /// Its name in the keys of a record.
    pub fn key(self) -> String {
        match self.batch {
            None => format!("seed{}", self.seed),
            Some(batch) => format!("seed{}-batch{batch}", self.seed),
        }
    }
}

impl fmt::Display for Draw {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.batch {
            None => write!(f, "seed {}", self.seed),
            Some(batch) => write!(f, "seed {}, batch seed {batch}", self.seed),
        }
    }
}

/// The edges of one draw, and the probes that show them.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchResult {
    /// The edges; of weight decay the largest stable value first.
    pub edges: Vec<(End, Bracket)>,
    /// All probes, in order, each once.
    pub probes: Vec<ProbeResult>,
    /// Two values that contradict a single edge: the property fails at the first and holds at the
    /// second, beyond it.
    pub contradiction: Option<(f64, f64)>,
}

impl SearchResult {
    /// Why there is no edge, where there is none.
    pub fn why_none(&self, property: Property) -> Option<String> {
        if !self.edges.is_empty() {
            return None;
        }
        let at = |pick: fn(f64, f64) -> f64, from: f64| {
            Number(self.probes.iter().map(|probe| probe.at).fold(from, pick))
        };
        let (low, high) = (at(f64::min, f64::INFINITY), at(f64::max, f64::NEG_INFINITY));
        let is = |answer: Option<bool>| {
            self.probes.iter().all(|probe| property.holds(&probe.verdict) == answer)
        };
        let name = property.name();
        let found = match () {
            () if is(Some(true)) => name.to_owned(),
            () if is(Some(false)) => format!("not {name}"),
            () if is(None) => "undecided".to_owned(),
            () => {
                let mixed = format!("{name} or not at some values and undecided at others");
                return Some(format!("{mixed}, from {low} to {high}"));
            }
        };
        Some(format!("{found} wherever it was tried, from {low} to {high}"))
    }
}

/// What is searched, and how closely.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    /// What is varied.
    pub over: Over,
    /// What holds on one side.
    pub property: Property,
    /// Where the search begins, if not at the configuration's own value.
    pub start: Option<f64>,
    /// Both ends, where they are given.
    pub ends: Option<(f64, f64)>,
    /// Width of a bracket over its middle.
    pub tolerance: f64,
}

impl Search {
    /// Searches from the configuration's own value. `threshold` is the stability threshold of its
    /// step: no larger weight decay is stable.
    ///
    /// # Errors
    ///
    /// The first error of a probe.
    pub fn run<E>(
        &self,
        own_value: f64,
        threshold: f64,
        mut probe: impl FnMut(f64) -> Result<ProbeResult, E>,
    ) -> Result<SearchResult, E> {
        let mut search = EdgeSearch::new(self.tolerance, |at| {
            let result = probe(at)?;
            Ok((self.property.holds(&result.verdict), result))
        });
        let own_value = self.start.unwrap_or(own_value);
        let brackets = match (self.ends, self.over) {
            (Some((from, to)), _) => [search.bisect(from, to)?, None],
            (None, Over::Dt) => [search.near(own_value, DOUBLINGS)?, None],
            (None, Over::Alpha) => both_ends(own_value, threshold, &mut search)?,
        };
        let with_end = |bracket: Bracket| {
            (if bracket.holds < bracket.fails { End::Largest } else { End::Smallest }, bracket)
        };
        let contradiction =
            brackets.iter().flatten().find_map(|bracket| search.contradiction(*bracket));
        let edges = brackets.into_iter().flatten().map(with_end).collect();
        let probes = search.into_probes().into_iter().map(|probe| probe.seen).collect();
        Ok(SearchResult { edges, probes, contradiction })
    }
}

/// The largest decay with the property, and the smallest if zero does not have it.
fn both_ends<T, E>(
    own_value: f64,
    threshold: f64,
    search: &mut EdgeSearch<T, impl FnMut(f64) -> Result<(Option<bool>, T), E>>,
) -> Result<[Option<Bracket>; 2], E> {
    let halves = (1..=DOUBLINGS).map(|k| threshold * 0.5_f64.powi(k as i32));
    for inside in std::iter::once(own_value).filter(|own| *own > 0.0).chain(halves) {
        if search.holds(inside)? == Some(true) {
            let largest = search.seek(inside, 2.0, DOUBLINGS)?;
            let is_bounded_below = search.holds(0.0)? == Some(false);
            let smallest =
                if is_bounded_below { search.seek(inside, 0.5, DOUBLINGS)? } else { None };
            return Ok([largest, smallest]);
        }
    }
    Ok([None, None])
}

#[cfg(test)]
mod tests {
    use super::*;
    use lastbit::verdict::VerdictKind;

    fn tried(at: f64, kind: VerdictKind) -> ProbeResult {
        let zero = Number(0.0);
        let verdict = VerdictRecord {
            kind,
            doubt: None,
            diverged_at: None,
            growth_per_step: zero,
            growth_standard_error: zero,
            resolution: zero,
            unstable_share: zero,
            steps: 1,
        };
        ProbeResult { at, verdict, loss: zero, curvature: None }
    }

    fn search(over: Over, own: f64, kind: fn(f64) -> VerdictKind) -> SearchResult {
        let search =
            Search { over, property: Property::Stable, start: None, ends: None, tolerance: 1e-3 };
        search.run(own, 2.0, |at| Ok::<_, ()>(tried(at, kind(at)))).unwrap()
    }

    #[test]
    fn a_step_is_found_from_either_side_and_no_value_is_tried_twice() {
        for own in [0.01, 70.0] {
            let found = search(Over::Dt, own, |dt| {
                if dt < 3.0 { VerdictKind::Stable } else { VerdictKind::Restrained }
            });
            let [(End::Largest, bracket)] = &found.edges[..] else { panic!("{found:?}") };
            assert!(bracket.holds < 3.0 && bracket.fails >= 3.0);
            let mut all: Vec<f64> = found.probes.iter().map(|probe| probe.at).collect();
            let count = all.len();
            all.sort_by(f64::total_cmp);
            all.dedup();
            assert_eq!(all.len(), count);
        }
    }

    #[test]
    fn decays_have_two_ends_or_one_from_inside_or_outside() {
        fn interval(alpha: f64) -> VerdictKind {
            if alpha < 0.01 {
                VerdictKind::Restrained
            } else if alpha < 1.7 {
                VerdictKind::Stable
            } else {
                VerdictKind::Diverged
            }
        }
        for own in [0.0, 0.001, 0.1, 5.0] {
            let found = search(Over::Alpha, own, interval);
            let [(End::Largest, high), (End::Smallest, low)] = &found.edges[..] else {
                panic!("from {own}: {:?}", found.edges)
            };
            assert!((high.middle() - 1.7).abs() < 2e-3 && (low.middle() - 0.01).abs() < 2e-5);
            assert_eq!(found.contradiction, None, "two ends are no contradiction");
        }
        let found = search(Over::Alpha, 0.1, |alpha| {
            if alpha < 1.7 { VerdictKind::Stable } else { VerdictKind::Diverged }
        });
        assert_eq!(found.edges.len(), 1, "stable down to zero");
    }

    #[test]
    fn where_nothing_changes_that_is_said() {
        let found = search(Over::Dt, 1.0, |_| VerdictKind::Stable);
        let why = found.why_none(Property::Stable).unwrap();
        assert!(why.starts_with("stable wherever it was tried, from 1 to 1.0486e6"), "{why}");
        let found = search(Over::Alpha, 1.0, |_| VerdictKind::Restrained);
        assert!(found.why_none(Property::Stable).unwrap().starts_with("not stable wherever"));
    }

    #[test]
    fn a_failure_ends_the_search_at_once() {
        let search = Search {
            over: Over::Dt,
            property: Property::Stable,
            start: None,
            ends: Some((1.0, 2.0)),
            tolerance: 1e-3,
        };
        let mut calls = 0;
        let found = search.run(1.0, 2.0, |at| {
            calls += 1;
            if calls < 3 {
                Ok(tried(at, [VerdictKind::Stable, VerdictKind::Diverged][calls - 1]))
            } else {
                Err("disk")
            }
        });
        assert_eq!((found, calls), (Err("disk"), 3));
    }
}
