//! One of the two runs: what it has at which step, whatever wrote it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use super::flat::Settings;
use super::own;
use super::saved::{self, Checkpoints, Unit, is_checkpoint};
use crate::error::Error;
use crate::input::refuse;
use crate::logged::{self, Choice, LoggedRun};
use crate::number::Number;
use crate::probe::is_left_of_probe;
use crate::tensors::TensorFile;
use crate::train::{Opened, has_metrics_of_run};

use serde::Serialize;

lastbit::named_enum! {
    /// What a run is.
    pub enum Kind {
        /// A run directory of `lastbit train`.
        Train = "train",
        /// A run directory of a probe.
        Probe = "probe",
        /// A folder of checkpoints.
        Checkpoints = "checkpoints",
    }
}

/// Sharpness over the stability limit of the optimizer, at a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct EdgeRatio {
    /// Where it was measured.
    pub step: u64,
    /// 1 at the edge of stability.
    pub edge_ratio: Number,
    /// The sharpness, if it was logged beside it.
    pub sharpness: Option<Number>,
}

/// Hashes of all tensors at each measured step, cut to 128 bits; names are those of the first step.
#[derive(Debug, Default)]
pub struct Fingerprints {
    /// In the order of the model.
    pub names: Vec<String>,
    /// A hash for each name.
    pub at: BTreeMap<u64, Vec<u128>>,
}

/// How far a replica is from the first one of its run, as its metrics say.
#[derive(Debug, Clone, PartialEq)]
pub struct FromFirst {
    /// RelL1.
    pub rel_l1: f64,
    /// Norm of the difference over the norm of the first.
    pub distance: f64,
    /// Largest distance in ulps.
    pub max_ulps: u64,
}

/// A run.
#[derive(Debug)]
pub struct Source {
    /// Its folder.
    pub folder: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// The replica that is compared, of a run that has replicas.
    pub replica: Option<String>,
    /// Whether that is the first, with which the others were compared when they were trained.
    pub is_first_replica: bool,
    /// What its steps are.
    pub unit: Unit,
    /// Hash of all parameters at a step, cut to 128 bits.
    pub hashes: BTreeMap<u64, u128>,
    /// Hashes of single tensors.
    pub fingerprints: Option<Fingerprints>,
    /// Distance to the first replica; empty for that itself.
    pub from_first: BTreeMap<u64, FromFirst>,
    /// Checkpoints: files or folders.
    pub saved: BTreeMap<u64, PathBuf>,
    /// What was logged.
    pub metrics: LoggedRun,
    /// What was measured of the edge of stability.
    pub edge: Vec<EdgeRatio>,
    /// All settings that are known.
    pub settings: Settings,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// Hashes are compared, never shown: 128 bits are enough.
pub fn short_hash(text: &str) -> u128 {
    let bytes = *blake3::hash(text.as_bytes()).as_bytes();
    u128::from_le_bytes(bytes[..16].try_into().expect("a hash has 32 bytes"))
}

/// Whether a path leads to a run: a folder that is no single checkpoint, or a replica in one. A trainer may leave its last
/// weights beside its checkpoints.
pub fn is_run(path: &Path) -> bool {
    let (folder, replica) = split(path);
    let has_steps =
        || Checkpoints::in_folder(&folder).map_or(true, |found| !found.places.is_empty());
    let is_own = || is_left_of_probe(&folder) || has_metrics_of_run(&folder);
    folder.is_dir() && (replica.is_some() || !is_checkpoint(&folder) || is_own() || has_steps())
}

/// A folder and the replica in it: `run:k3`.
fn split(path: &Path) -> (PathBuf, Option<String>) {
    let text = path.to_string_lossy();
    match text.rsplit_once(':') {
        Some((folder, replica)) if !path.exists() && Path::new(folder).is_dir() => {
            (folder.into(), Some(replica.to_owned()))
        }
        _ => (path.to_owned(), None),
    }
}

const EXPECTED: &str = "a run directory of `lastbit train` or of a probe, or a folder of checkpoints with their step \
                        in the name, such as step-100.safetensors or checkpoint-100/model.safetensors";

impl Source {
    /// Reads what there is, apart from the tensors of checkpoints.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let (folder, replica) = split(path);
        let kind = match () {
            () if is_left_of_probe(&folder) => Kind::Probe,
            () if has_metrics_of_run(&folder) => Kind::Train,
            () => Kind::Checkpoints,
        };
        let mut source = Self {
            folder,
            kind,
            replica: None,
            is_first_replica: false,
            unit: Unit::Step,
            hashes: BTreeMap::new(),
            fingerprints: None,
            from_first: BTreeMap::new(),
            saved: BTreeMap::new(),
            metrics: LoggedRun::default(),
            edge: Vec::new(),
            settings: Settings::default(),
            notes: Vec::new(),
        };
        source.notes.extend(source.settings.add_config(&source.folder));
        if let (Some(replica), false) = (&replica, kind == Kind::Train) {
            let expected = "the folder alone: only runs of `lastbit train` have replicas";
            return Err(refuse(path, format!("the replica {replica}"), expected));
        }
        match kind {
            Kind::Train => own::read_train(&mut source, replica.as_deref())?,
            Kind::Probe => {
                own::read_probe(&mut source)?;
                source.find_checkpoints()?;
            }
            Kind::Checkpoints => {
                source.find_checkpoints()?;
                if source.saved.is_empty() {
                    let left_out = source.notes.iter().map(|note| format!("; {note}"));
                    let found = format!("no checkpoint{}", left_out.collect::<String>());
                    return Err(refuse(path, found, EXPECTED));
                }
                source.read_log();
            }
        }
        Ok(source)
    }

    /// Those that another program wrote into the folder.
    fn find_checkpoints(&mut self) -> Result<(), Error> {
        let Checkpoints { places, are_epochs, left_out } = Checkpoints::in_folder(&self.folder)?;
        if !left_out.is_empty() {
            self.notes.push(format!("left out: {}", left_out.join(", ")));
        }
        // The steps of a probe are those of its optimizer.
        if are_epochs && self.kind == Kind::Probe {
            return Ok(());
        }
        self.unit = if are_epochs { Unit::Epoch } else { Unit::Step };
        let ends = places.first_key_value().into_iter().chain(places.last_key_value());
        let mut pickles: Vec<String> = Vec::new();
        self.notes.extend(self.settings.add_json(&self.folder));
        for (_, place) in ends.filter(|(_, place)| place.is_dir()) {
            self.notes.extend(self.settings.add_json(place));
            pickles.extend(saved::pickles(place));
        }
        pickles.sort();
        pickles.dedup();
        if !pickles.is_empty() {
            self.notes.push(format!(
                "not compared, because pickles are never read: {}",
                pickles.join(", ")
            ));
        }
        self.saved = places;
        Ok(())
    }

    /// What the program that wrote the checkpoints logged, if that is there and can be read.
    fn read_log(&mut self) {
        if self.unit == Unit::Epoch {
            let note = "logged metrics are not compared: the checkpoints are numbered by epochs";
            return self.notes.push(note.to_owned());
        }
        match logged::read(&self.folder, &Choice::default()) {
            Ok(mut log) => {
                self.notes.append(&mut log.notes);
                self.metrics = log;
            }
            Err(error) => self.notes.push(format!("no logged metrics are compared: {error}")),
        }
    }

    /// Files whose bytes stand for all that is saved at a step; none where they hold other replicas, too.
    pub fn files_at(&self, step: u64) -> Result<Option<Vec<PathBuf>>, Error> {
        match self.kind {
            Kind::Train => Ok(None),
            Kind::Probe | Kind::Checkpoints => saved::files_of(&self.saved[&step]).map(Some),
        }
    }

    /// All tensors at a step that was saved, in the order of the model where that is known.
    pub fn tensors_at(&self, step: u64) -> Result<TensorFile, Error> {
        let place = &self.saved[&step];
        if let Some(replica) = &self.replica {
            return Ok(Opened::read(place)?.tensors_of(replica));
        }
        let mut file = saved::load(place)?;
        // PyTorch's writer orders tensors by type and name.
        file.tensors.sort_by_cached_key(|tensor| saved::natural_order(&tensor.name));
        Ok(file)
    }

    /// Its name in sentences.
    pub fn name(&self) -> String {
        let folder = self.folder.display();
        match &self.replica {
            Some(replica) => format!("{folder}:{replica}"),
            None => folder.to_string(),
        }
    }

    /// All steps of which something can be compared.
    pub fn steps(&self) -> Vec<u64> {
        let mut steps: Vec<u64> = self.hashes.keys().chain(self.saved.keys()).copied().collect();
        steps.extend(self.fingerprints.iter().flat_map(|all| all.at.keys()));
        steps.sort_unstable();
        steps.dedup();
        steps
    }

    /// What was measured of the edge at a step or last before it; else first after it.
    pub fn edge_near(&self, step: u64) -> Option<EdgeRatio> {
        let before = self.edge.iter().take_while(|edge| edge.step <= step).last();
        before.or(self.edge.first()).copied()
    }
}

/// Goes on to the next line.
pub const NEXT: ControlFlow<()> = ControlFlow::Continue(());
