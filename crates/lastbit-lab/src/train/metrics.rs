//! What is written down along a run: one row per replica, appended to `metrics.jsonl` and
//! `metrics.csv` and readable while the run goes on.

mod attribution;
mod curvature;

pub use attribution::{ATTRIBUTION, AttributionRow, AttributionSummary, read_attribution};
pub use curvature::{Columns, Curvature};

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::prefix_hash::{PrefixHash, PrefixHashes, RunningHash};
use super::variants::Variants;
use crate::error::Error;
use crate::files::sync_folder;
use crate::number::Number;
use crate::relative_path::RelativePath;

/// One replica after one step. What is absent was not measured there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Steps done.
    pub step: usize,
    /// Epochs done, with a fraction.
    pub epoch: f64,
    /// Name of the replica.
    pub replica: String,
    /// Learning rate of the last step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dt: Option<Number>,
    /// Loss of its batch, before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<Number>,
    /// Mean loss of the batches of the epoch so far, each before its step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train_loss: Option<Number>,
    /// Share of their examples that were answered right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train_accuracy: Option<Number>,
    /// Mean loss on the test set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_loss: Option<Number>,
    /// Share of the test set that is answered right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_accuracy: Option<Number>,
    /// RelL1 to the first replica.
    pub rel_l1: Number,
    /// Largest distance to the first replica in ulps.
    pub max_ulps: u64,
    /// Significant bits on which it agrees with the first replica, mean over the parameters.
    pub agreeing_bits: Number,
    /// Distance to the first replica in the 2-norm, over the norm of that replica.
    pub distance: Number,
    /// Growth rate of that distance per step, while it was small.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth_per_step: Option<Number>,
    /// Standard error of that rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub growth_standard_error: Option<Number>,
    /// Relative gradient fluctuation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradient_fluctuation: Option<Number>,
    /// Sharpness and its companions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub curvature: Option<Curvature>,
    /// The step after which the replica had diverged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diverged: Option<usize>,
    /// Hash of the parameters' bits.
    pub hash: String,
    /// RelL1 to the first replica, tensor by tensor; a summary leaves it out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rel_l1_of: BTreeMap<String, Number>,
    /// Significant bits, tensor by tensor; a summary leaves it out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agreeing_bits_of: BTreeMap<String, Number>,
}

const COLUMNS: &str = "step,epoch,replica,dt,loss,train_loss,train_accuracy,test_loss,\
     test_accuracy,rel_l1,max_ulps,agreeing_bits,distance,growth_per_step,growth_standard_error,\
     gradient_fluctuation,diverged,hash";

impl Row {
    /// The largest eigenvalue of the Hessian, where it was measured.
    pub fn sharpness(&self) -> Option<Number> {
        self.curvature.as_ref()?.sharpness.first().copied()
    }

    /// The row without its tensors, in the order of [`COLUMNS`] and then of `columns`; shortest digits
    /// that read back to the same bits.
    fn to_csv(&self, columns: Columns) -> String {
        let number = |value: &Number| format!("{:?}", value.0);
        let maybe = |value: &Option<Number>| value.as_ref().map(number).unwrap_or_default();
        // Names are made of letters, digits, dots, dashes and underscores: no quotes needed.
        let mut fields = vec![
            self.step.to_string(),
            format!("{:?}", self.epoch),
            self.replica.clone(),
            maybe(&self.dt),
            maybe(&self.loss),
            maybe(&self.train_loss),
            maybe(&self.train_accuracy),
            maybe(&self.test_loss),
            maybe(&self.test_accuracy),
            number(&self.rel_l1),
            self.max_ulps.to_string(),
            number(&self.agreeing_bits),
            number(&self.distance),
            maybe(&self.growth_per_step),
            maybe(&self.growth_standard_error),
            maybe(&self.gradient_fluctuation),
            self.diverged.map(|step| step.to_string()).unwrap_or_default(),
            self.hash.clone(),
        ];
        let measured = columns.named(self.curvature.as_ref());
        fields.extend(measured.into_iter().map(|(_, value)| value.map(digits).unwrap_or_default()));
        fields.join(",")
    }
}

/// Shortest digits that read back; counts without a point.
fn digits(Number(value): Number) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value}")
    } else {
        format!("{value:?}")
    }
}

/// A metric that each row has.
pub const IN_EACH_ROW: &str = "rel_l1";

/// The two files.
pub const METRICS: &str = "metrics.jsonl";
pub const METRICS_CSV: &str = "metrics.csv";

/// The two files, open for appending.
#[derive(Debug)]
pub struct Metrics {
    jsonl: Appended,
    csv: Appended,
    columns: Columns,
}

impl Metrics {
    /// Empty files; `columns` come after those that every run has.
    pub fn create(folder: &Path, columns: Columns) -> Result<Self, Error> {
        let jsonl = Appended::open(folder.join(METRICS), RunningHash::default())?;
        let mut csv = Appended::open(folder.join(METRICS_CSV), RunningHash::default())?;
        let more: String = columns.named(None).iter().map(|(name, _)| format!(",{name}")).collect();
        csv.append(&format!("{COLUMNS}{more}\n"))?;
        Ok(Self { jsonl, csv, columns })
    }

    /// Appends rows; they can be read as soon as this returns.
    pub fn append(&mut self, rows: &[Row]) -> Result<(), Error> {
        let lines =
            |of: &dyn Fn(&Row) -> String| rows.iter().map(|row| of(row) + "\n").collect::<String>();
        let json = |row: &Row| serde_json::to_string(row).expect("a row is plain data");
        self.jsonl.append(&lines(&json))?;
        let columns = self.columns;
        self.csv.append(&lines(&|row| row.to_csv(columns)))
    }

    /// Sees to it that the rows are on the disk, and says what the files are.
    pub fn settle(&mut self) -> Result<PrefixHashes, Error> {
        let named = [(METRICS, &mut self.jsonl), (METRICS_CSV, &mut self.csv)];
        named
            .into_iter()
            .map(|(name, file)| Ok((RelativePath::new(name), file.settle()?)))
            .collect()
    }
}

/// The files as they were at a checkpoint, whole.
#[derive(Debug)]
pub struct WholeMetrics {
    jsonl: RunningHash,
    csv: RunningHash,
}

impl WholeMetrics {
    /// Checks the files against what a checkpoint notes of them, and hands on their rows one by one. Nothing is written.
    pub fn check(
        folder: &Path,
        noted: &PrefixHashes,
        each: impl FnMut(Row) -> Result<(), String>,
    ) -> Result<Self, Error> {
        let (jsonl, csv) = (hash_in(noted, folder, METRICS)?, hash_in(noted, folder, METRICS_CSV)?);
        let jsonl = read_rows(folder, jsonl, each)?;
        Ok(Self { jsonl, csv: csv.check_beginning(&folder.join(METRICS_CSV))? })
    }

    /// Opens them for appending; what is beyond the checkpoint is cut off.
    pub fn reopen(self, folder: &Path, columns: Columns) -> Result<Metrics, Error> {
        Ok(Metrics {
            jsonl: Appended::open(folder.join(METRICS), self.jsonl)?,
            csv: Appended::open(folder.join(METRICS_CSV), self.csv)?,
            columns,
        })
    }
}

/// What is noted of a file that every run has.
pub fn hash_in<'a>(
    noted: &'a PrefixHashes,
    folder: &Path,
    name: &str,
) -> Result<&'a PrefixHash, Error> {
    noted.get(name).ok_or_else(|| Error::Input {
        path: folder.join(name),
        found: "no hash of it in the checkpoint".to_owned(),
        expected: "one".to_owned(),
    })
}

/// Hands on rows one by one, and fails unless the file has this hash up to this length. `each` says what is wrong with a row.
pub fn read_rows(
    folder: &Path,
    noted: &PrefixHash,
    mut each: impl FnMut(Row) -> Result<(), String>,
) -> Result<RunningHash, Error> {
    noted.check_lines(&folder.join(METRICS), |_, line| {
        each(serde_json::from_str(line).map_err(|error| error.to_string())?)
    })
}

/// Whether the first line of a folder's metrics has the keys that all rows have. Other programs write a file of that name, too.
pub fn begins_with_row(folder: &Path) -> bool {
    const LONGEST: u64 = 1 << 26;
    let mut line = String::new();
    let read = File::open(folder.join(METRICS))
        .and_then(|file| BufReader::new(file).take(LONGEST).read_line(&mut line));
    let row = read.ok().and_then(|_| serde_json::from_str::<Map<String, Value>>(&line).ok());
    let has_keys = |row: Map<String, Value>| {
        ["step", "epoch", "replica", "rel_l1", "distance", "hash"]
            .iter()
            .all(|key| row.contains_key(*key))
    };
    row.is_some_and(has_keys)
}

/// Rows of each replica.
pub fn count_rows(
    folder: &Path,
    noted: &PrefixHash,
    variants: &Variants,
) -> Result<Vec<usize>, Error> {
    #[derive(Deserialize)]
    struct Owner<'a> {
        #[serde(borrow)]
        replica: Cow<'a, str>,
    }
    let mut counts = vec![0; variants.named.len()];
    noted.check_lines(&folder.join(METRICS), |_, line| {
        let row: Owner = serde_json::from_str(line).map_err(|error| error.to_string())?;
        counts[variants.position(&row.replica)?] += 1;
        Ok(())
    })?;
    Ok(counts)
}

/// A file that grows, and its hash.
#[derive(Debug)]
pub struct Appended {
    path: PathBuf,
    file: File,
    hash: RunningHash,
}

impl Appended {
    /// Opens a file that begins with what was hashed; what is beyond that is cut off.
    pub fn open(path: PathBuf, hash: RunningHash) -> Result<Self, Error> {
        let mut options = OpenOptions::new();
        let opened = options.append(true).create(true).open(&path);
        let cut = |file: File| {
            file.set_len(hash.bytes())?;
            if hash.bytes() == 0 {
                // The file is new, and a checkpoint will rely on it.
                sync_folder(path.parent().unwrap_or(Path::new(".")))?;
            }
            Ok(file)
        };
        match opened.and_then(cut) {
            Ok(file) => Ok(Self { path, file, hash }),
            Err(source) => Err(Error::Write { path, source }),
        }
    }

    pub fn append(&mut self, text: &str) -> Result<(), Error> {
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|source| self.unwritable(source))?;
        self.hash.update(text.as_bytes());
        Ok(())
    }

    /// Sees to it that all of it is on the disk, and says what it is.
    pub fn settle(&mut self) -> Result<PrefixHash, Error> {
        self.file.sync_data().map_err(|source| self.unwritable(source))?;
        Ok(self.hash.hash())
    }

    fn unwritable(&self, source: std::io::Error) -> Error {
        Error::Write { path: self.path.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(step: usize) -> Row {
        let number = |value: f64| Some(Number(value));
        Row {
            step,
            epoch: step as f64 / 3.0,
            replica: "k3".into(),
            dt: number(0.1),
            loss: number(f64::NAN),
            train_loss: None,
            train_accuracy: number(0.5),
            test_loss: None,
            test_accuracy: None,
            rel_l1: Number(1e-300),
            max_ulps: u64::MAX,
            agreeing_bits: Number(0.5),
            distance: Number(f64::INFINITY),
            growth_per_step: None,
            growth_standard_error: None,
            gradient_fluctuation: None,
            curvature: None,
            diverged: Some(3),
            hash: "00ff".into(),
            rel_l1_of: [("conv1.weight".to_owned(), Number(0.0))].into(),
            agreeing_bits_of: [("conv1.weight".to_owned(), Number(24.0))].into(),
        }
    }

    #[test]
    fn rows_read_back_and_are_cut_at_a_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let mut metrics = Metrics::create(folder.path(), Columns::default()).unwrap();
        metrics.append(&[row(0), row(1)]).unwrap();
        let noted = metrics.settle().unwrap();
        let read = || [METRICS, METRICS_CSV].map(|f| std::fs::read(folder.path().join(f)).unwrap());
        let before = read();
        metrics.append(&[row(2)]).unwrap();
        let longer = read();
        assert_ne!(longer, before);
        let mut rows = Vec::new();
        let note = |row| {
            rows.push(row);
            Ok(())
        };
        let whole = WholeMetrics::check(folder.path(), &noted, note).unwrap();
        assert_eq!(rows, [row(0), row(1)]);
        assert_eq!(read(), longer, "checking changes nothing");
        let mut again = whole.reopen(folder.path(), Columns::default()).unwrap();
        assert_eq!(read(), before);
        again.append(&[row(2)]).unwrap();
        assert_eq!((read(), again.settle().unwrap()), (longer, metrics.settle().unwrap()));
    }

    #[test]
    fn a_changed_digit_a_lost_row_and_a_foreign_row_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let mut metrics = Metrics::create(folder.path(), Columns::default()).unwrap();
        metrics.append(&[row(0), row(1)]).unwrap();
        let noted = metrics.settle().unwrap();
        let check = |name: &str, change: &dyn Fn(&str) -> String, parts: [&str; 2]| {
            let path = folder.path().join(name);
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(&path, change(&text)).unwrap();
            let known = |row: Row| match row.replica.as_str() {
                "k3" => Ok(()),
                other => Err(format!("no replica is called {other}")),
            };
            let error = WholeMetrics::check(folder.path(), &noted, known).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
            std::fs::write(&path, text).unwrap();
        };
        let hash = ["hash", "that this program wrote"];
        check(METRICS, &|text| text.replacen("0.5", "0.4", 1), hash);
        check(METRICS_CSV, &|text| text.replacen("0.5", "0.4", 1), hash);
        check(METRICS_CSV, &|text| text.lines().next().unwrap().to_owned() + "\n", ["bytes"; 2]);
        check(METRICS, &|text| text.lines().next().unwrap().to_owned() + "\n", ["bytes"; 2]);
        check(METRICS, &|text| text.replacen("k3", "k9", 1), ["line 1", "k9"]);
        WholeMetrics::check(folder.path(), &noted, |_| Ok(())).unwrap();
    }

    #[test]
    fn csv_has_a_value_for_every_column() {
        let csv = row(1).to_csv(Columns::default());
        assert_eq!(csv.split(',').count(), COLUMNS.split(',').count());
        assert!(csv.contains(",NaN,"));
    }
}
