//! From settings to everything a run needs, all of it checked before the first step.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lastbit::Real;
use lastbit::batches::{Augmentation, Batches, Normalization, Order, Selection};
use lastbit::curvature::empirical_risk::WeightedBatches;
use lastbit::data::{Dataset, Targets};
use lastbit::nn::{self, Network};
use lastbit::optim::direction::Optimizer;
use lastbit::optim::schedule::{Clock, Schedule};
use lastbit::training::Plan;
use lastbit_cuda::{CudaModel, MathMode};

use super::settings::{self, Batch, ConfigFile, Examples};
use super::subset::{subset, with_border};
use super::tensors_of::Stored;
use super::variants::{self, Variants};
use super::{attribution, footprint, network, weights};
use crate::data::{self, Split};
use crate::error::Error;

/// Examples of the test set that are looked at together.
const EVALUATED_TOGETHER: usize = 500;

/// A run that can begin.
pub struct Prepared {
    /// The settings.
    pub found: ConfigFile,
    /// Hash of the data set's contents.
    pub data_hash: String,
    /// What is learned.
    pub train: Arc<Dataset>,
    /// What it is examined on.
    pub test: Arc<Dataset>,
    /// The network.
    pub network: Arc<Network>,
    /// What is made small.
    pub loss: nn::Loss,
    /// How.
    pub plan: Plan,
    /// The replicas.
    pub variants: Variants,
    /// Steps in all.
    pub steps: usize,
    normalization: Normalization,
    selection: Selection,
    start: Option<weights::Start>,
}

impl Prepared {
    /// Loads the data and checks that everything fits. `begins` says whether the first weights will
    /// be needed.
    pub fn new(found: ConfigFile, data_dir: Option<&Path>, begins: bool) -> Result<Self, Error> {
        let split = data::load(&found.settings.data.name, data_dir)?;
        let data_hash = split.content_hash.clone();
        let (train, test) = chosen(&found, split)?;
        let outputs = outputs(&found, &train)?;
        if let ([1, 1, _], Some(_)) = (train.shape, found.settings.data.augment) {
            let expected =
                format!("no such key: the inputs of {} are no images", found.settings.data.name);
            return Err(found.refuse("data.augment", "crops of single numbers", expected));
        }
        let network = Arc::new(network::build(&found, train.shape, outputs)?);
        let normalization = normalization(&found, &train)?;
        let selection = selection(&found, &train)?;
        let per_epoch = selection.steps_per_epoch(train.len());
        let steps = match found.settings.training.epochs {
            Some(epochs) => epochs * per_epoch,
            None => found.settings.training.steps.unwrap_or(0),
        };
        let variants = variants::of(&found, &network, steps)?;
        check_sharpness(&found, &train, &network)?;
        check_attribution(&found, &variants, steps)?;
        let start = match &found.settings.network.weights {
            Some(path) if begins => Some(weights::read(&beside(&found.path, path), &network)?),
            _ => None,
        };
        let prepared = Self {
            data_hash,
            train: Arc::new(train),
            test: Arc::new(test),
            network,
            loss: found.settings.loss.name,
            plan: plan(&found.settings.optimizer),
            variants,
            steps,
            normalization,
            selection,
            start,
            found,
        };
        footprint::require(&prepared)?;
        Ok(prepared)
    }

    /// Steps in an epoch.
    pub fn steps_per_epoch(&self) -> usize {
        self.selection.steps_per_epoch(self.train.len())
    }

    /// The sequences of batches.
    pub fn sources<F: Real>(&self) -> Vec<Batches<F>> {
        self.variants.sources.iter().map(|seeds| self.source(*seeds)).collect()
    }

    /// The sequence of batches of these seeds.
    pub fn source<F: Real>(&self, seeds: variants::SourceSeeds) -> Batches<F> {
        let mut selection = self.selection;
        if let Order::Shuffled { seed } = &mut selection.order {
            *seed = seeds.batch;
        }
        let augment = self.found.settings.data.augment;
        let augmentation = augment.map(|augment| Augmentation {
            padding: augment.padding,
            flip: augment.flip,
            seed: seeds.augment,
        });
        Batches::new(self.train.clone(), &self.normalization, selection, augmentation)
    }

    /// Examples in a batch, where that is fewer than all.
    pub fn mini_batch(&self) -> Option<usize> {
        Some(self.selection.size).filter(|size| *size < self.train.len())
    }

    /// Whether the order of mini-batches is drawn at random.
    pub fn shuffles_mini_batches(&self) -> bool {
        self.mini_batch().is_some() && matches!(self.selection.order, Order::Shuffled { .. })
    }

    /// The test set in batches; none if it is empty.
    pub fn examination<F: Real>(&self) -> Option<Batches<F>> {
        let size = EVALUATED_TOGETHER.min(self.test.len());
        let selection = Selection { size, order: Order::AsStored, keep_last: true };
        (size > 0).then(|| Batches::new(self.test.clone(), &self.normalization, selection, None))
    }

    /// The first examples of the training set as they are, in batches of training's size and in
    /// their order: what the sharpness is that of.
    pub fn measured<F: Real>(&self, examples: Examples) -> WeightedBatches<nn::Batch<F>> {
        let data = match examples {
            Examples::All => self.train.clone(),
            Examples::First(count) => Arc::new(subset((*self.train).clone(), None, Some(count))),
        };
        let size = self.selection.size.min(data.len());
        let selection = Selection { size, order: Order::AsStored, keep_last: true };
        let mut batches = Batches::new(data, &self.normalization, selection, None);
        WeightedBatches::first_epoch(&mut batches)
    }

    /// The network on a GPU, with room for the batches of training.
    pub fn on_device<F: Stored>(&self, how: MathMode) -> Result<CudaModel<F>, Error> {
        let examples = self.selection.size.min(self.train.len());
        Ok(CudaModel::new(&self.network, self.loss, how, examples)?)
    }

    /// Parameters and buffers before the first step.
    pub fn initial<F: Real>(&self, seed: u64) -> (Vec<F>, Vec<F>) {
        if let Some(start) = &self.start {
            return start.rounded();
        }
        let init = self.found.settings.network.init;
        (self.network.initial(init, seed), self.network.initial_buffers())
    }

    /// Whether targets are classes.
    pub fn has_classes(&self) -> bool {
        matches!(self.train.targets, Targets::Classes { .. })
    }
}

fn check_sharpness(found: &ConfigFile, train: &Dataset, network: &Network) -> Result<(), Error> {
    let Some(sharpness) = &found.settings.sharpness else { return Ok(()) };
    if sharpness.top > network.len() {
        let expected = format!("at most {}, the parameters of the network", network.len());
        return Err(found.refuse("sharpness.top", sharpness.top, expected));
    }
    match sharpness.examples {
        Examples::First(count) if count > train.len() => {
            let expected = format!("at most {}, the examples of the training set", train.len());
            Err(found.refuse("sharpness.examples", count, expected))
        }
        _ => Ok(()),
    }
}

fn check_attribution(found: &ConfigFile, variants: &Variants, steps: usize) -> Result<(), Error> {
    let Some(settings) = &found.settings.attribution else { return Ok(()) };
    if attribution::pairs(variants).is_empty() {
        let expected =
            "a replica that differs from the first in rounding alone, such as replicas.k = [1, 3]";
        return Err(found.refuse("attribution", "no two replicas to compare", expected));
    }
    match settings.steps.iter().flatten().find(|step| **step > steps) {
        Some(step) => {
            let expected = format!("at most {steps}, the steps of the run");
            Err(found.refuse("attribution.steps", step, expected))
        }
        None => Ok(()),
    }
}

/// A path in a file is meant from where the file lies.
fn beside(config: &Path, path: &Path) -> PathBuf {
    config.parent().unwrap_or(Path::new("")).join(path)
}

fn chosen(found: &ConfigFile, split: Split) -> Result<(Dataset, Dataset), Error> {
    let settings = &found.settings.data;
    let classes = settings.classes.as_deref();
    if let (Some(chosen), Targets::Classes { count, .. }) = (classes, &split.train.targets)
        && let Some(class) = chosen.iter().find(|class| **class as usize >= *count)
    {
        let expected = format!("classes below {count}, which is how many {} has", settings.name);
        return Err(found.refuse("data.classes", class, expected));
    }
    if let (Some(_), Targets::Reals { .. }) = (classes, &split.train.targets) {
        let expected = format!("no such key: the targets of {} are numbers", settings.name);
        return Err(found.refuse("data.classes", "a list", expected));
    }
    if let ([1, 1, _], 1..) = (split.train.shape, settings.border) {
        let expected = format!("no such key: the inputs of {} are no images", settings.name);
        return Err(found.refuse("data.border", settings.border, expected));
    }
    let mut parts = Vec::new();
    for (key, whole, limit) in [
        ("data.limit", split.train, settings.limit),
        ("data.test-limit", split.test, settings.test_limit),
    ] {
        let part = subset(whole, classes, limit);
        if let Some(limit) = limit.filter(|limit| *limit > part.len()) {
            let expected = format!("at most {}, which is how many there are", part.len());
            return Err(found.refuse(key, limit, expected));
        }
        parts.push(with_border(part, settings.border));
    }
    let test = parts.pop().expect("two parts");
    let train = parts.pop().expect("two parts");
    if train.is_empty() {
        return Err(found.refuse("data.name", "a training set without examples", "at least one"));
    }
    Ok((train, test))
}

/// Outputs of the network: what the loss needs for these targets.
fn outputs(found: &ConfigFile, train: &Dataset) -> Result<usize, Error> {
    let name = found.settings.loss.name;
    match (&train.targets, name) {
        (Targets::Classes { count, .. }, nn::Loss::CrossEntropy) => Ok(*count),
        (Targets::Classes { count: 2, .. }, _) => Ok(1),
        (Targets::Reals { width, values }, nn::Loss::BinaryCrossEntropy) => {
            match values.iter().find(|value| !(0.0..=1.0).contains(*value)) {
                None => Ok(*width),
                Some(value) => {
                    let shown = format!("the target {value}");
                    let expected = "targets from 0 to 1, or \"half-mse\"";
                    Err(found.refuse("loss.name = \"binary-cross-entropy\"", shown, expected))
                }
            }
        }
        (Targets::Reals { width, .. }, nn::Loss::HalfMse) => Ok(*width),
        (Targets::Reals { .. }, nn::Loss::CrossEntropy) => {
            let shown = "\"cross-entropy\" for targets that are numbers";
            Err(found.refuse("loss.name", shown, "\"half-mse\" or \"binary-cross-entropy\""))
        }
        (Targets::Classes { count, .. }, _) => {
            let shown = format!("a loss of one output for {count} classes");
            let expected = "\"cross-entropy\", or two classes with data.classes";
            Err(found.refuse("loss.name", shown, expected))
        }
    }
}

fn normalization(found: &ConfigFile, train: &Dataset) -> Result<Normalization, Error> {
    Ok(match &found.settings.data.normalization {
        settings::Normalization::None => Normalization::none(),
        settings::Normalization::Channel => Normalization::per_channel(train),
        settings::Normalization::Pixel => Normalization::per_pixel(train),
        settings::Normalization::Given { mean, std } => {
            let channels = train.shape[2];
            if mean.len() != channels && mean.len() != 1 {
                let shown = format!("{} means", mean.len());
                let expected = format!("{channels}, one for each channel");
                return Err(found.refuse("data.normalization.mean", shown, expected));
            }
            Normalization::given(mean.clone(), std.clone())
        }
    })
}

fn selection(found: &ConfigFile, train: &Dataset) -> Result<Selection, Error> {
    let training = &found.settings.training;
    match training.batch {
        Batch::Full => Ok(Selection::full(train)),
        Batch::Size(size) if size <= train.len() => Ok(Selection {
            size,
            // The seed is that of each source.
            order: if training.shuffle { Order::Shuffled { seed: 0 } } else { Order::AsStored },
            keep_last: training.keep_last,
        }),
        Batch::Size(size) => {
            let expected = format!("at most {}, the examples of the training set", train.len());
            Err(found.refuse("training.batch", size, expected))
        }
    }
}

/// The optimizer and its schedule.
fn plan(settings: &settings::Optimizer) -> Plan {
    let clock = |epochs: bool| if epochs { Clock::Epochs } else { Clock::Steps };
    let schedule = match &settings.schedule {
        settings::Schedule::Constant => Schedule::Constant,
        settings::Schedule::Every { gamma, epochs, steps } => Schedule::Every {
            gamma: *gamma,
            every: epochs.or(*steps).unwrap_or(1),
            clock: clock(epochs.is_some()),
        },
        settings::Schedule::Milestones { gamma, epochs, steps } => Schedule::Milestones {
            gamma: *gamma,
            at: epochs.clone().or(steps.clone()).unwrap_or_default(),
            clock: clock(epochs.is_some()),
        },
        settings::Schedule::Cosine { floor, epochs, steps } => Schedule::Cosine {
            floor: *floor,
            over: epochs.or(*steps).unwrap_or(1),
            clock: clock(epochs.is_some()),
        },
    };
    let optimizer = Optimizer { method: settings.method(), alpha: settings.alpha };
    Plan { optimizer, dt: settings.dt, schedule }
}
