//! `lastbit edge`: of a training configuration, or of a one-layer kernel.

mod format;
mod kernel;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use lastbit::optim::method::Name;
use lastbit::statistics::median::MOST;
use lastbit::verdict::{Horizon, LEAST_STEPS};
use serde_json::{Value, json};

use super::settings::Called;
use super::{CommandOutput, resumes_with};
use crate::cli::values::choice;
use crate::terminal::Terminal;
use lastbit_lab::Error;
use lastbit_lab::edge::{Draw, EdgeRecord, EdgeResult, Over, Probes, Property, Search, sentence};
use lastbit_lab::input::read_toml;
use lastbit_lab::simulate::Precision;
use lastbit_lab::train::{
    Batch, ConfigFile, Device, MiniBatchThreshold, Prepared, Replicas, Schedule,
};
use lastbit_lab::validate::{not_negative, positive, within};

/// What the verdicts in the table mean.
const RULE: &str = "\
stable: a slightly perturbed copy does not move away (growth + 3 standard errors < resolution)
restrained: bounded, but the copy moves away or the loss keeps failing to fall; diverged: unbounded
";

/// A search for the edge of stability.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  lastbit edge config.toml                        all three edges of the learning rate, to 1 %
  lastbit edge config.toml --tolerance 1e-3 --steps 2000 --seeds 0,1,2
  lastbit edge config.toml --from 90 --to 100     search between these two
  lastbit edge config.toml --over alpha           stable interval of the weight decay
  lastbit edge config.toml --property stable      the growth and CFL edges alone
  lastbit edge config.toml --repeats 6            with mini-batches: an interval for the median edge
  lastbit edge config.toml --set network.weights=run/final/k1.safetensors
                                                  edge at the weights a run ended with
  lastbit edge config.toml --device cuda          run the probes on a GPU
  lastbit edge kernel --help                      edge of a one-layer network

CONFIG is that of `lastbit train`. Every probe is a run of --steps steps (up to --at-most while it is
undecided) from the same initial weights with its own learning rate, and gets a verdict: stable, restrained, diverged or undecided. A learning
rate has three edges, which coincide on a quadratic and may lie far apart elsewhere:
  growth edge      between the last stable probe and the first that is not stable
  CFL edge         2/lambda_max for gradient descent, with lambda_max measured at the end of the last
                   stable probe, after 40 more steps at half its learning rate: the limit at that
                   minimum, if one was reached
  divergence edge  between the last bounded and the first diverged probe: below it, the run may be
                   sensitive to rounding, and still learn
Probes that leave open on which side they lie are ignored. Sharpness may still be rising: more --steps may find lower
edges.

With mini-batches the edge depends on the order of the batches, so one search is one draw. --repeats N
searches with N orders, from the same initial weights, and prints an interval for the median edge with its
confidence: 1 - 2/2^N up to N = 8 (N = 6: 96.87 %), at least 95 % beyond. It holds for any distribution
of the edges; undecided probes widen it. For each learning rate tried, the record says in how many orders the
training is stable, not stable or undecided.

Every probe is saved; the same command resumes after an interruption.

Exit codes: 0 an edge was found, 2 none was found, or wrong input or environment, 130 interrupted."
)]
pub struct Edge {
    #[command(subcommand)]
    other: Option<Other>,

    #[command(flatten)]
    training: Training,
}

/// Other searches.
#[derive(Debug, Subcommand)]
enum Other {
    /// Edge of a one-layer network, or of one of its linear equations.
    Kernel(kernel::Kernel),
}

impl Edge {
    /// The edge.
    pub fn answer(&self, called: Called, out: &Path) -> Result<CommandOutput, Error> {
        match &self.other {
            Some(Other::Kernel(kernel)) => kernel.answer(called),
            None => self.training.answer(out),
        }
    }
}

/// Settings of a search over trainings.
#[derive(Debug, Args)]
struct Training {
    /// Settings of `lastbit train`, as TOML.
    #[arg(value_name = "CONFIG", required = true)]
    config: Option<PathBuf>,

    /// The parameter to vary.
    #[arg(long, value_parser = choice::<Over>(), default_value = "dt")]
    over: Over,

    /// Search only for the edge where runs stop being stable, or bounded [default: both for a learning
    /// rate; stable for a weight decay or with --from and --to].
    #[arg(long, value_parser = choice::<Property>())]
    property: Option<Property>,

    /// One end of the search [default: by doubling and halving, from the configuration's value].
    #[arg(long, value_name = "A", requires = "to")]
    from: Option<f64>,

    /// The other end.
    #[arg(long, value_name = "B", requires = "from")]
    to: Option<f64>,

    /// Relative width of the final interval.
    #[arg(long, default_value_t = 0.01)]
    tolerance: f64,

    /// Steps of a probe [default: those of the configuration].
    #[arg(long)]
    steps: Option<usize>,

    /// Most steps of a probe whose verdict is undecided [default: four times --steps].
    #[arg(long)]
    at_most: Option<usize>,

    /// Seeds of the initial weights [default: those of the configuration].
    #[arg(long, value_delimiter = ',')]
    seeds: Vec<u64>,

    /// Orders of the mini-batches to search with, for an interval of the median edge: seeds of the batches
    /// from that of the configuration on.
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeats: usize,

    /// Also run a copy perturbed by one ulp beside each probe, for its curve; takes 1.5 times as long.
    #[arg(long)]
    twins: bool,

    /// Change a setting of the configuration. A path is relative to the current folder.
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,

    /// Device to run the probes on; short for `--set training.device=…`.
    #[arg(long, value_parser = choice::<Device>())]
    device: Option<Device>,

    /// Folder of the data sets.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Compute again, even if finished probes are there.
    #[arg(long)]
    fresh: bool,
}

impl Training {
    fn answer(&self, out: &Path) -> Result<CommandOutput, Error> {
        let path = self.config.as_deref().expect("clap requires it");
        let device = self.device.map(Device::as_setting);
        let set: Vec<String> = self.set.iter().cloned().chain(device).collect();
        let mut found = ConfigFile::parse(&read_toml(path)?, path, &set)?;
        let search = self.search()?;
        let mut notes = Vec::new();
        let seeds = self.only_what_matters(&mut found, &mut notes)?;
        let prepared = Arc::new(Prepared::new(found, self.data.as_deref(), true)?);
        let horizon = self.horizon(prepared.steps, &mut notes)?;
        let batches = self.batch_seeds(&prepared, &mut notes)?;
        notes.extend(MiniBatchThreshold::of(&prepared, prepared.plan.dt).map(|t| t.note()));
        let first = Probes::new(prepared.clone(), self.over, seeds[0], horizon, self.twins)?;
        let monitor = Terminal::new(None);
        let draw = |seed: u64, batch: Option<u64>| first.with_draw(Draw { seed, batch });
        let of_seed = |seed: &u64| batches.iter().map(|batch| draw(*seed, *batch)).collect();
        let draws: Vec<Probes> =
            seeds.iter().flat_map(|seed| -> Vec<_> { of_seed(seed) }).collect();
        let run = |search: Search| {
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
                monitor: &monitor,
            };
            kept.run(|found| sentence(&search, found))
                .map(|(store, found)| (kept.settings, store, found))
        };
        let mut text = String::new();
        let mut answers: Vec<(Property, Value)> = Vec::new();
        let mut without: Vec<String> = Vec::new();
        // The divergence edge lies at the growth edge or above it. Repeats all begin at the configuration's value,
        // so that none depends on another.
        let mut start = None;
        for property in self.properties() {
            let search = Search { property, start, ..search };
            let (settings, store, found) = match run(search) {
                Err(Error::Stopped(reason)) => {
                    let resume = resumes_with("finished probes are saved", self.fresh);
                    return Ok(CommandOutput::stopped(reason, &resume));
                }
                ended => ended?,
            };
            let whys: Vec<String> =
                found.iter().filter_map(|(_, found)| found.why_none(property)).collect();
            if whys.len() == found.len() {
                without.extend(whys.into_iter().next());
            }
            let edge = found.iter().find_map(|(_, found)| found.edges.first());
            start = edge.filter(|_| self.repeats == 1).map(|(_, bracket)| bracket.fails);
            text += &format::text(&search, &found, if answers.is_empty() { &notes } else { &[] });
            text += &format!("Record and figures: {}\n\n", store.folder().display());
            let mut json = json!(EdgeResult::new(&search, &found, notes.clone()));
            json["settings"] = settings;
            json["folder"] = json!(store.folder());
            answers.push((property, json));
        }
        if without.len() == answers.len() {
            let flags = if self.from.is_some() { "--from and --to" } else { "--over" };
            let expected = "two values with different verdicts; more --steps may show one";
            return Err(Error::setting(flags, without.join("; "), expected));
        }
        text += RULE;
        let mut answers = answers.into_iter();
        let (_, mut json) = answers.next().expect("one edge at least is searched");
        for (property, other) in answers {
            json[property.edge_name().replace(' ', "_")] = other;
        }
        Ok(CommandOutput::new(text, json))
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
        let ends = self.from.zip(self.to);
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
