//! A model of one's own: logistic regression on points that it makes, with its own type of batch.
//!
//! A loss, a gradient, a Hessian-vector product and a source of batches are all it takes; mini-batches,
//! optimizers, sharpness, verdict and edge search come from the library. Run with
//! `cargo run --release -p lastbit --example own_model`.

use std::convert::Infallible;
use std::sync::Arc;

use lastbit::batches::{BatchSource, FullBatch};
use lastbit::curvature::empirical_risk::{EmpiricalRisk, WeightedBatches};
use lastbit::krylov::EigenOptions;
use lastbit::objective::{Objective, StochasticObjective, TrainableModel};
use lastbit::optim::direction::Optimizer;
use lastbit::optim::method::Method;
use lastbit::optim::perturbation::{Form, Perturbation};
use lastbit::optim::schedule::Schedule;
use lastbit::rng::Stream;
use lastbit::search::EdgeSearch;
use lastbit::training::{GradientDescent, Plan, Replica, Trainer, Variant, distance_between};
use lastbit::verdict::{Horizon, judge};

/// A batch: points `(x₁, x₂, 1)` with their classes, 0 or 1.
type Points = Vec<([f64; 3], f64)>;

/// `L = mean of ln(1 + e^z) − y z` over a batch, `z = θ·x`.
#[derive(Clone, Default)]
struct Logistic(Arc<Points>);

fn dot(a: &[f64], b: &[f64; 3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Logistic {
    /// `out = mean of weight(x, y) x`.
    fn mean(&self, out: &mut [f64], weight: impl Fn(&[f64; 3], f64) -> f64) {
        out.fill(0.0);
        for (x, y) in self.0.iter() {
            let weight = weight(x, *y) / self.0.len() as f64;
            out.iter_mut().zip(x).for_each(|(out, x)| *out += weight * x);
        }
    }
}

fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

impl Objective<f64> for Logistic {
    type Error = Infallible;

    fn len(&self) -> usize {
        3
    }

    fn loss(&mut self, theta: &[f64]) -> Result<f64, Infallible> {
        let of = |z: f64, y: f64| z.max(0.0) + (-z.abs()).exp().ln_1p() - y * z;
        let sum: f64 = self.0.iter().map(|(x, y)| of(dot(theta, x), *y)).sum();
        Ok(sum / self.0.len() as f64)
    }

    fn gradient(&mut self, theta: &[f64], out: &mut [f64]) -> Result<(), Infallible> {
        self.mean(out, |x, y| sigmoid(dot(theta, x)) - y);
        Ok(())
    }

    fn hessian_vector(
        &mut self,
        theta: &[f64],
        v: &[f64],
        out: &mut [f64],
    ) -> Result<(), Infallible> {
        self.mean(out, |x, _| sigmoid(dot(theta, x)) * sigmoid(-dot(theta, x)) * dot(v, x));
        Ok(())
    }
}

impl StochasticObjective<f64> for Logistic {
    type Batch = Points;

    fn set_batch(&mut self, batch: &Arc<Points>) {
        self.0 = Arc::clone(batch);
    }
}

impl TrainableModel<f64> for Logistic {}

/// Batches of 20 points, in order.
struct Batches(Points);

impl BatchSource for Batches {
    type Batch = Points;

    fn steps_per_epoch(&self) -> usize {
        self.0.len() / 20
    }

    fn batch_size(&mut self, _: usize) -> usize {
        20
    }

    fn batch(&mut self, step: usize) -> Arc<Points> {
        Arc::new(self.0[20 * (step % self.steps_per_epoch())..][..20].to_vec())
    }
}

const ALPHA: f64 = 0.01;

fn main() {
    let noise = Stream::new(1, 0);
    let point = |i: u64, y: f64| ([noise.normal(2 * i) + y, noise.normal(2 * i + 1) - y, 1.0], y);
    let points: Points = (0..200).map(|i| point(i, (i % 2) as f64)).collect();
    let all = FullBatch { batch: Arc::new(points.clone()), examples: points.len() };
    let set = WeightedBatches::first_epoch(&mut all.clone());
    // The largest eigenvalue of the Hessian on all points; between a preconditioner, if there is one.
    let sharpness = |theta: &[f64], preconditioner: Option<Vec<f64>>| {
        let mut model = Logistic::default();
        let mut risk = EmpiricalRisk::new(&mut model, &set, ALPHA);
        let options = EigenOptions::largest(1e-10, 20);
        risk.eigenpairs(theta, preconditioner.as_deref(), vec![], options).unwrap().lambda_max()
    };

    println!("On mini-batches, with a copy whose rounding is perturbed by k = 3:");
    let (momentum, adam) = (Method::HeavyBall { mu: 0.9 }, Method::EXAMPLES[3]);
    for (method, dt) in [(Method::Sgd, 0.5), (momentum, 0.05), (adam, 0.05)] {
        let optimizer = Optimizer { method, alpha: ALPHA };
        let k3 = Perturbation { k: 3.0, form: Form::Paper };
        let variants = vec![Variant::PLAIN, Variant { perturbation: k3, ..Variant::PLAIN }];
        let replicas = vec![Replica::start(vec![0.0; 3], vec![], &optimizer); 2];
        let plan = Plan { optimizer, dt, schedule: Schedule::Constant };
        let sources = vec![Batches(points.clone())];
        let mut trainer = Trainer::new(Logistic::default(), sources, plan, variants, 0, replicas);
        (0..500).for_each(|_| trainer.advance().unwrap());
        let [plain, perturbed] = trainer.replicas() else { panic!("two replicas") };
        let lambda = sharpness(&plain.theta, optimizer.preconditioner(&plain.memory, dt));
        println!(
            "{:10} loss {:.4}, relative distance of the copy {:7.1e}, sharpness {lambda:.4}, edge ratio {:.4}",
            method.name(),
            plain.epoch_stats.mean_loss(),
            distance_between(&plain.theta, &perturbed.theta, &[]).rel_l1,
            lambda / method.threshold(dt),
        );
    }

    println!("On the full batch, by gradient descent:");
    let optimizer = Optimizer { method: Method::Sgd, alpha: ALPHA };
    let mut search = EdgeSearch::new(1e-3, |dt| {
        let (model, start) = (Logistic::default(), vec![0.0; 3]);
        let mut run = GradientDescent::new(model, all.clone(), optimizer, dt, start);
        let verdict = judge(&mut run, Horizon::of(1000), &mut [])?.verdict;
        Ok::<_, Infallible>((verdict.is_stable(), (verdict, run.replica().theta.clone())))
    });
    let edge = search.near(1.0, 12).unwrap().expect("stable at 1, and not far above it");
    for probe in search.into_probes() {
        let (verdict, theta) = probe.seen;
        let predicted = 2.0 / sharpness(&theta, None);
        println!("rate {:.4}: {:10} 2/sharpness {predicted:.4}", probe.at, verdict.kind());
    }
    println!("edge of stability: {:.4}", edge.middle());
}
