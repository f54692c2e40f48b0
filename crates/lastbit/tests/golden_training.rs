//! Fifty training steps in double precision against PyTorch's, loss by loss.
//!
//! `tests/golden/training.json` is made by `python reference/training_torch.py`: three networks, each
//! with SGD, heavy ball, Nesterov and Adam, weight decay and a schedule. Its runs are not chaotic: a
//! change of 1e-14 in the weights changes a loss by at most 2.4e-13. Both sides round differently in
//! every step, so we ask for 1e-10.

mod torch;

use std::sync::Arc;

use lastbit::batches::{Batches, Normalization, Order, Selection};
use lastbit::data::{Dataset, Inputs, Targets};
use lastbit::nn::{self, Engine};
use lastbit::optim::direction::{Method, Optimizer};
use lastbit::optim::perturbation::Perturbation;
use lastbit::optim::schedule::{Clock, Schedule};
use lastbit::reduce::norm;
use lastbit::training::{Plan, Replica, Trainer, Variant};
use serde_json::Value;
use torch::{batch, items, loss, network, number, size, text, weights};

const TOLERANCE: f64 = 1e-10;

fn plan(run: &Value, steps: usize) -> Plan {
    let method = match text(&run["optimizer"]) {
        "sgd" => Method::Sgd,
        "heavy-ball" => Method::HeavyBall { mu: 0.9 },
        "nesterov" => Method::Nesterov { mu: 0.9 },
        _ => Method::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 },
    };
    let clock = Clock::Steps;
    let schedule = match text(&run["schedule"]) {
        "step" => Schedule::Every { gamma: 0.1, every: 20, clock },
        "cosine" => Schedule::Cosine { floor: 0.0, over: steps, clock },
        _ => Schedule::Constant,
    };
    let optimizer = Optimizer { method, alpha: number(&run["decay"]) };
    Plan { optimizer, dt: number(&run["dt"]), schedule }
}

#[test]
fn fifty_steps_follow_pytorch() {
    let golden: Value =
        serde_json::from_str(include_str!("golden/training.json")).expect("golden file is JSON");
    let (steps, examples) = (size(&golden["steps"]), size(&golden["examples"]));
    for run in items(&golden["runs"]) {
        let name = format!("{} with {}", text(&run["name"]), text(&run["optimizer"]));
        let network = Arc::new(network(&run["network"]));
        let kind = loss(&run["loss"]);
        let all = batch(&network, kind, 0, examples);
        let targets = match &all.targets {
            nn::Targets::Classes(labels) => {
                Targets::Classes { count: network.outputs(), labels: labels.clone() }
            }
            nn::Targets::Reals(values) => {
                Targets::Reals { width: network.outputs(), values: values.clone() }
            }
        };
        let shape = network.input_shape();
        let data = Arc::new(Dataset { shape, inputs: Inputs::Reals(all.inputs.clone()), targets });
        let selection =
            Selection { size: size(&golden["batch"]), order: Order::AsStored, keep_last: true };
        let source = Batches::new(data, &Normalization::none(), selection, None);
        let plan = plan(run, steps);
        let start = Replica::start(weights(&network), network.initial_buffers(), &plan.optimizer);
        let variant =
            Variant { source: 0, perturbation: Perturbation::NONE, order: None, flip: None };
        let engine = Engine::new(&network, kind);
        let mut trainer = Trainer::new(engine, vec![source], plan, vec![variant], 0, vec![start]);

        let mut worst: f64 = 0.0;
        for expected in items(&run["losses"]) {
            trainer.advance();
            let loss = trainer.replicas()[0].tally.last_loss;
            worst = worst.max((loss - number(expected)).abs() / number(expected).abs());
        }
        assert!(worst < TOLERANCE, "{name}: losses off by {worst:e}");

        let replica = &trainer.replicas()[0];
        for (parameter, expected) in network.parameters().iter().zip(items(&run["parameters"])) {
            let (ours, theirs) =
                (norm(&replica.theta[parameter.range.clone()]), number(&expected["norm"]));
            let off = (ours - theirs).abs() / theirs;
            assert!(off < TOLERANCE, "{name}: {} off by {off:e}", parameter.name);
        }
        let mut engine = Engine::new(&network, kind);
        lastbit::objective::OnBatches::load_buffers(&mut engine, &replica.buffers);
        let evaluation = engine.evaluate(&replica.theta, &all).loss;
        let off = (evaluation - number(&run["evaluation_loss"])).abs() / evaluation;
        assert!(off < TOLERANCE, "{name}: evaluation off by {off:e}");
        println!("{name}: losses within {worst:.1e}");
    }
}
