//! The ladder of learning rates: the same training time `steps x dt` at ever smaller steps.

use super::{settings, task};
use crate::plan::Task;
use crate::record::{Record, Scale};
use crate::train::{ReplicaNumber, Training};

/// Learning rates, from the largest, and the training time all of them run for.
#[derive(Debug, Clone)]
pub struct Ladder {
    /// Learning rates as they stand in settings and names.
    pub rates: Vec<&'static str>,
    /// Steps times learning rate.
    pub time: f64,
}

/// The ladder of a scale.
pub fn ladder(scale: Scale) -> Ladder {
    match scale {
        Scale::Smoke => Ladder { rates: vec!["0.5", "0.125"], time: 2.0 },
        Scale::Desk => {
            Ladder { rates: vec!["1", "0.5", "0.25", "0.125", "0.0625", "0.03125"], time: 50.0 }
        }
        Scale::Paper => Ladder {
            // 0.1/n with n = 2, 4, 8, 16, 32, 320, 3200, 32000.
            rates: vec![
                "0.05", "0.025", "0.0125", "0.00625", "0.003125", "3.125e-4", "3.125e-5",
                "3.125e-6",
            ],
            time: 0.5,
        },
    }
}

/// Key of the cell of a learning rate.
pub fn key(rate: &str) -> String {
    format!("lr-{rate}")
}

/// The cell of a learning rate: `k = 1` and `k = 3`, Swish, no momentum, one rate throughout.
pub fn cell(id: &str, scale: Scale, rate: &str) -> Task {
    let value: f64 = rate.parse().expect("a number");
    let steps = (ladder(scale).time / value).round() as usize;
    let every = |parts: usize| (steps / parts).max(1);
    let changes = [
        format!("optimizer.dt={rate}"),
        format!("training.steps={steps}"),
        format!("training.metrics-every={}", every(50)),
        format!("training.evaluate-every={}", every(10)),
        format!("training.checkpoint-every={}", every(20)),
    ];
    let mut changes: Vec<&str> = changes.iter().map(String::as_str).collect();
    changes.extend([
        "optimizer.name=sgd",
        "optimizer.schedule={ kind = \"constant\" }",
        "network.activation={ swish = 1.0 }",
        "training.fluctuation-batches=0",
        "replicas.k=[1, 3]",
    ]);
    if scale == Scale::Desk {
        changes.extend(["training.batch=32", "optimizer.alpha=5e-4"]);
    }
    task(&key(rate), Training::new(settings(id, scale, &changes)))
}

/// By how much the accuracy of a replica rose, as a fraction.
pub fn rise(record: &Record, rate: &str, replica: &str) -> f64 {
    let number = |what: ReplicaNumber| record.number(&key(rate), &what.of(replica));
    number(ReplicaNumber::TestAccuracy) - number(ReplicaNumber::FirstTestAccuracy)
}
