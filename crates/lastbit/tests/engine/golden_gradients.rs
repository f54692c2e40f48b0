//! Losses, gradients, Hessian-vector products and running statistics against PyTorch in double
//! precision, from the same weights.
//!
//! `tests/golden/engine.json` is made by `python reference/engine_torch.py`. It holds for each
//! parameter tensor the norm of its gradient and of its part of the product, and three projections
//! of each on vectors drawn by formula. Both sides add in other orders; PyTorch against itself with
//! the batch reversed differs by 3e-14 of a tensor's norm, and we ask for 1e-11.

use std::sync::Arc;

use lastbit::nn::{Engine, Parameter};
use lastbit::objective::{Objective, StochasticObjective, TrainableModel};
use lastbit::reduce::norm;
use serde_json::Value;

use crate::torch::{batch, draws, items, loss, network, number, size, text, weights};

const TOLERANCE: f64 = 1e-11;

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/engine.json")).expect("golden file is JSON")
}

/// Compares a vector's part for one tensor with its norm and projections.
fn compare(
    what: &str,
    parameter: &Parameter,
    vector: &[f64],
    probes: &[Vec<f64>],
    expected: &Value,
    scale: f64,
) -> f64 {
    let part = &vector[parameter.range.clone()];
    let mut worst = (norm(part) - number(&expected["norm"])).abs() / scale;
    for (probe, expected) in probes.iter().zip(items(&expected["probes"])) {
        let probe = &probe[parameter.range.clone()];
        let projection: f64 = part.iter().zip(probe).map(|(a, b)| a * b).sum();
        worst = worst.max((projection - number(expected)).abs() / (scale * norm(probe)));
    }
    assert!(worst < TOLERANCE, "{what} of {}: off by {worst:e}", parameter.name);
    worst
}

#[test]
fn gradients_and_products_are_pytorchs() {
    for case in items(&golden()["cases"]) {
        let name = text(&case["name"]);
        let network = Arc::new(network(&case["network"]));
        let kind = loss(&case["loss"]);
        let mut engine = Engine::new(&network, kind);
        let batch = batch(&network, kind, 0, size(&case["batch"]));
        engine.set_batch(&batch);
        let theta = weights(&network);
        let v = draws(&network, 2);
        let probes: Vec<Vec<f64>> = (5..8).map(|seed| draws(&network, seed)).collect();
        let near = |a: f64, b: &Value| (a - number(b)).abs() <= TOLERANCE * number(b).abs();

        let mut product = vec![0.0; network.len()];
        engine.hessian_vector(&theta, &v, &mut product);
        let mut gradient = vec![0.0; network.len()];
        engine.gradient(&theta, &mut gradient);
        assert!(near(engine.last_loss(&theta).unwrap(), &case["loss_value"]), "{name}: loss");
        engine.update_running_stats();

        let expected = items(&case["parameters"]);
        assert_eq!(expected.len(), network.parameters().len(), "{name}: number of tensors");
        let mut worst = [0.0_f64; 2];
        for (parameter, expected) in network.parameters().iter().zip(expected) {
            assert_eq!(parameter.name, text(&expected["name"]), "{name}");
            let shape: Vec<usize> = items(&expected["shape"]).iter().map(size).collect();
            assert_eq!(parameter.shape, shape, "{name}: {}", parameter.name);
            let vectors = [("gradient", &gradient), ("hessian_vector", &product)];
            for ((what, vector), worst) in vectors.into_iter().zip(&mut worst) {
                // A bias in front of a batch norm has no effect: its gradient is rounding alone,
                // to be compared with the whole gradient.
                let own = number(&expected[what]["norm"]);
                let scale = if expected["vanishes"] == true { norm(vector) } else { own };
                let what_of = format!("{name}: {what}");
                let off = compare(&what_of, parameter, vector, &probes, &expected[what], scale);
                *worst = worst.max(off);
            }
        }
        for (buffer, expected) in network.buffers().iter().zip(items(&case["buffers"])) {
            assert_eq!(buffer.name, text(&expected["name"]), "{name}");
            let part = norm(&engine.buffers()[buffer.range.clone()]);
            assert!(near(part, &expected["norm"]), "{name}: {}: {part}", buffer.name);
        }
        let evaluation = engine.evaluate(&theta, &batch);
        assert!(near(evaluation.loss, &case["evaluation_loss"]), "{name}: evaluation");
        println!("{name}: gradient within {:.1e}, product within {:.1e}", worst[0], worst[1]);
    }
}
