//! Counter-based random numbers: the value at a counter is a function of seed, stream and counter.
//!
//! ```text
//! block(seed, stream, counter) = Philox4x32-10,   key = seed, counter words = (counter, stream)
//! ```
//!
//! Nothing is advanced, so a draw depends neither on thread order nor on a resume, and a GPU
//! kernel reaches any draw directly. Written here rather than taken from a crate because kernels
//! on other devices must repeat it operation by operation.
//!
//! Reference: Salmon, Moraes, Dror and Shaw, *Parallel random numbers: as easy as 1, 2, 3*,
//! SC 2011; the test holds their published vectors.

/// A stream of random numbers, addressed by counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    seed: u64,
    stream: u64,
}

impl Stream {
    /// Streams of one seed are independent of each other; so are equal streams of two seeds.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { seed, stream }
    }

    /// Four random words at `counter`.
    pub fn block(&self, counter: u64) -> [u32; 4] {
        philox4x32_10(
            [
                counter as u32,
                (counter >> 32) as u32,
                self.stream as u32,
                (self.stream >> 32) as u32,
            ],
            [self.seed as u32, (self.seed >> 32) as u32],
        )
    }

    /// Uniform in `(0, 1)`: the midpoints of 2^52 equal cells, so neither end is ever drawn.
    pub fn uniform(&self, counter: u64) -> f64 {
        let [a, b, ..] = self.block(counter);
        unit_interval(a, b)
    }

    /// Standard normal, by the Box-Muller transform of one block.
    pub fn normal(&self, counter: u64) -> f64 {
        let [a, b, c, d] = self.block(counter);
        let radius = (-2.0 * libm::log(unit_interval(a, b))).sqrt();
        radius * libm::cos(std::f64::consts::TAU * unit_interval(c, d))
    }

    /// Uniform among `0, 1, …, bound − 1`, each exactly as likely as the others: the high half of
    /// the 128-bit product of `bound` and a 64-bit draw, drawn again where the low half falls among
    /// the `2⁶⁴ mod bound` values that some results would have in excess (Lemire, *Fast random
    /// integer generation in an interval*, 2019).
    ///
    /// Draws made again stand `2⁴⁸` counters apart, out of the way of others.
    ///
    /// # Panics
    ///
    /// If `bound` is 0 or `counter` is not below `2⁴⁸`.
    pub fn below(&self, counter: u64, bound: u64) -> u64 {
        assert!(bound > 0 && counter < 1 << 48, "counter {counter}, bound {bound}");
        let excess = bound.wrapping_neg() % bound;
        let mut attempt = counter;
        loop {
            let [a, b, ..] = self.block(attempt);
            let draw = (u64::from(a) << 32) | u64::from(b);
            let product = u128::from(draw) * u128::from(bound);
            if product as u64 >= excess {
                return (product >> 64) as u64;
            }
            attempt += 1 << 48;
        }
    }

    /// A uniformly random order of `0, 1, …, len − 1`: the shuffle of Fisher and Yates, from the
    /// last place to the second, the place `i` taking its draw from counter `i`.
    pub fn permutation(&self, len: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..len as u32).collect();
        for i in (1..len).rev() {
            order.swap(i, self.below(i as u64, i as u64 + 1) as usize);
        }
        order
    }

    /// `+1` or `−1`.
    pub fn sign(&self, counter: u64) -> f64 {
        if self.block(counter)[0] & 1 == 0 { 1.0 } else { -1.0 }
    }
}

fn unit_interval(high: u32, low: u32) -> f64 {
    // 52 bits, not 53: adding the half must be exact.
    let bits = (u64::from(high) << 20) | (u64::from(low) >> 12);
    (bits as f64 + 0.5) * (1.0 / (1_u64 << 52) as f64)
}

fn philox4x32_10(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
    const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let product = |i: usize, j: usize| u64::from(MULTIPLIERS[i]) * u64::from(counter[j]);
        let (first, second) = (product(0, 0), product(1, 2));
        counter = [
            (second >> 32) as u32 ^ counter[1] ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ counter[3] ^ key[1],
            first as u32,
        ];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_vectors() {
        // "kat_vectors" of the Random123 distribution, philox4x32, 10 rounds.
        let cases = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(philox4x32_10(counter, key), expected);
        }
    }

    #[test]
    fn moments_of_the_normal() {
        let stream = Stream::new(7, 0);
        let n = 100_000;
        let draws: Vec<f64> = (0..n).map(|i| stream.normal(i)).collect();
        let moment = |p: i32| draws.iter().map(|x| x.powi(p)).sum::<f64>() / n as f64;
        // Four standard errors: Var(x^p) is 1, 2, 15, 96 for p = 1, 2, 3, 4.
        for (p, mean, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
            let bound = 4.0 * (variance / n as f64).sqrt();
            assert!((moment(p) - mean).abs() < bound, "moment {p}: {}", moment(p));
        }
    }

    #[test]
    fn every_permutation_of_four_is_as_likely_as_any_other() {
        let draws = 24_000;
        let mut counts = std::collections::BTreeMap::new();
        for stream in 0..draws {
            *counts.entry(Stream::new(5, stream).permutation(4)).or_insert(0_u32) += 1;
        }
        assert_eq!(counts.len(), 24);
        let square = |count: &u32| (f64::from(*count) - 1000.0) * (f64::from(*count) - 1000.0);
        let chi_squared: f64 = counts.values().map(square).sum::<f64>() / 1000.0;
        // 23 degrees of freedom: mean 23, standard deviation √46; four of them above the mean.
        assert!(chi_squared < 23.0 + 4.0 * 46_f64.sqrt(), "{chi_squared}");
    }

    #[test]
    fn bounded_draws_stay_below_their_bound_and_are_drawn_again_where_they_must() {
        // Just above 2⁶³ nearly half of all draws are in excess.
        let bound = (1 << 63) + 1;
        let stream = Stream::new(1, 2);
        let plain = |i: u64| {
            let [a, b, ..] = stream.block(i);
            let product = ((u128::from(a) << 32) | u128::from(b)) * u128::from(bound);
            (product >> 64) as u64
        };
        let drawn: Vec<u64> = (0..1000).map(|i| stream.below(i, bound)).collect();
        assert!(drawn.iter().all(|draw| *draw < bound));
        let again = (0..1000).filter(|i| drawn[*i as usize] != plain(*i)).count();
        // Binomial, one half of 1000: four standard deviations are 64.
        assert!(again.abs_diff(500) < 64, "{again}");
        assert!((0..100).all(|i| stream.below(i, 1) == 0));
    }

    #[test]
    fn uniform_never_touches_its_ends() {
        assert!(unit_interval(0, 0) > 0.0);
        assert!(unit_interval(u32::MAX, u32::MAX) < 1.0);
    }
}
