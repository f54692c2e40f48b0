//! A training run as a cell of a record: run or resumed, then told in numbers and curves.
//!
//! ```text
//! numbers   test_accuracy-NAME, test_loss-NAME     at the end
//!           rel_l1-NAME, distance-NAME             to the first replica, at the end
//!           growth_per_step-NAME, fit_…-NAME       of RelL1 while it was small, and its line
//!           diverged_at-NAME                       where it did
//!           gradient_fluctuation                   of the first replica, median over evaluations
//! series    NAME        step, epoch, loss, train_loss, rel_l1, distance, max_ulps
//!           NAME-tests  step, epoch, test_loss, test_accuracy, train_accuracy
//!           NAME-bits   step, epoch and a column of significant bits for each tensor
//!           NAME-rel-l1 step, epoch and a column of RelL1 for each tensor
//! ```
//!
//! The first replica is not compared with itself: it has neither the numbers nor the last two
//! series.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use lastbit::growth::ExponentialFit;

use super::metrics::{Row, read_rows};
use super::prepare::Prepared;
use super::run::CONFIG;
use super::settings::Found;
use super::summary::History;
use super::{Begin, is_run, train};
use crate::error::Error;
use crate::lock::Lock;
use crate::progress::Progress;
use crate::record::{Number, Outcome, Series, remove_folder};
use crate::simulate::SATURATED;

/// Curves of single tensors have many columns, and so fewer rows.
const MOST_ROWS_OF_TENSORS: usize = 64;

/// A training run that stands behind a cell.
#[derive(Debug, Clone)]
pub struct Training {
    /// Its settings.
    pub found: Found,
    /// Threads it is to run on, to show that nothing depends on them; such a run is one of its own.
    pub threads: Option<usize>,
}

impl Training {
    /// On as many threads as there are.
    pub fn new(found: Found) -> Self {
        Self { found, threads: None }
    }

    /// Where the run lies below the folder of all records: runs of equal settings are one.
    pub fn folder(&self) -> String {
        let hash = &blake3::hash(self.found.to_toml().as_bytes()).to_hex()[..16];
        let threads = self.threads.map(|n| format!("-{n}-threads")).unwrap_or_default();
        format!("runs/{hash}{threads}")
    }

    /// Trains below `out`, going on with what is there unless it is to be `fresh`; the whole is
    /// `units` of the progress.
    pub fn compute(
        &self,
        out: &Path,
        fresh: bool,
        progress: &Progress,
        units: u64,
    ) -> Result<Outcome, Error> {
        let Some(threads) = self.threads else { return self.run(out, fresh, progress, units) };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.map_err(|error| Error::setting("--threads", threads, format!("fewer ({error})")))?
            .install(|| self.run(out, fresh, progress, units))
    }

    fn run(
        &self,
        out: &Path,
        fresh: bool,
        progress: &Progress,
        units: u64,
    ) -> Result<Outcome, Error> {
        let folder = out.join(self.folder());
        let _turn = turn(&folder)?;
        let resumes = !fresh && has_settings(&folder, &self.found)?;
        if !resumes {
            remove_folder(&folder)?;
        }
        let prepared = Prepared::new(self.found.clone(), None, !resumes)?;
        let begin = if resumes { Begin::Resume } else { Begin::New };
        train(&prepared, &folder, begin, progress, units)?;
        let names: Vec<&str> = prepared.variants.named.iter().map(|n| n.name.as_str()).collect();
        Ok(Outcome { run: Some(self.folder()), ..told(&names, read_rows(&folder)?) })
    }
}

/// Waits until no other process works at this run, for this cell or another. The lock lies beside
/// the folder, which is removed where it holds no run of these settings.
fn turn(folder: &Path) -> Result<Lock, Error> {
    let path = folder.with_extension("lock");
    if let Some(runs) = folder.parent() {
        fs::create_dir_all(runs)
            .map_err(|source| Error::Write { path: runs.to_owned(), source })?;
    }
    if let Some(lock) = Lock::try_now(&path)? {
        return Ok(lock);
    }
    eprintln!("{}: another process is at this run; waiting for its end", folder.display());
    Lock::wait(&path)
}

/// Whether there is a run of these settings in a folder.
fn has_settings(folder: &Path, found: &Found) -> Result<bool, Error> {
    if !is_run(folder) {
        return Ok(false);
    }
    let path = folder.join(CONFIG);
    let text = fs::read_to_string(&path);
    let text = text.map_err(|source| Error::Read { path: path.clone(), source })?;
    Ok(Found::parse(&text, &path, &[])?.first_difference(found).is_none())
}

/// The rows of a run as numbers and curves.
fn told(names: &[&str], rows: Vec<Row>) -> Outcome {
    let mut outcome = Outcome::default();
    let mut by_replica: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for row in rows {
        by_replica.entry(row.replica.clone()).or_default().push(row);
    }
    let mut hash = blake3::Hasher::new();
    for (i, name) in names.iter().enumerate() {
        let rows = by_replica.remove(*name).unwrap_or_default();
        if let Some(last) = rows.last() {
            hash.update(last.hash.as_bytes());
            outcome.hashes.insert((*name).to_owned(), last.hash.clone());
        }
        add_end(&mut outcome, name, &rows);
        add_curves(&mut outcome, name, &rows);
        if i > 0 {
            add_comparison(&mut outcome, name, &rows);
        } else {
            let mut history = History::default();
            rows.into_iter().for_each(|row| history.add(row));
            if let Some(Number(median)) = history.median_fluctuation() {
                outcome.number("gradient_fluctuation", median);
            }
        }
    }
    outcome.hash = Some(hash.finalize().to_hex()[..32].to_owned());
    outcome
}

fn add_end(outcome: &mut Outcome, name: &str, rows: &[Row]) {
    let Some(last) = rows.last() else { return };
    let mut note = |what: &str, value: Option<Number>| {
        if let Some(Number(value)) = value {
            outcome.number(&format!("{what}-{name}"), value);
        }
    };
    note("test_accuracy", last.test_accuracy);
    note("test_loss", last.test_loss);
    note("diverged_at", last.diverged.map(|step| Number(step as f64)));
}

fn add_curves(outcome: &mut Outcome, name: &str, rows: &[Row]) {
    let all: Vec<&Row> = rows.iter().collect();
    let tests: Vec<&Row> = rows.iter().filter(|row| row.test_loss.is_some()).collect();
    let maybe = |value: Option<Number>| value.map_or(f64::NAN, |number| number.0);
    let curves = Series::new([
        ("step", column(&all, |row| row.step as f64)),
        ("epoch", column(&all, |row| row.epoch)),
        ("loss", column(&all, |row| maybe(row.loss))),
        ("train_loss", column(&all, |row| maybe(row.train_loss))),
        ("rel_l1", column(&all, |row| row.rel_l1.0)),
        ("distance", column(&all, |row| row.distance.0)),
        ("max_ulps", column(&all, |row| row.max_ulps as f64)),
    ]);
    outcome.series.insert(name.to_owned(), curves);
    let curves = Series::new([
        ("step", column(&tests, |row| row.step as f64)),
        ("epoch", column(&tests, |row| row.epoch)),
        ("test_loss", column(&tests, |row| maybe(row.test_loss))),
        ("test_accuracy", column(&tests, |row| maybe(row.test_accuracy))),
        ("train_accuracy", column(&tests, |row| maybe(row.train_accuracy))),
    ]);
    outcome.series.insert(format!("{name}-tests"), curves);
}

fn column(rows: &[&Row], of: impl Fn(&Row) -> f64) -> Vec<f64> {
    rows.iter().map(|row| of(row)).collect()
}

fn add_comparison(outcome: &mut Outcome, name: &str, rows: &[Row]) {
    let Some(last) = rows.last() else { return };
    outcome.number(&format!("rel_l1-{name}"), last.rel_l1.0);
    outcome.number(&format!("distance-{name}"), last.distance.0);
    let points: Vec<(usize, f64)> = rows.iter().map(|row| (row.step, row.rel_l1.0)).collect();
    if let Some(fit) = ExponentialFit::of_plain_twin(&points, SATURATED) {
        for (what, value) in [
            ("growth_per_step", fit.growth.per_step),
            ("growth_standard_error", fit.growth.standard_error),
            ("fit_from_step", fit.from.0),
            ("fit_from", fit.from.1),
            ("fit_to_step", fit.to.0),
            ("fit_to", fit.to.1),
        ] {
            outcome.number(&format!("{what}-{name}"), value);
        }
    }
    type Tensors = fn(&Row) -> &BTreeMap<String, Number>;
    let parts: [(&str, Tensors); 2] =
        [("bits", |row| &row.bits_of), ("rel-l1", |row| &row.rel_l1_of)];
    // Of long runs rows at equal distances, and the last.
    let stride = rows.len().div_ceil(MOST_ROWS_OF_TENSORS);
    let is_kept = |i: usize| i.is_multiple_of(stride) || i + 1 == rows.len();
    let kept: Vec<&Row> = (0..rows.len()).filter(|i| is_kept(*i)).map(|i| &rows[i]).collect();
    for (what, tensors) in parts {
        let mut columns = vec![
            ("step".to_owned(), column(&kept, |row| row.step as f64)),
            ("epoch".to_owned(), column(&kept, |row| row.epoch)),
        ];
        for tensor in tensors(last).keys() {
            let value = |row: &Row| tensors(row).get(tensor).map_or(f64::NAN, |number| number.0);
            columns.push((tensor.clone(), column(&kept, value)));
        }
        outcome.series.insert(format!("{name}-{what}"), Series { columns });
    }
}
