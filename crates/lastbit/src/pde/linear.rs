//! Runs an explicit linear [`Scheme`] on a periodic mesh.
//!
//! The state holds all time levels the scheme looks back on, the newest first. Terms are added in
//! the order of the scheme, each as `fl(sum + fl(c · u))`, starting from zero.

use std::convert::Infallible;

use super::scheme::Scheme;
use super::{Mesh, Pde};
use crate::{Dynamics, Real};

/// A term with its coefficient at the step size and where its level begins in the state.
#[derive(Debug, Clone)]
struct Tap<F> {
    start: usize,
    offset: (i32, i32),
    coefficient: F,
}

/// An explicit linear scheme and its state.
#[derive(Debug, Clone)]
pub struct Linear<F> {
    dt: f64,
    dimensions: usize,
    height: usize,
    width: usize,
    taps: Vec<Tap<F>>,
    state: Vec<F>,
    new: Vec<F>,
}

impl<F: Real> Linear<F> {
    /// Starts `scheme` from `levels`: fields of `height × width` points by rows (`height` is 1 in
    /// one dimension), the newest first.
    ///
    /// # Panics
    ///
    /// If the scheme is implicit or the levels do not fit it.
    pub fn new(scheme: &Scheme, dt: f64, height: usize, width: usize, levels: &[Vec<F>]) -> Self {
        assert!(scheme.is_explicit(), "an implicit scheme cannot be stepped point by point");
        assert_eq!(levels.len(), scheme.levels(), "time levels to start from");
        assert!(scheme.dimensions() == 2 || height == 1, "{height} rows in one dimension");
        let points = height * width;
        for level in levels {
            assert_eq!(level.len(), points, "points of a level");
        }
        let taps = scheme.terms().iter().map(|term| Tap {
            start: (-term.level) as usize * points,
            offset: match term.offset[..] {
                [x] => (0, x),
                [y, x] => (y, x),
                _ => unreachable!("a scheme has one or two dimensions"),
            },
            coefficient: F::of(term.at(dt)),
        });
        Self {
            dt,
            dimensions: scheme.dimensions(),
            height,
            width,
            taps: taps.collect(),
            state: levels.concat(),
            new: vec![F::default(); points],
        }
    }

    /// The newest level.
    pub fn field(&self) -> &[F] {
        &self.state[..self.new.len()]
    }
}

impl<F: Real> Dynamics for Linear<F> {
    type Scalar = F;
    type Error = Infallible;

    fn dt(&self) -> f64 {
        self.dt
    }

    fn state(&self) -> &[F] {
        &self.state
    }

    fn load(&mut self, state: &[F]) {
        self.state.copy_from_slice(state);
    }

    fn is_linear(&self) -> bool {
        true
    }

    fn step(&mut self) -> Result<(), Infallible> {
        let wrap = |i: usize, by: i32, n: usize| (i as i64 + i64::from(by)).rem_euclid(n as i64);
        for row in 0..self.height {
            for column in 0..self.width {
                let value = |tap: &Tap<F>| {
                    let y = wrap(row, tap.offset.0, self.height) as usize;
                    let x = wrap(column, tap.offset.1, self.width) as usize;
                    tap.coefficient * self.state[tap.start + y * self.width + x]
                };
                self.new[row * self.width + column] =
                    self.taps.iter().fold(F::default(), |sum, tap| sum + value(tap));
            }
        }
        let points = self.new.len();
        let kept = self.state.len() - points;
        self.state.copy_within(..kept, points);
        self.state[..points].copy_from_slice(&self.new);
        Ok(())
    }
}

impl<F: Real> Pde for Linear<F> {
    fn mesh(&self) -> Mesh {
        match self.dimensions {
            1 => Mesh::Line { points: self.width, dx: 1.0 },
            _ => Mesh::Plane { height: self.height, width: self.width },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pde::heat::{Ends, Heat};
    use crate::pde::textbook;
    use crate::{evolve, hash_of_bits};

    #[test]
    fn upwind_at_courant_number_one_is_an_exact_shift() {
        let start: Vec<f64> = (0..50).map(|i| libm::sin(f64::from(i * i))).collect();
        let scheme = textbook::advection_upwind(1.0, 1.0);
        let mut run = Linear::new(&scheme, 1.0, 1, 50, std::slice::from_ref(&start));
        let Ok(_) = evolve(&mut run, 0, 7, &mut []);
        let shifted: Vec<f64> = (0..50).map(|i| start[(i + 43) % 50]).collect();
        assert_eq!(hash_of_bits(run.field()), hash_of_bits(&shifted));
    }

    #[test]
    fn heat_as_data_is_heat_as_code() {
        let start = crate::signal::blocks_and_ramp(64, 0.1, 1);
        let scheme = textbook::heat(1.0, 1.0);
        let mut data = Linear::new(&scheme, 0.4, 1, 64, std::slice::from_ref(&start));
        let mut code = Heat::new(0.4, 1.0, 1.0, Ends::Periodic, start);
        let Ok(_) = evolve(&mut data, 0, 100, &mut []);
        let Ok(_) = evolve(&mut code, 0, 100, &mut []);
        for (a, b) in data.field().iter().zip(code.state()) {
            // Both add at most 6 roundings of values below 1.5 a step, none of them amplified.
            assert!((a - b).abs() <= 100.0 * 6.0 * 1.5 * f64::EPSILON);
        }
    }
}
