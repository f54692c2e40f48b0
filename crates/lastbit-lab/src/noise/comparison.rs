//! Two groups beside each other: paired by their seeds where they have them in common.

use lastbit::statistics::bootstrap;
use lastbit::statistics::permutation::{fewest_pairs, fewest_runs, holm, sign_flip, split};
use lastbit::statistics::power::Design;
use lastbit::statistics::sample::{Sample, mean};
use serde::Serialize;

use super::spread::Group;
use super::{Compare, Question, ends};

/// What a new method gains over a base.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The one.
    pub base: String,
    /// The other.
    pub new: String,
    /// Whether runs are paired by seed.
    pub paired: bool,
    /// Pairs, or runs of the smaller group.
    pub n: usize,
    /// Runs that have no partner and were left out.
    pub without_partner: usize,
    /// The gain of each pair; none without pairs.
    #[serde(skip)]
    pub gains: Vec<f64>,
    /// Mean of `new` less that of `base`; the other way round where lower is better.
    pub gain: f64,
    /// Its BCa interval.
    pub gain_bca: Option<[f64; 2]>,
    /// Standard deviation of the differences of pairs; pooled over both groups otherwise.
    pub sigma: Option<f64>,
    /// Two-sided p-value: sign flips of pairs, or splits of all runs.
    pub p: f64,
    /// Corrected for all comparisons made.
    pub p_holm: f64,
    /// The smallest p that any data of this size could have had.
    pub smallest_p: f64,
    /// Whether all sign patterns or splits were counted.
    pub exact: bool,
    /// The gain that as many runs show with the chance asked for.
    pub detectable: Option<f64>,
    /// Pairs, or runs a side, that show a gain of the size asked for, or else of that found.
    pub runs_needed: Option<usize>,
}

/// All comparisons that are asked for.
pub fn all(groups: &[Group], question: &Question) -> Vec<Comparison> {
    let named = |name: &String| groups.iter().find(|group| group.name == *name);
    let pairs: Vec<(&Group, &Group)> = match &question.compare {
        Compare::Pair([base, new]) => named(base).zip(named(new)).into_iter().collect(),
        Compare::Nothing => vec![],
        Compare::WithFirst => {
            let mut others = groups.iter().filter(|group| !question.is_rounding(&group.name));
            let base = others.next();
            others.filter_map(|new| Some((base?, new))).collect()
        }
    };
    let count = pairs.len();
    let compared = pairs.into_iter().map(|(base, new)| Comparison::of(base, new, count, question));
    let mut found: Vec<Comparison> = compared.collect();
    let adjusted = holm(&found.iter().map(|comparison| comparison.p).collect::<Vec<_>>());
    found.iter_mut().zip(adjusted).for_each(|(comparison, p)| comparison.p_holm = p);
    found
}

impl Comparison {
    /// One of `count` comparisons.
    fn of(base: &Group, new: &Group, count: usize, question: &Question) -> Self {
        let pairs = if question.pairs { pairs(base, new) } else { vec![] };
        let smaller = base.runs.len().min(new.runs.len());
        // Fewer seeds in common are chance, or a mistake.
        let paired = 2 * pairs.len() >= smaller && !pairs.is_empty();
        let (base_values, new_values): (Vec<f64>, Vec<f64>) =
            if paired { pairs.into_iter().unzip() } else { (base.values(), new.values()) };
        let (from, to) = if question.lower_is_better {
            (&new_values, &base_values)
        } else {
            (&base_values, &new_values)
        };
        let (confidence, resampling) = (question.confidence(), question.resampling);
        let gains: Vec<f64> = to.iter().zip(from).map(|(to, from)| to - from).collect();
        let (design, tested, bca, sigma, gain) = if paired {
            let bca = bootstrap::of_mean(&gains, confidence, resampling);
            let sigma = Sample::of(&gains).sigma;
            (Design::Paired, sign_flip(from, to, resampling), bca, sigma, mean(&gains))
        } else {
            let bca = bootstrap::of_difference(from, to, confidence, resampling);
            let gain = mean(to) - mean(from);
            (Design::Independent, split(from, to, resampling), bca, pooled(from, to), gain)
        };
        let n = from.len().min(to.len());
        // What Holm's correction asks of the smallest p; of the others it asks less.
        let (level, power) = (question.level / count as f64, question.power);
        // Differences of pairs that are equal but for the rounding of their subtraction.
        let largest = from.iter().chain(to).fold(0.0_f64, |most, value| most.max(value.abs()));
        let is_rounding = |sigma: f64| sigma <= 100.0 * f64::EPSILON * largest;
        let sigma = sigma.map(|sigma| if is_rounding(sigma) { 0.0 } else { sigma });
        let noisy = sigma.filter(|sigma| *sigma > 0.0);
        let sought = question.gain.unwrap_or(gain).abs();
        // Fewer find nothing, however large it is.
        let fewest = if paired { fewest_pairs(level) } else { fewest_runs(level) };
        let needed = |sigma: f64| {
            let effect = sought / sigma;
            let is_large = design.power(fewest, effect, level) >= power;
            if is_large { Some(fewest) } else { design.runs_needed(effect, level, power) }
        };
        Self {
            base: base.name.clone(),
            new: new.name.clone(),
            paired,
            n,
            without_partner: if paired { base.runs.len() + new.runs.len() - 2 * n } else { 0 },
            gains: if paired { gains } else { vec![] },
            gain,
            gain_bca: bca.map(ends),
            sigma,
            p: tested.p,
            p_holm: tested.p,
            smallest_p: tested.smallest_p,
            exact: tested.exact,
            detectable: noisy
                .filter(|_| tested.smallest_p <= level)
                .and_then(|sigma| Some(design.detectable(n, level, power)? * sigma)),
            runs_needed: noisy.and_then(needed),
        }
    }
}

/// Values of both groups at the seeds that each has once, in the order of the first.
fn pairs(base: &Group, new: &Group) -> Vec<(f64, f64)> {
    use std::collections::HashMap;
    // Once each: a seed that comes twice has no partner.
    let by_seed = |group: &Group| {
        let mut found: HashMap<String, Option<f64>> = HashMap::new();
        for run in &group.runs {
            let Some(seed) = &run.seed else { continue };
            let entry = found.entry(seed.clone());
            entry.and_modify(|value| *value = None).or_insert(Some(run.value));
        }
        found
    };
    let (of_base, of_new) = (by_seed(base), by_seed(new));
    let value = |of: &HashMap<String, Option<f64>>, seed: &str| of.get(seed).copied().flatten();
    let seeds = base.runs.iter().filter_map(|run| run.seed.as_deref());
    seeds.filter_map(|seed| Some((value(&of_base, seed)?, value(&of_new, seed)?))).collect()
}

/// The standard deviation that two groups have in common.
fn pooled(a: &[f64], b: &[f64]) -> Option<f64> {
    let degrees = a.len() + b.len() - 2;
    let squares = |values: &[f64]| {
        let sigma = Sample::of(values).sigma.unwrap_or(0.0);
        sigma * sigma * (values.len() - 1) as f64
    };
    (degrees > 0).then(|| ((squares(a) + squares(b)) / degrees as f64).sqrt())
}
