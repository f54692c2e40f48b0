//! The record: all that a run leaves behind, and all that the report reads.
//!
//! ```text
//! OUT/ID/FOLDER/record.json       settings, cells with verdicts, numbers and hashes, checks, figures
//!               /cells/*.json     finished cells, of which record.json is put together
//!               /settings.toml    the resolved settings alone
//!               /series/*.csv     curves
//!               /fields/*.npy     images
//!               /figures/*.svg, *.png
//!               /timing.json      when, how long, on how many threads
//!               /lock             the process that writes here, while it does ([`crate::lock`])
//! OUT/runs/HASH/                  a training run as `lastbit train` leaves it, by its settings' hash
//! ```
//!
//! **Hashes.** `record.json`, `cells/*.json` and `timing.json` are [sealed](crate::sealed): each ends with a hash of its
//! own bytes. A cell has the key `files`: the BLAKE3 hash of each of its series and fields. A record has the key
//! `files`, too: the hashes of `settings.toml`, `cells/*.json` and `figures/*`; and it holds a copy of each cell. So every
//! file but the locks is under a hash, and `b3sum` finds the same:
//!
//! ```text
//! record.json -> settings.toml, figures, cells -> series, fields
//! ```
//!
//! A file is checked whenever it is read. `lastbit run` computes a damaged cell again, `lastbit report` shows a damaged
//! record as damaged, `lastbit verify` lists every damaged file. Names in a record are
//! [paths below its folder](crate::relative_path); a link that leads out of the folder is not followed.
//!
//! A run belongs to all cells with its settings, whichever record they are in; it is trained once.
//! `FOLDER` is the scale of an exhibit, with the device where that is not the CPU, or the hash of the settings of a
//! run of one's own.
//! Everything but `timing.json` depends on the settings and the program alone, bit for bit.

mod cells;
mod check;
mod list;
mod scale;
mod status;
mod store;
mod timing;
mod verify;

pub use check::{Band, CONFIDENCE, Check, CheckOutcome, Origin};
pub use list::Cells;
pub use scale::Scale;
pub use status::Status;
pub use store::{FoundRecords, PARTS, RECORD, SETTINGS, Store, all_records, to_csv};
pub use timing::Timing;
pub use verify::{check_all, is_record, verify};

use std::collections::BTreeMap;

use lastbit::verdict::{Doubt, Judgement, Verdict, VerdictKind};
use serde::{Deserialize, Serialize};

use crate::figure::Figure;
use crate::number::Number;
use crate::relative_path::RelativePath;
use crate::sealed::FileHash;
use crate::series::{Field, Series};

/// Version of the layout of `record.json`; a reader refuses others.
pub const FORMAT: u32 = 3;

/// Twelve digits of the hash of the settings of a run of one's own.
fn settings_hash(settings: &serde_json::Value) -> String {
    blake3::hash(settings.to_string().as_bytes()).to_hex()[..12].to_owned()
}

fn folder_name(scale: Option<Scale>, device: Option<&str>, hash: Option<&str>) -> String {
    match (scale, device) {
        (Some(scale), Some(device)) => format!("{scale}-{device}"),
        (Some(scale), None) => scale.name().to_owned(),
        (None, _) => hash.unwrap_or_default().to_owned(),
    }
}

/// Text for the reader of an exhibit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page {
    /// One line.
    pub title: String,
    /// What is claimed.
    pub claim: String,
    /// How it is shown.
    pub method: String,
    /// Where the paper (or a book) says it.
    pub reference: String,
    /// Where the settings depart from the paper's, and why.
    pub differences: Vec<String>,
}

/// A record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`FORMAT`].
    pub format: u32,
    /// Name in the catalogue, or of the command that made it.
    pub id: RelativePath,
    /// The scale of an exhibit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
    /// The device of an exhibit's trainings by its name, where that is not the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Hash of the settings of a run of one's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings_hash: Option<String>,
    /// Text.
    pub page: Page,
    /// The resolved settings.
    pub settings: serde_json::Value,
    /// Cells the record will have when it is complete.
    pub planned: usize,
    /// Finished cells, in the order of the plan.
    pub cells: Cells,
    /// Why the claim of an exhibit cannot be tested at this scale, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_tested: Option<String>,
    /// Comparisons with the paper or a closed form; made when all cells are finished.
    pub checks: Vec<Check>,
    /// Charts and pictures of the finished cells.
    pub figures: Vec<Figure>,
    /// Hashes of `settings.toml`, of the files of the cells and of the figures.
    pub files: BTreeMap<RelativePath, FileHash>,
}

impl Record {
    /// A record without cells: of an exhibit at its scale, else of a run of one's own.
    pub fn new(
        id: &str,
        scale: Option<Scale>,
        device: Option<&str>,
        page: Page,
        settings: serde_json::Value,
        planned: usize,
    ) -> Self {
        Self {
            format: FORMAT,
            id: RelativePath::new(id),
            scale,
            device: device.map(str::to_owned),
            settings_hash: scale.is_none().then(|| settings_hash(&settings)),
            page,
            settings,
            planned,
            cells: Cells::default(),
            not_tested: None,
            checks: Vec::new(),
            figures: Vec::new(),
            files: BTreeMap::new(),
        }
    }

    /// Its folder among those of its id: scale and device of an exhibit, else the hash of the settings.
    pub fn folder_name(&self) -> String {
        folder_name(self.scale, self.device.as_deref(), self.settings_hash.as_deref())
    }

    /// The scale of an exhibit.
    ///
    /// # Panics
    ///
    /// If it is the record of something else.
    pub fn exhibit_scale(&self) -> Scale {
        self.scale.unwrap_or_else(|| panic!("{} is no exhibit", self.id))
    }

    /// Whether every planned cell is finished.
    pub fn is_complete(&self) -> bool {
        self.cells.len() == self.planned
    }

    /// The finished cell of this key.
    pub fn cell(&self, key: &str) -> Option<&Cell> {
        self.cells.get(key)
    }

    /// The verdict on a cell, with its evidence.
    pub fn judged(&self, key: &str) -> Option<&VerdictRecord> {
        self.cell(key)?.verdict.as_ref()
    }

    /// The verdict on a cell.
    pub fn verdict(&self, key: &str) -> Option<VerdictKind> {
        Some(self.judged(key)?.kind)
    }

    /// Growth of a twin per step in a cell, or NaN.
    pub fn growth(&self, key: &str) -> f64 {
        self.judged(key).map_or(f64::NAN, |verdict| verdict.growth_per_step.0)
    }

    /// A number of a cell, or NaN.
    pub fn number(&self, key: &str, name: &str) -> f64 {
        self.cell(key).and_then(|cell| cell.numbers.get(name)).map_or(f64::NAN, |number| number.0)
    }
}

/// One independent computation of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Name within the record, also in the names of its files.
    pub key: RelativePath,
    /// Settings of this cell.
    pub settings: serde_json::Value,
    /// Version of the program that computed it.
    pub version: String,
    /// Commit of the program that computed it.
    pub commit: String,
    /// Verdict on the run, where the cell is a run.
    pub verdict: Option<VerdictRecord>,
    /// Hash of the bits of the final state.
    pub hash: Option<String>,
    /// The training run behind it, from the folder of all records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RelativePath>,
    /// The device that computed it and its driver, where that was not the CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Hashes of the final states of its replicas, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hashes: BTreeMap<String, String>,
    /// What was measured.
    pub numbers: BTreeMap<String, Number>,
    /// Curves: name to file.
    pub series: BTreeMap<String, RelativePath>,
    /// Images: name to file.
    pub fields: BTreeMap<String, RelativePath>,
    /// Hashes of the files of its curves and images.
    pub files: BTreeMap<RelativePath, FileHash>,
}

/// A judgement as it stands in records and in `--json` output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerdictRecord {
    /// Stable, restrained, diverged or undecided.
    pub kind: VerdictKind,
    /// Why it is undecided, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
    /// Step from which the state is unbounded, if it is.
    pub diverged_at: Option<usize>,
    /// Growth of a twin per step, over the second half of the run.
    pub growth_per_step: Number,
    /// Its standard error.
    pub growth_standard_error: Number,
    /// Growth per step that cannot be told from a transient.
    pub resolution: Number,
    /// Share of the steps in the second half that did not lower the energy.
    pub unstable_share: Number,
    /// Steps run.
    pub steps: usize,
}

impl VerdictRecord {
    /// Whether the run is stable; none where that is open.
    pub fn is_stable(&self) -> Option<bool> {
        match (self.kind, self.doubt) {
            (VerdictKind::Stable, _) => Some(true),
            (VerdictKind::Restrained | VerdictKind::Diverged, _) => Some(false),
            (VerdictKind::Undecided, doubt) => doubt?.is_unstable().then_some(false),
        }
    }

    /// The verdict in a word or two; of one that leaves only restrained or diverging open, what is known.
    pub fn in_short(&self) -> String {
        match self.doubt {
            Some(doubt) if doubt.is_unstable() => "not stable, bounded so far".to_owned(),
            Some(doubt) => format!("undecided: {doubt}"),
            None => self.kind.to_string(),
        }
    }

    /// Whether the run is bounded; none where that is open.
    pub fn is_bounded(&self) -> Option<bool> {
        match self.kind {
            VerdictKind::Stable | VerdictKind::Restrained => Some(true),
            VerdictKind::Diverged => Some(false),
            VerdictKind::Undecided => None,
        }
    }
}

impl From<&Judgement> for VerdictRecord {
    fn from(judged: &Judgement) -> Self {
        Self {
            kind: judged.verdict.kind(),
            doubt: match judged.verdict {
                Verdict::Undecided(doubt) => Some(doubt),
                Verdict::Stable | Verdict::Restrained | Verdict::Diverged { .. } => None,
            },
            diverged_at: match judged.verdict {
                Verdict::Diverged { step } => Some(step),
                Verdict::Stable | Verdict::Restrained | Verdict::Undecided(_) => None,
            },
            growth_per_step: Number(judged.growth.per_step),
            growth_standard_error: Number(judged.growth.standard_error),
            resolution: Number(judged.resolution),
            unstable_share: Number(judged.unstable_share),
            steps: judged.steps,
        }
    }
}

/// What a cell hands back, before its curves and images are files.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Verdict on the run.
    pub verdict: Option<VerdictRecord>,
    /// Hash of the bits of the final state.
    pub hash: Option<String>,
    /// The training run behind it, from the folder of all records.
    pub run: Option<RelativePath>,
    /// Commit of the program that made that run, which may be an earlier one.
    pub commit: Option<String>,
    /// The device that made it, where that was not the CPU.
    pub device: Option<String>,
    /// Hashes of the final states of its replicas, by name.
    pub hashes: BTreeMap<String, String>,
    /// What was measured.
    pub numbers: BTreeMap<String, Number>,
    /// Curves by name.
    pub series: BTreeMap<String, Series>,
    /// Images by name.
    pub fields: BTreeMap<String, Field>,
}

impl Outcome {
    /// Smallest finite value of its first image: a number.
    pub const FIELD_LOW: &'static str = "field_low";

    /// Largest finite value of its first image: a number.
    pub const FIELD_HIGH: &'static str = "field_high";

    /// Adds an image; the range of the first is noted, for pictures of them all.
    pub fn field(&mut self, name: String, field: Field) {
        if self.fields.is_empty() {
            let finite = || field.values.iter().copied().filter(|value| value.is_finite());
            self.number(Self::FIELD_LOW, finite().fold(f64::INFINITY, f64::min));
            self.number(Self::FIELD_HIGH, finite().fold(f64::NEG_INFINITY, f64::max));
        }
        self.fields.insert(name, field);
    }

    /// Notes a number.
    pub fn number(&mut self, name: &str, value: f64) {
        self.numbers.insert(name.to_owned(), Number(value));
    }
}
