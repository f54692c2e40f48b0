//! Optimizers on a quadratic in closed form, against their recurrences written out, and the bits
//! of `k`.

use super::*;
use crate::hash_of_bits;
use crate::optim::perturbation::Form;
use crate::rng::Stream;

// Nobody multiplies by a Hessian here; the limit of the CFL step by alpha alone is far away.
const METHODS: [Method; 6] = Method::EXAMPLES;

/// Twenty steps on `Σ z_i θ_i²/2`, curvatures between 0 and 2.
fn trained<F: Real>(optimizer: Optimizer, perturbation: Perturbation) -> Vec<F> {
    let stream = Stream::new(1, 0);
    let mut theta: Vec<F> = (0..500).map(|i| F::of(stream.normal(i))).collect();
    let curvature: Vec<F> = (500..1000).map(|i| F::of(2.0 * stream.uniform(i))).collect();
    let mut memory = optimizer.at_rest(&theta);
    for _ in 0..20 {
        optimizer.look_ahead(&mut theta, &mut memory);
        let mut g: Vec<F> = theta.iter().zip(&curvature).map(|(t, z)| *t * *z).collect();
        optimizer.step(&mut theta, &mut g, &mut memory, 0.1, perturbation);
    }
    theta
}

#[test]
fn a_power_of_two_changes_no_bit_of_any_optimizer_and_three_does() {
    fn check<F: Real>(method: Method, form: Form) {
        let optimizer = Optimizer { method, alpha: 5e-4 };
        let hash = |k: f64| hash_of_bits(&trained::<F>(optimizer, Perturbation { k, form }));
        for k in [1.0, 3.0, 7.0] {
            for power in [0.25, 2.0, 1024.0] {
                assert_eq!(hash(power * k), hash(k), "{method:?}, {form:?}, {power} x {k}");
            }
        }
        assert_ne!(hash(3.0), hash(1.0), "{method:?}, {form:?}");
    }
    for method in METHODS {
        for form in [Form::Paper, Form::Released] {
            check::<f32>(method, form);
            check::<f64>(method, form);
        }
    }
}

#[test]
fn rounding_follows_the_order_of_the_module_doc() {
    // Three steps of one parameter in f32, every operation written by itself.
    let gradients = [0.3_f32, -0.7, 0.11];
    let (alpha, dt, mu) = (0.01_f32, 0.1_f32, 0.9_f32);
    for method in METHODS {
        let optimizer = Optimizer { method, alpha: 0.01 };
        let (mut theta, mut x, mut b, mut m, mut v) = ([1.7_f32], 1.7_f32, 0.0, 0.0, 0.0);
        let mut memory = optimizer.at_rest(&theta);
        let mut before = x;
        for (n, gradient) in (1..).zip(gradients) {
            optimizer.look_ahead(&mut theta, &mut memory);
            optimizer.step(&mut theta, &mut [gradient], &mut memory, 0.1, Perturbation::NONE);
            if let Method::NesterovPde { .. } = method {
                let difference = x - before;
                before = x;
                x += mu * difference;
            }
            let decayed = gradient + alpha * x;
            let d = match method {
                Method::Sgd | Method::NesterovPde { .. } | Method::Cfl { .. } => decayed,
                Method::HeavyBall { .. } => {
                    b = mu * b + decayed;
                    b
                }
                Method::Nesterov { .. } => {
                    b = mu * b + decayed;
                    decayed + mu * b
                }
                Method::Adam { .. } => {
                    m = 0.9_f32 * m + (1.0 - 0.9_f64) as f32 * decayed;
                    v = 0.999_f32 * v + ((1.0 - 0.999_f64) as f32 * decayed) * decayed;
                    let e1 = (1.0 - libm::pow(0.9, f64::from(n))) as f32;
                    let e2 = (1.0 - libm::pow(0.999, f64::from(n))).sqrt() as f32;
                    (m / e1) / (v.sqrt() / e2 + 1e-8_f32)
                }
            };
            let length = if let Method::NesterovPde { .. } = method {
                (0.1 * 0.1 * (1.0 + 0.9) / 2.0) as f32
            } else {
                dt
            };
            x -= length * d;
            assert_eq!(theta[0].to_bits(), x.to_bits(), "{method:?}, step {n}");
        }
        assert_eq!(memory.steps, 3);
    }
}

#[test]
fn the_first_step_of_momentum_takes_the_gradient_and_that_of_adam_its_sign() {
    let step = |method: Method, gradient: f64| {
        let optimizer = Optimizer { method, alpha: 0.0 };
        let mut theta = [0.0_f64];
        let mut memory = optimizer.at_rest(&theta);
        optimizer.step(&mut theta, &mut [gradient], &mut memory, 1.0, Perturbation::NONE);
        -theta[0]
    };
    for gradient in [3.0, -0.25] {
        assert_eq!(step(Method::Sgd, gradient), gradient);
        assert_eq!(step(Method::HeavyBall { mu: 0.9 }, gradient), gradient);
        // g + mu g: two roundings.
        let nesterov = step(Method::Nesterov { mu: 0.9 }, gradient);
        assert!((nesterov - 1.9 * gradient).abs() <= 2.0 * f64::EPSILON * gradient.abs());
        // m/e1 = g and √v/e2 = |g| up to about ten roundings; ε shortens by ε/|g|.
        let adam = step(METHODS[3], gradient);
        assert!((adam - gradient.signum()).abs() < 1e-8 / gradient.abs() + 10.0 * f64::EPSILON);
    }
}

#[test]
fn the_preconditioner_is_what_adam_divides_by() {
    let (beta1, beta2, epsilon) = (0.9, 0.999, 1e-3);
    let method = Method::Adam { beta1, beta2, epsilon };
    let optimizer = Optimizer { method, alpha: 0.0 };
    let mut theta = [0.0_f64; 3];
    let mut memory = optimizer.at_rest(&theta);
    assert_eq!(optimizer.preconditioner(&memory, 0.1), None, "nothing to scale by yet");
    for step in 0..5 {
        let mut g = [0.1, -3.0, 1e-4].map(|g| g * f64::from(step + 1));
        optimizer.step(&mut theta, &mut g, &mut memory, 0.1, Perturbation::NONE);
        // d = P⁻¹ m.
        let diagonal = optimizer.preconditioner(&memory, 0.1).unwrap();
        for i in 0..3 {
            let expected = diagonal[i] * diagonal[i] * memory.values[i];
            // A dozen roundings on each side.
            assert!((g[i] - expected).abs() <= 1e-14 * g[i].abs(), "{} {expected}", g[i]);
        }
    }
    let sgd = Optimizer { method: Method::Sgd, alpha: 0.0 };
    assert_eq!(sgd.preconditioner(&Memory::<f64> { steps: 5, values: vec![] }, 0.1), None);
}

#[test]
fn the_preconditioner_is_what_the_cfl_step_multiplies_by() {
    let method = Method::Cfl { every: 5, safety: 0.5, by_layer: true };
    let optimizer = Optimizer { method, alpha: 1.0 };
    // v, which a step does not look at, and sharpnesses below and above 2 c/dt − alpha = 9.
    let mut memory = Memory { steps: 3, values: vec![0.0, 0.0, 0.0, 1.0, 9.0, 39.0] };
    let (mut theta, mut g) = ([0.0_f64; 3], [1.0; 3]);
    optimizer.step(&mut theta, &mut g, &mut memory, 0.1, Perturbation::NONE);
    assert_eq!(g, [1.0, 1.0, 0.25]);
    let diagonal = optimizer.preconditioner(&memory, 0.1).unwrap();
    assert_eq!(diagonal, [1.0, 1.0, 0.5]);
}

#[test]
#[should_panic(expected = "numbers in the memory of Adam")]
fn the_memory_of_another_method_is_refused() {
    let mut memory = Optimizer { method: METHODS[1], alpha: 0.0 }.at_rest(&[1.0_f32]);
    let adam = Optimizer { method: METHODS[3], alpha: 0.0 };
    adam.step(&mut [1.0], &mut [1.0], &mut memory, 0.1, Perturbation::NONE);
}
