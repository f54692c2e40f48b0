//! The memory that a training takes at least, asked for before it begins.
//!
//! ```text
//! replicas      parameters, what the optimizer remembers of each and running statistics; all of it once more while
//!               a checkpoint is written
//! workspaces    one for each thread that has a replica: the numbers of all layers for the examples of a batch, the
//!               gradients of the widest layer and of the parameters, the largest convolution's weights in panels and their
//!               gradient from each part of the batch
//!               for Hessian-vector products another one: the same and its derivatives along a vector
//!               vectors of an eigenvalue search: those wanted, a guard, a probe, and what of an image lies outside
//! data          the data set; a batch of each sequence; what the sharpness is measured on
//! ```
//!
//! Only what is certain to be allocated counts, so that nothing is refused that would fit. Measured peaks are
//! between the estimate and twice that (the test below).

use lastbit::data::{Dataset, Inputs};
use lastbit::nn::{Layer, Network, Op};

use super::prepare::Prepared;
use super::settings::{Device, Examples, Measured};
use crate::error::Error;
use crate::memory;
use crate::simulate::Precision;

/// A batch is computed in at most so many parts, of at least so many examples.
const PARTS: usize = 16;
const SMALLEST_PART: usize = 4;
/// Vectors of a probe, the guard, and what of an image lies outside of all these.
const BESIDE_WANTED: usize = 5;
/// Weights of a 3x3 convolution from which on its gradient may be one sum for the whole batch.
const LARGE: usize = 9 * 128 * 128;

/// Bytes by what they are for.
struct Footprint {
    replicas: u128,
    workspaces: u128,
    data: u128,
}

/// Refuses a training that does not fit into memory.
pub fn require(prepared: &Prepared) -> Result<(), Error> {
    let footprint = Footprint::of(prepared);
    let [replicas, workspaces, data] =
        [footprint.replicas, footprint.workspaces, footprint.data].map(bytes);
    let advice = format!(
        "{} are for replicas, {} for workspaces, {} for data: use fewer replicas, a smaller network, batch or data \
         set, or fewer --threads",
        memory::in_words(replicas),
        memory::in_words(workspaces),
        memory::in_words(data)
    );
    memory::require(&prepared.found.path.display().to_string(), bytes(footprint.total()), &advice)
}

fn bytes(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

impl Footprint {
    fn of(prepared: &Prepared) -> Self {
        let settings = &prepared.found.settings;
        let number = match settings.training.precision {
            Precision::F32 => size_of::<f32>(),
            Precision::F64 => size_of::<f64>(),
        } as u128;
        let network = &prepared.network;
        let method = prepared.plan.optimizer.method;
        let replicas = prepared.variants.named.len();
        let buffers: usize = network.buffers().iter().map(|buffer| buffer.range.len()).sum();
        let state = network.len() * (1 + method.memory().len()) + buffers;
        let examples = prepared.mini_batch().unwrap_or(prepared.train.len());
        let sharpness = settings.sharpness.as_ref();
        let measured = sharpness.map_or(0, |sharpness| match sharpness.examples {
            Examples::All => prepared.train.len(),
            Examples::First(count) => count,
        });
        let batches = prepared.variants.sources.len() * examples + measured;
        let workspaces = match settings.training.device {
            Device::Cpu => {
                let threads = rayon::current_num_threads();
                let training = workspace(network, examples, method.needs_hessian());
                let search = sharpness.map_or(0, |sharpness| {
                    let at_once = match sharpness.replicas {
                        Measured::First => 1,
                        Measured::All => threads.min(replicas),
                    };
                    let vectors = (sharpness.top + BESIDE_WANTED) * network.len();
                    at_once as u128 * (workspace(network, examples, true) + vectors as u128)
                });
                threads.min(replicas) as u128 * training + search
            }
            Device::Cuda | Device::CudaTf32 => 0,
        };
        Self {
            replicas: number * 2 * replicas as u128 * state as u128,
            workspaces: number * workspaces,
            data: stored(&prepared.train)
                + stored(&prepared.test)
                + number * batches as u128 * prepared.train.input_len() as u128,
        }
    }

    fn total(&self) -> u128 {
        self.replicas + self.workspaces + self.data
    }
}

fn stored(set: &Dataset) -> u128 {
    match &set.inputs {
        Inputs::Bytes(bytes) => bytes.len() as u128,
        Inputs::Reals(values) => 8 * values.len() as u128,
    }
}

/// Numbers of an engine for batches of so many examples, if `second` with those of Hessian-vector products.
fn workspace(network: &Network, examples: usize, second: bool) -> u128 {
    let layers = network.nodes();
    let all: usize = layers.iter().map(Layer::len).sum();
    let widest = layers.iter().skip(1).map(Layer::len).max().unwrap_or(0);
    let parts = examples.div_ceil(examples.div_ceil(PARTS).max(SMALLEST_PART));
    let weights = layers.iter().filter_map(|layer| match &layer.op {
        // The weights of a fully connected layer are used where they lie.
        Op::Conv(_) if layer.shape[..2] == [1, 1] => None,
        Op::Conv(conv) if conv.weight.len() >= LARGE => Some(conv.weight.len()),
        Op::Conv(conv) => Some((2 + parts) * conv.weight.len()),
        _ => None,
    });
    let of_examples = all + widest + if second { 2 * all } else { 0 };
    let of_parameters = if second { 3 } else { 1 } * network.len();
    let weights = weights.max().unwrap_or(0);
    examples as u128 * of_examples as u128 + of_parameters as u128 + weights as u128
}

#[cfg(test)]
mod tests {
    use crate::lock::Lock;
    use std::path::Path;

    use super::super::{Begin, ConfigFile, train};
    use super::*;
    use crate::progress::{Progress, Silent};

    /// Networks that are mostly parameters, mostly layers, and mostly derivatives.
    const CASES: [&str; 3] = [
        "network = {kind = 'mlp', hidden = [3000, 3000]}\ntraining = {steps = 1, batch = 32}\n\
         replicas = {k = [1, 3]}",
        "network = {kind = 'cnn', channels = [48, 48]}\ntraining = {steps = 1, batch = 600}",
        "network = {kind = 'cnn', channels = [4, 4, 4, 4]}\ntraining = {steps = 1, batch = 1200}\n\
         sharpness = {tolerance = 0.1}",
    ];

    fn prepared(case: &str) -> Result<Prepared, Error> {
        let text = format!(
            "data = {{name = 'fashion-mnist-small'}}\nloss = {{name = 'cross-entropy'}}\n\
             optimizer = {{name = 'nesterov', lr = 0.01, momentum = 0.9}}\n{case}\n"
        );
        Prepared::new(ConfigFile::parse(&text, Path::new("config.toml"), &[])?, None, true)
    }

    /// Another process: memory once taken counts until the end.
    #[test]
    #[cfg(target_os = "linux")]
    fn measured_peaks_are_between_the_estimate_and_twice_that() {
        const CASE: &str = "LASTBIT_TEST_FOOTPRINT";
        if let Ok(case) = std::env::var(CASE) {
            let prepared = prepared(CASES[case.parse::<usize>().unwrap()]).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let progress = Progress::new(&Silent, "test", 1);
            let lock = Lock::try_now(folder.path(), &Silent).unwrap();
            train(&prepared, &lock, Begin::New, &progress, 1).unwrap();
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
            let peak: u128 = peak.trim_end_matches("kB").trim().parse().unwrap();
            println!("estimate {} peak {}", Footprint::of(&prepared).total(), peak << 10);
            return;
        }
        for case in 0..CASES.len() {
            let test =
                "train::footprint::tests::measured_peaks_are_between_the_estimate_and_twice_that";
            let output = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", test, "--nocapture"])
                .env(CASE, case.to_string())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let numbers = said.split("estimate ").nth(1).unwrap_or_else(|| panic!("{said}"));
            let mut words = numbers.split_whitespace();
            let estimate: f64 = words.next().unwrap().parse().unwrap();
            let peak: f64 = words.nth(1).unwrap().parse().unwrap();
            println!("case {case}: estimate {estimate}, peak {peak}, ratio {}", peak / estimate);
            assert!(estimate > 1e8, "case {case}: {estimate} bytes are too few to be compared");
            assert!((1.0..2.0).contains(&(peak / estimate)), "case {case}: {estimate} and {peak}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_network_that_does_not_fit_is_refused_with_both_numbers() {
        let replicas: Vec<String> = (1..400).map(|k| k.to_string()).collect();
        let message = prepared(&format!(
            "network = {{kind = 'mlp', hidden = [20000, 20000, 20000]}}\n\
             training = {{steps = 1, batch = 32}}\nreplicas = {{k = [{}]}}",
            replicas.join(", ")
        ));
        let message = message.err().unwrap().to_string();
        for part in
            ["config.toml: needs at least ", " TB of memory", " are available", "for replicas"]
        {
            assert!(message.contains(part), "{message}");
        }
    }
}
