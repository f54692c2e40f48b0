//! Two arrays of numbers, entry by entry: how many bits agree, how far apart the rest is.
//!
//! ```text
//! RelL1          (2/N) Σ |a_i − b_i| / (|a_i| + |b_i|),   0/0 = 0
//! ulps           floats between a_i and b_i, on the grid of their type: largest, median
//! agreeing bits  (1/N) Σ min(p, max(0, −log₂( |a_i − b_i| / max(|a_i|, |b_i|) ))),   p if a_i = b_i
//! norms          ‖a‖₂, ‖b‖₂, ‖a − b‖₂
//! ```
//!
//! `p` is the precision of the type (24 for `f32`). An entry that is NaN or infinite on either side
//! has no distance: it is counted and left out, `N` is the number of the others. Unless its bits are
//! equal it is *not comparable*, and then two arrays have no largest distance either. The median is the
//! ⌈N/2⌉-th smallest, so it is a distance that occurs; it is found exactly and without a copy of the
//! distances, by counting their digits of 16 bits from the highest to the lowest.

use crate::Real;
use crate::divergence::rel_l1_by;
use crate::log2::log2;
use crate::real::once_per_precision;
use crate::reduce::sum_by;

/// One entry of both arrays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Value in the first.
    pub a: f64,
    /// Value in the second.
    pub b: f64,
    /// Whether all bits are equal; `−0` and `+0` differ, a NaN may equal itself.
    pub equal_bits: bool,
    /// Steps from one to the other on the grid of their type; any number where one is not finite.
    pub ulps: u64,
}

impl Pair {
    fn is_finite(&self) -> bool {
        self.a.is_finite() && self.b.is_finite()
    }
}

/// What is found in two arrays.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Length of each.
    pub entries: usize,
    /// Entries of which both sides are finite.
    pub compared: usize,
    /// Entries of equal bits.
    pub equal_bits: usize,
    /// NaN in the first and in the second.
    pub nan: [usize; 2],
    /// Infinities in the first and in the second.
    pub infinite: [usize; 2],
    /// Entries that are not finite on some side and differ: no distance says by how much.
    pub not_comparable: usize,
    /// The first of them.
    pub first_not_comparable: Option<usize>,
    /// RelL1; NaN where there are entries but none that can be compared.
    pub rel_l1: f64,
    /// Most steps between two entries compared.
    pub max_ulps: u64,
    /// Half of the entries compared are not further apart than this.
    pub median_ulps: u64,
    /// Largest absolute difference of entries compared.
    pub max_difference: f64,
    /// The first entry that has it; none where nothing differs.
    pub max_difference_at: Option<usize>,
    /// Norms of the two, over the entries compared.
    pub norms: [f64; 2],
    /// Norm of their difference, over the entries compared.
    pub norm_of_difference: f64,
    /// Mean number of agreeing bits, for types that have a precision; NaN like [`Self::rel_l1`].
    pub agreeing_bits: Option<f64>,
}

/// Two arrays of equal length, given by their entries.
#[derive(Debug, Clone, Copy)]
pub struct Pairs<P> {
    /// Number of entries.
    pub len: usize,
    /// Significant bits of the (coarser) type; none for whole numbers.
    pub precision: Option<u32>,
    /// The entry at an index below `len`.
    pub pair: P,
}

impl<P: Fn(usize) -> Pair> Pairs<P> {
    /// Sum over the entries compared, in the order of [`sum_by`].
    fn sum(&self, term: impl Fn(f64, f64) -> f64) -> f64 {
        sum_by(self.len, |i| {
            let pair = (self.pair)(i);
            if pair.is_finite() { term(pair.a, pair.b) } else { 0.0 }
        })
    }

    /// Measures all there is. Parts of it run side by side, each in an order of its own: nothing
    /// depends on the number of threads.
    pub fn compare(&self) -> Comparison
    where
        P: Sync,
    {
        let tally = self.tally();
        let Tally { compared, max_ulps, .. } = tally;
        let ((median_ulps, agreeing_bits), (rel_l1, norms, norm_of_difference)) = rayon::join(
            || {
                let count = |digit: Digit, counts: &mut [u64]| self.count_ulps(digit, counts);
                let bits = self.precision.map(|p| self.agreeing_bits(f64::from(p), compared));
                (median(compared, max_ulps, count), bits)
            },
            || {
                let norms = [self.sum(|a, _| a * a).sqrt(), self.sum(|_, b| b * b).sqrt()];
                (self.rel_l1(compared), norms, self.sum(|a, b| (a - b) * (a - b)).sqrt())
            },
        );
        Comparison {
            entries: self.len,
            compared,
            equal_bits: tally.equal_bits,
            nan: tally.nan,
            infinite: tally.infinite,
            not_comparable: tally.not_comparable,
            first_not_comparable: tally.first_not_comparable,
            rel_l1,
            max_ulps,
            median_ulps,
            max_difference: tally.max_difference,
            max_difference_at: tally.max_difference_at,
            norms,
            norm_of_difference,
            agreeing_bits,
        }
    }

    fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for i in 0..self.len {
            let Pair { a, b, equal_bits, ulps } = (self.pair)(i);
            tally.equal_bits += usize::from(equal_bits);
            if a.is_finite() && b.is_finite() {
                tally.compared += 1;
                tally.max_ulps = tally.max_ulps.max(ulps);
                let difference = (a - b).abs();
                if difference > tally.max_difference {
                    (tally.max_difference, tally.max_difference_at) = (difference, Some(i));
                }
            } else {
                for (side, value) in [a, b].into_iter().enumerate() {
                    tally.nan[side] += usize::from(value.is_nan());
                    tally.infinite[side] += usize::from(value.is_infinite());
                }
                if !equal_bits {
                    tally.not_comparable += 1;
                    tally.first_not_comparable.get_or_insert(i);
                }
            }
        }
        tally
    }

    fn rel_l1(&self, compared: usize) -> f64 {
        let whole = rel_l1_by(self.len, |i| {
            let Pair { a, b, .. } = (self.pair)(i);
            if !a.is_finite() || !b.is_finite() {
                (0.0, 0.0)
            } else if a.abs().max(b.abs()) > 1e300 {
                // The quotient does not change, and its denominator does not overflow.
                (a / 4.0, b / 4.0)
            } else {
                (a, b)
            }
        });
        if compared == self.len { whole } else { whole * (self.len as f64 / compared as f64) }
    }

    fn agreeing_bits(&self, precision: f64, compared: usize) -> f64 {
        if self.len == 0 {
            return precision;
        }
        self.sum(|a, b| agreeing_bits(a, b, precision)) / compared as f64
    }

    /// Adds to `counts` how often each value of a digit occurs among the ulps of the entries
    /// compared.
    pub fn count_ulps(&self, digit: Digit, counts: &mut [u64]) {
        for i in 0..self.len {
            let pair = (self.pair)(i);
            if let (true, Some(value)) = (pair.is_finite(), digit.of(pair.ulps)) {
                counts[value] += 1;
            }
        }
    }
}

/// What is counted in one pass; names as in [`Comparison`].
#[derive(Debug, Default)]
struct Tally {
    compared: usize,
    equal_bits: usize,
    nan: [usize; 2],
    infinite: [usize; 2],
    not_comparable: usize,
    first_not_comparable: Option<usize>,
    max_ulps: u64,
    max_difference: f64,
    max_difference_at: Option<usize>,
}

/// Mean number of significant bits on which two arrays of floats agree, as the module doc says;
/// entries that are not finite agree on none.
///
/// # Panics
///
/// If the lengths differ.
pub fn mean_agreeing_bits<F: Real>(a: &[F], b: &[F]) -> f64 {
    assert_eq!(a.len(), b.len(), "lengths");
    once_per_precision!(<'a, F> (&'a [F], &'a [F]), (a, b), |(a, b)| agreement(a, b) => f64)
}

fn agreement<F: Real>(a: &[F], b: &[F]) -> f64 {
    let precision = -log2(F::UNIT_ROUNDOFF);
    let bits = |i: usize| {
        let finite = a[i].is_finite() && b[i].is_finite();
        if finite { agreeing_bits(a[i].to_f64(), b[i].to_f64(), precision) } else { 0.0 }
    };
    sum_by(a.len(), bits) / a.len() as f64
}

/// Bits in which two numbers agree, from 0 to `precision`.
fn agreeing_bits(a: f64, b: f64, precision: f64) -> f64 {
    if a == b {
        return precision;
    }
    let relative = (a - b).abs() / a.abs().max(b.abs());
    (-log2(relative)).clamp(0.0, precision)
}

const DIGIT_BITS: u32 = 16;

/// A digit of a number whose higher digits are known.
#[derive(Debug, Clone, Copy)]
pub struct Digit {
    /// Bits below the digit.
    shift: u32,
    /// What the bits above it must be.
    above: u64,
}

impl Digit {
    /// How many values a digit can have.
    pub const VALUES: usize = 1 << DIGIT_BITS;

    fn of(&self, number: u64) -> Option<usize> {
        let above = number.checked_shr(self.shift + DIGIT_BITS).unwrap_or(0);
        (above == self.above).then_some(((number >> self.shift) & 0xFFFF) as usize)
    }
}

/// The ⌈total/2⌉-th smallest of `total` numbers up to `largest`; 0 of none.
///
/// `count` adds to [`Digit::VALUES`] counts how often each value of a digit occurs among those
/// numbers that fit what is above it. The numbers of several arrays may be counted one after the
/// other, so the median of all is found without joining them.
pub fn median(total: usize, largest: u64, count: impl Fn(Digit, &mut [u64])) -> u64 {
    if total == 0 {
        return 0;
    }
    let mut below = (total as u64).div_ceil(2) - 1;
    let highest_bit = largest.checked_ilog2().unwrap_or(0);
    let mut counts = vec![0; Digit::VALUES];
    let mut digit = Digit { shift: highest_bit / DIGIT_BITS * DIGIT_BITS, above: 0 };
    loop {
        counts.fill(0);
        count(digit, &mut counts);
        let mut value = 0;
        while below >= counts[value] {
            below -= counts[value];
            value += 1;
        }
        let number = digit.above << DIGIT_BITS | value as u64;
        if digit.shift == 0 {
            return number;
        }
        digit = Digit { shift: digit.shift - DIGIT_BITS, above: number };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Real;
    use crate::divergence::{max_ulps, rel_l1};
    use crate::reduce::{distance, norm};
    use proptest::prelude::*;

    fn pairs<F: Real>(x: &[F], y: &[F], precision: u32) -> Comparison {
        let pair = |i: usize| {
            let (a, b) = (x[i].to_f64(), y[i].to_f64());
            let equal_bits = a.to_bits() == b.to_bits();
            Pair { a, b, equal_bits, ulps: x[i].rank().abs_diff(y[i].rank()) }
        };
        Pairs { len: x.len(), precision: Some(precision), pair }.compare()
    }

    #[test]
    fn known_arrays() {
        let one_up = 1.0_f32.next_up();
        let found = pairs(&[1.0, 2.0, 0.0, -3.0], &[one_up, 2.0, -0.0, 3.0], 24);
        assert_eq!((found.entries, found.compared, found.equal_bits), (4, 4, 1));
        assert_eq!((found.max_difference, found.max_difference_at), (6.0, Some(3)));
        // 1, 0, 0 and from −3 to 3: the second smallest is 0.
        assert_eq!((found.median_ulps, found.max_ulps), (0, 2 * 0x4040_0000));
        // 2⁻²³ relative to the larger number is a little more than 23 bits; equal numbers have all
        // 24, opposite ones none.
        let bits = (-log2(f64::from(one_up - 1.0) / f64::from(one_up)) + 24.0 + 24.0) / 4.0;
        assert_eq!(found.agreeing_bits, Some(bits));
        assert_eq!(mean_agreeing_bits(&[1.0, 2.0, 0.0, -3.0], &[one_up, 2.0, -0.0, 3.0]), bits);
        assert_eq!(mean_agreeing_bits(&[1.0, f64::NAN], &[1.0, f64::NAN]), 53.0 / 2.0);
        assert_eq!(found.norms[1], (f64::from(one_up).powi(2) + 13.0).sqrt());
    }

    #[test]
    fn what_is_not_finite_is_counted_and_left_out() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        let found = pairs(&[nan, 1.0, inf, nan, 3.0, inf], &[nan, 2.0, 1.0, 4.0, 3.0, inf], 53);
        assert_eq!((found.nan, found.infinite), ([2, 1], [2, 1]));
        assert_eq!((found.entries, found.compared, found.equal_bits), (6, 2, 3));
        // The first and last entry have equal bits; infinity beside 1 and NaN beside 4 do not.
        assert_eq!((found.not_comparable, found.first_not_comparable), (2, Some(2)));
        let alone = pairs(&[1.0, 3.0], &[2.0, 3.0], 53);
        // The mean over two is scaled from the mean over six: two roundings.
        assert!((found.rel_l1 - alone.rel_l1).abs() <= 2.0 * f64::EPSILON * alone.rel_l1);
        assert_eq!(found.agreeing_bits, alone.agreeing_bits);
        assert_eq!((found.norms, found.median_ulps), (alone.norms, alone.median_ulps));
        assert_eq!(found.max_difference_at, Some(1));
        let none = pairs(&[nan], &[1.0], 53);
        assert!(none.rel_l1.is_nan() && none.agreeing_bits.unwrap().is_nan());
        assert_eq!((none.compared, none.not_comparable, none.max_difference_at), (0, 1, None));
    }

    #[test]
    fn nothing_and_the_largest_numbers() {
        let nothing = pairs::<f32>(&[], &[], 24);
        assert_eq!((nothing.rel_l1, nothing.agreeing_bits), (0.0, Some(24.0)));
        let far = pairs(&[f64::MAX, f64::MAX], &[-f64::MAX, f64::MAX / 3.0], 53);
        // 2/2 (1 + (2/3)/(4/3)), with a rounding each.
        assert!((far.rel_l1 - 1.5).abs() <= 4.0 * f64::EPSILON);
        assert_eq!(far.max_ulps, 2 * f64::MAX.to_bits());
    }

    /// Any bits, with many small distances among them.
    fn floats() -> impl Strategy<Value = Vec<(f64, f64)>> {
        let near = prop::num::f64::ANY.prop_flat_map(|a| {
            (Just(a), (0..70_000_u64).prop_map(move |n| f64::from_bits(a.to_bits() ^ n)))
        });
        prop::collection::vec(
            prop_oneof![3 => near, 1 => (prop::num::f64::ANY, prop::num::f64::ANY)],
            0..60,
        )
    }

    proptest! {
        #![proptest_config(crate::fixed_seed())]

        #[test]
        fn agrees_with_sorting_and_with_the_plain_functions(all in floats()) {
            let (x, y): (Vec<f64>, Vec<f64>) = all.iter().copied().unzip();
            let found = pairs(&x, &y, 53);
            let finite = |(a, b): &&(f64, f64)| a.is_finite() && b.is_finite();
            let (a, b): (Vec<f64>, Vec<f64>) = all.iter().filter(finite).copied().unzip();
            let mut ulps: Vec<u64> =
                a.iter().zip(&b).map(|(a, b)| a.rank().abs_diff(b.rank())).collect();
            ulps.sort_unstable();
            prop_assert_eq!(found.compared, a.len());
            prop_assert_eq!(found.max_ulps, max_ulps(&a, &b));
            let middle = ulps.len().div_ceil(2).saturating_sub(1);
            prop_assert_eq!(found.median_ulps, ulps.get(middle).copied().unwrap_or(0));
            if let Some(at) = found.max_difference_at {
                let differences = a.iter().zip(&b).map(|(a, b)| (a - b).abs());
                prop_assert_eq!(found.max_difference, differences.fold(0.0, f64::max));
                prop_assert_eq!((x[at] - y[at]).abs(), found.max_difference);
            }
            let sized = x.iter().chain(&y).all(|v| v.abs() < 1e300);
            if sized {
                prop_assert_eq!(found.rel_l1.to_bits(), rel_l1(&x, &y).to_bits());
                prop_assert_eq!(found.norms[0].to_bits(), norm(&x).to_bits());
                prop_assert_eq!(found.norm_of_difference.to_bits(), distance(&x, &y).to_bits());
            }
            prop_assert!(found.rel_l1.is_nan() || found.rel_l1 <= 2.0 + 1e-14);
            prop_assert!(found.agreeing_bits.is_some_and(|n| n.is_nan() || (0.0..=53.0).contains(&n)));
        }

        #[test]
        fn the_median_of_any_numbers(
            mut numbers in prop::collection::vec(prop_oneof![any::<u64>(), 0..100_000_u64], 1..50),
            cut in 0..50_usize,
        ) {
            // Counted in two parts, as two arrays would be.
            let cut = cut.min(numbers.len());
            let (one, two) = (numbers[..cut].to_vec(), numbers[cut..].to_vec());
            let count = |digit: Digit, counts: &mut [u64]| {
                for part in [&one, &two] {
                    part.iter().filter_map(|n| digit.of(*n)).for_each(|n| counts[n] += 1);
                }
            };
            let found = median(numbers.len(), *numbers.iter().max().unwrap(), count);
            numbers.sort_unstable();
            prop_assert_eq!(found, numbers[numbers.len().div_ceil(2) - 1]);
        }
    }
}
