//! Where a property of a parameter changes: brackets by doubling or halving, then bisection.
//!
//! The property is known by probing: for a stability limit, by running at a step size and asking
//! whether the run is stable. A probe answers yes, no, or that it cannot tell; a probe that cannot tell
//! counts for neither side, so the edge always lies between the two ends of a bracket as far as the
//! property changes once. Probes are expensive, so a search remembers each one and none is made
//! twice, also where several edges are searched one after the other.
//!
//! ```
//! use std::convert::Infallible;
//!
//! use lastbit::search::EdgeSearch;
//!
//! // The largest x with x² < 2, from 1 upwards.
//! let mut search = EdgeSearch::new(1e-6, |x: f64| Ok::<_, Infallible>((Some(x * x < 2.0), ())));
//! let Ok(edge) = search.near(1.0, 10);
//! assert!((edge.unwrap().middle() - 2.0_f64.sqrt()).abs() < 1e-6);
//! ```

/// One value of the parameter that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe<T> {
    /// Value of the parameter.
    pub at: f64,
    /// Whether the property held; none where the probe could not tell.
    pub holds: Option<bool>,
    /// What else the probe returned.
    pub seen: T,
}

/// Two values of the parameter with the edge between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bracket {
    /// Nearest value at which the property held.
    pub holds: f64,
    /// Nearest value at which it did not.
    pub fails: f64,
}

impl Bracket {
    /// The estimate of the edge.
    pub fn middle(&self) -> f64 {
        0.5 * (self.holds + self.fails)
    }

    /// Width over the middle.
    pub fn relative_width(&self) -> f64 {
        (self.fails - self.holds).abs() / self.middle().abs()
    }
}

/// A search with a probe, which tells whether the property holds at a value, and all probes made.
///
/// Its methods return no bracket where the property held, or failed, wherever they tried. The first
/// error of a probe ends them; probes made before it are kept.
#[derive(Debug)]
pub struct EdgeSearch<T, P> {
    tolerance: f64,
    probe: P,
    probes: Vec<Probe<T>>,
}

impl<T, E, P: FnMut(f64) -> Result<(Option<bool>, T), E>> EdgeSearch<T, P> {
    /// A search for brackets that are `tolerance` wide relative to their middle, or as narrow as
    /// probes that can tell permit.
    pub fn new(tolerance: f64, probe: P) -> Self {
        Self { tolerance, probe, probes: Vec::new() }
    }

    /// Whether the property holds at a value, by a probe or by an earlier one.
    ///
    /// # Errors
    ///
    /// If the probe fails.
    pub fn holds(&mut self, at: f64) -> Result<Option<bool>, E> {
        if let Some(known) = self.probes.iter().find(|probe| probe.at == at) {
            return Ok(known.holds);
        }
        let (holds, seen) = (self.probe)(at)?;
        self.probes.push(Probe { at, holds, seen });
        Ok(holds)
    }

    /// The nearest edge above `start` if the property holds there, else below, within `most`
    /// doublings or halvings. Where `start` cannot be told, the nearest values on both sides that can.
    ///
    /// # Errors
    ///
    /// If a probe fails.
    pub fn near(&mut self, start: f64, most: usize) -> Result<Option<Bracket>, E> {
        if let Some(holds) = self.holds(start)? {
            return self.seek(start, if holds { 2.0 } else { 0.5 }, most);
        }
        match self.first_told(start, 0.5, most)? {
            Some((below, false)) => self.seek(below, 0.5, most),
            Some((below, true)) => match self.first_told(start, 2.0, most)? {
                Some((above, true)) => self.seek(above, 2.0, most),
                Some((above, false)) => self.bisect(below, above),
                None => Ok(None),
            },
            None => Ok(None),
        }
    }

    /// The first value that can be told, from `start` on by multiples of `factor`.
    fn first_told(
        &mut self,
        start: f64,
        factor: f64,
        most: usize,
    ) -> Result<Option<(f64, bool)>, E> {
        let mut at = start;
        for _ in 0..most {
            at *= factor;
            if let Some(holds) = self.holds(at)? {
                return Ok(Some((at, holds)));
            }
        }
        Ok(None)
    }

    /// Multiplies `start` by `factor` until the property changes, at most `most` times, and bisects
    /// between the last two values that could be told.
    ///
    /// # Errors
    ///
    /// If a probe fails.
    pub fn seek(&mut self, start: f64, factor: f64, most: usize) -> Result<Option<Bracket>, E> {
        let mut known: Option<(f64, bool)> = None;
        let mut at = start;
        for _ in 0..=most {
            match (known, self.holds(at)?) {
                (Some((previous, before)), Some(now)) if now != before => {
                    return self.bisect(previous, at);
                }
                (_, Some(now)) => known = Some((at, now)),
                (_, None) => {}
            }
            at *= factor;
        }
        Ok(None)
    }

    /// Bisects between two values. Where a probe in between cannot tell, both ends are brought as near
    /// to it as the tolerance asks.
    ///
    /// # Errors
    ///
    /// If a probe fails.
    pub fn bisect(&mut self, first: f64, second: f64) -> Result<Option<Bracket>, E> {
        let (mut holds, mut fails) = match (self.holds(first)?, self.holds(second)?) {
            (Some(true), Some(false)) => (first, second),
            (Some(false), Some(true)) => (second, first),
            _ => return Ok(None),
        };
        // An edge at zero has no relative width.
        let least = 1e-3 * self.tolerance * (first - second).abs();
        // Ends of the values in between that could not be told, the one nearer to `holds` first.
        let mut open: Option<(f64, f64)> = None;
        loop {
            let (near, far) = open.unwrap_or((fails, fails));
            let Some(middle) = self.between(holds, near, least).or(self.between(far, fails, least))
            else {
                return Ok(Some(Bracket { holds, fails }));
            };
            match (self.holds(middle)?, open) {
                (Some(true), Some((_, far))) if (middle - far) * (fails - far) > 0.0 => {
                    // Beyond what could not be told: all of that lies on the side of `holds`.
                    (holds, open) = (middle, None);
                }
                (Some(false), Some((near, _))) if (middle - near) * (holds - near) > 0.0 => {
                    (fails, open) = (middle, None);
                }
                (Some(true), _) => holds = middle,
                (Some(false), _) => fails = middle,
                (None, None) => open = Some((middle, middle)),
                (None, Some((near, far))) => {
                    let is_nearer = (middle - near) * (holds - near) > 0.0;
                    open = Some(if is_nearer { (middle, far) } else { (near, middle) });
                }
            }
        }
    }

    /// The middle of two values, unless they lie as near as the tolerance asks, or nearer than `least`.
    fn between(&self, first: f64, second: f64, least: f64) -> Option<f64> {
        let middle = 0.5 * (first + second);
        let is_narrow = (second - first).abs() <= least.max(self.tolerance * middle.abs());
        (!is_narrow && middle != first && middle != second).then_some(middle)
    }

    /// Two probes beyond `bracket.holds`, on the side of `bracket.fails`, that contradict one edge: the
    /// property fails at the first and holds again at the second, further out.
    pub fn contradiction(&self, bracket: Bracket) -> Option<(f64, f64)> {
        let outward = |at: f64| (bracket.fails - bracket.holds).signum() * (at - bracket.holds);
        let beyond = |holds: bool| {
            let there = self.probes.iter().filter(move |probe| probe.holds == Some(holds));
            there.map(|probe| probe.at).filter(move |at| outward(*at) > 0.0)
        };
        let first_failure = beyond(false).min_by(|a, b| outward(*a).total_cmp(&outward(*b)))?;
        let again = beyond(true).find(|at| outward(*at) > outward(first_failure))?;
        Some((first_failure, again))
    }

    /// All probes, in the order in which they were made.
    pub fn into_probes(self) -> Vec<Probe<T>> {
        self.probes
    }
}

/// Where the edge of a property that holds below it may lie, whatever the answers of probes: all below held,
/// and all above failed.
///
/// If the answers are those of one edge, this is the bracket. Where they contradict each other, or a probe
/// outside the bracket could not tell, all values over which that is so lie inside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PossibleEdges {
    /// The largest value at which it held, below all at which it did not or that could not be told; else 0.
    pub low: f64,
    /// The smallest value at which it failed, above all at which it did not or that could not be told; else ∞.
    pub high: f64,
    /// The first failure and the last success, where that lies beyond it.
    pub contradiction: Option<(f64, f64)>,
}

impl PossibleEdges {
    /// By answers: values with whether the property held there, or none where that could not be told.
    pub fn of(answers: &[(f64, Option<bool>)]) -> Self {
        let with = |own: Option<bool>| {
            answers.iter().filter(move |(_, held)| *held == own).map(|(at, _)| *at)
        };
        let failure = with(Some(false)).fold(f64::INFINITY, f64::min);
        let success = with(Some(true)).fold(0.0, f64::max);
        let first_doubt = with(None).fold(failure, f64::min);
        let last_doubt = with(None).fold(success, f64::max);
        Self {
            low: with(Some(true)).filter(|at| *at < first_doubt).fold(0.0, f64::max),
            high: with(Some(false)).filter(|at| *at > last_doubt).fold(f64::INFINITY, f64::min),
            contradiction: (failure < success).then_some((failure, success)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn below(edge: f64) -> impl FnMut(f64) -> Result<(Option<bool>, ()), Infallible> {
        move |x| Ok((Some(x < edge), ()))
    }

    fn places<T, P: FnMut(f64) -> Result<(Option<bool>, T), Infallible>>(
        search: EdgeSearch<T, P>,
    ) -> Vec<f64> {
        search.into_probes().iter().map(|probe| probe.at).collect()
    }

    #[test]
    fn the_edge_is_inside_the_bracket_from_either_side() {
        for (first, second) in [(0.0, 10.0), (10.0, 0.0)] {
            for below in [true, false] {
                let mut search =
                    EdgeSearch::new(1e-6, |x| Ok::<_, Infallible>((Some((x < 3.3) == below), ())));
                let found = search.bisect(first, second).unwrap().unwrap();
                let (low, high) =
                    if below { (found.holds, found.fails) } else { (found.fails, found.holds) };
                assert!(low < 3.3 && 3.3 <= high && found.relative_width() <= 1e-6);
                assert!(search.into_probes().len() < 30);
            }
        }
    }

    #[test]
    fn an_edge_is_sought_from_either_side_of_it_and_no_value_is_tried_twice() {
        for start in [1.0, 500.0] {
            let mut search = EdgeSearch::new(1e-3, below(77.7));
            let found = search.near(start, 12).unwrap().unwrap();
            assert!(found.holds < 77.7 && 77.7 <= found.fails && found.relative_width() <= 1e-3);
            assert_eq!(search.near(start, 12), Ok(Some(found)));
            let mut tried = places(search);
            let count = tried.len();
            tried.sort_by(f64::total_cmp);
            tried.dedup();
            assert_eq!(tried.len(), count);
        }
        let mut search = EdgeSearch::new(1e-3, below(77.7));
        assert_eq!(search.seek(1.0, 2.0, 3), Ok(None));
        assert_eq!(places(search), [1.0, 2.0, 4.0, 8.0]);
    }

    #[test]
    fn the_same_at_both_ends_is_no_edge() {
        let mut search = EdgeSearch::new(1e-3, below(2.0));
        assert_eq!(search.bisect(0.0, 1.0), Ok(None));
        assert_eq!(search.bisect(3.0, 4.0), Ok(None));
        let holds: Vec<_> = search.into_probes().iter().map(|probe| probe.holds).collect();
        assert_eq!(holds, [true, true, false, false].map(Some));
    }

    #[test]
    fn a_probe_that_fails_ends_the_search_and_keeps_the_others() {
        let mut calls = 0;
        let mut search = EdgeSearch::new(1e-3, |x| {
            calls += 1;
            if calls < 4 { Ok((Some(x < 3.3), calls)) } else { Err("disk full") }
        });
        assert_eq!(search.bisect(0.0, 10.0), Err("disk full"));
        let probes = search.into_probes();
        assert_eq!(probes.iter().map(|probe| probe.seen).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(calls, 4);
    }

    /// Holds below 3, fails above 5, cannot tell in between.
    fn with_a_gap(x: f64) -> Result<(Option<bool>, ()), Infallible> {
        Ok(((!(3.0..=5.0).contains(&x)).then_some(x < 3.0), ()))
    }

    #[test]
    fn a_probe_that_cannot_tell_counts_for_neither_side() {
        for (first, second) in [(0.0, 10.0), (10.0, 0.0), (2.9, 5.1), (0.0, 100.0)] {
            let mut search = EdgeSearch::new(1e-3, with_a_gap);
            let found = search.bisect(first, second).unwrap().unwrap();
            assert!((2.99..3.0).contains(&found.holds), "{found:?}");
            assert!(found.fails > 5.0 && found.fails < 5.01, "{found:?}");
        }
        for start in [1.0, 3.5, 4.0, 40.0] {
            let mut search = EdgeSearch::new(1e-3, with_a_gap);
            let found = search.near(start, 12).unwrap().unwrap();
            assert!(found.holds < 3.0 && found.fails > 5.0, "from {start}: {found:?}");
            assert!(found.fails - found.holds < 2.01);
        }
    }

    #[test]
    fn a_property_that_comes_back_is_named() {
        // Holds below 3 and from 6 to 7: doubling from 1 meets 2, 4, 8 and sees one edge; a probe at
        // 6.5 contradicts it.
        let holds = |x: f64| x < 3.0 || (6.0..7.0).contains(&x);
        let mut search = EdgeSearch::new(1e-3, |x| Ok::<_, Infallible>((Some(holds(x)), ())));
        let bracket = search.near(1.0, 5).unwrap().unwrap();
        assert_eq!(search.contradiction(bracket), None);
        search.holds(6.5).unwrap();
        let (fails, holds) = search.contradiction(bracket).unwrap();
        assert!((3.0..3.01).contains(&fails) && holds == 6.5);
    }

    #[test]
    fn contradictory_and_doubtful_answers_leave_all_over_which_they_are() {
        let of = |answers: &[(f64, Option<bool>)]| {
            let PossibleEdges { low, high, contradiction } = PossibleEdges::of(answers);
            ([low, high], contradiction)
        };
        let [yes, no] = [Some(true), Some(false)];
        assert_eq!(of(&[(1.0, yes), (4.0, no), (2.0, yes), (3.0, no)]), ([2.0, 3.0], None));
        assert_eq!(of(&[(1.0, yes), (2.0, None), (3.0, no)]), ([1.0, 3.0], None));
        let contradictory = [(1.0, yes), (2.0, no), (3.0, yes), (4.0, no), (5.0, no)];
        assert_eq!(of(&contradictory), ([1.0, 4.0], Some((2.0, 3.0))));
        let doubtful = [(1.0, yes), (2.0, None), (3.0, yes), (4.0, no), (5.0, None), (6.0, no)];
        assert_eq!(of(&doubtful), ([1.0, 6.0], None));
        assert_eq!(of(&[(1.0, yes), (2.0, yes)]), ([2.0, f64::INFINITY], None));
        assert_eq!(of(&[(1.0, no), (2.0, no)]), ([0.0, 1.0], None));
        assert_eq!(of(&[(1.0, no), (2.0, yes)]), ([0.0, f64::INFINITY], Some((1.0, 2.0))));
        assert_eq!(of(&[]), ([0.0, f64::INFINITY], None));
    }
}
