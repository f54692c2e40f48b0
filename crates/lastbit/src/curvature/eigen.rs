//! The largest eigenvalues of a symmetric operator one can only multiply with, from vectors found
//! before.
//!
//! A space grows one product at a time; on it the operator is a small matrix, whose eigenpairs
//! (Ritz pairs) approximate those at the ends of the spectrum:
//!
//! ```text
//! S orthonormal,  SᵀAS = Y Θ Yᵀ,   x = S y,   residual = |A x − θ x|
//! ```
//!
//! Some eigenvalue lies within a residual of each `θ`, rigorously, and where the next one is a `gap`
//! away, within `residual²/gap`. What the space is made of:
//!
//! 1. the vectors found last time: those wanted and one more, the *guard*, which is how an
//!    eigenvalue that is about to overtake is known before it does;
//! 2. the residual of the wanted pair that is worst, again and again until all have converged. From a
//!    single start vector this is Lanczos' method; from a good start a few products are enough;
//! 3. then a *probe*: a random vector and two powers of the operator on it, orthogonal to all there
//!    is. Residuals cannot see what is orthogonal to the space, such as an eigenvalue that has
//!    overtaken from afar or the second copy of a multiple one; a random vector has a part of
//!    everything. If the wanted pairs change, the search goes on, and a probe comes again.
//!
//! A probe finds an eigenvalue that stands out: with `n` parameters and a spectrum of root mean
//! square `s` outside the space, one of at least about `s n^{1/4}`. Hessians of networks have few
//! eigenvalues that stand out and many near zero. What a probe misses, the guard collects over the
//! measurements.
//!
//! When the space has grown to its limit it is cut back to the Ritz vectors at the wanted ends
//! (thick restart), which keeps nearly all of what it knew.
//!
//! References: Parlett, *The symmetric eigenvalue problem*, chapters 11 to 13; Wu and Simon,
//! *Thick-restart Lanczos method*, SIAM J. Matrix Anal. Appl. 22 (2000).

use std::ops::Range;

use crate::reduce::norm;
use crate::rng::Stream;
use crate::spectrum::basis::{Residual, along, combine, orthogonalize, residuals, take_away};
use crate::spectrum::lanczos::Eigenpair;
use crate::spectrum::symmetric;

/// Products of a probe.
const PROBE: usize = 3;
/// Vectors in the space, beyond four for each one wanted.
const ROOM: usize = 40;
/// Streams of random vectors lie here, one for each probe of a draw.
const DRAWS: u64 = 1 << 40;
/// A vector of which no more than this is outside the space brings nothing new but rounding.
const NOTHING_NEW: f64 = 1e-10;

/// Which eigenvalues, and how well.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wanted {
    /// How many of the largest.
    pub top: usize,
    /// Whether also the smallest.
    pub smallest: bool,
    /// Residual over the largest modulus in the spectrum.
    pub tolerance: f64,
    /// Products, at most.
    pub most: usize,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The largest eigenvalues, descending; fewer than wanted where the space has fewer dimensions.
    pub largest: Vec<Eigenpair>,
    /// The smallest, if wanted.
    pub smallest: Option<Eigenpair>,
    /// The vector after those of `largest`.
    pub guard: Option<Vec<f64>>,
    /// Products with the operator.
    pub products: usize,
}

impl Found {
    /// What the next measurement starts from.
    pub fn vectors(&self) -> Vec<Vec<f64>> {
        let ends = self.largest.iter().chain(&self.smallest).map(|pair| pair.vector.clone());
        ends.chain(self.guard.clone()).filter(|v| v.iter().all(|x| x.is_finite())).collect()
    }
}

/// Eigenpairs of `multiply: (v, out) ↦ out = A v` in `n` dimensions, from the vectors `known` (none
/// for a cold start). `draw` numbers the random vectors: another measurement takes others.
///
/// Where the operator returns what is not finite, values and residuals are NaN.
///
/// # Panics
///
/// If no eigenvalue is wanted, or a known vector has another length.
pub fn eigenpairs(
    n: usize,
    known: &[Vec<f64>],
    draw: u64,
    wanted: Wanted,
    multiply: impl FnMut(&[f64], &mut [f64]),
) -> Found {
    assert!(wanted.top > 0 && n > 0, "{} eigenvalues in {n} dimensions", wanted.top);
    let mut space = Space::new(n, draw, multiply);
    for vector in known {
        assert_eq!(vector.len(), n, "components of a known vector");
        space.add(vector.clone());
    }
    if space.basis.is_empty() {
        space.add_random();
    }
    let mut probed: Option<Vec<f64>> = None;
    loop {
        if !space.is_finite {
            return space.unknown(wanted);
        }
        let ritz = space.ritz(wanted);
        let is_complete = ritz.top() == wanted.top.min(n);
        if space.basis.len() == n || space.products >= wanted.most {
            return space.found(ritz);
        }
        let size = norm(&ritz.worst.vector);
        if size > wanted.tolerance * ritz.scale {
            let Residual { mut vector, along } = ritz.worst;
            take_away(&mut vector, &space.basis, &along);
            // Products in single precision are not quite symmetric: most may lie within the space, and
            // once is not enough then.
            if norm(&vector) < 0.5 * size {
                orthogonalize(&mut vector, &space.basis);
            }
            space.make_room(wanted);
            if !space.take_in(vector, size) {
                space.add_random();
            }
            continue;
        }
        if !is_complete {
            space.make_room(wanted);
            space.add_random();
            continue;
        }
        let values: Vec<f64> = ritz.pairs.iter().map(|(value, _)| *value).collect();
        let same = |a: &f64, b: &f64| (a - b).abs() <= wanted.tolerance * ritz.scale;
        if probed.is_some_and(|before| before.iter().zip(&values).all(|(a, b)| same(a, b))) {
            return space.found(ritz);
        }
        probed = Some(values);
        space.make_room(wanted);
        space.probe();
    }
}

/// The block of an operator in `n` dimensions that belongs to a range of coordinates.
pub fn block(
    n: usize,
    range: Range<usize>,
    mut multiply: impl FnMut(&[f64], &mut [f64]),
) -> impl FnMut(&[f64], &mut [f64]) {
    let (mut whole, mut image) = (vec![0.0; n], vec![0.0; n]);
    move |v, out| {
        whole[range.clone()].copy_from_slice(v);
        multiply(&whole, &mut image);
        out.copy_from_slice(&image[range.clone()]);
    }
}

/// An orthonormal basis with its images under the operator.
struct Space<M> {
    n: usize,
    basis: Vec<Vec<f64>>,
    images: Vec<Vec<f64>>,
    /// `SᵀAS`, the lower triangle with the diagonal.
    projected: Vec<Vec<f64>>,
    multiply: M,
    products: usize,
    is_finite: bool,
    draw: u64,
    probes: u64,
}

/// The pairs wanted, as far as the space has them, in its own coordinates.
struct Ritz {
    /// The largest, descending, then the smallest, if wanted; each with its residual.
    pairs: Vec<(f64, Vec<f64>)>,
    residuals: Vec<f64>,
    has_smallest: bool,
    guard: Option<Vec<f64>>,
    /// Of the pair where it is largest.
    worst: Residual,
    /// Largest modulus in the spectrum.
    scale: f64,
}

impl Ritz {
    /// How many of the largest there are.
    fn top(&self) -> usize {
        self.pairs.len() - usize::from(self.has_smallest)
    }
}

impl<M: FnMut(&[f64], &mut [f64])> Space<M> {
    fn new(n: usize, draw: u64, multiply: M) -> Self {
        let (basis, images, projected) = (Vec::new(), Vec::new(), Vec::new());
        let (products, is_finite, probes) = (0, true, 0);
        Self { n, basis, images, projected, multiply, products, is_finite, draw, probes }
    }

    /// Takes a vector in, if it has a part outside the space.
    fn add(&mut self, mut v: Vec<f64>) -> bool {
        let size = norm(&v);
        orthogonalize(&mut v, &self.basis);
        self.take_in(v, size)
    }

    /// Takes in what is orthogonal to the space of a vector of norm `size`, if that is anything.
    fn take_in(&mut self, mut v: Vec<f64>, size: f64) -> bool {
        let rest = norm(&v);
        // Also where it was zero or not finite.
        if rest.is_nan() || rest <= NOTHING_NEW * size || self.basis.len() == self.n {
            return false;
        }
        v.iter_mut().for_each(|x| *x /= rest);
        let mut image = vec![0.0; self.n];
        (self.multiply)(&v, &mut image);
        self.products += 1;
        self.basis.push(v);
        let row = along(&self.basis, &image);
        self.is_finite &= row.iter().all(|x| x.is_finite());
        self.projected.push(row);
        self.images.push(image);
        true
    }

    fn add_random(&mut self) -> bool {
        // Not signs: in few dimensions those of two draws are often parallel.
        let stream = Stream::new(self.draw, DRAWS + self.probes);
        self.probes += 1;
        self.add((0..self.n as u64).map(|i| 2.0 * stream.uniform(i) - 1.0).collect())
    }

    fn probe(&mut self) {
        let mut goes_on = self.add_random();
        for _ in 1..PROBE {
            if goes_on && self.is_finite {
                let last = self.images.last().expect("one was added").clone();
                goes_on = self.add(last);
            }
        }
    }

    /// Eigenpairs of the operator on the space, in its own coordinates, descending.
    fn small_pairs(&self) -> Vec<(f64, Vec<f64>)> {
        let m = self.basis.len();
        let entry = |i: usize, j: usize| self.projected[i.max(j)][i.min(j)];
        let matrix: Vec<Vec<f64>> = (0..m).map(|i| (0..m).map(|j| entry(i, j)).collect()).collect();
        symmetric::eigen(&matrix)
    }

    fn ritz(&self, wanted: Wanted) -> Ritz {
        let small = self.small_pairs();
        let last = small.last().filter(|_| wanted.smallest);
        let pairs: Vec<_> = small.iter().take(wanted.top).chain(last).collect();
        let residuals = residuals(&self.basis, &self.images, &pairs, self.n);
        let norms: Vec<f64> = residuals.iter().map(|residual| norm(&residual.vector)).collect();
        let by_norm = |a: &(Residual, f64), b: &(Residual, f64)| a.1.total_cmp(&b.1);
        let worst = residuals.into_iter().zip(norms.iter().copied()).max_by(by_norm);
        Ritz {
            has_smallest: last.is_some(),
            guard: small.get(wanted.top).map(|(_, y)| y.clone()),
            worst: worst.expect("at least one pair").0,
            scale: small.iter().fold(0.0, |most, (value, _)| value.abs().max(most)),
            pairs: pairs.into_iter().cloned().collect(),
            residuals: norms,
        }
    }

    /// Cuts the space back where a probe might not fit any more.
    fn make_room(&mut self, wanted: Wanted) {
        let limit = ROOM + 4 * wanted.top;
        if self.basis.len() + PROBE <= limit {
            return;
        }
        let small = self.small_pairs();
        let low = if wanted.smallest { limit / 4 } else { 0 };
        let high = limit / 2 - low / 2;
        let kept: Vec<&(f64, Vec<f64>)> =
            small[..high].iter().chain(&small[small.len() - low..]).collect();
        let turned = |of: &[Vec<f64>]| kept.iter().map(|(_, y)| combine(of, y, self.n)).collect();
        (self.basis, self.images) = (turned(&self.basis), turned(&self.images));
        let row = |i: usize| (0..=i).map(|j| if i == j { kept[i].0 } else { 0.0 }).collect();
        self.projected = (0..kept.len()).map(row).collect();
    }

    fn found(self, ritz: Ritz) -> Found {
        let vector = |y: &[f64]| combine(&self.basis, y, self.n);
        let pairs = ritz.pairs.iter().zip(&ritz.residuals);
        let pair = |((value, y), residual): (&(f64, Vec<f64>), &f64)| Eigenpair {
            value: *value,
            residual: *residual,
            vector: vector(y),
        };
        Found {
            largest: pairs.clone().take(ritz.top()).map(pair).collect(),
            smallest: pairs.skip(ritz.top()).map(pair).next(),
            guard: ritz.guard.as_deref().map(vector),
            products: self.products,
        }
    }

    fn unknown(self, wanted: Wanted) -> Found {
        let nan =
            || Eigenpair { value: f64::NAN, residual: f64::NAN, vector: vec![f64::NAN; self.n] };
        Found {
            largest: (0..wanted.top.min(self.n)).map(|_| nan()).collect(),
            smallest: wanted.smallest.then(nan),
            guard: None,
            products: self.products,
        }
    }
}

#[cfg(test)]
mod tests;
