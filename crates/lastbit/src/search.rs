//! Where a property of a parameter changes: brackets by doubling or halving, then bisection.
//!
//! The property is known by probing: for a stability limit, by running at a step size and asking
//! whether the run is stable. Probes are expensive, so a search remembers each one and none is made
//! twice, also where several edges are searched one after the other.
//!
//! ```
//! use std::convert::Infallible;
//!
//! use lastbit::search::EdgeSearch;
//!
//! // The largest x with x² < 2, from 1 upwards.
//! let mut search = EdgeSearch::new(1e-6, |x: f64| Ok::<_, Infallible>((x * x < 2.0, ())));
//! let Ok(edge) = search.near(1.0, 10);
//! assert!((edge.unwrap().middle() - 2.0_f64.sqrt()).abs() < 1e-6);
//! ```

/// One value of the parameter that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe<T> {
    /// Value of the parameter.
    pub at: f64,
    /// Whether the property held.
    pub holds: bool,
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

impl<T, E, P: FnMut(f64) -> Result<(bool, T), E>> EdgeSearch<T, P> {
    /// A search for brackets that are `tolerance` wide relative to their middle.
    pub fn new(tolerance: f64, probe: P) -> Self {
        Self { tolerance, probe, probes: Vec::new() }
    }

    /// Whether the property holds at a value, by a probe or by an earlier one.
    ///
    /// # Errors
    ///
    /// If the probe fails.
    pub fn holds(&mut self, at: f64) -> Result<bool, E> {
        if let Some(known) = self.probes.iter().find(|probe| probe.at == at) {
            return Ok(known.holds);
        }
        let (holds, seen) = (self.probe)(at)?;
        self.probes.push(Probe { at, holds, seen });
        Ok(holds)
    }

    /// The nearest edge above `start` if the property holds there, else below, within `most`
    /// doublings or halvings.
    ///
    /// # Errors
    ///
    /// If a probe fails.
    pub fn near(&mut self, start: f64, most: usize) -> Result<Option<Bracket>, E> {
        let factor = if self.holds(start)? { 2.0 } else { 0.5 };
        self.seek(start, factor, most)
    }

    /// Multiplies `start` by `factor` until the property changes, at most `most` times, and bisects
    /// between the last two.
    ///
    /// # Errors
    ///
    /// If a probe fails.
    pub fn seek(&mut self, start: f64, factor: f64, most: usize) -> Result<Option<Bracket>, E> {
        let holds = self.holds(start)?;
        let mut previous = start;
        for _ in 0..most {
            let at = factor * previous;
            if self.holds(at)? != holds {
                return self.bisect(previous, at);
            }
            previous = at;
        }
        Ok(None)
    }

    /// Bisects between two values.
    ///
    /// # Errors
    ///
    /// If a probe fails.
    pub fn bisect(&mut self, first: f64, second: f64) -> Result<Option<Bracket>, E> {
        let (mut holds, mut fails) = match (self.holds(first)?, self.holds(second)?) {
            (true, false) => (first, second),
            (false, true) => (second, first),
            _ => return Ok(None),
        };
        loop {
            let middle = 0.5 * (holds + fails);
            let is_narrow = (fails - holds).abs() <= self.tolerance * middle.abs();
            if is_narrow || middle == holds || middle == fails {
                return Ok(Some(Bracket { holds, fails }));
            }
            if self.holds(middle)? {
                holds = middle;
            } else {
                fails = middle;
            }
        }
    }

    /// All probes, in the order in which they were made.
    pub fn into_probes(self) -> Vec<Probe<T>> {
        self.probes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn below(edge: f64) -> impl FnMut(f64) -> Result<(bool, ()), Infallible> {
        move |x| Ok((x < edge, ()))
    }

    fn places<T, P: FnMut(f64) -> Result<(bool, T), Infallible>>(
        search: EdgeSearch<T, P>,
    ) -> Vec<f64> {
        search.into_probes().iter().map(|probe| probe.at).collect()
    }

    #[test]
    fn the_edge_is_inside_the_bracket_from_either_side() {
        for (first, second) in [(0.0, 10.0), (10.0, 0.0)] {
            for below in [true, false] {
                let mut search =
                    EdgeSearch::new(1e-6, |x| Ok::<_, Infallible>(((x < 3.3) == below, ())));
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
        let holds: Vec<bool> = search.into_probes().iter().map(|probe| probe.holds).collect();
        assert_eq!(holds, [true, true, false, false]);
    }

    #[test]
    fn a_probe_that_fails_ends_the_search_and_keeps_the_others() {
        let mut calls = 0;
        let mut search = EdgeSearch::new(1e-3, |x| {
            calls += 1;
            if calls < 4 { Ok((x < 3.3, calls)) } else { Err("disk full") }
        });
        assert_eq!(search.bisect(0.0, 10.0), Err("disk full"));
        let probes = search.into_probes();
        assert_eq!(probes.iter().map(|probe| probe.seen).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(calls, 4);
    }
}
