//! Fifty training steps against PyTorch in double precision: three networks, four optimizers, three
//! schedules, weight decay in all.
//!
//! `tests/golden/training.json` is made by `python reference/training_torch.py`, which also measures
//! what a change of 1e-14 in the first weights becomes (`growth`, in units of 1e-14). A gradient
//! here and there differs by up to 3e-14 of its norm, because sums have other orders; fifty such
//! steps, each grown as much as the first, make 150 such units.

use std::sync::Arc;

use lastbit::batches::{Batches, Normalization, Order, Selection};
use lastbit::data::{Dataset, Inputs, Targets};
use lastbit::nn::{self, Engine};
use lastbit::optim::direction::Optimizer;
use lastbit::optim::method::Method;
use lastbit::optim::schedule::{Clock, Schedule};
use lastbit::reduce::norm;
use lastbit::training::{Plan, Replica, Trainer, Variant};
use serde_json::Value;

use crate::torch::{batch, items, loss, network, number, size, text, weights};

const UNITS: f64 = 150.0 * 1e-14;

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/training.json")).expect("golden file is JSON")
}

fn plan(run: &Value, steps: usize) -> Plan {
    let mu = 0.9;
    let method = match text(&run["optimizer"]) {
        "sgd" => Method::Sgd,
        "heavy-ball" => Method::HeavyBall { mu },
        "nesterov" => Method::Nesterov { mu },
        "adam" => Method::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 },
        other => panic!("optimizer {other}"),
    };
    let clock = Clock::Steps;
    let schedule = match text(&run["schedule"]) {
        "constant" => Schedule::Constant,
        "step" => Schedule::Every { gamma: 0.1, every: 20, clock },
        "cosine" => Schedule::Cosine { floor: 0.0, over: steps, clock },
        other => panic!("schedule {other}"),
    };
    let optimizer = Optimizer { method, alpha: number(&run["decay"]) };
    Plan { optimizer, dt: number(&run["dt"]), schedule }
}

/// The examples as a data set, cut into batches in their order.
fn batches(network: &nn::Network, kind: nn::Loss, examples: usize, size: usize) -> Batches<f64> {
    let all = batch(network, kind, 0, examples);
    let outputs = network.outputs();
    let targets = match &all.targets {
        nn::Targets::Classes(labels) => Targets::Classes { count: outputs, labels: labels.clone() },
        nn::Targets::Reals(values) => Targets::Reals { width: outputs, values: values.clone() },
    };
    let inputs = Inputs::Reals(all.inputs.clone());
    let data = Dataset { shape: network.input_shape(), inputs, targets };
    let selection = Selection { size, order: Order::AsStored, keep_last: true };
    Batches::new(Arc::new(data), &Normalization::none(), selection, None)
}

#[test]
fn fifty_steps_are_pytorchs() {
    let golden = golden();
    let [steps, examples, together] = ["steps", "examples", "batch"].map(|key| size(&golden[key]));
    let runs = items(&golden["runs"]);
    assert_eq!(runs.len(), 12);
    for run in runs {
        let name = format!("{} with {}", text(&run["name"]), text(&run["optimizer"]));
        let network = Arc::new(network(&run["network"]));
        let (kind, plan) = (loss(&run["loss"]), plan(run, steps));
        let replica = Replica::start(weights(&network), network.initial_buffers(), &plan.optimizer);
        let engine = Engine::new(&network, kind);
        let source = batches(&network, kind, examples, together);
        let mut trainer =
            Trainer::new(engine, vec![source], plan, vec![Variant::PLAIN], 0, vec![replica]);

        let growth = |of: &str| number(&run["growth"][of]).max(1.0);
        let losses = items(&run["losses"]);
        assert_eq!(losses.len(), steps, "{name}");
        let mut worst = 0.0_f64;
        for (step, expected) in losses.iter().enumerate() {
            trainer.advance();
            let off = (trainer.replicas()[0].epoch_stats.last_loss - number(expected)).abs();
            assert!(off <= UNITS * growth("losses"), "{name}, step {step}: loss off by {off:e}");
            worst = worst.max(off);
        }
        let replica = &trainer.replicas()[0];
        let mut compare = |what: &str, expected: &Value, values: &[f64]| {
            assert_eq!(what, text(&expected["name"]), "{name}");
            let expected = number(&expected["norm"]);
            let off = (norm(values) - expected).abs() / expected;
            assert!(off <= UNITS * growth("tensors"), "{name}: {what} off by {off:e}");
            worst = worst.max(off);
        };
        for (parameter, expected) in network.parameters().iter().zip(items(&run["parameters"])) {
            compare(&parameter.name, expected, &replica.theta[parameter.range.clone()]);
        }
        for (buffer, expected) in network.buffers().iter().zip(items(&run["buffers"])) {
            compare(&buffer.name, expected, &replica.buffers[buffer.range.clone()]);
        }
        let mut all = batches(&network, kind, examples, examples);
        let evaluation =
            trainer.evaluate(&mut all).unwrap().remove(0).expect("it has not diverged");
        let off = (evaluation.loss - number(&run["evaluation_loss"])).abs();
        assert!(off <= UNITS * growth("tensors"), "{name}: evaluation off by {off:e}");
        println!("{name}: within {worst:.1e}");
    }
}
