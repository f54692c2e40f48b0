//! Attribution of growth on random quadratics, against numpy.
//!
//! `tests/golden/attribution.json` is made by `python reference/attribution_numpy.py`: the step of each optimizer
//! differentiated by complex steps, cut into blocks along the eigenvectors of the dense Hessian, each block split by
//! `numpy.linalg.eig`.

use std::convert::Infallible;

use lastbit::attribution::{Linearization, Pair, Parts, State};
use lastbit::objective::Objective;
use lastbit::optim::direction::{Memory, Optimizer};
use lastbit::optim::method::Method;

use crate::json::{count, golden, items, number, numbers};

/// `θ·Hθ/2`.
#[derive(Clone)]
struct Quadratic(Vec<Vec<f64>>);

impl Objective<f64> for Quadratic {
    type Error = Infallible;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn loss(&mut self, theta: &[f64]) -> Result<f64, Infallible> {
        let mut g = vec![0.0; theta.len()];
        self.gradient(theta, &mut g)?;
        Ok(theta.iter().zip(g).map(|(t, g)| 0.5 * t * g).sum())
    }

    fn gradient(&mut self, theta: &[f64], out: &mut [f64]) -> Result<(), Infallible> {
        self.hessian_vector(&[], theta, out)
    }

    fn hessian_vector(&mut self, _: &[f64], v: &[f64], out: &mut [f64]) -> Result<(), Infallible> {
        for (out, row) in out.iter_mut().zip(&self.0) {
            *out = row.iter().zip(v).map(|(h, v)| h * v).sum();
        }
        Ok(())
    }
}

#[test]
fn parts_of_random_quadratics_are_those_of_a_dense_eigendecomposition() {
    let file = golden(include_str!("../golden/attribution.json"));
    let mut seen = [0.0_f64; 6];
    for case in items(&file["cases"]) {
        let (name, mu, dt) =
            (case["optimizer"].as_str().unwrap(), number(&case["mu"]), number(&case["dt"]));
        let method = match name {
            "sgd" => Method::Sgd,
            "heavy-ball" => Method::HeavyBall { mu },
            "nesterov" => Method::Nesterov { mu },
            "nesterov-pde" => Method::NesterovPde { mu },
            _ => Method::Adam {
                beta1: number(&file["beta1"]),
                beta2: number(&file["beta2"]),
                epsilon: number(&file["epsilon"]),
            },
        };
        let optimizer = Optimizer { method, alpha: number(&file["alpha"]) };
        let state = |theta: &str, memory: &str| State {
            theta: numbers(&case[theta]),
            memory: Memory { steps: count(&file["steps"]) as u64, values: numbers(&case[memory]) },
        };
        let rows = items(&case["hessian"]).iter().map(numbers).collect();
        let mut model = Quadratic(rows);
        let before =
            Pair { run: state("theta", "memory"), copy: state("copy_theta", "copy_memory") };
        let Ok(after) = before.stepped(&mut model, &optimizer, dt);
        let linearization = Linearization::of(optimizer).unwrap();
        let Ok(found) = linearization.attribute(&mut model, dt, &before, &after, 100);
        let found = found.unwrap();
        // Numbers of order one from 9 x 9 matrices of condition 10⁴: far below 1e-10.
        let tolerance = 1e-10;
        for (i, (part, ours)) in Parts::NAMES.iter().zip(found.parts.values()).enumerate() {
            seen[i] = seen[i].max(ours.abs());
            if *part != "kinks" {
                let expected = number(&case["parts"][part]);
                assert!((ours - expected).abs() < tolerance, "{name} {part}: {ours} {expected}");
            }
        }
        assert!((found.growth - number(&case["growth"])).abs() < tolerance, "{name}");
        assert_eq!(found.split_change, 0.0, "all nodes were found");
        // Linear steps have nothing beyond their linearization but the rounding of the states, and of a gradient
        // of 9 products.
        if name != "adam" {
            assert!(found.parts.kinks.abs() < 1e-13, "{name}: {:e}", found.parts.kinks);
            assert!(!found.kinks_are_resolved() || found.parts.kinks.abs() < 1e-14, "{name}");
        }
    }
    // Every part was put to the test.
    assert!(seen[..5].iter().all(|most| *most > 0.01), "{seen:?}");
}
