//! A replica's bits depend on its settings alone.

mod failing;
mod perceptron;

use std::sync::Arc;

use proptest::prelude::*;

use self::perceptron::{Perceptron, clouds};
use super::*;
use crate::Dynamics;
use crate::batches::{Augmentation, Batches, Normalization, Order, Selection};
use crate::hash_of_bits;
use crate::objective::{Objective, StochasticObjective};
use crate::optim::method::Method;
use crate::optim::perturbation::{Form, Perturbation};
use crate::optim::schedule::Clock;

const HIDDEN: usize = 7;

type SmallTrainer<F> = Trainer<F, Perceptron<F>, Batches<F>>;
type SmallDescent<F> = GradientDescent<F, Perceptron<F>, Batches<F>>;

fn plan(method: Method) -> Plan {
    Plan {
        optimizer: Optimizer { method, alpha: 1e-3 },
        dt: 0.2,
        schedule: Schedule::Every { gamma: 0.5, every: 2, clock: Clock::Epochs },
    }
}

/// The usual ones, but for a CFL step that is short enough to bind.
fn methods() -> [Method; 6] {
    Method::EXAMPLES.map(|method| match method {
        Method::Cfl { .. } => Method::Cfl { every: 5, safety: 0.2, by_layer: true },
        other => other,
    })
}

fn with_k(k: f64) -> Variant {
    Variant { perturbation: Perturbation { k, form: Form::Paper }, ..Variant::PLAIN }
}

fn source<F: Real>(seed: u64) -> Batches<F> {
    let data = Arc::new(clouds(60));
    let selection = Selection { size: 16, order: Order::Shuffled { seed }, keep_last: true };
    let augmentation = Some(Augmentation { padding: 1, flip: true, seed: seed + 1 });
    Batches::new(data.clone(), &Normalization::per_channel(&data), selection, augmentation)
}

fn start<F: Real>(plan: &Plan, variants: &[Variant]) -> SmallTrainer<F> {
    let objective = Perceptron::new(HIDDEN);
    let replica =
        Replica::start(objective.initial(4), objective.buffers().to_vec(), &plan.optimizer);
    let (sources, replicas) = (vec![source(1), source(2)], vec![replica; variants.len()]);
    Trainer::new(objective, sources, plan.clone(), variants.to_vec(), 0, replicas)
}

/// Goes on from where `trainer` is, with fresh tools.
fn continued<F: Real>(trainer: &SmallTrainer<F>) -> SmallTrainer<F> {
    let Trainer { plan, variants, step, replicas, .. } = trainer;
    let (plan, variants, replicas) = (plan.clone(), variants.clone(), replicas.clone());
    let sources = vec![source(1), source(2)];
    Trainer::new(Perceptron::new(HIDDEN), sources, plan, variants, *step, replicas)
}

fn run<F: Real>(trainer: &mut SmallTrainer<F>, to: usize) {
    while trainer.step() < to {
        trainer.advance();
    }
}

fn all_variants() -> Vec<Variant> {
    vec![
        Variant::PLAIN,
        with_k(3.0),
        Variant { source: 1, ..Variant::PLAIN },
        Variant { order: Some(5), ..Variant::PLAIN },
        Variant { flip: Some(Flip { parameter: 11, step: 4 }), ..Variant::PLAIN },
    ]
}

#[test]
fn training_learns() {
    let mut trainer = start::<f32>(&plan(Method::Nesterov { mu: 0.9 }), &[Variant::PLAIN]);
    run(&mut trainer, 80);
    let stats = trainer.replicas()[0].epoch_stats;
    assert_eq!(stats.examples, 60, "a whole epoch");
    // Three clouds four deviations apart: the best rule errs on 2 percent of them, chance on 67.
    assert!(stats.accuracy() > 0.9, "{stats:?}");
    let evaluation = trainer.evaluate(&mut source(3)).unwrap().remove(0).unwrap();
    assert_eq!(evaluation.right.len(), 60);
    assert!(evaluation.accuracy().unwrap() > 0.9 && evaluation.loss < 0.5);
}

#[test]
#[should_panic(expected = "memory of the optimizer")]
fn replicas_with_the_memory_of_another_optimizer_are_refused() {
    let [adam, ball] =
        [Method::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }, Method::HeavyBall { mu: 0.9 }];
    let replicas = start::<f32>(&plan(adam), &[Variant::PLAIN]).replicas().to_vec();
    let objective = Perceptron::new(HIDDEN);
    Trainer::new(objective, vec![source(1)], plan(ball), vec![Variant::PLAIN], 0, replicas);
}

#[test]
fn stopping_and_going_on_at_any_step_changes_no_bit() {
    fn check<F: Real>(method: Method) {
        let plan = plan(method);
        let mut whole = start::<F>(&plan, &all_variants());
        let mut broken = start::<F>(&plan, &all_variants());
        for step in 1..=13 {
            whole.advance();
            broken = continued(&broken);
            broken.advance();
            assert_eq!(whole.replicas(), broken.replicas(), "{method:?}, step {step}");
        }
    }
    for method in methods() {
        check::<f32>(method);
        check::<f64>(method);
    }
}

#[test]
fn threads_change_no_bit() {
    fn hashes<F: Real>(threads: usize) -> Vec<String> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut trainer = start::<F>(&plan(Method::HeavyBall { mu: 0.9 }), &all_variants());
            run(&mut trainer, 12);
            trainer.replicas().iter().map(|replica| hash_of_bits(&replica.theta)).collect()
        })
    }
    for threads in [2, 3, 8] {
        assert_eq!(hashes::<f32>(threads), hashes::<f32>(1), "{threads} threads");
        assert_eq!(hashes::<f64>(threads), hashes::<f64>(1), "{threads} threads");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..crate::fixed_seed() })]

    #[test]
    fn replicas_do_not_feel_who_shares_their_trainer(split in 1_usize..5, steps in 1_usize..15) {
        let (plan, variants) = (plan(Method::Nesterov { mu: 0.9 }), all_variants());
        let trained = |variants: &[Variant]| {
            let mut trainer = start::<f32>(&plan, variants);
            run(&mut trainer, steps);
            trainer.replicas().to_vec()
        };
        let parts = [trained(&variants[..split]), trained(&variants[split..])].concat();
        prop_assert_eq!(trained(&variants), parts);
    }
}

#[test]
fn powers_of_two_leave_the_run_and_other_variants_change_it() {
    let mut variants = all_variants();
    variants.extend([with_k(2.0), with_k(0.125), with_k(6.0)]);
    let mut trainer = start::<f32>(&plan(Method::HeavyBall { mu: 0.9 }), &variants);
    run(&mut trainer, 12);
    let hash = |i: usize| hash_of_bits(&trainer.replicas()[i].theta);
    for (other, variant) in variants.iter().enumerate().take(5).skip(1) {
        assert_ne!(hash(other), hash(0), "{variant:?}");
    }
    assert_eq!([hash(5), hash(6)], [hash(0), hash(0)]);
    assert_eq!(hash(7), hash(1), "6 = 2 x 3");
}

#[test]
fn a_flipped_bit_is_one_ulp_before_its_step_and_nothing_earlier() {
    let flip = Flip { parameter: 11, step: 4 };
    let variants = [Variant::PLAIN, Variant { flip: Some(flip), ..Variant::PLAIN }];
    let mut trainer = start::<f64>(&plan(Method::Sgd), &variants);
    run(&mut trainer, 4);
    assert_eq!(trainer.replicas()[0], trainer.replicas()[1]);
    trainer.advance();
    let [plain, flipped] = [0, 1].map(|i| trainer.replicas()[i].theta.clone());
    let range = 0..plain.len();
    let distance = distance_between(&plain, &flipped, std::slice::from_ref(&range));
    assert!(distance.max_ulps >= 1 && distance.rel_l1 > 0.0 && distance.rel_l1 < 1e-10);
    assert_eq!(distance.rel_l1_of, [distance.rel_l1]);
}

#[test]
fn a_fork_without_change_stays_at_distance_zero_and_one_with_another_rate_does_not() {
    let mut original = start::<f32>(
        &plan(Method::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }),
        &[Variant::PLAIN],
    );
    run(&mut original, 6);
    let mut same = continued(&original);
    let mut slower = continued(&original);
    slower.plan.dt = 0.1;
    for trainer in [&mut original, &mut same, &mut slower] {
        run(trainer, 15);
    }
    let distance = |other: &SmallTrainer<f32>| {
        distance_between(&original.replicas()[0].theta, &other.replicas()[0].theta, &[]).rel_l1
    };
    assert_eq!(distance(&same), 0.0);
    assert!(distance(&slower) > 0.0);
}

#[test]
fn a_replica_that_diverges_ends_and_the_others_go_on() {
    // Heavy ball far beyond its edge on one replica only: k so large that dt/k vanishes in f32
    // and k g overflows makes 0 · inf.
    let mut trainer = start::<f32>(&plan(Method::Sgd), &[Variant::PLAIN, with_k(1e39)]);
    run(&mut trainer, 5);
    assert_eq!(trainer.replicas()[0].ended, None);
    assert_eq!(trainer.replicas()[1].ended, Some(1));
    assert_eq!(trainer.replicas()[1].memory.steps, 1, "it stays as it was");
    assert_eq!(trainer.replicas()[0].memory.steps, 5);
    let evaluations = trainer.evaluate(&mut source(3)).unwrap();
    assert!(evaluations[0].is_some() && evaluations[1].is_none());
    assert!(trainer.fluctuations(2).unwrap()[1].is_none());
}

#[test]
fn blow_up_is_measured_against_the_start() {
    assert!(!has_diverged(&[9e5_f32, -1.0], 1.0));
    assert!(has_diverged(&[0.0, -1.1e6_f32], 1.0));
    assert!(has_diverged(&[f32::NAN, 0.0], 1.0));
    assert!(has_diverged(&[f64::INFINITY], 1.0));
    let scale =
        |theta: &[f64]| Replica::start(theta.to_vec(), vec![], &plan(Method::Sgd).optimizer).scale;
    assert_eq!([scale(&[2.0, -3.0]), scale(&[1e-8]), scale(&[0.0])], [3.0, 1.0, 1.0]);
}

#[test]
fn gradient_fluctuation_follows_its_definition() {
    let mut trainer = start::<f64>(&plan(Method::Sgd), &[Variant::PLAIN]);
    run(&mut trainer, 3);
    let found = trainer.fluctuations(4).unwrap()[0].unwrap();

    let theta = trainer.replicas()[0].theta.clone();
    let (mut objective, mut batches) = (Perceptron::<f64>::new(HIDDEN), source::<f64>(1));
    objective.load_buffers(&trainer.replicas()[0].buffers);
    let gradients: Vec<Vec<f64>> = (3..8)
        .map(|step| {
            let mut g = vec![0.0; theta.len()];
            objective.set_batch(&batches.batch(step));
            objective.gradient(&theta, &mut g);
            g
        })
        .collect();
    let term = |i: usize| {
        let mean = gradients[..4].iter().map(|gradient| gradient[i]).sum::<f64>() / 4.0;
        (mean - gradients[4][i]).abs() / mean.abs()
    };
    let expected = (0..theta.len()).map(term).sum::<f64>() / theta.len() as f64;
    // The same sum of some 80 positive terms in another order.
    assert!((found - expected).abs() <= 80.0 * f64::EPSILON * expected, "{found} {expected}");
    let before = trainer.replicas().to_vec();
    trainer.fluctuations(3).unwrap();
    assert_eq!(trainer.replicas(), before, "measuring leaves no trace");
}

/// A trainer of one plain replica at a constant rate, and the same as a dynamics.
fn both<F: Real>(method: Method) -> (SmallTrainer<F>, SmallDescent<F>) {
    let plan = Plan { schedule: Schedule::Constant, ..plan(method) };
    let objective = Perceptron::new(HIDDEN);
    let theta = objective.initial(4);
    let run = GradientDescent::new(objective, source(1), plan.optimizer, plan.dt, theta);
    (start(&plan, &[Variant::PLAIN]), run)
}

fn assert_same_bits<F: Real>(trainer: &SmallTrainer<F>, run: &SmallDescent<F>) {
    let Replica { theta, memory, buffers, .. } = &trainer.replicas()[0];
    let whole: Vec<F> = theta.iter().chain(&memory.values).chain(buffers).copied().collect();
    assert_eq!(hash_of_bits(&whole), hash_of_bits(run.state()), "step {}", trainer.step());
}

fn a_dynamics_has_the_bits_of_a_trainer<F: Real>() {
    for method in methods() {
        let (mut trainer, mut run) = both::<F>(method);
        for step in 0..50 {
            trainer.advance();
            // Looking at the loss or at the energy leaves no trace.
            if step % 3 == 1 {
                run.loss().unwrap();
                run.energy().unwrap();
            }
            run.step();
            if step == 20 {
                let state = run.state().to_vec();
                run.load(&state);
            }
            if step == 30 {
                run = run.clone();
            }
        }
        assert_same_bits(&trainer, &run);
    }
}

#[test]
fn a_dynamics_has_the_bits_of_a_trainer_in_both_precisions() {
    a_dynamics_has_the_bits_of_a_trainer::<f32>();
    a_dynamics_has_the_bits_of_a_trainer::<f64>();
}

#[test]
fn a_run_that_was_given_a_state_goes_on_from_there_with_the_batches_of_its_step() {
    let (_, mut ahead) = both::<f64>(Method::HeavyBall { mu: 0.9 });
    (0..5).for_each(|_| ahead.step().unwrap());
    let mut beside = ahead.clone();
    let other: Vec<f64> = ahead.state().iter().map(|x| x + 0.01).collect();
    beside.load(&other);
    beside.step();
    beside.load(ahead.state());
    // Now one step ahead of the other: it sees the batch of step 6, the other that of step 5.
    ahead.step();
    beside.step();
    assert_ne!(ahead.state(), beside.state());
}

#[test]
fn only_plain_descent_on_one_batch_in_f64_has_an_energy() {
    let full = |method: Method| {
        let data = Arc::new(clouds(12));
        let selection = Selection::full(&data);
        let batches = Batches::new(data, &Normalization::none(), selection, None);
        let objective = Perceptron::<f64>::new(HIDDEN);
        let optimizer = Optimizer { method, alpha: 1e-2 };
        let theta = objective.initial(4);
        GradientDescent::new(objective, batches, optimizer, 0.2, theta)
    };
    for method in methods() {
        assert_eq!(full(method).energy().unwrap().is_some(), method == Method::Sgd, "{method:?}");
    }
    assert_eq!(both::<f64>(Method::Sgd).1.energy(), Ok(None), "batches change");
    assert_eq!(both::<f32>(Method::Sgd).1.energy(), Ok(None), "f32");
    let run = full(Method::Sgd);
    let parameters = run.replica().theta.len();
    // Central differences of a loss of the order of one: h² of the third derivative, u/h of rounding,
    // both below 1e-9 times the step.
    crate::dynamics::examples::assert_descends_its_energy(&run, 0..parameters, 1e-5, 1e-9);
}
