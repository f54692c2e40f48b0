//! What is written down along a run: one row per replica, appended to `metrics.jsonl` and
//! `metrics.csv` and readable while the run goes on.

mod attribution;
mod curvature;

pub use attribution::{
    ATTRIBUTION, AttributionRow, AttributionSummary, curves, read_attribution, summaries,
};
pub use curvature::{Columns, Curvature};

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::files::sync_folder;
use crate::number::Number;

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

/// Bytes of the files at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lengths {
    /// Of `metrics.jsonl`.
    pub jsonl: u64,
    /// Of `metrics.csv`.
    pub csv: u64,
    /// Of `attribution.csv`, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribution: Option<u64>,
}

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
        let mut metrics = Self::open(folder, columns)?;
        metrics.jsonl.cut(0)?;
        metrics.csv.cut(0)?;
        let more: String = columns.named(None).iter().map(|(name, _)| format!(",{name}")).collect();
        metrics.csv.append(&format!("{COLUMNS}{more}\n"))?;
        Ok(metrics)
    }

    /// The files as they were at a checkpoint, with the rows they held then.
    pub fn reopen(
        folder: &Path,
        columns: Columns,
        lengths: Lengths,
    ) -> Result<(Self, Vec<Row>), Error> {
        let mut metrics = Self::open(folder, columns)?;
        metrics.jsonl.cut(lengths.jsonl)?;
        metrics.csv.cut(lengths.csv)?;
        let rows = metrics.jsonl.rows()?;
        Ok((metrics, rows))
    }

    fn open(folder: &Path, columns: Columns) -> Result<Self, Error> {
        Ok(Self {
            columns,
            jsonl: Appended::open(folder.join("metrics.jsonl"))?,
            csv: Appended::open(folder.join("metrics.csv"))?,
        })
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

    /// Sees to it that the rows are on the disk, and says how long the files are.
    pub fn settle(&mut self) -> Result<Lengths, Error> {
        Ok(Lengths { jsonl: self.jsonl.settle()?, csv: self.csv.settle()?, attribution: None })
    }
}

/// All rows of a finished run.
pub fn read_rows(folder: &Path) -> Result<Vec<Row>, Error> {
    Appended::open(folder.join("metrics.jsonl"))?.rows()
}

/// A file that grows.
#[derive(Debug)]
pub struct Appended {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Appended {
    pub fn open(path: PathBuf) -> Result<Self, Error> {
        let mut options = OpenOptions::new();
        let opened = options.read(true).append(true).create(true).open(&path);
        let length = |file: File| {
            let length = file.metadata()?.len();
            if length == 0 {
                // The file is new, and a checkpoint will rely on it.
                sync_folder(path.parent().unwrap_or(Path::new(".")))?;
            }
            Ok((file, length))
        };
        match opened.and_then(length) {
            Ok((file, length)) => Ok(Self { path, file, length }),
            Err(source) => Err(Error::Write { path, source }),
        }
    }

    /// Takes away what is beyond `length`.
    pub fn cut(&mut self, length: u64) -> Result<(), Error> {
        if self.length < length {
            return Err(Error::Input {
                path: self.path.clone(),
                found: format!("{} bytes", self.length),
                expected: format!(
                    "at least the {length} that it had at the last checkpoint; put the file back, \
                     or fork the checkpoint into another folder with --fork"
                ),
            });
        }
        self.length = length;
        self.file.set_len(length).map_err(|source| self.unwritable(source))
    }

    pub fn append(&mut self, text: &str) -> Result<(), Error> {
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|source| self.unwritable(source))?;
        self.length += text.len() as u64;
        Ok(())
    }

    /// Sees to it that all of it is on the disk, and says how long it is.
    pub fn settle(&mut self) -> Result<u64, Error> {
        self.file.sync_data().map_err(|source| self.unwritable(source))?;
        Ok(self.length)
    }

    fn rows(&mut self) -> Result<Vec<Row>, Error> {
        let mut text = String::new();
        let path = || self.path.clone();
        File::open(&self.path)
            .and_then(|mut file| file.read_to_string(&mut text))
            .map_err(|source| Error::Read { path: path(), source })?;
        let row = |(i, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|error| Error::Input {
                path: path(),
                found: format!("in line {} what is no row ({error})", i + 1),
                expected: "the rows this program wrote; put the file back, or fork the checkpoint \
                           into another folder with --fork"
                    .to_owned(),
            })
        };
        text.lines().enumerate().map(row).collect()
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
        let lengths = metrics.settle().unwrap();
        let read = || {
            ["metrics.jsonl", "metrics.csv"].map(|f| std::fs::read(folder.path().join(f)).unwrap())
        };
        let before = read();
        metrics.append(&[row(2)]).unwrap();
        assert_ne!(read(), before);
        let reopen = |lengths| Metrics::reopen(folder.path(), Columns::default(), lengths);
        let (mut again, rows) = reopen(lengths).unwrap();
        assert_eq!(rows, [row(0), row(1)]);
        assert_eq!(read(), before);
        again.append(&[row(2)]).unwrap();
        assert_eq!(again.settle().unwrap().jsonl, read()[0].len() as u64);
        let too_long = Lengths { jsonl: 1 << 40, csv: 0, attribution: None };
        let message = reopen(too_long).unwrap_err().to_string();
        assert!(message.contains("metrics.jsonl") && message.contains("--fork"), "{message}");
    }

    #[test]
    fn csv_has_a_value_for_every_column() {
        let csv = row(1).to_csv(Columns::default());
        assert_eq!(csv.split(',').count(), COLUMNS.split(',').count());
        assert!(csv.contains(",NaN,"));
    }
}
