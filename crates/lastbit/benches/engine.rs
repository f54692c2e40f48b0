//! Time of a gradient, a training step, a Hessian-vector product or a sharpness measurement, for
//! comparison with others.
//!
//! ```text
//! cargo bench -p lastbit --bench engine -- time --net resnet20 --batch 64 --threads 1 --what step
//! ```
//!
//! prints one line of JSON. `bench/engine_beside_torch.py` and `bench/sharpness_beside_torch.py` run it
//! in turns with PyTorch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use lastbit::activation::Activation;
use lastbit::curvature::empirical_risk::{EmpiricalRisk, WeightedBatches};
use lastbit::krylov::{EigenOptions, eigenpairs};
use lastbit::nn::zoo::{self, Cnn, Head, Pooling, Shortcut};
use lastbit::nn::{Batch, Engine, Init, Loss, Network, Padding, Targets};
use lastbit::objective::{Objective, StochasticObjective};
use lastbit::optim::direction::{Memory, Optimizer};
use lastbit::optim::method::Method;
use lastbit::optim::perturbation::Perturbation;
use lastbit::rng::Stream;
use lastbit::{Instructions, Real, hash_of_bits, use_instructions};
use rayon::prelude::*;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if arguments.first().is_none_or(|first| first != "time") {
        println!("nothing to do; see the doc of benches/engine.rs");
        return;
    }
    let flags: HashMap<&str, &str> =
        arguments[1..].chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
    let flag = |name: &str, default| flags.get(name).copied().unwrap_or(default);
    let number = |name: &str, default| flag(name, default).parse::<usize>().expect(name);
    match flag("--instructions", "best") {
        "best" => {}
        name => choose_instructions(name),
    }
    let threads = number("--threads", "1");
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().expect("first pool");
    let job = Job {
        network: Arc::new(network(flag("--net", "resnet20"))),
        optimizer: optimizer(flag("--optimizer", "nesterov")),
        batch: number("--batch", "64"),
        replicas: number("--replicas", "1"),
        what: flag("--what", "step").to_owned(),
        tolerance: flag("--tolerance", "1e-3").parse().expect("--tolerance"),
        seconds: flag("--seconds", "3").parse().expect("--seconds"),
    };
    // On a thread of the pool: one outside would be woken after each step.
    rayon::scope(|_| match flag("--dtype", "f32") {
        "f32" => job.run::<f32>(),
        "f64" => job.run::<f64>(),
        other => panic!("--dtype {other}: need f32 or f64"),
    });
}

fn choose_instructions(name: &str) {
    let instructions = match name {
        "scalar" => Instructions::Scalar,
        "avx2" => Instructions::Avx2,
        "avx512" => Instructions::Avx512,
        _ => panic!("--instructions {name}: need best, scalar, avx2 or avx512"),
    };
    assert!(use_instructions(instructions), "this machine does not have {name}");
}

/// The networks of `reference/networks_torch.py` by their names there, and `mnist3`.
fn network(name: &str) -> Network {
    let (cifar, relu) = ([32, 32, 3], Activation::Relu);
    let cnn = Cnn {
        input: [28, 28, 1],
        channels: vec![8, 16],
        kernel: 3,
        stride: 1,
        padding: Padding::Same,
        bias: true,
        batch_norm: false,
        activation: relu,
        pooling: Pooling::Max,
        head: Head::Linear,
        outputs: 10,
    };
    match name {
        "cnn" => cnn.build(),
        "mnist3" => Cnn {
            channels: vec![1; 3],
            bias: false,
            activation: Activation::Swish { beta: 1.0 },
            pooling: Pooling::None,
            head: Head::Mean,
            outputs: 1,
            ..cnn
        }
        .build(),
        "mlp2" => zoo::mlp(cifar, &[200; 2], 10, relu),
        "mlp4" => zoo::mlp(cifar, &[200; 4], 10, Activation::Tanh),
        "mlp1000" => zoo::mlp(cifar, &[1000; 4], 10, relu),
        "resnet18" => zoo::residual(&[64, 128, 256, 512], 2, Shortcut::Conv, relu, cifar, 10),
        "vgg11-narrow" => zoo::vgg(11, 16, true, relu, cifar, 10),
        "vgg11-bn" => zoo::vgg(11, 64, true, relu, cifar, 10),
        "vgg16-bn" => zoo::vgg(16, 64, true, relu, cifar, 10),
        "resnet20-swish" => {
            zoo::resnet(20, Shortcut::Conv, Activation::Swish { beta: 1.0 }, cifar, 10)
        }
        _ => {
            let depth = name.strip_prefix("resnet").and_then(|depth| depth.parse().ok());
            let depth = depth.unwrap_or_else(|| panic!("--net {name}: see `network`"));
            zoo::resnet(depth, Shortcut::Conv, relu, cifar, 10)
        }
    }
}

/// With the numbers of `bench/torch_engine.py`.
fn optimizer(name: &str) -> Optimizer {
    let method = match name {
        "sgd" => Method::Sgd,
        "nesterov" => Method::Nesterov { mu: 0.9 },
        "adam" => Method::Adam { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 },
        _ => panic!("--optimizer {name}: need sgd, nesterov or adam"),
    };
    Optimizer { method, alpha: 5e-4 }
}

struct Job {
    network: Arc<Network>,
    optimizer: Optimizer,
    batch: usize,
    replicas: usize,
    what: String,
    tolerance: f64,
    seconds: f64,
}

struct Replica<F> {
    theta: Vec<F>,
    memory: Memory<F>,
    buffers: Vec<F>,
    gradient: Vec<F>,
    /// Eigenvectors of the last sharpness, and the products it took.
    known: Vec<Vec<f64>>,
    products: usize,
}

impl Job {
    fn run<F: Real>(&self) {
        let stream = Stream::new(1, 0);
        let len: usize = self.network.input_shape().iter().product();
        let inputs = (0..(self.batch * len) as u64).map(|i| F::of(stream.normal(i))).collect();
        let count = self.network.outputs().max(2) as u32;
        let classes = (0..self.batch as u64).map(|i| stream.block(i)[0] % count).collect();
        let batch = Arc::new(Batch { inputs, targets: Targets::Classes(classes) });
        let set = WeightedBatches::new(vec![(Arc::clone(&batch), self.batch)]);
        let loss = match self.network.outputs() {
            1 => Loss::BinaryCrossEntropy,
            _ => Loss::CrossEntropy,
        };
        let replica = || {
            let theta: Vec<F> = self.network.initial(Init::Torch, 0);
            let memory = self.optimizer.at_rest(&theta);
            Replica {
                gradient: theta.clone(),
                theta,
                memory,
                buffers: self.network.initial_buffers(),
                known: vec![],
                products: 0,
            }
        };
        // As in training, replicas borrow an engine for a step.
        let idle: Mutex<Vec<Engine<F>>> = Mutex::default();
        let work = |replica: &mut Replica<F>| {
            let found = idle.lock().expect("no panic").pop();
            let mut engine = found.unwrap_or_else(|| {
                let mut engine = Engine::new(&self.network, loss);
                engine.set_batch(&batch);
                engine
            });
            if self.what == "step" {
                engine.load_buffers(&replica.buffers);
            }
            match self.what.as_str() {
                "sharpness" => {
                    replica.known.clear();
                    replica.sharpness(&mut engine, &set, self.tolerance);
                }
                "warm-sharpness" => {
                    // From the vectors found a small step before; the first time they are not yet.
                    let before = std::mem::take(&mut replica.known);
                    replica.known = before.clone();
                    replica.sharpness(&mut engine, &set, self.tolerance);
                    if before.is_empty() {
                        engine.gradient(&replica.theta, &mut replica.gradient);
                        let Replica { theta, gradient, .. } = replica;
                        Perturbation::NONE.step(theta, gradient, 0.01);
                    } else {
                        replica.known = before;
                    }
                }
                what => replica.work(what, &mut engine, self.optimizer),
            }
            idle.lock().expect("no panic").push(engine);
        };
        let mut replicas: Vec<_> = (0..self.replicas).map(|_| replica()).collect();
        let mut times = Vec::new();
        let mut hash = String::new();
        let begin = Instant::now();
        // The first round fills the caches and allocates.
        while times.len() < 4 || begin.elapsed().as_secs_f64() < self.seconds {
            let start = Instant::now();
            replicas.par_iter_mut().for_each(work);
            times.push(start.elapsed().as_secs_f64());
            // After as many steps at every run, so that the bits can be compared.
            if times.len() == 4 {
                hash = hash_of_bits(&replicas[0].gradient);
            }
        }
        times.remove(0);
        times.sort_by(f64::total_cmp);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|line| line.trim().strip_suffix(" kB")).unwrap_or("0");
        println!(
            "{{\"seconds_per_step\": {:e}, \"best\": {:e}, \"rounds\": {}, \"hash\": \"{}\", \
             \"products\": {}, \"peak_rss_bytes\": {}}}",
            times[times.len() / 2],
            times[0],
            times.len(),
            hash,
            replicas[0].products,
            peak.trim().parse::<u64>().unwrap_or(0) * 1024
        );
    }
}

impl<F: Real> Replica<F> {
    fn sharpness(
        &mut self,
        engine: &mut Engine<F>,
        set: &WeightedBatches<Batch<F>>,
        tolerance: f64,
    ) {
        let options = EigenOptions { probe: Some(0), ..EigenOptions::largest(tolerance, 1000) };
        let mut mean = EmpiricalRisk::new(engine, set, 0.0);
        let theta = &self.theta;
        let multiply = |v: &Vec<f64>, out: &mut Vec<f64>| mean.hessian_vector(theta, v, out);
        let known = std::mem::take(&mut self.known);
        let Ok(found) = eigenpairs(&vec![0.0; theta.len()], known, options, multiply);
        (self.products, self.known) = (found.matvecs, found.into_vectors());
    }

    fn work(&mut self, what: &str, engine: &mut Engine<F>, optimizer: Optimizer) {
        match what {
            "gradient" => engine.gradient(&self.theta, &mut self.gradient).unwrap(),
            "hvp" => engine.hessian_vector(&self.theta, &self.theta, &mut self.gradient).unwrap(),
            "step" => {
                engine.gradient(&self.theta, &mut self.gradient);
                engine.update_running_stats();
                self.buffers.copy_from_slice(engine.buffers());
                let Self { theta, gradient, memory, .. } = self;
                optimizer.step(theta, gradient, memory, 0.001, Perturbation::NONE);
            }
            other => panic!("--what {other}: need gradient, step or hvp"),
        }
    }
}
