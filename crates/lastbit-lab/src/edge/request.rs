//! A search from its request to its answer: what `lastbit edge` does.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use lastbit::optim::method::Name;
use lastbit::statistics::median::MOST;
use lastbit::verdict::{Horizon, LEAST_STEPS};
use serde_json::{Value, json};

use super::{Draw, EdgeRecord, EdgeResult, Over, Probes, Property, Search, SearchResult, sentence};
use crate::error::Error;
use crate::progress::Monitor;
use crate::simulate::Precision;
use crate::train::{
    Batch, ConfigFile, ConfigSource, Device, MiniBatchThreshold, Prepared, Replicas, Schedule,
};
use crate::validate::{not_negative, positive, within};

/// A search as it is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Settings of a training.
    pub config: ConfigSource,
    /// The parameter to vary.
    pub over: Over,
    /// Which edge to search; of a learning rate both, of a weight decay or between two ends that of stability, where
    /// none is named.
    pub property: Option<Property>,
    /// One end of the search; by doubling and halving from the configuration's value where there is none.
    pub from: Option<f64>,
    /// The other end.
    pub to: Option<f64>,
    /// Relative width of the final interval.
    pub tolerance: f64,
    /// Steps of a probe; those of the configuration otherwise.
    pub steps: Option<usize>,
    /// Most steps of a probe whose verdict is undecided; four times `steps` otherwise.
    pub at_most: Option<usize>,
    /// Seeds of the initial weights; those of the configuration where there are none.
    pub seeds: Vec<u64>,
    /// Orders of the mini-batches to search with.
    pub repeats: usize,
    /// Whether a copy perturbed by one ulp runs beside each probe, for its curve.
    pub twins: bool,
    /// Changes to the settings, `section.key=value`.
    pub set: Vec<String>,
    /// Device to run the probes on.
    pub device: Option<Device>,
    /// Folder of the data sets.
    pub data: Option<PathBuf>,
    /// Whether finished probes are computed again.
    pub fresh: bool,
}

impl Request {
    /// All edges of the learning rate of a configuration, to one percent.
    pub fn new(config: ConfigSource) -> Self {
        Self {
            config,
            over: Over::Dt,
            property: None,
            from: None,
            to: None,
            tolerance: 0.01,
            steps: None,
            at_most: None,
            seeds: vec![],
            repeats: 1,
            twins: false,
            set: vec![],
            device: None,
            data: None,
            fresh: false,
        }
    }
}

/// The edge of one property, and its record.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What was searched.
    pub search: Search,
    /// What each search found.
    pub found: Vec<(Draw, SearchResult)>,
    /// The edges of all searches.
    pub result: EdgeResult,
    /// Settings, complete.
    pub settings: Value,
    /// The folder of the record.
    pub folder: PathBuf,
}

impl Answer {
    fn to_json(&self) -> Value {
        let mut json = json!(self.result);
        json["settings"] = self.settings.clone();
        json["folder"] = json!(self.folder);
        json
    }
}

/// What was asked for: one edge, or that of stability and that of divergence.
#[derive(Debug, Clone)]
pub struct Answers {
    /// In the order they were searched.
    pub edges: Vec<Answer>,
    /// What was left out of the configuration.
    pub notes: Vec<String>,
}

impl Answers {
    /// All of it for programs: the first edge, with others under their names.
    pub fn to_json(&self) -> Value {
        let mut answers = self.edges.iter();
        let mut json = answers.next().expect("one edge at least is searched").to_json();
        for other in answers {
            json[other.search.property.edge_name().replace(' ', "_")] = other.to_json();
        }
        json
    }
}

impl Request {
    /// Searches, with a record of each edge below `out`; finished probes that are there are used.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`] if its monitor asked to stop: finished probes are saved. An error, too, if there is no edge.
    pub fn run(&self, out: &Path, monitor: &dyn Monitor) -> Result<Answers, Error> {
        let path = self.config.name();
        let device = self.device.map(Device::as_setting);
        let set: Vec<String> = self.set.iter().cloned().chain(device).collect();
        let mut found = ConfigFile::parse(&self.config.read()?, path, &set)?;
        let search = self.search()?;
        let mut notes = Vec::new();
        let seeds = self.only_what_matters(&mut found, &mut notes)?;
        let prepared = Arc::new(Prepared::new(found, self.data.as_deref(), true)?);
        let horizon = self.horizon(prepared.steps, &mut notes)?;
        let batches = self.batch_seeds(&prepared, &mut notes)?;
        notes.extend(MiniBatchThreshold::of(&prepared, prepared.plan.dt).map(|t| t.note()));
        let first = Probes::new(prepared.clone(), self.over, seeds[0], horizon, self.twins)?;
        let draw = |seed: u64, batch: Option<u64>| first.with_draw(Draw { seed, batch });
        let of_seed = |seed: &u64| batches.iter().map(|batch| draw(*seed, *batch)).collect();
        let draws: Vec<Probes> =
            seeds.iter().flat_map(|seed| -> Vec<_> { of_seed(seed) }).collect();
        let run = |search: Search| -> Result<Answer, Error> {
            let horizon = Self::horizon_for(search.property, horizon);
            let kept = EdgeRecord {
                title: format!(
                    "Edge of {} over {}: {}",
                    path.display(),
                    self.over,
                    search.property.edge_name()
                ),
                settings: self.settings(&prepared, &search, horizon, &seeds),
                search,
                draws: draws.iter().map(|probes| probes.with_horizon(horizon)).collect(),
                out,
                fresh: self.fresh,
                monitor,
            };
            let (store, found) = kept.run(|found| sentence(&search, found))?;
            let (settings, folder) = (kept.settings, store.folder().to_owned());
            let result = EdgeResult::new(&search, &found, notes.clone());
            Ok(Answer { search, found, result, settings, folder })
        };
        let mut edges: Vec<Answer> = Vec::new();
        let mut without: Vec<String> = Vec::new();
        // The divergence edge lies at the growth edge or above it. Repeats all begin at the configuration's value,
        // so that none depends on another.
        let mut start = None;
        for property in self.properties() {
            let answer = run(Search { property, start, ..search })?;
            let found = &answer.found;
            let whys: Vec<String> =
                found.iter().filter_map(|(_, found)| found.why_none(property)).collect();
            if whys.len() == found.len() {
                without.extend(whys.into_iter().next());
            }
            let edge = found.iter().find_map(|(_, found)| found.edges.first());
            start = edge.filter(|_| self.repeats == 1).map(|(_, bracket)| bracket.fails);
            edges.push(answer);
        }
        if without.len() == edges.len() {
            let flags = if self.from.is_some() { "--from and --to" } else { "--over" };
            let expected = "two values with different verdicts; more --steps may show one";
            return Err(Error::setting(flags, without.join("; "), expected));
        }
        Ok(Answers { edges, notes })
    }

    /// The edges to search: the one asked for, else of a learning rate both.
    fn properties(&self) -> Vec<Property> {
        match (self.property, self.over, self.from) {
            (Some(property), ..) => vec![property],
            (None, Over::Dt, None) => vec![Property::Stable, Property::Bounded],
            (None, ..) => vec![Property::Stable],
        }
    }

    fn search(&self) -> Result<Search, Error> {
        positive("--tolerance", self.tolerance)?;
        if self.tolerance >= 1.0 {
            return Err(Error::setting("--tolerance", self.tolerance, "less than 1"));
        }
        let check = |flag: &str, end: f64| match self.over {
            Over::Dt => positive(flag, end),
            Over::Alpha => not_negative(flag, end),
        };
        let ends = match (self.from, self.to) {
            (Some(_), None) => return Err(without("--from", "--to")),
            (None, Some(_)) => return Err(without("--to", "--from")),
            (from, to) => from.zip(to),
        };
        if let Some((from, to)) = ends {
            check("--from", from)?;
            check("--to", to)?;
            if from == to {
                return Err(Error::setting(
                    "--to",
                    to,
                    format!("another value than --from {from}"),
                ));
            }
        }
        let Self { over, tolerance, .. } = *self;
        let property = Property::Stable;
        Ok(Search { over, property, start: None, ends, tolerance })
    }

    /// An edge is that of one rate and of plain replicas; what was left out is noted. Returns the
    /// seeds.
    fn only_what_matters(
        &self,
        found: &mut ConfigFile,
        notes: &mut Vec<String>,
    ) -> Result<Vec<u64>, Error> {
        let settings = &mut found.settings;
        let mut seeds = match &self.seeds[..] {
            [] => settings.replicas.seeds.init.clone(),
            given => given.to_vec(),
        };
        if let Some(twice) = (1..seeds.len()).find(|i| seeds[..*i].contains(&seeds[*i])) {
            let shown = format!("{} twice", seeds[twice]);
            return Err(Error::setting("--seeds", shown, "each once"));
        }
        if settings.network.weights.is_some() && seeds.len() > 1 {
            seeds.truncate(1);
            notes.push("network.weights are the same for all seeds, so one is enough".to_owned());
        }
        if settings.optimizer.schedule != Schedule::Constant {
            settings.optimizer.schedule = Schedule::Constant;
            let note = "the schedule of the learning rate is left out: an edge is that of one rate";
            notes.push(note.to_owned());
        }
        let mut plain = Replicas::default();
        plain.seeds.batch.clone_from(&settings.replicas.seeds.batch);
        plain.seeds.augment.clone_from(&settings.replicas.seeds.augment);
        plain.seeds.batch.truncate(1);
        plain.seeds.augment.truncate(1);
        settings.replicas = plain;
        settings.sharpness = None;
        let is_descent =
            settings.optimizer.name == Name::Sgd && settings.training.batch == Batch::Full;
        if is_descent && settings.training.precision == Precision::F32 {
            let note = "in f32 the energy is too coarse to see a cycle that forgets the last bit; \
                        --set training.precision=f64 sees it";
            notes.push(note.to_owned());
        }
        Ok(seeds)
    }

    /// Seeds of the batches to repeat the search over; one search with the configuration's own otherwise.
    fn batch_seeds(
        &self,
        prepared: &Prepared,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Option<u64>>, Error> {
        within("--repeats", self.repeats, 1, MOST)?;
        let refuse = |expected: &str| Err(Error::setting("--repeats", self.repeats, expected));
        match (self.repeats, prepared.shuffles_mini_batches(), self.over) {
            (1, true, over) => {
                let mut note =
                    "with mini-batches the edge depends on their order: this is one draw, \
                                without a confidence"
                        .to_owned();
                if over == Over::Dt {
                    note += "; --repeats 6 gives an interval for the median edge with 96.87 % confidence";
                }
                notes.push(note);
                Ok(vec![None])
            }
            (1, ..) => Ok(vec![None]),
            (_, false, _) => refuse(
                "1, or shuffled batches that are smaller than the training set: there is one order",
            ),
            (_, true, Over::Alpha) => refuse("1 with --over alpha: repeats are for learning rates"),
            (repeats, true, Over::Dt) => {
                let own = prepared.variants.sources[0].batch;
                Ok((0..repeats as u64).map(|i| Some(own.wrapping_add(i))).collect())
            }
        }
    }

    fn horizon(&self, own_steps: usize, notes: &mut Vec<String>) -> Result<Horizon, Error> {
        let steps = self.steps.unwrap_or_else(|| {
            if own_steps < LEAST_STEPS {
                notes.push(format!(
                    "the training has {own_steps} steps, too few to judge: {LEAST_STEPS} are made"
                ));
            }
            own_steps.max(LEAST_STEPS)
        });
        within("--steps", steps, LEAST_STEPS, 1_000_000_000)?;
        let at_most = self.at_most.unwrap_or(4 * steps);
        within("--at-most", at_most, steps, 20_000_000_000)?;
        Ok(Horizon { steps, at_most, tells_divergence: false })
    }

    /// Only the divergence edge needs to tell restrained from diverging.
    fn horizon_for(property: Property, horizon: Horizon) -> Horizon {
        Horizon { tells_divergence: property == Property::Bounded, ..horizon }
    }

    fn settings(
        &self,
        prepared: &Prepared,
        search: &Search,
        horizon: Horizon,
        seeds: &[u64],
    ) -> Value {
        json!({
            "over": self.over,
            "property": search.property,
            "start": search.start,
            "from": self.from,
            "to": self.to,
            "tolerance": self.tolerance,
            "steps": horizon.steps,
            "at-most": horizon.at_most,
            "seeds": seeds,
            "repeats": self.repeats,
            "twins": self.twins,
            "training": prepared.found.to_json(),
            "data-hash": prepared.data_hash,
        })
    }
}

/// One end of a search without the other.
fn without(given: &str, missing: &str) -> Error {
    Error::setting(given, format!("it without {missing}"), "both ends, or none")
}
