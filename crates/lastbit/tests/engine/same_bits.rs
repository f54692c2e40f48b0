//! Gradients and Hessian-vector products have the same bits on any number of threads, whatever the
//! engine computed before, and from one version to the next.

use std::process::Command;
use std::sync::Arc;

use lastbit::activation::Activation;
use lastbit::nn::zoo::{self, Cnn, Head, Pooling, Shortcut};
use lastbit::nn::{Batch, Engine, Init, Loss, Network, Padding, Targets};
use lastbit::objective::{Objective, StochasticObjective};
use lastbit::optim::direction::Optimizer;
use lastbit::optim::method::Method;
use lastbit::optim::perturbation::Perturbation;
use lastbit::rng::Stream;
use lastbit::{Instructions, Real, hash_of_bits, use_instructions};

const SWISH: Activation = Activation::Swish { beta: 1.0 };

fn resnet8() -> Arc<Network> {
    Arc::new(zoo::resnet(8, Shortcut::Conv, SWISH, [16, 16, 3], 10))
}

/// Its deeper layers have more than 2¹⁴ weights, from where on several threads add up a gradient.
fn vgg11() -> Arc<Network> {
    Arc::new(zoo::vgg(11, 8, true, Activation::Relu, [32, 32, 3], 10))
}

fn cnn() -> Arc<Network> {
    let cnn = Cnn {
        input: [14, 13, 2],
        channels: vec![12, 21],
        kernel: 4,
        stride: 1,
        padding: Padding::Same,
        bias: true,
        batch_norm: false,
        activation: Activation::Tanh,
        pooling: Pooling::Max,
        head: Head::Linear,
        outputs: 7,
    };
    Arc::new(cnn.build())
}

/// The second layer has more than 2¹⁴ weights.
fn mlp() -> Arc<Network> {
    Arc::new(zoo::mlp([9, 9, 1], &[110, 160], 10, Activation::Sigmoid))
}

fn normal<F: Real>(count: usize, seed: u64) -> Vec<F> {
    let stream = Stream::new(seed, 0);
    (0..count as u64).map(|i| F::of(stream.normal(i))).collect()
}

fn batch<F: Real>(network: &Network, examples: usize) -> Arc<Batch<F>> {
    let len: usize = network.input_shape().iter().product();
    let classes = (0..examples as u32).map(|i| i * 5 % network.outputs() as u32).collect();
    Arc::new(Batch { inputs: normal(examples * len, 1), targets: Targets::Classes(classes) })
}

/// Hashes of gradient and product.
fn hashes<F: Real>(engine: &mut Engine<F>, examples: usize) -> [String; 2] {
    let network = Arc::clone(engine.network());
    let theta: Vec<F> = network.initial(Init::KaimingNormal, 2);
    let v: Vec<F> = normal(theta.len(), 3);
    let mut out = vec![F::default(); theta.len()];
    engine.set_batch(&batch(&network, examples));
    engine.gradient(&theta, &mut out);
    let gradient = hash_of_bits(&out);
    engine.hessian_vector(&theta, &v, &mut out);
    assert!(out.iter().all(|x| x.is_finite()), "a product that says something");
    [gradient, hash_of_bits(&out)]
}

fn on_threads<F: Real>(threads: usize, network: &Arc<Network>, examples: usize) -> [String; 2] {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.expect("threads can be started");
    pool.install(|| hashes::<F>(&mut Engine::new(network, Loss::CrossEntropy), examples))
}

fn check<F: Real>(network: &Arc<Network>) {
    let few_and_many = [13, 64].map(|examples| {
        let one = on_threads::<F>(1, network, examples);
        for threads in [2, 3, 8] {
            let many = on_threads::<F>(threads, network, examples);
            assert_eq!(one, many, "{}, {examples} examples, {threads} threads", F::NAME);
        }
        (examples, one)
    });
    // An engine that has worked on other batches, on other parameters and without gradients.
    let mut used = Engine::<F>::new(network, Loss::CrossEntropy);
    let theta: Vec<F> = network.initial(Init::Torch, 9);
    for (examples, fresh) in few_and_many.iter().rev() {
        used.outputs(&theta, &batch(network, 70).inputs);
        let again = hashes(&mut used, *examples);
        assert_eq!(again, *fresh, "{}, {examples} examples, a used engine", F::NAME);
    }
}

#[test]
fn a_residual_network_on_any_number_of_threads() {
    check::<f32>(&resnet8());
    check::<f64>(&resnet8());
}

#[test]
fn a_vgg_network_on_any_number_of_threads() {
    check::<f32>(&vgg11());
    check::<f64>(&vgg11());
}

#[test]
fn a_network_with_maxima_on_any_number_of_threads() {
    check::<f32>(&cnn());
    check::<f64>(&cnn());
}

#[test]
fn a_perceptron_on_any_number_of_threads() {
    check::<f32>(&mlp());
    check::<f64>(&mlp());
}

/// Gradients, products and a few steps of every kind of network, as one line.
fn hashes_of_all() -> String {
    fn of<F: Real>(network: &Arc<Network>) -> String {
        let mut engine = Engine::<F>::new(network, Loss::CrossEntropy);
        let [gradient, product] = hashes(&mut engine, 5);
        let mut theta: Vec<F> = network.initial(Init::Torch, 1);
        let optimizer = Optimizer { method: Method::Nesterov { mu: 0.9 }, alpha: 5e-4 };
        let mut memory = optimizer.at_rest(&theta);
        let mut direction = theta.clone();
        for _ in 0..3 {
            engine.gradient(&theta, &mut direction);
            optimizer.step(&mut theta, &mut direction, &mut memory, 0.1, Perturbation::NONE);
        }
        format!("{gradient} {product} {}", hash_of_bits(&theta))
    }
    let networks = [resnet8(), vgg11(), cnn(), mlp(), wide()];
    let each =
        networks.iter().map(|network| format!("{} {}", of::<f32>(network), of::<f64>(network)));
    each.collect::<Vec<_>>().join(" ")
}

/// One convolution whose weights threads share.
fn wide() -> Arc<Network> {
    let cnn = Cnn {
        input: [8, 6, 2],
        channels: vec![128, 160],
        kernel: 3,
        stride: 1,
        padding: Padding::Same,
        bias: true,
        batch_norm: true,
        activation: SWISH,
        pooling: Pooling::None,
        head: Head::Linear,
        outputs: 7,
    };
    Arc::new(cnn.build())
}

const INSTRUCTIONS: &str = "LASTBIT_TEST_INSTRUCTIONS";

/// The instructions are those of a whole process, so each has one of its own: this test again.
#[test]
fn any_vector_instructions_give_the_same_bits() {
    let all = [Instructions::Scalar, Instructions::Avx2, Instructions::Avx512];
    if let Ok(wanted) = std::env::var(INSTRUCTIONS) {
        let wanted = all.into_iter().find(|one| format!("{one:?}") == wanted);
        let is_there = use_instructions(wanted.expect("one of all"));
        println!("hashes: {}", if is_there { hashes_of_all() } else { String::new() });
        return;
    }
    let own = hashes_of_all();
    for instructions in all {
        let output = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "--exact",
                "same_bits::any_vector_instructions_give_the_same_bits",
                "--nocapture",
            ])
            .env(INSTRUCTIONS, format!("{instructions:?}"))
            .output()
            .expect("this program runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let found = text.split_once("hashes: ").and_then(|(_, rest)| rest.lines().next());
        let found = found.unwrap_or_else(|| panic!("{instructions:?}: no hashes in {text}"));
        assert!(found == own || found.is_empty(), "{instructions:?}: {found}, not {own}");
        // Every machine has these.
        assert!(instructions != Instructions::Scalar || !found.is_empty());
    }
}

/// These hashes came from this engine itself, whose numbers other tests hold to definitions. They
/// are pinned because recorded experiments promise the same bits to whoever repeats them: a change
/// of any rounding or order of a sum must be meant, seen here, and told in CHANGELOG.md.
#[test]
fn bits_do_not_change_from_version_to_version() {
    let gradient_and_product = hashes::<f32>(&mut Engine::new(&resnet8(), Loss::CrossEntropy), 13);
    assert_eq!(
        gradient_and_product,
        ["79480908202a0cc4c5eca3ddc4c307d7", "18fb8e9750895fe4bb020aaeae2fa785"]
    );
    let gradient_and_product = hashes::<f64>(&mut Engine::new(&mlp(), Loss::CrossEntropy), 64);
    assert_eq!(
        gradient_and_product,
        ["fce4fca0b6ac94ebf63628ce88cd2edb", "f4eed4beb254def1607d2b93ca16a254"]
    );
}
