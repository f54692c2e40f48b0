//! The loop: step, measure, write down, save.

use std::fs;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use lastbit::training::Replica;

use super::attribution::Attributor;
use super::backend::TrainingBackend;
use super::board::Board;
use super::checkpoint::{self, Checkpoint, Origin, ReplicaState, State};
use super::file_list::{FILES, FileList};
use super::measure::ANSWERS;
use super::metrics::{ATTRIBUTION, Columns, Metrics, read_attribution};
use super::prefix_hash::{PrefixHash, PrefixHashes};
use super::prepare::Prepared;
use super::resume::Resumed;
use super::settings::ConfigFile;
use super::sharpness::{Sharpness, density_files};
use super::summary::{History, RunSummary, SUMMARY};
use super::tensors_of::{Stored, state_dict};
use super::timing::{self, Timing};
use super::variants::{self, Named};
use super::weights::BATCHES_TRACKED;
use super::{Begin, Ending};
use crate::error::Error;
use crate::files::{create_folder, remove, remove_unfinished, write_atomically};
use crate::lock::Lock;
use crate::origin::COMMIT;
use crate::progress::{Monitor, Progress, TrainingStatus};
use crate::relative_path::RelativePath;
use crate::sealed::FileHash;
use crate::tensors::{self, Tensor, TensorFile, Values};

/// The settings of a run, in its folder; a run begins when this file is there.
pub const CONFIG: &str = "config.toml";
const FOLDERS: [&str; 3] = ["", "checkpoints", "final"];

/// A run in progress.
pub(super) struct Run<'a, F: Stored> {
    pub(super) prepared: &'a Prepared,
    pub(super) folder: &'a Path,
    /// Checked before every write: two processes at one run would mix their rows.
    pub(super) lock: &'a Lock,
    pub(super) trainer: TrainingBackend<F>,
    pub(super) metrics: Metrics,
    /// What the rows of each replica said so far.
    pub(super) histories: Vec<History>,
    /// What is measured of the Hessian, with what the next measurement starts from.
    pub(super) sharpness: Option<Sharpness<F>>,
    attribution: Option<Attributor>,
    pub(super) board: Option<Board>,
    forked_from: Option<Origin>,
    /// Commit of the program that made the last step.
    commit: String,
}

/// Trains to the end, which are so many units of work, or to a checkpoint where the monitor asks to stop.
pub fn run<F: Stored>(
    prepared: &Prepared,
    lock: &Lock,
    begin: Begin,
    progress: &Progress,
    units: u64,
) -> Result<Ending, Error> {
    let folder = lock.folder();
    let started = (SystemTime::now(), Instant::now());
    TrainingBackend::<F>::require_device(&prepared.found)?;
    for part in FOLDERS {
        let path = folder.join(part);
        create_folder(&path)?;
        remove_unfinished(&path);
    }
    let mut run = Run::<F>::begin(prepared, lock, begin, progress.monitor())?;
    if !run.has_ended() {
        // Of a run that had ended and lost its end.
        remove(&folder.join(FILES))?;
    }
    let first = run.trainer.step();
    let done = |step: usize| (u128::from(units) * step as u128 / prepared.steps as u128) as u64;
    progress.skip(done(first));
    let mut stopped = None;
    while stopped.is_none() && !run.has_ended() {
        let status = run.advance()?;
        let step = run.trainer.step();
        if let Some(status) = status {
            progress.monitor().training(status);
        }
        progress.advance(done(step) - done(step - 1));
        // After a step, not before: the shortest limit still comes to an end in the end.
        stopped = progress.stop_requested();
    }
    let steps = run.trainer.step() - first;
    let device = run.trainer.machine()?;
    let ending = match stopped.filter(|_| !run.has_ended()) {
        None => Ending::Finished(Box::new(run.finish()?)),
        Some(reason) => {
            run.save()?;
            Ending::Stopped { reason, step: run.trainer.step() }
        }
    };
    let checkpoints = checkpoint::steps_in(folder)?;
    let is_timed = Timing::read(folder).is_some_and(|timing| timing.checkpoints == checkpoints);
    // A run that had nothing left to do keeps the time it took.
    if steps > 0 || !is_timed {
        let since_epoch = started.0.duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
        let timing = Timing {
            format: timing::FORMAT,
            settings: FileHash::of(prepared.found.to_toml().as_bytes()),
            started_unix_seconds: since_epoch,
            seconds: started.1.elapsed().as_secs_f64(),
            steps,
            threads: rayon::current_num_threads(),
            checkpoints,
            device,
        };
        lock.check()?;
        timing.write(folder)?;
    }
    Ok(ending)
}

impl<'a, F: Stored> Run<'a, F> {
    fn begin(
        prepared: &'a Prepared,
        lock: &'a Lock,
        begin: Begin,
        monitor: &dyn Monitor,
    ) -> Result<Self, Error> {
        match begin {
            Begin::New => {
                let start = |init: u64| {
                    let (theta, buffers) = prepared.initial(init);
                    Replica::start(theta, buffers, &prepared.plan.optimizer)
                };
                let replicas = prepared.variants.named.iter().map(|named| start(named.init));
                Self::begin_at(prepared, lock, 0, replicas.collect(), None)
            }
            Begin::Fork(opened) => {
                let origin = Origin { step: opened.state.step, hash: opened.hash.clone() };
                let before = ConfigFile::parse(&opened.state.settings, &prepared.found.path, &[])?;
                let keep_memory = before.settings.optimizer.method().memory()
                    == prepared.plan.optimizer.method.memory();
                let known =
                    opened.unpack(&prepared.network, &prepared.plan.optimizer, keep_memory)?;
                let then = variants::of(&before, &prepared.network, usize::MAX)?;
                let mut replicas = Vec::new();
                for (i, named) in prepared.variants.named.iter().enumerate() {
                    // Names hold what varies: a longer list of seeds gives a replica another name.
                    let by_name = known.iter().position(|(name, _)| *name == named.name);
                    let same = |j: &usize| then.traits(*j) == prepared.variants.traits(i);
                    let parent = by_name.or_else(|| (0..known.len()).find(same));
                    if parent.is_none() {
                        check_can_begin(prepared, named, then.named[0].init, origin.step)?;
                    }
                    // A new one starts as a copy of the first.
                    replicas.push(known[parent.unwrap_or(0)].1.clone());
                }
                Self::begin_at(prepared, lock, origin.step, replicas, Some(origin))
            }
            Begin::Resume => Self::resume(prepared, lock, monitor),
        }
    }

    /// Begins a run of its own, with a first row and a first checkpoint.
    fn begin_at(
        prepared: &'a Prepared,
        lock: &'a Lock,
        step: usize,
        replicas: Vec<Replica<F>>,
        forked_from: Option<Origin>,
    ) -> Result<Self, Error> {
        let folder = lock.folder();
        if !checkpoint::steps_in(folder)?.is_empty() {
            return Err(Error::Input {
                path: folder.join("checkpoints"),
                found: "checkpoints of a run".to_owned(),
                expected: "none; --resume continues that run, --out DIR starts another".to_owned(),
            });
        }
        let metrics = Metrics::create(folder, Columns::of(&prepared.found.settings))?;
        let histories = vec![History::default(); replicas.len()];
        let trainer = TrainingBackend::new(prepared, step, replicas)?;
        let mut run = Self {
            prepared,
            folder,
            lock,
            trainer,
            metrics,
            histories,
            sharpness: Sharpness::new(prepared)?,
            attribution: Attributor::new(prepared, folder, None)?,
            board: Board::begin(prepared, folder, None)?,
            forked_from,
            commit: COMMIT.to_owned(),
        };
        run.record(None)?;
        run.save()?;
        write_atomically(&folder.join(CONFIG), prepared.found.to_toml().as_bytes())?;
        Ok(run)
    }

    fn resume(
        prepared: &'a Prepared,
        lock: &'a Lock,
        monitor: &dyn Monitor,
    ) -> Result<Self, Error> {
        let folder = lock.folder();
        let Resumed { opened, metrics, histories, attribution } =
            Resumed::last(prepared, folder, monitor)?;
        let settings = prepared.found.to_toml();
        let path = folder.join(CONFIG);
        if fs::read(&path).ok().as_deref() != Some(settings.as_bytes()) {
            write_atomically(&path, settings.as_bytes())?;
        }
        let mut sharpness = Sharpness::new(prepared)?;
        if let Some(sharpness) = &mut sharpness {
            sharpness.load(prepared, opened.eigenvectors());
        }
        let (step, forked_from) = (opened.state.step, opened.state.forked_from.clone());
        let attribution = Attributor::new(prepared, folder, attribution)?;
        let commit = opened.state.commit.clone();
        let replicas = opened.unpack(&prepared.network, &prepared.plan.optimizer, true)?;
        let replicas = replicas.into_iter().map(|(_, replica)| replica).collect();
        let trainer = TrainingBackend::new(prepared, step, replicas)?;
        Ok(Self {
            prepared,
            folder,
            lock,
            trainer,
            metrics,
            histories,
            sharpness,
            attribution,
            board: Board::begin(prepared, folder, Some(step))?,
            forked_from,
            commit,
        })
    }

    pub(super) fn has_ended(&self) -> bool {
        let all_ended = self.trainer.replicas().iter().all(|replica| replica.ended.is_some());
        self.trainer.step() >= self.prepared.steps || all_ended
    }

    /// One step; how the training is doing where a row was recorded.
    fn advance(&mut self) -> Result<Option<TrainingStatus>, Error> {
        if let Some(attribution) = &mut self.attribution {
            self.lock.check()?;
            attribution.before_step(self.prepared, &mut self.trainer)?;
        }
        let rate = self.trainer.rate();
        self.trainer.advance()?;
        COMMIT.clone_into(&mut self.commit);
        let status = self.record(Some(rate))?;
        if self.is_regular(self.trainer.step()) {
            self.save()?;
        }
        Ok(status)
    }

    /// Whether a step has a checkpoint without a stop, too: the first, the last, and those that the settings name.
    fn is_regular(&self, step: usize) -> bool {
        let first = self.forked_from.as_ref().map_or(0, |origin| origin.step);
        let is_last = step == self.trainer.step() && self.has_ended();
        let every = self.prepared.found.settings.training.checkpoint_every;
        let is_due = every.is_due(step, self.prepared.steps_per_epoch());
        step == first || is_last || is_due || self.is_kept(step)
    }

    /// Whether the checkpoint of a step stays.
    fn is_kept(&self, step: usize) -> bool {
        let every = self.prepared.found.settings.training.keep_every;
        every > 0 && step > 0 && step.is_multiple_of(every * self.prepared.steps_per_epoch())
    }

    fn save(&mut self) -> Result<(), Error> {
        self.trainer.read_back()?;
        self.lock.check()?;
        let files = self.files()?;
        let (step, replicas) = (self.trainer.step(), self.trainer.replicas());
        let named = self.prepared.variants.named.iter().zip(replicas);
        let state = State {
            format: checkpoint::FORMAT,
            step,
            commit: self.commit.clone(),
            forked_from: self.forked_from.clone(),
            settings: self.prepared.found.to_toml(),
            data: self.prepared.data_hash.clone(),
            files,
            replicas: named
                .map(|(named, replica)| ReplicaState::of(&named.name, replica))
                .collect(),
        };
        let path = checkpoint::path_of(self.folder, step);
        let sharpness = self.sharpness.as_ref();
        let eigenvectors = sharpness.map(|s| s.tensors(self.prepared)).unwrap_or_default();
        Checkpoint { state, replicas, eigenvectors }.write(&path, &self.prepared.network)?;
        self.remove_old_checkpoints()
    }

    fn remove_old_checkpoints(&self) -> Result<(), Error> {
        let (is_regular, is_kept) = (|step| self.is_regular(step), |step| self.is_kept(step));
        checkpoint::remove_old(self.folder, is_regular, is_kept)
    }

    /// What the run has written so far and nothing will write again from this step on.
    fn files(&mut self) -> Result<PrefixHashes, Error> {
        let mut files = self.metrics.settle()?;
        if let Some(attribution) = &mut self.attribution {
            files.insert(RelativePath::new(ATTRIBUTION), attribution.settle()?);
        }
        if self.has_ended() {
            for name in last_files(self.prepared) {
                let path = self.folder.join(&name);
                if path.exists() {
                    files.insert(RelativePath::new(name), PrefixHash::of(&path)?);
                }
            }
        }
        Ok(files)
    }

    fn finish(mut self) -> Result<RunSummary, Error> {
        self.trainer.read_back()?;
        self.lock.check()?;
        self.remove_old_checkpoints()?;
        let step = self.trainer.step();
        self.board.as_mut().map_or(Ok(()), |board| board.end(self.folder, step))?;
        let named = &self.prepared.variants.named;
        let mut ending = vec![CONFIG.to_owned(), SUMMARY.to_owned()];
        for (named, replica) in named.iter().zip(self.trainer.replicas()) {
            let name = format!("final/{}.safetensors", named.name);
            tensors::write(&self.folder.join(&name), &self.trained(replica))?;
            ending.push(name);
        }
        let mut files = self.files()?;
        let (steps, histories) = (self.trainer.step(), &self.histories);
        let is_listed = |step: &usize| *step == steps || self.is_kept(*step);
        let listed: Vec<usize> =
            checkpoint::steps_in(self.folder)?.into_iter().filter(is_listed).collect();
        let attributed = match files.get(ATTRIBUTION) {
            Some(noted) => read_attribution(self.folder, noted)?,
            None => Vec::new(),
        };
        let summary = RunSummary {
            attribution: attributed.into_iter().map(|found| found.summary).collect(),
            ..RunSummary::new(self.prepared, steps, histories, self.forked_from, self.commit)
        };
        summary.write(self.folder)?;
        for name in ending {
            let hash = PrefixHash::of(&self.folder.join(&name))?;
            files.insert(RelativePath::new(name), hash);
        }
        FileList::write(self.folder, files, &listed)?;
        Ok(summary)
    }

    /// A trained network as PyTorch's `load_state_dict` takes it.
    fn trained(&self, replica: &Replica<F>) -> TensorFile {
        let network = &self.prepared.network;
        let mut tensors = state_dict(network, &replica.theta, &replica.buffers);
        let steps = replica.ended.unwrap_or(self.trainer.step());
        let norms = network.buffers().iter().filter_map(|b| b.name.strip_suffix("running_mean"));
        tensors.extend(norms.map(|norm| Tensor {
            name: format!("{norm}{BATCHES_TRACKED}"),
            shape: vec![],
            values: Values::I64(vec![steps as i64]),
        }));
        TensorFile { metadata: [("format".to_owned(), "pt".to_owned())].into(), tensors }
    }
}

/// Files that the last step writes as a whole, if it does.
pub(super) fn last_files(prepared: &Prepared) -> Vec<String> {
    let named = prepared.variants.named.iter();
    named.flat_map(|named| density_files(&named.name)).chain([ANSWERS.to_owned()]).collect()
}

/// What makes a replica differ must still be to come where it begins as a copy at `step`.
fn check_can_begin(
    prepared: &Prepared,
    named: &Named,
    init: u64,
    step: usize,
) -> Result<(), Error> {
    let found = &prepared.found;
    if named.init != init {
        let expected = format!("{init}: the first weights are those of the checkpoint");
        return Err(found.refuse("replicas.seeds.init", named.init, expected));
    }
    match named.variant.flip.filter(|flip| flip.step < step) {
        Some(flip) => {
            let expected = format!("at least {step}, the step of the checkpoint");
            Err(found.refuse("replicas.flip-bit.step", flip.step, expected))
        }
        None => Ok(()),
    }
}
