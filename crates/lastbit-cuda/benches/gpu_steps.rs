//! Device time of a training step of ResNet-56 on batches of 128 small photographs.
//!
//! `cargo bench -p lastbit-cuda --bench gpu_steps -- f32 6 36` prints one line of JSON for each number of
//! replicas; with the word `kernels` also the time of each kernel. `swish` takes ResNet-56 with Swish
//! instead of ReLU, `vgg` takes VGG-16 with Swish. `--csv FILE` appends a row for each to a table, for
//! `bench/gpu_time_against_replicas.py`.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use lastbit::activation::Activation;
use lastbit::batches::{Augmentation, Batches, Normalization, Order, Selection};
use lastbit::data::{Dataset, Inputs, Targets};
use lastbit::hash_of_bits;
use lastbit::nn::zoo::{Shortcut, resnet, vgg};
use lastbit::nn::{Init, Loss, Network};
use lastbit::optim::direction::Optimizer;
use lastbit::optim::method::Method;
use lastbit::optim::perturbation::{Form, Perturbation};
use lastbit::optim::schedule::Schedule;
use lastbit::rng::Stream;
use lastbit::training::{Plan, Replica, Variant};
use lastbit_cuda::{CudaTrainer, DeviceReal, Error, MathMode};

const STEPS: usize = 20;

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let csv = words.iter().position(|word| word == "--csv").map(|at| {
        let mut pair = words.drain(at..(at + 2).min(words.len()));
        PathBuf::from(pair.nth(1).expect("found no file after --csv, expected one"))
    });
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    let (kernels, swish) = (has("kernels"), Activation::Swish { beta: 1.0 });
    let network = Arc::new(if has("vgg") {
        vgg(16, 64, true, swish, [32, 32, 3], 10)
    } else {
        let activation = if has("swish") { swish } else { Activation::Relu };
        resnet(56, Shortcut::Conv, activation, [32, 32, 3], 10)
    });
    let counts = words.iter().filter_map(|word| word.parse().ok());
    for replicas in counts {
        let done = match words[0].as_str() {
            "f32" => time::<f32>(&network, replicas, kernels, MathMode::Fma),
            "tf32" => time::<f32>(&network, replicas, kernels, MathMode::Tf32),
            "f64" => time::<f64>(&network, replicas, kernels, MathMode::Fma),
            other => panic!("found {other}, expected f32, tf32 or f64"),
        };
        match (done, &csv) {
            (Ok(each), Some(path)) => add_row(path, &words[0], replicas, each),
            (Ok(_), None) => {}
            (Err(error), _) => {
                eprintln!("{error}");
                std::process::exit(2);
            }
        }
    }
}

/// Appends a row to a table; a new table begins with the names of its columns.
fn add_row(path: &PathBuf, precision: &str, replicas: usize, each: f64) {
    let heading = if path.exists() { "" } else { "precision,replicas,ms_per_step_and_network\n" };
    let mut file = OpenOptions::new().append(true).create(true).open(path).expect("a table");
    writeln!(file, "{heading}{precision},{replicas},{each:.3}").expect("a row of the table");
}

/// Milliseconds for one step of one network.
fn time<F: DeviceReal>(
    network: &Arc<Network>,
    replicas: usize,
    kernels: bool,
    math: MathMode,
) -> Result<f64, Error> {
    let method = Method::HeavyBall { mu: 0.9 };
    let optimizer = Optimizer { method, alpha: 5e-4 };
    let plan = Plan { optimizer, dt: 0.1, schedule: Schedule::Constant };
    let variant = |r: usize| {
        let perturbation = Perturbation { k: 1.0 + r as f64, form: Form::Paper };
        Variant { perturbation, ..Variant::PLAIN }
    };
    let start =
        || Replica::start(network.initial(Init::Torch, 1), network.initial_buffers(), &optimizer);
    let mut trainer = CudaTrainer::<F>::new(
        network,
        Loss::CrossEntropy,
        math,
        vec![batches()],
        plan,
        (0..replicas).map(variant).collect(),
        0,
        (0..replicas).map(|_| start()).collect(),
    )?;
    for _ in 0..3 {
        trainer.advance()?;
    }
    let before = trainer.engine().device().record_event()?;
    for _ in 0..STEPS {
        trainer.advance()?;
    }
    let after = trainer.engine().device().record_event()?;
    trainer.engine().device().wait()?;
    let each = before.milliseconds_until(&after)? / (STEPS * replicas) as f64;
    let used = trainer.engine().device().used_memory()? as f64 / (replicas << 30) as f64;
    trainer.read_back()?;
    let first = &trainer.replicas()[0];
    let (loss, hash) = (first.epoch_stats.last_loss, hash_of_bits(&first.theta));
    println!(
        "{{\"precision\": \"{}\", \"replicas\": {replicas}, \"ms_per_step_and_network\": {each:.3}, \
         \"gib_per_replica\": {used:.2}, \"loss\": {loss:.6}, \"hash\": \"{hash}\"}}",
        if math == MathMode::Tf32 { "tf32" } else { F::NAME }
    );
    if kernels {
        let mut times: Vec<_> = trainer.profile()?.into_iter().collect();
        times.sort_by(|a, b| b.1.milliseconds.total_cmp(&a.1.milliseconds));
        for (name, time) in times {
            let each = time.milliseconds / replicas as f64;
            println!("  {name:24} {:4} launches {each:8.4} ms per network", time.launches);
        }
    }
    Ok(each)
}

/// Random pixels; the time does not depend on them.
fn batches<F: DeviceReal>() -> Batches<F> {
    let (count, stream) = (1280, Stream::new(1, 0));
    let bytes = (0..count * 3072 / 4).flat_map(|i| stream.block(i as u64)).map(|word| word as u8);
    let labels = (0..count).map(|i| stream.below(1 << 40 | i as u64, 10) as u32).collect();
    let data = Arc::new(Dataset {
        shape: [32, 32, 3],
        inputs: Inputs::Bytes(bytes.collect()),
        targets: Targets::Classes { count: 10, labels },
    });
    let selection = Selection { size: 128, order: Order::Shuffled { seed: 1 }, keep_last: true };
    let normalization = Normalization::per_channel(&data);
    let augmentation = Augmentation { padding: 4, flip: true, seed: 1 };
    Batches::new(data, &normalization, selection, Some(augmentation))
}
