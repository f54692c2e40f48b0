//! The searches on other vectors than `Vec<f64>`, and with operations that fail.

use super::*;
use crate::rng::Stream;

/// Two blocks, as the parameters of two layers, with the provided operations on many vectors.
#[derive(Debug, Clone, PartialEq)]
struct Blocks([Vec<f64>; 2]);

impl Blocks {
    /// `n` components, all but a third of them in the second block.
    fn zeros(n: usize) -> Self {
        Self([vec![0.0; n / 3], vec![0.0; n - n / 3]])
    }

    fn whole(&self) -> Vec<f64> {
        self.0.concat()
    }
}

impl<E> KrylovVector<E> for Blocks {
    fn dimension(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    fn zeros_like(&self) -> Result<Self, E> {
        Ok(Self::zeros(self.whole().len()))
    }

    fn copy(&self) -> Result<Self, E> {
        Ok(self.clone())
    }

    fn fill_by(&mut self, value: impl Fn(u64) -> f64 + Sync) -> Result<(), E> {
        self.0.iter_mut().flatten().zip(0..).for_each(|(x, i)| *x = value(i));
        Ok(())
    }

    /// In the order of one `Vec<f64>`.
    fn dot(&self, y: &Self) -> Result<f64, E> {
        self.whole().dot(&y.whole())
    }

    fn axpy(&mut self, a: f64, y: &Self) -> Result<(), E> {
        self.0.iter_mut().flatten().zip(y.0.iter().flatten()).for_each(|(x, y)| *x += a * y);
        Ok(())
    }

    fn divide(&mut self, divisor: f64) -> Result<(), E> {
        self.0.iter_mut().flatten().for_each(|x| *x /= divisor);
        Ok(())
    }
}

fn symmetric_matrix(n: usize) -> Vec<Vec<f64>> {
    let stream = Stream::new(3, 0);
    let entry = |i: usize, j: usize| stream.normal((i.min(j) * n + i.max(j)) as u64);
    (0..n).map(|i| (0..n).map(|j| entry(i, j)).collect()).collect()
}

fn product(matrix: &[Vec<f64>], v: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| row.iter().zip(v).map(|(a, v)| a * v).sum()).collect()
}

/// Both strategies.
const OPTIONS: [EigenOptions; 2] = {
    let plain =
        EigenOptions { top: 2, smallest: true, tolerance: 1e-11, max_matvecs: 1000, probe: None };
    [plain, EigenOptions { probe: Some(1), ..plain }]
};

#[test]
fn any_vector_has_the_eigenvalues_of_the_dense_matrix_in_the_bits_of_a_plain_one() {
    let n = 90;
    let matrix = symmetric_matrix(n);
    let exact = symmetric::eigenpairs(&matrix);
    for options in OPTIONS {
        let mut multiply = |v: &Blocks, out: &mut Blocks| {
            let image = product(&matrix, &v.whole());
            out.fill_by(|i| image[i as usize])
        };
        let mut plain = infallible(|v, out| out.copy_from_slice(&product(&matrix, v)));
        let (mut known, mut known_plain) = (vec![], vec![]);
        // From a cold and from a warm start.
        for _ in 0..2 {
            let Ok::<_, Infallible>(found) =
                eigenpairs(&Blocks::zeros(n), known, options, &mut multiply);
            let pairs: Vec<_> = found.largest.iter().chain(&found.smallest).collect();
            for (pair, (expected, _)) in pairs.iter().zip([&exact[0], &exact[1], &exact[n - 1]]) {
                assert!((pair.value - expected).abs() < 1e-10, "{} {expected}", pair.value);
            }
            // Operations on many vectors at once change no bit.
            let Ok(of_plain) = eigenpairs(&vec![0.0; n], known_plain, options, &mut plain);
            assert_eq!(found.matvecs, of_plain.matvecs);
            for (pair, plain) in pairs.iter().zip(of_plain.largest.iter().chain(&of_plain.smallest))
            {
                assert_eq!((pair.value, pair.residual), (plain.value, plain.residual));
                assert_eq!(pair.vector.whole(), plain.vector);
            }
            (known, known_plain) = (found.into_vectors(), of_plain.into_vectors());
            if options.probe.is_none() {
                (known, known_plain) = (known[..1].to_vec(), known_plain[..1].to_vec());
            }
        }
    }
}

#[test]
fn an_operator_that_fails_ends_the_search_with_its_error() {
    let n = 90;
    let matrix = symmetric_matrix(n);
    for options in OPTIONS {
        // The last one is after a restart.
        for fails_at in [1, 2, 20, 50] {
            let mut calls = 0;
            let found = eigenpairs(&vec![0.0; n], vec![], options, |v, out: &mut Vec<f64>| {
                calls += 1;
                out.copy_from_slice(&product(&matrix, v));
                if calls == fails_at { Err(format!("out of memory at {calls}")) } else { Ok(()) }
            });
            let found = found.map(|found| found.matvecs);
            assert_eq!(found, Err(format!("out of memory at {fails_at}")));
            assert_eq!(calls, fails_at, "called again after a failure");
        }
    }
}

/// Operations that succeed a number of times.
#[derive(Debug)]
struct Fragile<'a> {
    values: Vec<f64>,
    left: &'a std::cell::Cell<usize>,
}

impl Fragile<'_> {
    fn spend(&self) -> Result<(), &'static str> {
        let left = self.left.get().checked_sub(1).ok_or("device lost")?;
        self.left.set(left);
        Ok(())
    }
}

impl KrylovVector<&'static str> for Fragile<'_> {
    fn dimension(&self) -> usize {
        self.values.len()
    }

    fn zeros_like(&self) -> Result<Self, &'static str> {
        self.spend()?;
        Ok(Self { values: vec![0.0; self.values.len()], left: self.left })
    }

    fn copy(&self) -> Result<Self, &'static str> {
        self.spend()?;
        Ok(Self { values: self.values.clone(), left: self.left })
    }

    fn fill_by(&mut self, value: impl Fn(u64) -> f64 + Sync) -> Result<(), &'static str> {
        self.spend()?;
        self.values.fill_by(value)
    }

    fn dot(&self, y: &Self) -> Result<f64, &'static str> {
        self.spend()?;
        self.values.dot(&y.values)
    }

    fn axpy(&mut self, a: f64, y: &Self) -> Result<(), &'static str> {
        self.spend()?;
        self.values.axpy(a, &y.values)
    }

    fn divide(&mut self, divisor: f64) -> Result<(), &'static str> {
        self.spend()?;
        self.values.divide(divisor)
    }
}

#[test]
fn a_vector_operation_that_fails_ends_the_search_with_its_error() {
    let n = 12;
    let matrix = symmetric_matrix(n);
    for options in OPTIONS {
        let left = std::cell::Cell::new(0);
        let mut allowed = 0;
        // At each operation in turn, until there are enough for the whole search.
        let found = loop {
            left.set(allowed);
            let like = Fragile { values: vec![0.0; n], left: &left };
            match eigenpairs(&like, vec![], options, |v: &Fragile, out: &mut Fragile| {
                out.values = product(&matrix, &v.values);
                Ok(())
            }) {
                Ok(found) => break found.largest[0].value,
                Err(error) => assert_eq!(error, "device lost"),
            }
            allowed += 1;
        };
        assert!(allowed > 100, "{allowed} operations");
        assert!((found - symmetric::eigenpairs(&matrix)[0].0).abs() < 1e-10);
    }
}
