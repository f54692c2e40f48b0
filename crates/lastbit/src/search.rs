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
    /// The property held, or failed, at both ends.
    SameAtBothEnds {
        /// Whether it held.
        holds: bool,
        /// The two trials.
        probes: Vec<Probe<T>>,
    },
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
    fn no_change_is_told() {
        let found = bisect(0.0, 1.0, 1e-3, |x| (true, x));
        assert!(matches!(found, Err(NoEdge::SameAtBothEnds { holds: true, .. })));
    }
}
