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
//! The images `A S` are not stored, only a few vectors `D` that span what of them lies outside the basis: at most one for each
//! start vector, and one for each random vector that was added.
//!
//! ```text
//! A S = S H + D C,   Sᵀ D = 0        A x − θ x = S (H y − θ y) + D C y        for x = S y
//! ```
//!
//! The first term of a residual is rounding if `A` is symmetric. The second gives the next basis vector, `s = D c / |D c|`
//! with `c = C y`. `D` is made orthogonal to `s`, which gives a new row of `H`. Now `D c = 0`, so that one vector of `D` is
//! dropped; what of `A s` lies outside the basis joins. From one start vector `D` is one vector, and this is Lanczos'
//! recurrence. By symmetry the new row also predicts the coefficients of `A s` along the basis; they are corrected where more than
//! rounding is left ([`KrylovVector::split`]).
//!
//! A restart drops what of the kept images lies along the Ritz vectors that are not kept: rounding if `A` is symmetric, about
//! 1e-7 of `|A|` for Hessian-vector products in single precision. Residuals include a bound for it.
//!
//! References: Parlett, *The symmetric eigenvalue problem*, chapters 11 to 13; Wu and Simon,
//! *Thick-restart Lanczos method*, SIAM J. Matrix Anal. Appl. 22 (2000).

use super::{EigenOptions, EigenResult, Eigenpair, KrylovVector, Operator, symmetric};
use crate::reduce::sum_by;
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
            let Worst { outside, residual } = &ritz.worst;
            space.make_room(options)?;
            if !space.add_outside(outside, *residual)? {
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

/// An orthonormal basis with its images under the operator, `A S = S H + D C`.
struct Space<'a, V, M> {
    like: &'a V,
    basis: Vec<V>,
    /// The columns of `H`.
    inside: Vec<Vec<f64>>,
    /// `D`.
    outside: Vec<V>,
    /// The columns of `C`.
    shares: Vec<Vec<f64>>,
    /// Bounds for what of the images was lost in restarts.
    lost: Vec<f64>,
    operator: Operator<M>,
    is_finite: bool,
    draw: u64,
    random_vectors: u64,
}

/// The pairs wanted, as far as the space has them; vectors in its own coordinates.
struct Ritz {
    /// In descending order.
    largest: Vec<Eigenpair>,
    smallest: Option<Eigenpair>,
    guard: Option<Vec<f64>>,
    worst: Worst,
    /// Largest modulus in the spectrum.
    scale: f64,
}

/// The pair with the largest residual.
struct Worst {
    /// What of the residual lies outside the space: `c` of the module doc.
    outside: Vec<f64>,
    residual: f64,
}

impl<'a, V, E, M> Space<'a, V, M>
where
    V: KrylovVector<E>,
    M: FnMut(&V, &mut V) -> Result<(), E>,
{
    fn new(like: &'a V, draw: u64, operator: Operator<M>) -> Self {
        Self {
            like,
            basis: vec![],
            inside: vec![],
            outside: vec![],
            shares: vec![],
            lost: vec![],
            operator,
            is_finite: true,
            draw,
            random_vectors: 0,
        }
    }

    /// Takes a vector in, if it has a part outside the space.
    fn add(&mut self, mut v: V) -> Result<bool, E> {
        let size = v.norm()?;
        v.orthogonalize(&self.basis)?;
        self.take_in(v, size, None)
    }

    /// Takes in `D c`, the part outside the space of a vector of norm `size`.
    fn add_outside(&mut self, c: &[f64], size: f64) -> Result<bool, E> {
        let mut v = V::combination(&self.outside, c)?;
        let (mut largest, mut gone) = (0.0, 0);
        for (index, (outside, c)) in self.outside.iter().zip(c).enumerate() {
            let part = c.abs() * outside.norm()?;
            if part > largest {
                (largest, gone) = (part, index);
            }
        }
        // Where most has cancelled, what rounding has left along the basis is no longer small.
        if v.norm()? < 0.5 * largest {
            v.orthogonalize(&self.basis)?;
        }
        self.take_in(v, size, Some((gone, c)))
    }

    /// Takes in what is orthogonal to the space of a vector of norm `size`, if that is anything. Of a vector `D c`, vector `gone` of
    /// `D` is dropped: of `D c = 0` it is the largest term.
    fn take_in(
        &mut self,
        mut v: V,
        size: f64,
        dependent: Option<(usize, &[f64])>,
    ) -> Result<bool, E> {
        let rest = v.norm()?;
        // Also where it was zero or not finite.
        if rest.is_nan() || rest <= NOTHING_NEW * size || self.basis.len() == v.dimension() {
            return Ok(false);
        }
        v.divide(rest)?;
        let mut along = v.project(&self.outside)?;
        for (inside, shares) in self.inside.iter_mut().zip(&self.shares) {
            inside.push(dot(&along, shares));
        }
        if let Some((gone, c)) = dependent {
            self.outside.remove(gone);
            along.remove(gone);
            for shares in &mut self.shares {
                let share = shares[gone] / c[gone];
                shares.iter_mut().zip(c).for_each(|(own, c)| *own -= share * c);
                shares.remove(gone);
            }
        }
        for (outside, along) in self.outside.iter_mut().zip(&along) {
            outside.axpy(-along, &v)?;
            // What rounding has left along the basis is no longer small beside what is left.
            if outside.norm()? < along.abs() {
                outside.orthogonalize(&self.basis)?;
            }
        }
        self.shares.iter_mut().for_each(|shares| shares.push(0.0));
        let mut image = self.operator.apply(&v)?;
        // The operator is symmetric, up to rounding: this column is known from the row, but for its end.
        let mut expected: Vec<f64> =
            self.inside.iter().map(|column| column[column.len() - 1]).collect();
        expected.push(image.dot(&v)?);
        self.basis.push(v);
        let inside = image.split(&self.basis, expected)?;
        self.is_finite &= inside.iter().all(|x| x.is_finite());
        self.inside.push(inside);
        self.outside.push(image);
        let mut shares = vec![0.0; self.outside.len()];
        shares[self.outside.len() - 1] = 1.0;
        self.shares.push(shares);
        self.lost.push(0.0);
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
                let last = self.shares.last().expect("one was added").clone();
                let inside = self.inside.last().expect("one was added");
                let rest = self.outside.last().expect("one was added").norm()?;
                let size = (dot(inside, inside) + rest * rest).sqrt();
                was_new = self.add_outside(&last, size)?;
            }
        }
        Ok(())
    }

    /// Eigenpairs of the operator on the space, in its own coordinates, descending.
    fn small_pairs(&self) -> Vec<(f64, Vec<f64>)> {
        let m = self.basis.len();
        let entry = |i: usize, j: usize| self.inside[i.max(j)][i.min(j)];
        let matrix: Vec<Vec<f64>> = (0..m).map(|i| (0..m).map(|j| entry(i, j)).collect()).collect();
        symmetric::eigenpairs(&matrix)
    }

    /// `H y` and `C y`.
    fn image(&self, y: &[f64]) -> [Vec<f64>; 2] {
        [&self.inside, &self.shares].map(|columns| {
            let mut sum = vec![0.0; columns[0].len()];
            for (column, y) in columns.iter().zip(y) {
                sum.iter_mut().zip(column).for_each(|(sum, x)| *sum += y * x);
            }
            sum
        })
    }

    fn ritz(&self, options: EigenOptions) -> Result<Ritz, E> {
        let small = self.small_pairs();
        let mut worst: Option<Worst> = None;
        let mut pair = |(value, y): &(f64, Vec<f64>)| {
            let [mut inside, outside] = self.image(y);
            inside.iter_mut().zip(y).for_each(|(image, y)| *image -= value * y);
            let rest = V::combination(&self.outside, &outside)?.norm()?;
            let residual = (dot(&inside, &inside) + rest * rest).sqrt() + self.lost(y);
            if worst.as_ref().is_none_or(|worst| residual.total_cmp(&worst.residual).is_ge()) {
                worst = Some(Worst { outside, residual });
            }
            Ok(Eigenpair { value: *value, residual, vector: y.clone() })
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

    /// At most what is missing of the image of `S y`.
    fn lost(&self, y: &[f64]) -> f64 {
        self.lost.iter().zip(y).map(|(lost, y)| lost * y.abs()).sum()
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
        let kept: Vec<&[f64]> = small[..high]
            .iter()
            .chain(&small[small.len() - low..])
            .map(|(_, y)| y.as_slice())
            .collect();
        self.basis = V::combinations(&self.basis, &kept)?;
        let (mut columns, mut all_shares, mut all_lost) = (vec![], vec![], vec![]);
        for y in &kept {
            let [mut image, shares] = self.image(y);
            let inside: Vec<f64> = kept.iter().map(|y| dot(y, &image)).collect();
            for (y, inside) in kept.iter().zip(&inside) {
                image.iter_mut().zip(*y).for_each(|(image, y)| *image -= inside * y);
            }
            all_lost.push(dot(&image, &image).sqrt() + self.lost(y));
            columns.push(inside);
            all_shares.push(shares);
        }
        (self.inside, self.shares, self.lost) = (columns, all_shares, all_lost);
        Ok(())
    }

    fn result(&self, ritz: &Ritz) -> Result<EigenResult<V>, E> {
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

/// Of short vectors.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    sum_by(x.len(), |i| x[i] * y[i])
}

#[cfg(test)]
mod tests;
