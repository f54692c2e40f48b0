//! A search from the eigenvectors found last, with restarts, a guard and a probe.
//!
//! What the basis `S` is made of:
//!
//! 1. the vectors found last time: those wanted and one more, the *guard*, which shows an eigenvalue
//!    that is about to overtake before it does;
//! 2. the residual of the wanted pair that is worst, again and again until all have converged. From a
//!    single start vector this is Lanczos' method; from a good start a few products are enough;
//! 3. then a *probe*: a random vector and two powers of the operator on it, orthogonal to the basis.
//!    Residuals cannot see what is orthogonal to the basis, such as an eigenvalue that has overtaken
//!    from afar or the second copy of a multiple one; a random vector has a part of everything. If
//!    the wanted pairs change, the search continues, and is probed again.
//!
//! A probe finds an eigenvalue that stands out: with `n` parameters and a spectrum of root mean
//! square `s` outside the space, one of at least about `s n^{1/4}`. Hessians of networks have few
//! eigenvalues that stand out and many near zero. What a probe misses, the guard collects over the
//! measurements.
//!
//! When the basis has grown to its limit it is cut back to the Ritz vectors at the wanted ends
//! (thick restart), which keeps nearly all of what it knew.
//!
//! References: Parlett, *The symmetric eigenvalue problem*, chapters 11 to 13; Wu and Simon,
//! *Thick-restart Lanczos method*, SIAM J. Matrix Anal. Appl. 22 (2000).

use super::{EigenOptions, EigenResult, Eigenpair, KrylovVector, Operator, symmetric};
use crate::rng::Stream;

/// Matrix-vector products of a probe.
const PROBE: usize = 3;
/// Vectors in the basis, beyond four for each one wanted.
const ROOM: usize = 40;
/// Streams of random vectors lie here, one for each probe of a draw.
const DRAWS: u64 = 1 << 40;
/// A vector of which no more than this is orthogonal to the basis brings nothing new but rounding.
const NOTHING_NEW: f64 = 1e-10;

pub(super) fn search<V: KrylovVector<E>, E>(
    like: &V,
    known: Vec<V>,
    draw: u64,
    options: EigenOptions,
    operator: Operator<impl FnMut(&V, &mut V) -> Result<(), E>>,
) -> Result<EigenResult<V>, E> {
    let n = like.dimension();
    let mut space = Space::new(like, draw, operator);
    for vector in known {
        space.add(vector)?;
    }
    if space.basis.is_empty() {
        space.add_random()?;
    }
    let mut probed: Option<Vec<f64>> = None;
    loop {
        if !space.is_finite {
            return EigenResult::unknown(like, options, space.operator.matvecs);
        }
        let ritz = space.ritz(options)?;
        if space.basis.len() == n || space.operator.matvecs >= options.max_matvecs {
            return space.result(&ritz);
        }
        let Ritz { largest, smallest, scale, .. } = &ritz;
        let pairs = || largest.iter().chain(smallest);
        if !options.has_converged(pairs().map(|pair| pair.residual), *scale) {
            let Worst { mut vector, along, norm } = ritz.worst;
            vector.subtract_combination(&space.basis, &along)?;
            // Products in single precision are not quite symmetric: most may lie within the space, and
            // once is not enough then.
            if vector.norm()? < 0.5 * norm {
                vector.orthogonalize(&space.basis)?;
            }
            space.make_room(options)?;
            if !space.take_in(vector, norm)? {
                space.add_random()?;
            }
            continue;
        }
        if largest.len() < options.top.min(n) {
            space.make_room(options)?;
            space.add_random()?;
            continue;
        }
        let values: Vec<f64> = pairs().map(|pair| pair.value).collect();
        let same = |a: &f64, b: &f64| (a - b).abs() <= options.tolerance * scale;
        if probed.is_some_and(|before| before.iter().zip(&values).all(|(a, b)| same(a, b))) {
            return space.result(&ritz);
        }
        probed = Some(values);
        space.make_room(options)?;
        space.probe()?;
    }
}

/// An orthonormal basis with its images under the operator.
struct Space<'a, V, M> {
    like: &'a V,
    basis: Vec<V>,
    images: Vec<V>,
    /// `SᵀAS`, the lower triangle with the diagonal.
    projected: Vec<Vec<f64>>,
    operator: Operator<M>,
    is_finite: bool,
    draw: u64,
    random_vectors: u64,
}

/// The pairs wanted, as far as the space has them; vectors in its own coordinates.
struct Ritz<V> {
    /// In descending order.
    largest: Vec<Eigenpair>,
    smallest: Option<Eigenpair>,
    guard: Option<Vec<f64>>,
    worst: Worst<V>,
    /// Largest modulus in the spectrum.
    scale: f64,
}

/// The largest of the residuals.
struct Worst<V> {
    vector: V,
    /// What rounding has left of it within the space.
    along: Vec<f64>,
    norm: f64,
}

impl<'a, V, E, M> Space<'a, V, M>
where
    V: KrylovVector<E>,
    M: FnMut(&V, &mut V) -> Result<(), E>,
{
    fn new(like: &'a V, draw: u64, operator: Operator<M>) -> Self {
        let (basis, images, projected) = (Vec::new(), Vec::new(), Vec::new());
        let (is_finite, random_vectors) = (true, 0);
        Self { like, basis, images, projected, operator, is_finite, draw, random_vectors }
    }

    /// Takes a vector in, if it has a part outside the space.
    fn add(&mut self, mut v: V) -> Result<bool, E> {
        let size = v.norm()?;
        v.orthogonalize(&self.basis)?;
        self.take_in(v, size)
    }

    /// Takes in what is orthogonal to the space of a vector of norm `size`, if that is anything.
    fn take_in(&mut self, mut v: V, size: f64) -> Result<bool, E> {
        let rest = v.norm()?;
        // Also where it was zero or not finite.
        if rest.is_nan() || rest <= NOTHING_NEW * size || self.basis.len() == v.dimension() {
            return Ok(false);
        }
        v.divide(rest)?;
        let image = self.operator.apply(&v)?;
        self.basis.push(v);
        let row = image.project(&self.basis)?;
        self.is_finite &= row.iter().all(|x| x.is_finite());
        self.projected.push(row);
        self.images.push(image);
        Ok(true)
    }

    fn add_random(&mut self) -> Result<bool, E> {
        let stream = Stream::new(self.draw, DRAWS + self.random_vectors);
        self.random_vectors += 1;
        let mut vector = self.like.zeros_like()?;
        // Not signs: in few dimensions those of two draws are often parallel.
        vector.fill_by(|i| 2.0 * stream.uniform(i) - 1.0)?;
        self.add(vector)
    }

    fn probe(&mut self) -> Result<(), E> {
        let mut was_new = self.add_random()?;
        for _ in 1..PROBE {
            if was_new && self.is_finite {
                let last = self.images.last().expect("one was added").copy()?;
                was_new = self.add(last)?;
            }
        }
        Ok(())
    }

    /// Eigenpairs of the operator on the space, in its own coordinates, descending.
    fn small_pairs(&self) -> Vec<(f64, Vec<f64>)> {
        let m = self.basis.len();
        let entry = |i: usize, j: usize| self.projected[i.max(j)][i.min(j)];
        let matrix: Vec<Vec<f64>> = (0..m).map(|i| (0..m).map(|j| entry(i, j)).collect()).collect();
        symmetric::eigenpairs(&matrix)
    }

    fn ritz(&self, options: EigenOptions) -> Result<Ritz<V>, E> {
        let small = self.small_pairs();
        let mut worst: Option<Worst<V>> = None;
        let mut pair = |(value, y): &(f64, Vec<f64>)| {
            let (vector, along) = V::residual(&self.basis, &self.images, (*value, y))?;
            let norm = vector.norm()?;
            if worst.as_ref().is_none_or(|worst| norm.total_cmp(&worst.norm).is_ge()) {
                worst = Some(Worst { vector, along, norm });
            }
            Ok(Eigenpair { value: *value, residual: norm, vector: y.clone() })
        };
        let (largest, smallest) = options.select(&small);
        Ok(Ritz {
            largest: largest.iter().map(&mut pair).collect::<Result<_, E>>()?,
            smallest: smallest.map(&mut pair).transpose()?,
            guard: small.get(options.top).map(|(_, y)| y.clone()),
            worst: worst.expect("at least one pair"),
            scale: small.iter().fold(0.0, |most, (value, _)| value.abs().max(most)),
        })
    }

    /// Cuts the space back where a probe might not fit any more.
    fn make_room(&mut self, options: EigenOptions) -> Result<(), E> {
        let limit = ROOM + 4 * options.top;
        if self.basis.len() + PROBE <= limit {
            return Ok(());
        }
        let small = self.small_pairs();
        let low = if options.smallest { limit / 4 } else { 0 };
        let high = limit / 2 - low / 2;
        let kept: Vec<&(f64, Vec<f64>)> =
            small[..high].iter().chain(&small[small.len() - low..]).collect();
        let turned = |of: &[V]| kept.iter().map(|(_, y)| V::combination(of, y)).collect();
        let basis: Result<Vec<V>, E> = turned(&self.basis);
        (self.basis, self.images) = (basis?, turned(&self.images)?);
        let row = |i: usize| (0..=i).map(|j| if i == j { kept[i].0 } else { 0.0 }).collect();
        self.projected = (0..kept.len()).map(row).collect();
        Ok(())
    }

    fn result(&self, ritz: &Ritz<V>) -> Result<EigenResult<V>, E> {
        let vector = |y: &[f64]| V::combination(&self.basis, y);
        let pair = |Eigenpair { value, residual, vector: y }: &Eigenpair| {
            Ok(Eigenpair { value: *value, residual: *residual, vector: vector(y)? })
        };
        Ok(EigenResult {
            largest: ritz.largest.iter().map(pair).collect::<Result<_, E>>()?,
            smallest: ritz.smallest.as_ref().map(pair).transpose()?,
            guard: ritz.guard.as_deref().map(vector).transpose()?,
            matvecs: self.operator.matvecs,
        })
    }
}

#[cfg(test)]
mod tests;
