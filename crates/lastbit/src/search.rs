//! Where a property of a parameter changes: bisection with its probes.

/// One trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe<T> {
    /// The parameter tried.
    pub at: f64,
    /// Whether the property held.
    pub holds: bool,
    /// What else was seen.
    pub seen: T,
}

/// The edge lies between two parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Bracket<T> {
    /// Nearest parameter at which the property held.
    pub holds: f64,
    /// Nearest parameter at which it did not.
    pub fails: f64,
    /// All trials, in order.
    pub probes: Vec<Probe<T>>,
}

impl<T> Bracket<T> {
    /// Middle of the bracket.
    pub fn middle(&self) -> f64 {
        0.5 * (self.holds + self.fails)
    }

    /// Width over the middle.
    pub fn relative_width(&self) -> f64 {
        (self.fails - self.holds).abs() / self.middle().abs()
    }
}

/// Why there is no bracket.
#[derive(Debug, Clone, PartialEq)]
pub enum NoEdge<T> {
    /// The property held, or failed, wherever it was tried.
    SameAtBothEnds {
        /// Whether it held.
        holds: bool,
        /// The trials.
        probes: Vec<Probe<T>>,
    },
}

/// Multiplies `start` by `factor` until the property changes, at most `most` times, and bisects
/// between the last two. `trial` is asked again at those two; it may remember its answers.
pub fn seek<T>(
    start: f64,
    factor: f64,
    most: usize,
    tolerance: f64,
    mut trial: impl FnMut(f64) -> (bool, T),
) -> Result<Bracket<T>, NoEdge<T>> {
    let (mut previous, mut at) = (start, start);
    let mut probes = Vec::new();
    loop {
        let (holds, seen) = trial(at);
        probes.push(Probe { at, holds, seen });
        if holds != probes[0].holds {
            return bisect(previous, at, tolerance, trial);
        }
        if probes.len() > most {
            return Err(NoEdge::SameAtBothEnds { holds, probes });
        }
        (previous, at) = (at, factor * at);
    }
}

/// Bisects between `first` and `second` until the bracket is `tolerance` wide relative to its
/// middle. `trial` says whether the property holds at a parameter.
pub fn bisect<T>(
    first: f64,
    second: f64,
    tolerance: f64,
    mut trial: impl FnMut(f64) -> (bool, T),
) -> Result<Bracket<T>, NoEdge<T>> {
    let mut probes = Vec::new();
    let mut probe = |at: f64, probes: &mut Vec<Probe<T>>| {
        let (holds, seen) = trial(at);
        probes.push(Probe { at, holds, seen });
        holds
    };
    let ends = (probe(first, &mut probes), probe(second, &mut probes));
    let (mut holds, mut fails) = match ends {
        (true, false) => (first, second),
        (false, true) => (second, first),
        (holds, _) => return Err(NoEdge::SameAtBothEnds { holds, probes }),
    };
    loop {
        let middle = 0.5 * (holds + fails);
        let narrow = (fails - holds).abs() <= tolerance * middle.abs();
        if narrow || middle == holds || middle == fails {
            return Ok(Bracket { holds, fails, probes });
        }
        if probe(middle, &mut probes) {
            holds = middle;
        } else {
            fails = middle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edge_is_inside_the_bracket_from_either_side() {
        for (first, second) in [(0.0, 10.0), (10.0, 0.0)] {
            for below in [true, false] {
                let found = bisect(first, second, 1e-6, |x| ((x < 3.3) == below, ())).unwrap();
                let (low, high) =
                    if below { (found.holds, found.fails) } else { (found.fails, found.holds) };
                assert!(low < 3.3 && 3.3 <= high && found.relative_width() <= 1e-6);
                assert!(found.probes.len() < 30);
            }
        }
    }

    #[test]
    fn an_edge_is_sought_from_either_side_of_it() {
        for (start, factor) in [(1.0, 2.0), (500.0, 0.5)] {
            let found = seek(start, factor, 12, 1e-3, |x| (x < 77.7, ())).unwrap();
            assert!(found.holds < 77.7 && 77.7 <= found.fails && found.relative_width() <= 1e-3);
        }
        let found = seek(1.0, 2.0, 3, 1e-3, |x| (x < 77.7, x));
        let Err(NoEdge::SameAtBothEnds { holds: true, probes }) = found else { panic!() };
        assert_eq!(probes.iter().map(|probe| probe.at).collect::<Vec<_>>(), [1.0, 2.0, 4.0, 8.0]);
    }

    #[test]
    fn no_change_is_told() {
        let found = bisect(0.0, 1.0, 1e-3, |x| (true, x));
        assert!(matches!(found, Err(NoEdge::SameAtBothEnds { holds: true, .. })));
    }
}
