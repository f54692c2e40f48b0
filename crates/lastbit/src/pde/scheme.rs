//! A linear scheme with constant coefficients, as data.
//!
//! ```text
//! u_{n+1}[x] = Σ over terms  c(dt) · u_{n+level}[x + offset],     c(dt) = c₀ + c₁ dt + c₂ dt² + …
//! ```
//!
//! `level` is 1 for the new time (an implicit scheme), 0 for the present, −1 for the one before
//! and so on; `offset` has one entry per space dimension.

/// Furthest level back.
pub const OLDEST: i32 = -64;

/// Largest coefficient: sums of some of them must not overflow.
pub const LARGEST: f64 = 1e300;

/// One term of a scheme.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Time level: 1 new, 0 present, −1 before, …
    pub level: i32,
    /// Where, relative to the point that is updated.
    pub offset: Vec<i32>,
    /// `c₀, c₁, …`, the coefficient as a polynomial in `dt`.
    pub coefficient: Vec<f64>,
}

impl Term {
    /// The coefficient at `dt`, by Horner's rule.
    pub fn at(&self, dt: f64) -> f64 {
        self.coefficient.iter().rev().fold(0.0, |sum, c| sum * dt + c)
    }
}

/// A scheme: its terms and the number of space dimensions.
#[derive(Debug, Clone, PartialEq)]
pub struct Scheme {
    dimensions: usize,
    terms: Vec<Term>,
}

/// What is wrong with the terms of a scheme.
#[derive(Debug, Clone, PartialEq)]
pub enum SchemeError {
    /// No terms at all.
    Empty,
    /// Dimensions other than 1 or 2.
    Dimensions(usize),
    /// A term whose offset has another number of entries than the scheme has dimensions.
    Offset {
        /// Position of the term.
        term: usize,
        /// Entries found.
        found: usize,
    },
    /// A level above 1, or further back than [`OLDEST`].
    Level {
        /// Position of the term.
        term: usize,
        /// Level found.
        found: i32,
    },
    /// A coefficient that is missing, not a number, or larger than [`LARGEST`].
    Coefficient {
        /// Position of the term.
        term: usize,
    },
    /// No term at level 0 or below.
    NoPast,
}

impl Scheme {
    /// Checks the terms.
    pub fn new(dimensions: usize, terms: Vec<Term>) -> Result<Self, SchemeError> {
        if !(1..=2).contains(&dimensions) {
            return Err(SchemeError::Dimensions(dimensions));
        }
        if terms.is_empty() {
            return Err(SchemeError::Empty);
        }
        for (term, Term { level, offset, coefficient }) in terms.iter().enumerate() {
            if offset.len() != dimensions {
                return Err(SchemeError::Offset { term, found: offset.len() });
            }
            if !(OLDEST..=1).contains(level) {
                return Err(SchemeError::Level { term, found: *level });
            }
            if coefficient.is_empty() || !coefficient.iter().all(|c| c.abs() <= LARGEST) {
                return Err(SchemeError::Coefficient { term });
            }
        }
        if terms.iter().all(|term| term.level == 1) {
            return Err(SchemeError::NoPast);
        }
        Ok(Self { dimensions, terms })
    }

    /// Space dimensions, 1 or 2.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// The terms.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Number of past levels the new one is computed from.
    pub fn levels(&self) -> usize {
        self.terms.iter().map(|term| 1 - term.level).max().unwrap_or(1).max(1) as usize
    }

    /// Whether no term stands at the new level.
    pub fn is_explicit(&self) -> bool {
        self.terms.iter().all(|term| term.level <= 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(level: i32, offset: &[i32], coefficient: &[f64]) -> Term {
        Term { level, offset: offset.to_vec(), coefficient: coefficient.to_vec() }
    }

    #[test]
    fn malformed_schemes_are_told_apart() {
        let refused = |dimensions, terms| Scheme::new(dimensions, terms).unwrap_err();
        assert_eq!(refused(1, vec![]), SchemeError::Empty);
        assert_eq!(refused(3, vec![]), SchemeError::Dimensions(3));
        let flat = vec![term(0, &[0], &[1.0])];
        assert_eq!(refused(2, flat), SchemeError::Offset { term: 0, found: 1 });
        assert_eq!(
            refused(1, vec![term(2, &[0], &[1.0])]),
            SchemeError::Level { term: 0, found: 2 }
        );
        assert_eq!(
            refused(1, vec![term(-1000, &[0], &[1.0])]),
            SchemeError::Level { term: 0, found: -1000 }
        );
        assert_eq!(refused(1, vec![term(0, &[0], &[])]), SchemeError::Coefficient { term: 0 });
        assert_eq!(
            refused(1, vec![term(0, &[0], &[f64::NAN])]),
            SchemeError::Coefficient { term: 0 }
        );
        assert_eq!(refused(1, vec![term(1, &[0], &[0.5])]), SchemeError::NoPast);
    }

    #[test]
    fn coefficients_are_polynomials_in_dt() {
        assert_eq!(term(0, &[0], &[1.0, -2.0, 3.0]).at(2.0), 1.0 - 4.0 + 12.0);
    }
}
