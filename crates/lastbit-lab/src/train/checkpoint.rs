//! All of a run at one step, in one safetensors file.
//!
//! ```text
//! REPLICA/NAME             parameters and buffers, by PyTorch's names
//! REPLICA/optimizer.0, …   what the optimizer remembers
//! sharpness/REPLICA/…      eigenvectors from which the next measurement starts
//! metadata "lastbit"       step, settings, hashes of the metrics, state of each replica, as JSON
//! metadata "hash"          of all of that
//! ```
//!
//! Written beside its place and renamed into it; a reader checks the hash. The last two regular ones
//! stay, those of the epochs that the settings name, and one that a stop wrote until the next is written.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use lastbit::nn::{Network, Parameter};
use lastbit::optim::direction::Optimizer;
use lastbit::training::{EpochStats, Replica};
use serde::{Deserialize, Serialize};

use super::prefix_hash::PrefixHashes;
use super::tensors_of::{Stored, state_dict};
use crate::error::Error;
use crate::number::Number;
use crate::relative_path::RelativePath;
use crate::tensors::{self, Tensor, TensorFile};

/// Version of the layout; a reader refuses others.
pub const FORMAT: u32 = 2;

/// A checkpoint to be written.
#[derive(Debug)]
pub struct Checkpoint<'a, F> {
    /// What is not tensors.
    pub state: State,
    /// The replicas, in the order of `state.replicas`.
    pub replicas: &'a [Replica<F>],
    /// Eigenvectors, named below [`SHARPNESS`].
    pub eigenvectors: Vec<Tensor>,
}

/// Where the names of eigenvectors begin.
pub const SHARPNESS: &str = "sharpness/";

/// What is not tensors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// [`FORMAT`].
    pub format: u32,
    /// Steps done.
    pub step: usize,
    /// Commit of the program that computed it.
    #[serde(default)]
    pub commit: String,
    /// Where a fork began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<Origin>,
    /// The settings, as TOML.
    pub settings: String,
    /// Hash of the contents of the data set.
    pub data: String,
    /// Length and hash of the metrics and of what else grows; in the last checkpoint also of the other files that the last
    /// step wrote.
    pub files: PrefixHashes,
    /// One for each replica.
    pub replicas: Vec<ReplicaState>,
}

/// Where a fork began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Step of the checkpoint.
    pub step: usize,
    /// Its hash.
    pub hash: String,
}

/// The numbers of a replica.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplicaState {
    /// Name.
    pub name: String,
    /// Steps since the optimizer's memory was at rest.
    pub memory_steps: u64,
    /// Size of the parameters at the start.
    pub scale: Number,
    /// Loss of the last batch.
    pub last_loss: Number,
    /// Sum of the losses of the epoch.
    pub epoch_loss: Number,
    /// Right answers of the epoch.
    pub epoch_right: usize,
    /// Examples of the epoch.
    pub epoch_examples: usize,
    /// Step after which it had diverged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diverged: Option<usize>,
}

impl ReplicaState {
    /// Takes the numbers from a replica.
    pub fn of<F>(name: &str, replica: &Replica<F>) -> Self {
        let stats = replica.epoch_stats;
        Self {
            name: name.to_owned(),
            memory_steps: replica.memory.steps,
            scale: Number(replica.scale),
            last_loss: Number(stats.last_loss),
            epoch_loss: Number(stats.loss),
            epoch_right: stats.right,
            epoch_examples: stats.examples,
            diverged: replica.ended,
        }
    }

    fn epoch_stats(&self) -> EpochStats {
        EpochStats {
            last_loss: self.last_loss.0,
            loss: self.epoch_loss.0,
            right: self.epoch_right,
            examples: self.epoch_examples,
        }
    }
}

impl<F: Stored> Checkpoint<'_, F> {
    /// Writes it.
    pub fn write(self, path: &Path, network: &Network) -> Result<(), Error> {
        let mut tensors = Vec::new();
        for (state, replica) in self.state.replicas.iter().zip(self.replicas) {
            let mut own = state_dict(network, &replica.theta, &replica.buffers);
            let memories = replica.memory.values.chunks(replica.theta.len()).enumerate();
            own.extend(memories.map(|(i, values)| Tensor {
                name: format!("optimizer.{i}"),
                shape: vec![values.len()],
                values: F::wrap(values.to_vec()),
            }));
            own.iter_mut()
                .for_each(|tensor| tensor.name = format!("{}/{}", state.name, tensor.name));
            tensors.append(&mut own);
        }
        tensors.extend(self.eigenvectors);
        let text = serde_json::to_string(&self.state).expect("a state is plain data");
        let hash = hash_of(&text, &tensors);
        let metadata = [("lastbit".to_owned(), text), ("hash".to_owned(), hash)].into();
        tensors::write(path, &TensorFile { metadata, tensors })
    }
}

/// A checkpoint as it lies in its file, checked to be whole.
#[derive(Debug)]
pub struct Opened {
    /// What is not tensors.
    pub state: State,
    /// Hash of everything.
    pub hash: String,
    path: PathBuf,
    tensors: Vec<Tensor>,
}

impl Opened {
    /// Reads a file and checks that no bit of it has changed.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let refuse = |found: &str| Error::Input {
            path: path.to_owned(),
            found: found.to_owned(),
            expected: "a checkpoint of `lastbit train`, whole and unchanged".to_owned(),
        };
        let TensorFile { metadata, tensors } = tensors::read(path)?;
        let text = metadata.get("lastbit").ok_or_else(|| without_state(path))?;
        let state: State = serde_json::from_str(text)
            .map_err(|error| refuse(&format!("a state that cannot be read ({error})")))?;
        if state.format != FORMAT {
            return Err(refuse(&format!("format {} (this program's is {FORMAT})", state.format)));
        }
        // A file holds tensors of larger entries first; all of ours have the same.
        let hash = hash_of(text, &tensors);
        if metadata.get("hash") != Some(&hash) {
            return Err(refuse("damaged contents: their hash is not the one noted"));
        }
        Ok(Self { state, hash, path: path.to_owned(), tensors })
    }

    /// The eigenvectors of the last measurement.
    pub fn eigenvectors(&self) -> impl Iterator<Item = &Tensor> {
        self.tensors.iter().filter(|tensor| tensor.name.starts_with(SHARPNESS))
    }

    /// The tensors of one replica by PyTorch's names, and after them what its optimizer remembers ([`is_optimizer_memory`]).
    pub fn tensors_of(self, replica: &str) -> TensorFile {
        let own = |mut tensor: Tensor| {
            let name = tensor.name.strip_prefix(replica)?.strip_prefix('/')?.to_owned();
            tensor.name = name;
            Some(tensor)
        };
        let tensors = self.tensors.into_iter().filter_map(own).collect();
        TensorFile { tensors, ..TensorFile::default() }
    }

    /// The replicas, with their names. Without `keep_memory` the optimizer starts at rest: what
    /// another one remembered is of no use to it.
    pub fn unpack<F: Stored>(
        self,
        network: &Network,
        optimizer: &Optimizer,
        keep_memory: bool,
    ) -> Result<Vec<(String, Replica<F>)>, Error> {
        let tensors = self.tensors.into_iter().map(|tensor| (tensor.name.clone(), tensor));
        let mut file = Contents { path: self.path, tensors: tensors.collect() };
        let mut replicas = Vec::new();
        for state in self.state.replicas {
            let theta: Vec<F> = file.take_all(&state.name, network.parameters())?;
            let buffers = file.take_all(&state.name, network.buffers())?;
            let mut memory = optimizer.at_rest(&theta);
            if keep_memory {
                memory.steps = state.memory_steps;
                memory.values.clear();
                for i in 0..optimizer.method.memory().len() {
                    let name = format!("{}/optimizer.{i}", state.name);
                    memory.values.extend(file.take::<F>(&name, &[theta.len()])?);
                }
            }
            let (epoch_stats, scale, ended) = (state.epoch_stats(), state.scale.0, state.diverged);
            replicas
                .push((state.name, Replica { theta, memory, buffers, epoch_stats, scale, ended }));
        }
        Ok(replicas)
    }
}

/// Tensors alone, such as the weights at the end of a run, from which no run can go on.
fn without_state(path: &Path) -> Error {
    Error::Input {
        path: path.to_owned(),
        found: "weights alone, such as those at the end of a run".to_owned(),
        expected:
            "a checkpoint of `lastbit train`, checkpoints/step-N.safetensors in the folder of \
                   a run; to start from weights, give them as network.weights"
                .to_owned(),
    }
}

/// Tensors of a file, to be taken by name.
struct Contents {
    path: PathBuf,
    tensors: BTreeMap<String, Tensor>,
}

impl Contents {
    fn take<F: Stored>(&mut self, name: &str, shape: &[usize]) -> Result<Vec<F>, Error> {
        let refuse = |found: String| Error::Input {
            path: self.path.clone(),
            found,
            expected: format!("{name} of shape {shape:?} in {}, as the settings say", F::NAME),
        };
        let tensor =
            self.tensors.remove(name).ok_or_else(|| refuse("no such tensor".to_owned()))?;
        if tensor.shape != shape {
            return Err(refuse(format!("shape {:?}", tensor.shape)));
        }
        let dtype = tensor.values.dtype();
        F::unwrap(tensor.values).ok_or_else(|| refuse(format!("type {dtype}")))
    }

    fn take_all<F: Stored>(
        &mut self,
        replica: &str,
        parameters: &[Parameter],
    ) -> Result<Vec<F>, Error> {
        let mut values = Vec::new();
        for parameter in parameters {
            values.extend(
                self.take::<F>(&format!("{replica}/{}", parameter.name), &parameter.shape)?,
            );
        }
        Ok(values)
    }
}

/// Whether a tensor of a checkpoint is what an optimizer remembers, by its name within the replica.
pub fn is_optimizer_memory(name: &str) -> bool {
    name.strip_prefix("optimizer.").is_some_and(|i| i.parse::<usize>().is_ok())
}

/// The checkpoints of a run, by their steps.
pub fn checkpoints_in(folder: &Path) -> Result<BTreeMap<u64, PathBuf>, Error> {
    let steps = steps_in(folder)?.into_iter();
    Ok(steps.map(|step| (step as u64, path_of(folder, step))).collect())
}

fn hash_of(text: &str, tensors: &[Tensor]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(text.as_bytes());
    for tensor in tensors {
        hasher.update(
            format!("\n{} {:?} {}", tensor.name, tensor.shape, tensor.values.hash()).as_bytes(),
        );
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

/// The place of a checkpoint within the folder of its run.
pub fn file_of(step: usize) -> RelativePath {
    RelativePath::new(format!("checkpoints/step-{step}.safetensors"))
}

/// The place of a checkpoint.
pub fn path_of(folder: &Path, step: usize) -> PathBuf {
    folder.join(&*file_of(step))
}

/// The step of the checkpoint of this name.
pub fn step_of(name: &str) -> Option<usize> {
    name.strip_prefix("step-")?.strip_suffix(".safetensors")?.parse().ok()
}

/// The steps of which there are checkpoints, ascending.
pub fn steps_in(folder: &Path) -> Result<Vec<usize>, Error> {
    let path = folder.join("checkpoints");
    let entries = match fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(source) => return Err(Error::Read { path, source }),
    };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut steps: Vec<usize> = names.filter_map(|name| step_of(&name)).collect();
    steps.sort_unstable();
    Ok(steps)
}

/// Removes the checkpoints that are neither to be kept, nor the last one, nor among the last two regular ones.
///
/// A stop writes one that is not regular. It goes with the next, so that in the end a stop cannot be told.
pub fn remove_old(
    folder: &Path,
    is_regular: impl Fn(usize) -> bool,
    is_kept: impl Fn(usize) -> bool,
) -> Result<(), Error> {
    let mut old = steps_in(folder)?;
    old.pop_if(|last| !is_regular(*last));
    let regular = old.iter().rev().copied().filter(|step| is_regular(*step));
    let stay: Vec<usize> = regular.take(2).collect();
    for step in old.into_iter().filter(|step| !stay.contains(step) && !is_kept(*step)) {
        let path = path_of(folder, step);
        fs::remove_file(&path).map_err(|source| Error::Write { path, source })?;
    }
    Ok(())
}

/// Removes the checkpoints after a step, to which a run has gone back.
pub fn remove_after(folder: &Path, step: usize) -> Result<(), Error> {
    for later in steps_in(folder)?.into_iter().filter(|later| *later > step) {
        let path = path_of(folder, later);
        fs::remove_file(&path).map_err(|source| Error::Write { path, source })?;
    }
    Ok(())
}
