//! Run directories of this program: hashes, metrics and checkpoints.

use std::path::Path;

use super::source::{EdgeRatio, Fingerprints, FromFirst, NEXT, Source, short_hash};
use crate::error::Error;
use crate::input::refuse;
use crate::logged::LoggedRun;
use crate::number::Number;
use crate::probe::{FINGERPRINTS, FingerprintRow, Row as ProbeRow, lines};
use crate::train::file_list::FileList;
use crate::train::{self, METRICS, MetricsRow};

/// Lines of a file of rows, which must be those that `files.json` notes, as far as it does.
fn read_lines(
    source: &mut Source,
    file: &str,
    mut each: impl FnMut(&mut Source, &str) -> Result<(), String>,
) -> Result<(), Error> {
    let path = source.folder.join(file);
    let list = FileList::read(&source.folder)?;
    if let Some(noted) = list.as_ref().and_then(|list| list.get(file)) {
        noted.check_beginning(&path)?;
    }
    let lines = lines::read(&path, |line| each(source, line).map(|()| NEXT))?;
    if lines.is_cut {
        source.notes.push(format!("{}: its last line has no end and is left out", path.display()));
    }
    Ok(())
}

fn log(metrics: &mut LoggedRun, step: u64, values: &[(&str, Option<Number>)]) {
    for (name, value) in values {
        if let Some(Number(value)) = value {
            let metric = metrics.metrics.entry((*name).to_owned()).or_default();
            metric.steps.push(step);
            metric.values.push(*value);
        }
    }
}

/// A run of `lastbit train`: one replica, the first if none is named.
pub fn read_train(source: &mut Source, replica: Option<&str>) -> Result<(), Error> {
    let mut names: Vec<String> = Vec::new();
    read_lines(source, METRICS, |source, line| {
        let row: MetricsRow = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if !names.contains(&row.replica) {
            names.push(row.replica.clone());
        }
        // Rows of a step are in the order of the replicas.
        if row.replica == replica.unwrap_or(&names[0]) {
            add_row(source, &row, names[0] != row.replica);
        }
        Ok(())
    })?;
    let folder = source.folder.clone();
    let Some(first) = names.first() else {
        return Err(refuse(&folder.join(METRICS), "no rows", "a run that has made a step"));
    };
    let own = replica.unwrap_or(first);
    if !names.iter().any(|name| name == own) {
        let expected = format!("FOLDER:REPLICA with one of {}", names.join(", "));
        return Err(refuse(&folder, format!("no replica {own}"), expected));
    }
    if let (None, true) = (replica, names.len() > 1) {
        let note = format!(
            "{} has the replicas {}; compared is {own} ({}:NAME names another)",
            folder.display(),
            names.join(", "),
            folder.display()
        );
        source.notes.push(note);
    }
    source.is_first_replica = own == first;
    source.settings.insert("replica", METRICS, own.to_owned());
    source.replica = Some(own.to_owned());
    source.saved = train::checkpoints_in(&folder)?;
    Ok(())
}

fn add_row(source: &mut Source, row: &MetricsRow, is_compared: bool) {
    let step = row.step as u64;
    source.hashes.insert(step, short_hash(&row.hash));
    log(
        &mut source.metrics,
        step,
        &[
            ("lr", row.dt),
            ("loss", row.loss),
            ("train_loss", row.train_loss),
            ("train_accuracy", row.train_accuracy),
            ("test_loss", row.test_loss),
            ("test_accuracy", row.test_accuracy),
        ],
    );
    if is_compared {
        let (rel_l1, distance) = (row.rel_l1.0, row.distance.0);
        source.from_first.insert(step, FromFirst { rel_l1, distance, max_ulps: row.max_ulps });
    }
    if let Some(edge_ratio) = row.curvature.as_ref().and_then(|curvature| curvature.edge_ratio) {
        source.edge.push(EdgeRatio { step, edge_ratio, sharpness: row.sharpness() });
    }
}

/// RelL1 of single tensors from the first replica at a step, by name; empty where it was not logged.
pub fn rel_l1_of(source: &Source, step: u64) -> Result<Vec<(String, f64)>, Error> {
    let mut found = Vec::new();
    lines::read(&source.folder.join(METRICS), |line| {
        let row: MetricsRow = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if row.step as u64 == step && source.replica.as_ref() == Some(&row.replica) {
            found = row.rel_l1_of.iter().map(|(name, value)| (name.clone(), value.0)).collect();
        }
        Ok(NEXT)
    })?;
    Ok(found)
}

/// A run of a probe.
pub fn read_probe(source: &mut Source) -> Result<(), Error> {
    read_lines(source, METRICS, |source, line| {
        let row = ProbeRow::parse(line)?;
        let values = [
            ("lr", row.lr),
            ("loss", row.loss),
            ("probe_loss", row.probe_loss),
            ("gradient_norm", row.gradient_norm),
        ];
        log(&mut source.metrics, row.step, &values);
        if let Some(edge_ratio) = row.edge_ratio {
            source.edge.push(EdgeRatio { step: row.step, edge_ratio, sharpness: row.sharpness });
        }
        Ok(())
    })?;
    let mut found = Fingerprints::default();
    read_lines(source, FINGERPRINTS, |_, line| {
        let row = FingerprintRow::parse(line)?;
        let names = row.tensors.0.iter().map(|(name, _)| name);
        if found.at.is_empty() {
            found.names = names.cloned().collect();
        } else if !names.eq(&found.names) {
            return Err(format!("other tensors at step {} than before", row.step));
        }
        let hashes = row.tensors.0.iter().map(|(_, hash)| short_hash(hash)).collect();
        found.at.insert(row.step, hashes);
        Ok(())
    })?;
    if found.at.is_empty() {
        let path: &Path = &source.folder.join(FINGERPRINTS);
        return Err(refuse(path, "no rows", "a run that has measured a step"));
    }
    source.fingerprints = Some(found);
    Ok(())
}
