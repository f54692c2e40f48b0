//! A model that fails, with its own types of error and batch: no error is lost on the way up.

use super::*;
use crate::curvature::critical::along_next_update;
use crate::curvature::empirical_risk::{EmpiricalRisk, WeightedBatches};
use crate::krylov::EigenOptions;
use crate::verdict::{Horizon, judge};

/// `L = |θ|²/2`, with a gradient that fails once its batch says so.
#[derive(Debug, Clone, Default)]
struct Failing {
    batch: Arc<Countdown>,
}

/// Steps until the failure.
#[derive(Debug, Default)]
struct Countdown(usize);

#[derive(Debug, Clone, PartialEq)]
struct DeviceLost(usize);

impl Objective<f64> for Failing {
    type Error = DeviceLost;

    fn len(&self) -> usize {
        2
    }

    fn loss(&mut self, theta: &[f64]) -> Result<f64, DeviceLost> {
        Ok(0.5 * (theta[0] * theta[0] + theta[1] * theta[1]))
    }

    fn gradient(&mut self, theta: &[f64], out: &mut [f64]) -> Result<(), DeviceLost> {
        out.copy_from_slice(theta);
        if self.batch.0 > 0 { Ok(()) } else { Err(DeviceLost(7)) }
    }

    fn hessian_vector(&mut self, _: &[f64], v: &[f64], out: &mut [f64]) -> Result<(), DeviceLost> {
        self.gradient(v, out)
    }
}

impl StochasticObjective<f64> for Failing {
    type Batch = Countdown;

    fn set_batch(&mut self, batch: &Arc<Countdown>) {
        self.batch = Arc::clone(batch);
    }
}

impl TrainableModel<f64> for Failing {}

/// Batches that count down.
#[derive(Debug, Clone)]
struct Countdowns(usize);

impl BatchSource for Countdowns {
    type Batch = Countdown;

    fn steps_per_epoch(&self) -> usize {
        4
    }

    fn batch_size(&mut self, _: usize) -> usize {
        1
    }

    fn batch(&mut self, step: usize) -> Arc<Countdown> {
        Arc::new(Countdown(self.0.saturating_sub(step)))
    }
}

#[test]
fn an_error_of_the_model_ends_training_verdict_and_search_and_is_returned_as_it_is() {
    let failure = DeviceLost(7);
    for method in methods() {
        let plan = Plan { dt: 0.1, ..plan(method) };
        let start = vec![1.0, -2.0];
        let replicas = vec![Replica::start(start.clone(), vec![], &plan.optimizer); 3];
        let (variants, optimizer) = (vec![Variant::PLAIN; 3], plan.optimizer);
        let mut trainer =
            Trainer::new(Failing::default(), vec![Countdowns(5)], plan, variants, 0, replicas);
        (0..5).for_each(|_| trainer.advance().unwrap());
        assert_eq!(trainer.fluctuations(2), Err(failure.clone()), "{method:?}");
        assert_eq!(trainer.advance(), Err(failure.clone()), "{method:?}");
        let mut run =
            GradientDescent::new(Failing::default(), Countdowns(5), optimizer, 0.1, start.clone());
        let judged = judge(&mut run, Horizon::of(100), &mut []);
        assert_eq!(judged, Err(failure.clone()), "{method:?}");
    }
    let mut model = Failing::default();
    let set = WeightedBatches::new(vec![(Arc::new(Countdown(1)), 1), (Arc::default(), 1)]);
    let mut risk = EmpiricalRisk::new(&mut model, &set, 0.0);
    let options = EigenOptions { probe: Some(0), ..EigenOptions::both_ends(1e-6, 9) };
    assert_eq!(risk.eigenpairs(&[1.0, 1.0], None, vec![], options), Err(failure.clone()));
    let memory = plan(Method::Sgd).optimizer.at_rest(&[1.0, 1.0]);
    let along = along_next_update(&mut risk, Method::Sgd, &[1.0, 1.0], &memory, 0.1);
    assert_eq!(along, Err(failure));
}
