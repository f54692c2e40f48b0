//! Two groups beside each other: paired by their seeds where they have them in common.

use lastbit::statistics::permutation::{fewest_pairs, fewest_runs, holm, sign_flip, split};
use lastbit::statistics::power::{Design, Sizes, Tails};
use lastbit::statistics::sample::{Sample, mean};
use lastbit::statistics::t_test::{Estimate, NoEstimate};
use lastbit::statistics::{Interval, bootstrap};
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
    /// Runs of the base and of the new one that are compared.
    pub sizes: [usize; 2],
    /// Runs that have no partner and were left out.
    pub without_partner: usize,
    /// The gain of each pair; none without pairs.
    #[serde(skip)]
    pub gains: Vec<f64>,
    /// Mean of `new` less that of `base`; the other way round where lower is better.
    pub gain: f64,
    /// Its interval: Student's of the pairs, Welch's of two groups.
    pub gain_interval: Option<[f64; 2]>,
    /// Why there is none.
    pub no_interval: Option<String>,
    /// Its bootstrap interval (BCa); of few runs too short.
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
    /// Two-sided p-value of the t-test that belongs to the interval.
    pub p_t: Option<f64>,
    /// The gain that as many runs show with the chance asked for.
    pub detectable: Option<f64>,
    /// Pairs, or runs a side, that show a gain of the size asked for.
    pub runs_needed: Option<usize>,
    /// The gain asked for, held against the interval.
    pub asked: Option<AskedGain>,
    /// Whether the two are equivalent, if that was asked.
    pub equivalence: Option<Equivalence>,
}

/// A gain that was asked for, beside what was found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AskedGain {
    /// The gain asked for.
    pub gain: f64,
    /// Where it lies; unknown without an interval.
    pub place: Option<Place>,
    /// Whether as many runs detect it with the chance asked for; unknown without a sigma.
    pub detectable: Option<bool>,
}

/// Where a value lies relative to an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// Below its lower end: what was measured is larger.
    Below,
    /// Within: compatible with what was measured.
    Within,
    /// Above its upper end: excluded.
    Above,
}

/// Two one-sided tests of a margin.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Equivalence {
    /// Differences up to this do not matter.
    pub margin: f64,
    /// The larger of both one-sided p-values; none without an interval.
    pub p: Option<f64>,
    /// Corrected for all comparisons made.
    pub p_holm: Option<f64>,
    /// Interval of the gain with confidence 1 − 2 level.
    pub interval: Option<[f64; 2]>,
    /// Whether it is shown that the two differ by less than the margin.
    pub equivalent: bool,
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
    // What has no p is a test that failed.
    let of_margin = |one: &Comparison| one.equivalence.and_then(|tested| tested.p).unwrap_or(1.0);
    let adjusted = holm(&found.iter().map(of_margin).collect::<Vec<_>>());
    for (comparison, p) in found.iter_mut().zip(adjusted) {
        if let Some(tested) = &mut comparison.equivalence {
            tested.p_holm = tested.p.map(|_| p);
            tested.equivalent = tested.p.is_some() && p <= question.level;
        }
    }
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
        let (tested, estimate, bca, sigma, gain) = if paired {
            let estimate = Estimate::of_pairs(from, to);
            let bca = bootstrap::of_mean(&gains, confidence, resampling);
            let sigma = Sample::of(&gains).sigma;
            (sign_flip(from, to, resampling), estimate, bca, sigma, mean(&gains))
        } else {
            let estimate = Estimate::of_difference(from, to);
            let bca = bootstrap::of_difference(from, to, confidence, resampling);
            let gain = mean(to) - mean(from);
            (split(from, to, resampling), estimate, bca, pooled(from, to), gain)
        };
        let gain = estimate.map_or(gain, |estimate| estimate.value);
        let interval = estimate.map(|estimate| estimate.interval(confidence));
        let n = from.len().min(to.len());
        let (design, sizes) = if paired {
            (Design::Paired, Sizes::Pairs(n))
        } else {
            (Design::Independent, Sizes::Sides(from.len(), to.len()))
        };
        // What Holm's correction asks of the smallest p; of the others it asks less.
        let (level, power) = (question.level / count as f64, question.power);
        // Differences of pairs that are equal but for the rounding of their input.
        let largest = from.iter().chain(to).fold(0.0_f64, |most, value| most.max(value.abs()));
        let is_rounding = |sigma: f64| sigma <= 4.0 * f64::EPSILON * largest;
        let sigma = sigma.map(|sigma| if is_rounding(sigma) { 0.0 } else { sigma });
        let noisy = sigma.filter(|sigma| *sigma > 0.0);
        // Fewer find nothing, however large it is.
        let fewest = if paired { fewest_pairs(level) } else { fewest_runs(level) };
        let needed = |gain: f64| {
            let found = design.runs_needed(gain / noisy?, level, power, Tails::Two)?;
            Some(found.max(fewest))
        };
        let detectable = noisy
            .filter(|_| tested.smallest_p <= level)
            .and_then(|sigma| Some(sizes.detectable(level, power, Tails::Two)? * sigma));
        let no_interval = |why: NoEstimate| match (why, paired) {
            (NoEstimate::TooFew, true) => "one pair has no spread".to_owned(),
            (NoEstimate::TooFew, false) => "a single run has no spread".to_owned(),
            (NoEstimate::NoSpread, true) => {
                format!("all {n} differences are equal, so their spread cannot be estimated")
            }
            (NoEstimate::NoSpread, false) => {
                "all runs of a group are equal, so their spread cannot be estimated".to_owned()
            }
        };
        Self {
            base: base.name.clone(),
            new: new.name.clone(),
            paired,
            n,
            sizes: [base_values.len(), new_values.len()],
            without_partner: if paired { base.runs.len() + new.runs.len() - 2 * n } else { 0 },
            gains: if paired { gains.clone() } else { vec![] },
            gain,
            gain_interval: interval.ok().map(ends),
            no_interval: estimate.err().map(no_interval),
            gain_bca: bca.map(ends),
            sigma,
            p: tested.p,
            p_holm: tested.p,
            smallest_p: tested.smallest_p,
            exact: tested.exact,
            p_t: estimate.ok().map(|estimate| estimate.p_two_sided(0.0)),
            detectable,
            runs_needed: question.gain.and_then(needed),
            asked: question.gain.map(|gain| AskedGain {
                gain,
                place: interval.ok().map(|interval| Place::of(gain, interval)),
                detectable: noisy.map(|_| detectable.is_some_and(|found| found <= gain)),
            }),
            equivalence: question.equivalent.map(|margin| {
                let tested =
                    estimate.ok().map(|estimate| estimate.equivalence(margin, question.level));
                Equivalence {
                    margin,
                    p: tested.map(|tested| tested.p),
                    p_holm: None,
                    interval: tested.map(|tested| ends(tested.interval)),
                    equivalent: false,
                }
            }),
        }
    }
}

impl Place {
    fn of(value: f64, interval: Interval) -> Self {
        if value < interval.low {
            Self::Below
        } else if value > interval.high {
            Self::Above
        } else {
            Self::Within
        }
    }
}

/// Values of both groups at the seeds that each has once, in the order of the first.
fn pairs(base: &Group, new: &Group) -> Vec<(f64, f64)> {
    let (of_base, of_new) = (base.by_seed(), new.by_seed());
    let seeds = base.runs.iter().filter_map(|run| run.seed.as_deref());
    seeds.filter_map(|seed| Some((*of_base.get(seed)?, *of_new.get(seed)?))).collect()
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
