//! How a run went, in memory or read back from its record.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::run::About;
use crate::error::Error;
use crate::input::Data;
use crate::number::Number;
use crate::record::{Cell, Outcome, Store, VerdictRecord};
use crate::relative_path::RelativePath;
use crate::series::{Field, Series};

/// Series of the states on a line: `x`, and a column for each snapshot.
const PROFILES: &str = "profiles";

/// Series of the curves of the run itself.
const CURVES: &str = "curves";

/// A run that was judged.
pub struct PdeResult {
    /// Name of its record.
    pub id: &'static str,
    /// One line about it.
    pub title: String,
    /// Settings, complete, with the hash of the data.
    pub settings: Value,
    /// Step size.
    pub dt: f64,
    /// Largest stable step size in closed form, where there is one.
    pub dt_max: Option<Number>,
    /// The verdict with its evidence.
    pub verdict: VerdictRecord,
    /// Closed forms, and what was measured at the end.
    pub numbers: BTreeMap<String, Number>,
    /// Hash of the bits of the final state.
    pub hash: Option<String>,
    /// Curves by name.
    pub series: BTreeMap<String, Series>,
    fields: Fields,
    snapshots: Vec<usize>,
    snapshot_name: fn(usize, f64) -> String,
    headline: &'static [&'static str],
}

/// Images by name.
enum Fields {
    Memory(BTreeMap<String, Field>),
    Files(Store, Box<Cell>),
}

/// The state at one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Step.
    pub step: usize,
    /// On a line or in the plane.
    pub state: Data,
}

impl PdeResult {
    pub(super) fn computed(about: About, outcome: Outcome) -> Self {
        let Outcome { verdict, hash, numbers, series, fields, .. } = outcome;
        Self::new(about, verdict, hash, numbers, series, Fields::Memory(fields))
    }

    pub(super) fn recorded(about: About, store: Store, cell: Cell) -> Result<Self, Error> {
        let read = |(name, file): (&String, &RelativePath)| {
            Ok((name.clone(), store.read_series(&cell, file)?))
        };
        let series = cell.series.iter().map(read).collect::<Result<_, Error>>()?;
        let (verdict, hash, numbers) =
            (cell.verdict.clone(), cell.hash.clone(), cell.numbers.clone());
        let fields = Fields::Files(store, Box::new(cell));
        Ok(Self::new(about, verdict, hash, numbers, series, fields))
    }

    fn new(
        about: About,
        verdict: Option<VerdictRecord>,
        hash: Option<String>,
        numbers: BTreeMap<String, Number>,
        series: BTreeMap<String, Series>,
        fields: Fields,
    ) -> Self {
        let About { id, title, settings, dt, dt_max, mut snapshots, snapshot_name, headline } =
            about;
        let verdict = verdict.expect("every run of a PDE is judged");
        // The state at a divergence is kept, whatever was asked for.
        snapshots.extend(verdict.diverged_at.filter(|step| !snapshots.contains(step)));
        snapshots.sort_unstable();
        Self {
            id,
            title,
            settings,
            dt,
            dt_max,
            verdict,
            numbers,
            hash,
            series,
            fields,
            snapshots,
            snapshot_name,
            headline,
        }
    }

    /// The folder of its record, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        match &self.fields {
            Fields::Memory(_) => None,
            Fields::Files(store, _) => Some(store.folder()),
        }
    }

    /// Takes the snapshots that the run reached, in the order of their steps.
    pub fn take_snapshots(&mut self) -> Result<Vec<Snapshot>, Error> {
        let mut found = Vec::new();
        for step in self.snapshots.clone() {
            let name = (self.snapshot_name)(step, self.dt);
            let profiles = self.series.get_mut(PROFILES);
            if let Some(values) = profiles.and_then(|profiles| profiles.take(&name)) {
                found.push(Snapshot { step, state: Data::Signal(values) });
            } else if let Some(field) = self.take_field(&name)? {
                found.push(Snapshot { step, state: Data::Image(field) });
            }
        }
        Ok(found)
    }

    /// Takes the images that are no snapshots; after these were taken.
    pub fn take_other_fields(&mut self) -> Result<Vec<(String, Field)>, Error> {
        let names: Vec<String> = match &self.fields {
            Fields::Memory(fields) => fields.keys().cloned().collect(),
            Fields::Files(_, cell) => cell.fields.keys().cloned().collect(),
        };
        let name = |step: &usize| (self.snapshot_name)(*step, self.dt);
        let snapshots: Vec<String> = self.snapshots.iter().map(name).collect();
        let mut found = Vec::new();
        for name in names.into_iter().filter(|name| !snapshots.contains(name)) {
            found.extend(self.take_field(&name)?.map(|field| (name, field)));
        }
        Ok(found)
    }

    /// Takes an image out of memory, or reads it.
    fn take_field(&mut self, name: &str) -> Result<Option<Field>, Error> {
        match &mut self.fields {
            Fields::Memory(fields) => Ok(fields.remove(name)),
            Fields::Files(store, cell) => match cell.fields.get(name) {
                Some(file) => store.read_field(cell, file).map(Some),
                None => Ok(None),
            },
        }
    }

    /// All of it for programs: curves as numbers, images as paths.
    pub fn to_json(&self) -> Value {
        let mut series = Map::new();
        for (name, columns) in &self.series {
            match (name.as_str(), json!(columns)) {
                // The curves of the run itself stand at the top; other series under their names.
                (CURVES, Value::Object(columns)) => series.extend(columns),
                (_, columns) => drop(series.insert(name.clone(), columns)),
            }
        }
        let mut answer = json!({
            "id": self.id,
            "settings": self.settings,
            "verdict": self.verdict,
            "numbers": self.numbers,
            "hash": self.hash,
            "folder": self.folder(),
            "series": series,
            "fields": self.field_paths(),
        });
        for name in self.headline {
            answer[*name] = json!(self.numbers.get(*name).copied().unwrap_or(Number(f64::NAN)));
            // Its curve stands at the top too, whichever series it is a column of.
            let mut others = self.series.iter().filter(|(series, _)| *series != CURVES);
            if let Some(curve) = others.find_map(|(_, columns)| columns.column(name)) {
                let curve: Vec<Number> = curve.iter().map(|value| Number(*value)).collect();
                answer["series"][*name] = json!(curve);
            }
        }
        answer
    }

    fn field_paths(&self) -> Map<String, Value> {
        let Fields::Files(store, cell) = &self.fields else { return Map::new() };
        let path = |file: &RelativePath| json!(store.folder().join(&**file));
        cell.fields.iter().map(|(name, file)| (name.clone(), path(file))).collect()
    }
}
