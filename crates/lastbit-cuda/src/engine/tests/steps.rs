use lastbit::activation::Activation;
use lastbit::hash_of_bits;
use lastbit::nn::zoo;
use lastbit::optim::method::Method;
use lastbit::optim::perturbation::{Form, Perturbation};
use lastbit::rng::Stream;

use super::super::*;

/// The last rounding of a step is the whole point: given the same gradient, the same bits.
#[test]
#[ignore = "needs a CUDA device"]
fn a_step_along_a_given_gradient_is_bit_identical_to_the_cpu() {
    steps::<f32>();
    steps::<f64>();
}

fn steps<F: DeviceReal>() {
    let network = Arc::new(zoo::mlp([1, 1, 7], &[33], 3, Activation::Relu));
    let len = network.len();
    for method in Method::EXAMPLES.into_iter().filter(|method| !method.needs_hessian()) {
        let optimizer = Optimizer { method, alpha: 5e-4 };
        let perturbations = [
            Perturbation::NONE,
            Perturbation { k: 3.0, form: Form::Paper },
            Perturbation { k: 7.0, form: Form::Released },
        ];
        let slots = [0; 3];
        let (loss, plain) = (Loss::CrossEntropy, MathMode::Fma);
        let engine = Engine::<F>::new(&network, loss, optimizer, plain, &slots, 2);
        let mut engine = engine.unwrap();
        let start: Vec<F> = network.initial(lastbit::nn::Init::Torch, 5);
        let mut states = perturbations.map(|_| (start.clone(), optimizer.at_rest(&start)));
        for (r, (theta, memory)) in states.iter().enumerate() {
            engine.set_theta(r, theta).unwrap();
            let at = r * memory.values.len();
            engine.device.write(&mut engine.memory, at, &memory.values).unwrap();
            engine.device.write(&mut engine.scale, r, &[1.0]).unwrap();
        }
        for step in 0..3_u64 {
            let dt = 0.1 / (1.0 + step as f64);
            let rate = F::of(method.length(dt));
            let stream = Stream::new(9, step);
            let gradient: Vec<F> = (0..len as u64).map(|i| F::of(stream.normal(i))).collect();
            let steps = perturbations.map(|Perturbation { k, form }| {
                let [e1, e2] = method.bias_corrections(step + 1).map(F::of);
                let k = F::of(k);
                Step {
                    k,
                    rate: if form == Form::Released { rate * k } else { rate / k },
                    e1,
                    e2,
                    released: i32::from(form == Form::Released),
                    number: step + 1,
                    ..Step::default()
                }
            });
            engine.device.write(&mut engine.steps, 0, &steps).unwrap();
            engine.prepare_step(2).unwrap();
            let all = [&gradient[..], &gradient, &gradient].concat();
            engine.device.write(&mut engine.gradient, 0, &all).unwrap();
            engine.descend(2).unwrap();
            for (r, (theta, memory)) in states.iter_mut().enumerate() {
                optimizer.look_ahead(theta, memory);
                optimizer.step(theta, &mut gradient.clone(), memory, dt, perturbations[r]);
                let on_device = engine.device.read(&engine.theta, r * len, len).unwrap();
                let what = format!("{method:?}, {:?}, step {step}", perturbations[r]);
                assert_eq!(hash_of_bits(&on_device), hash_of_bits(theta), "{what}");
                let (at, count) = (r * memory.values.len(), memory.values.len());
                let on_device = engine.device.read(&engine.memory, at, count).unwrap();
                assert_eq!(hash_of_bits(&on_device), hash_of_bits(&memory.values), "{what}");
            }
        }
    }
}

#[test]
fn batches_that_cannot_be_counted_are_refused_before_a_device_is_looked_for() {
    let network = Arc::new(zoo::mlp([32, 32, 3], &[200], 10, Activation::Tanh));
    let make = |capacity| {
        let loss = Loss::CrossEntropy;
        Engine::<f32>::new(&network, loss, NO_OPTIMIZER, MathMode::Fma, &[0], capacity)
    };
    let most = i32::MAX as usize / 3072;
    match make(most + 1) {
        Err(Error::TooMany { numbers: 3072, examples }) => assert_eq!(examples, most + 1),
        other => panic!("{other:?}"),
    }
}
