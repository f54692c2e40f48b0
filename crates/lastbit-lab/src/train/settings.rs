//! What `lastbit train` is told: a TOML file of nine sections, every key checked.

mod attribution;
mod check;
mod choices;
mod config_file;
mod optimizer;
mod sharpness;

pub use attribution::Attribution;
pub use choices::{Batch, Every, Normalization};
pub use config_file::ConfigFile;
pub use optimizer::Optimizer;
pub use sharpness::{Examples, Measured, Sharpness};

use std::path::PathBuf;

use lastbit::nn;
use lastbit::optim::perturbation::Form;
use serde::{Deserialize, Serialize};

use super::network::Kind;
use crate::simulate::Precision;

/// A commented example; what it says is what is taken where a file says nothing.
pub const EXAMPLE: &str = include_str!("example.toml");

/// All settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Settings {
    /// What is learned.
    pub data: Data,
    /// What learns.
    pub network: Network,
    /// What is made small.
    #[serde(default)]
    pub loss: Loss,
    /// How.
    pub optimizer: Optimizer,
    /// How long, and what is written down.
    pub training: Training,
    /// What is varied.
    #[serde(default)]
    pub replicas: Replicas,
    /// What is measured of the Hessian.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sharpness: Option<Sharpness>,
    /// When the growth of differences between replicas is split by cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attribution: Option<Attribution>,
    /// Where else metrics go.
    #[serde(default, skip_serializing_if = "Logging::is_default")]
    pub logging: Logging,
}

/// Section `data`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Data {
    /// Name, as `lastbit data list` shows it.
    pub name: String,
    /// How inputs are scaled.
    #[serde(default)]
    pub normalization: Normalization,
    /// Pixels of zeros added on each side of every image.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub border: usize,
    /// How training images are varied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub augment: Option<Augment>,
    /// Only these classes, which become 0, 1, … in this order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<Vec<u32>>,
    /// Only the first examples of the training set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Only the first examples of the test set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_limit: Option<usize>,
}

/// Random crops and mirror images.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Augment {
    /// Pixels around the image before the crop.
    pub padding: usize,
    /// Whether half of the images are mirrored.
    pub flip: bool,
}

/// Section `network`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Network {
    /// Where its weights start.
    #[serde(default)]
    pub init: nn::Init,
    /// A safetensors file to start from instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<PathBuf>,
    /// Its layers; all remaining keys.
    #[serde(flatten)]
    pub kind: Kind,
}

/// Section `loss`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Loss {
    /// Its name.
    pub name: nn::Loss,
}

/// Section `logging`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Logging {
    /// Whether rows become event files of TensorBoard while they are written.
    pub tensorboard: bool,
}

impl Logging {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

fn is_zero(value: &usize) -> bool {
    *value == 0
}

/// How the learning rate changes; times in epochs or in steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Schedule {
    /// Not at all.
    #[default]
    Constant,
    /// By a factor at equal intervals.
    Every {
        /// The factor.
        gamma: f64,
        /// Interval in epochs.
        #[serde(skip_serializing_if = "Option::is_none")]
        epochs: Option<usize>,
        /// Interval in steps.
        #[serde(skip_serializing_if = "Option::is_none")]
        steps: Option<usize>,
    },
    /// By a factor at certain times.
    Milestones {
        /// The factor.
        gamma: f64,
        /// Times in epochs.
        #[serde(skip_serializing_if = "Option::is_none")]
        epochs: Option<Vec<usize>>,
        /// Times in steps.
        #[serde(skip_serializing_if = "Option::is_none")]
        steps: Option<Vec<usize>>,
    },
    /// Along half a cosine.
    Cosine {
        /// Where it ends.
        #[serde(default)]
        floor: f64,
        /// When, in epochs.
        #[serde(skip_serializing_if = "Option::is_none")]
        epochs: Option<usize>,
        /// When, in steps.
        #[serde(skip_serializing_if = "Option::is_none")]
        steps: Option<usize>,
    },
}

/// Section `training`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Training {
    /// Passes over the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<usize>,
    /// Steps, instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<usize>,
    /// Examples in a step.
    pub batch: Batch,
    /// Whether a smaller batch at the end of an epoch is used.
    #[serde(default)]
    pub keep_last: bool,
    /// Whether examples are shuffled anew in every epoch.
    #[serde(default = "yes")]
    pub shuffle: bool,
    /// Precision of everything.
    #[serde(default = "single")]
    pub precision: Precision,
    /// What makes the steps.
    #[serde(default, skip_serializing_if = "Device::is_cpu")]
    pub device: Device,
    /// When distances and hashes are written down.
    #[serde(default)]
    pub metrics_every: Every,
    /// When the test set is looked at.
    #[serde(default)]
    pub evaluate_every: Every,
    /// When all is saved.
    #[serde(default)]
    pub checkpoint_every: Every,
    /// Which epochs' checkpoints stay: every so many; 0 for the last two only.
    #[serde(default)]
    pub keep_every: usize,
    /// Batches of which the mean gradient is taken for the relative gradient fluctuation, measured
    /// at each evaluation; 0 for none.
    #[serde(default)]
    pub fluctuation_batches: usize,
}

fn yes() -> bool {
    true
}

fn single() -> Precision {
    Precision::F32
}

lastbit::named_enum! {
    /// What makes the steps. A device adds in another order than the CPU, so its results are its own.
    pub enum Device, default Cpu {
        /// This computer's processor.
        Cpu = "cpu",
        /// A CUDA GPU.
        Cuda = "cuda",
        /// A CUDA GPU whose tensor cores round the factors of 3x3 convolutions to 10 bits.
        CudaTf32 = "cuda-tf32",
    }
}

impl Device {
    /// As `--set` takes it.
    pub fn as_setting(self) -> String {
        format!("training.device={}", self.name())
    }

    fn is_cpu(&self) -> bool {
        *self == Self::Cpu
    }
}

/// Section `replicas`: each `k` with each combination of seeds, then one for each flipped bit and
/// one for each permuted order, both like the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Replicas {
    /// Factors of the last-bit perturbation.
    pub k: Vec<f64>,
    /// Where they stand.
    pub form: Form,
    /// Seeds.
    pub seeds: Seeds,
    /// Last bits to flip.
    pub flip_bit: Vec<FlipBit>,
    /// Seeds of other orders within the batches.
    pub permute_order: Vec<u64>,
}

impl Default for Replicas {
    fn default() -> Self {
        Self {
            k: vec![1.0],
            form: Form::Paper,
            seeds: Seeds::default(),
            flip_bit: Vec::new(),
            permute_order: Vec::new(),
        }
    }
}

/// Lists of seeds, of which every combination is trained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Seeds {
    /// Of the first weights.
    pub init: Vec<u64>,
    /// Of the selection of batches.
    pub batch: Vec<u64>,
    /// Of crops and mirror images.
    pub augment: Vec<u64>,
}

impl Default for Seeds {
    fn default() -> Self {
        Self { init: vec![0], batch: vec![0], augment: vec![0] }
    }
}

/// A last bit to flip.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FlipBit {
    /// Tensor, by its name.
    pub tensor: String,
    /// Which of its entries.
    #[serde(default)]
    pub index: usize,
    /// Before which step, counted from 0.
    #[serde(default)]
    pub step: usize,
}

#[cfg(test)]
mod tests;
