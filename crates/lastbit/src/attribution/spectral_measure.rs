//! The spectral measure of a symmetric operator at a few vectors: band Lanczos with full reorthogonalization.
//!
//! ```text
//! basis       v_1, v_2, …: the start vectors, then A v_1, A v_2, …, made orthonormal; what brings nothing new
//!             is left out
//! projection  T = VᵀAV = S Λ Sᵀ
//! nodes       λ_i,      (Sᵀ Vᵀ x)_i along each node, for each start vector x
//! xᵀ p(A) y = Σ_i p(λ_i) (SᵀVᵀx)_i (SᵀVᵀy)_i
//! ```
//!
//! exactly for polynomials `p` of degree up to `2k − 1`, when every start vector has been multiplied `k` times.
//! From one start vector this is Lanczos' method. The projection to fewer nodes is a corner of `T` and costs no
//! product.

use crate::krylov::{KrylovVector, symmetric};

/// The operator as its start vectors see it.
#[derive(Debug, Clone, PartialEq)]
pub struct SpectralMeasure {
    /// `T`, the lower triangle with the diagonal.
    projected: Vec<Vec<f64>>,
    /// The start vectors in the basis, whose first vectors span them.
    starts: Vec<Vec<f64>>,
    /// Whether the space was exhausted: then the measure is exact for every function.
    pub is_complete: bool,
}

/// A node with the component of each start vector along it.
pub type Node = (f64, Vec<f64>);

impl SpectralMeasure {
    /// By at most `products` products, `multiply(v, out)` computing `out = A v`; none where the operator or a start
    /// vector is not finite, or all start vectors are zero.
    ///
    /// # Errors
    ///
    /// The first error of the operator or of a vector operation.
    ///
    /// # Panics
    ///
    /// If there are fewer products than twice the start vectors: not even a polynomial of degree two would be
    /// integrated exactly.
    pub fn of<V: KrylovVector<E>, E>(
        starts: &[V],
        products: usize,
        mut multiply: impl FnMut(&V, &mut V) -> Result<(), E>,
    ) -> Result<Option<Self>, E> {
        let count = starts.len();
        assert!(products >= 2 * count, "{products} products from {count} start vectors");
        let mut basis: Vec<V> = Vec::new();
        for start in starts {
            let mut v = start.copy()?;
            let size = v.norm()?;
            if !size.is_finite() {
                return Ok(None);
            }
            v.orthogonalize(&basis)?;
            extend(&mut basis, v, size)?;
        }
        if basis.is_empty() {
            return Ok(None);
        }
        let starts = starts.iter().map(|x| x.project(&basis)).collect::<Result<Vec<_>, E>>()?;
        let (mut projected, mut scale, mut is_complete) = (Vec::new(), 0.0_f64, true);
        while projected.len() < basis.len() {
            let v = &basis[projected.len()];
            let mut image = v.zeros_like()?;
            multiply(v, &mut image)?;
            let row = image.project(&basis)?;
            if !row.iter().all(|x| x.is_finite()) {
                return Ok(None);
            }
            image.orthogonalize(&basis)?;
            let beyond = image.norm()?;
            scale = row.iter().fold(scale.max(beyond), |most, x| most.max(x.abs()));
            projected.push(row);
            if basis.len() < products {
                extend(&mut basis, image, scale)?;
            } else {
                is_complete &= !is_new(&basis, beyond, scale);
            }
        }
        Ok(Some(Self { projected, starts, is_complete }))
    }

    /// Products made, and the nodes there are.
    pub fn products(&self) -> usize {
        self.projected.len()
    }

    /// The nodes after the first `count` products, in descending order.
    ///
    /// # Panics
    ///
    /// If there are fewer products.
    pub fn nodes(&self, count: usize) -> Vec<Node> {
        let entry = |i: usize, j: usize| self.projected[i.max(j)][i.min(j)];
        let matrix: Vec<Vec<f64>> =
            (0..count).map(|i| (0..count).map(|j| entry(i, j)).collect()).collect();
        let component = |start: &Vec<f64>, y: &[f64]| start.iter().zip(y).map(|(a, b)| a * b).sum();
        let node = |(value, y): (f64, Vec<f64>)| {
            (value, self.starts.iter().map(|start| component(start, &y)).collect())
        };
        symmetric::eigenpairs(&matrix).into_iter().map(node).collect()
    }
}

/// Takes in what is orthogonal to the basis of a vector of norm `size`, if that is more than rounding.
fn extend<V: KrylovVector<E>, E>(basis: &mut Vec<V>, mut v: V, size: f64) -> Result<(), E> {
    let rest = v.norm()?;
    if is_new(basis, rest, size) {
        v.divide(rest)?;
        basis.push(v);
    }
    Ok(())
}

fn is_new<V: KrylovVector<E>, E>(basis: &[V], rest: f64, size: f64) -> bool {
    let is_full = basis.first().is_some_and(|v| basis.len() == v.dimension());
    !is_full && rest > 4.0 * f64::EPSILON * size
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::krylov::infallible;
    use crate::krylov::lanczos::laplacian;
    use crate::reduce::sum_by;
    use crate::signal::normal;

    fn measure(starts: &[Vec<f64>], products: usize) -> Option<SpectralMeasure> {
        let Ok(found) = SpectralMeasure::of(starts, products, infallible(laplacian));
        found
    }

    /// `x · A^j y` for all pairs of start vectors, by multiplying, against the nodes.
    fn assert_moments(starts: &[Vec<f64>], nodes: &[Node], powers: u32) {
        for (a, x) in starts.iter().enumerate() {
            for (b, y) in starts.iter().enumerate() {
                let (mut power, mut image) = (y.clone(), vec![0.0; y.len()]);
                for j in 0..=powers {
                    let exact = sum_by(x.len(), |i| x[i] * power[i]);
                    let ours: f64 = nodes.iter().map(|(t, c)| t.powi(j as i32) * c[a] * c[b]).sum();
                    // A spectrum below 4, vectors of norm about √n: some roundings of n 4^j each.
                    let tolerance = 1e-13 * x.len() as f64 * 4.0_f64.powi(j as i32);
                    assert!((ours - exact).abs() < tolerance, "{a} {b} power {j}");
                    laplacian(&power, &mut image);
                    std::mem::swap(&mut power, &mut image);
                }
            }
        }
    }

    #[test]
    fn moments_of_all_pairs_of_start_vectors_are_exact() {
        for count in 1..=3 {
            let starts: Vec<Vec<f64>> = (0..count).map(|seed| normal(40, seed as u64)).collect();
            let found = measure(&starts, 5 * count).unwrap();
            assert_eq!((found.products(), found.is_complete), (5 * count, false));
            assert_moments(&starts, &found.nodes(5 * count), 9);
            // A corner of T is the measure of fewer products.
            assert_moments(&starts, &found.nodes(2 * count), 3);
        }
    }

    #[test]
    fn an_exhausted_space_is_exact_for_every_power() {
        let starts = [normal(7, 1), normal(7, 2)];
        let found = measure(&starts, 100).unwrap();
        assert_eq!((found.products(), found.is_complete), (7, true));
        assert_moments(&starts, &found.nodes(7), 20);
    }

    #[test]
    fn parallel_and_zero_start_vectors_are_left_out_of_the_basis_and_kept_in_the_measure() {
        let x = normal(30, 1);
        let starts = [x.clone(), x.iter().map(|x| -3.0 * x).collect(), vec![0.0; 30]];
        let found = measure(&starts, 6).unwrap();
        assert_moments(&starts, &found.nodes(6), 11);
        assert_eq!(measure(&[vec![0.0; 5]], 2), None);
        assert_eq!(measure(&[vec![f64::NAN; 5]], 2), None);
    }

    #[test]
    fn an_operator_that_overflows_has_no_measure() {
        let infinite = infallible(|_: &[f64], out: &mut [f64]| out.fill(f64::INFINITY));
        let found: Result<_, Infallible> = SpectralMeasure::of(&[vec![1.0; 4]], 3, infinite);
        assert_eq!(found, Ok(None));
    }
}
