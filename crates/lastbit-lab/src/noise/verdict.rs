//! The verdict in one sentence: "not significant" unless a test says otherwise.
//!
//! - **Groups are compared**: a gain is significant if its p-value, adjusted for the number of
//!   comparisons, is at most the level. A gain that was asked for is held against the interval of the
//!   gain found: excluded, compatible or exceeded; and against what as many runs detect.
//! - **A margin is given**: whether two groups are equivalent within it.
//! - **A target is given**: whether the mean of each group is on its wanted side.
//! - **No groups are compared**: a gain between two single runs is significant if it exceeds
//!   `t_{1−level/2, n−1} √2 sigma`, the difference of two runs of one method at that confidence; sigma
//!   is the largest of the groups'.

use lastbit::statistics::distributions::student_quantile;
use lastbit::statistics::permutation::fewest_pairs;
use serde::Serialize;

use super::Question;
use super::amount::{amount, pairs, percent, short};
use super::comparison::{Comparison, Equivalence, Place};
use super::spread::Spread;
use super::target::{Decision, TargetTest};

/// Whether the gains are significant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Whether every gain in question is.
    pub significant: bool,
    /// Whether all groups compared are equivalent, where that was asked.
    pub equivalent: Option<bool>,
    /// Why, in plain words.
    pub sentences: Vec<String>,
    /// Largest difference to expect between two single runs of one method.
    pub between_two_runs: Option<f64>,
}

/// The verdict.
pub fn of(
    spreads: &[Spread],
    comparisons: &[Comparison],
    targets: &[TargetTest],
    question: &Question,
) -> Verdict {
    let floor = floor(spreads, question);
    let between_two_runs = floor.map(|(_, reach)| reach);
    let verdict = |significant: bool, sentences: Vec<String>| {
        let each = comparisons.iter().filter_map(|one| one.equivalence);
        let equivalent = question.equivalent.filter(|_| !comparisons.is_empty());
        let equivalent = equivalent.map(|_| each.clone().all(|tested| tested.equivalent));
        Verdict { significant, equivalent, sentences, between_two_runs }
    };
    if !targets.is_empty() {
        let significant = targets.iter().all(|test| test.decision == Decision::Significant);
        let sentence = |test: &TargetTest| test.sentence(targets.len(), question);
        return verdict(significant, targets.iter().map(sentence).collect());
    }
    if comparisons.is_empty() {
        let (significant, sentence) = of_a_gain(spreads, floor, question);
        return verdict(significant, vec![sentence]);
    }
    let count = comparisons.len();
    let (mut significant, mut sentences) = (true, vec![]);
    for one in comparisons {
        let (holds, sentence) = of_comparison(one, count, spreads, question);
        significant &= holds;
        sentences.push(sentence);
        sentences.extend(of_asked_gain(one, question));
        sentences.extend(one.equivalence.map(|tested| of_margin(one, tested, count, question)));
    }
    verdict(significant, sentences)
}

/// What is compared: "6 pairs", "6 and 8 runs".
fn runs_of(one: &Comparison) -> String {
    let [base, new] = one.sizes;
    if one.paired { pairs(one.n) } else { format!("{base} and {new} runs") }
}

/// Is the gain that was asked for excluded, and could these runs have found it?
fn of_asked_gain(one: &Comparison, question: &Question) -> Option<String> {
    let asked = one.asked?;
    let (gain, confidence) = (amount(asked.gain, question), percent(question.confidence()));
    let place = match (asked.place, one.gain_interval) {
        (Some(place), Some([low, high])) => {
            let (low, high) = (short(low), short(high));
            match place {
                Place::Above => format!(
                    "A gain of {gain} is excluded: it is above the {confidence} interval, {low} to {high}"
                ),
                Place::Within => format!(
                    "A gain of {gain} is compatible with these runs: it is within the {confidence} \
                     interval, {low} to {high}"
                ),
                Place::Below => format!(
                    "The gain is significantly larger than {gain}: the {confidence} interval is {low} to \
                     {high}"
                ),
            }
        }
        _ => {
            let reason = one.no_interval.as_deref().unwrap_or("there is no interval");
            format!("Whether a gain of {gain} is excluded cannot be said: {reason}")
        }
    };
    let (runs, power) = (runs_of(one), percent(question.power));
    let unit = if one.paired { "pairs" } else { "runs a side" };
    let needed = one.runs_needed.map_or(String::new(), |n| format!("; {n} {unit} do"));
    let power = match (asked.detectable, one.detectable) {
        (None, _) => String::new(),
        (Some(true), _) => format!(". {runs} detect a gain of {gain} at {power} power"),
        (Some(false), Some(least)) => format!(
            ". {runs} do not detect it at {power} power (minimum detectable effect: {}){needed}",
            amount(least, question)
        ),
        (Some(false), None) => format!(". {runs} cannot detect any gain{needed} at {power} power"),
    };
    Some(format!("{place}{power}."))
}

/// Are the two the same within the margin?
fn of_margin(one: &Comparison, tested: Equivalence, count: usize, question: &Question) -> String {
    let Comparison { base, new, .. } = one;
    let (margin, level) = (amount(tested.margin, question), question.level);
    let (Some(p), Some(p_holm), Some([low, high])) = (tested.p, tested.p_holm, tested.interval)
    else {
        let reason = one.no_interval.as_deref().unwrap_or("there is no interval");
        return format!(
            "Equivalence of {new} and {base} within {margin} cannot be tested: {reason}."
        );
    };
    let p = match count {
        1 => format!("p = {}", short(p)),
        _ => format!("Holm-adjusted p = {} (raw {})", short(p_holm), short(p)),
    };
    let confidence = percent(1.0 - 2.0 * level);
    let why = format!(
        "{p} of two one-sided t-tests over {}, {confidence} interval {} to {}",
        runs_of(one),
        short(low),
        short(high)
    );
    if tested.equivalent {
        format!("{new} and {base} are equivalent within {margin} at level {level}: {why}.")
    } else {
        format!(
            "Equivalence of {new} and {base} within {margin} is not shown at level {level}: {why}."
        )
    }
}

/// The noisiest group, and by how much two of its runs differ at most.
fn floor<'a>(spreads: &'a [Spread], question: &Question) -> Option<(&'a Spread, f64)> {
    let noisy = spreads.iter().filter(|spread| spread.sigma.is_some());
    let noisiest =
        noisy.max_by(|a, b| a.sigma.unwrap_or(0.0).total_cmp(&b.sigma.unwrap_or(0.0)))?;
    let t = student_quantile(1.0 - question.level / 2.0, noisiest.n as f64 - 1.0);
    Some((noisiest, t * 2_f64.sqrt() * noisiest.sigma?))
}

/// "the last bit alone moves accuracy by 0.16 points", if that is known.
fn last_bit_clause(spreads: &[Spread], question: &Question) -> Option<String> {
    let own = spreads.iter().find(|spread| question.is_rounding(&spread.group))?;
    let sigma = own.sigma?;
    let metric = &question.metric;
    Some(if sigma > 0.0 {
        format!("the last bit alone moves {metric} by {}", amount(sigma, question))
    } else {
        // Weights may differ all the same: an accuracy is a whole number of examples.
        format!("the last bit alone moves {metric} by less than it resolves")
    })
}

fn of_a_gain(
    spreads: &[Spread],
    floor: Option<(&Spread, f64)>,
    question: &Question,
) -> (bool, String) {
    if spreads.is_empty() {
        return (false, "Undecided: all runs diverged.".to_owned());
    }
    let Some((noisiest, reach)) = floor else {
        return (
            false,
            "Undecided: the noise cannot be estimated from one run; give at least two.".to_owned(),
        );
    };
    if reach == 0.0 {
        let n = noisiest.n;
        let sentence = format!(
            "Undecided: all {n} runs of a group are equal, so the noise is smaller than this metric can \
             resolve."
        );
        return (false, sentence);
    }
    let confidence = percent(question.confidence());
    let within = format!(
        "two runs ({}) differ by up to {} ({confidence})",
        noisiest.group,
        amount(reach, question)
    );
    let last_bit = last_bit_clause(spreads, question);
    let why = last_bit.map_or_else(|| within.clone(), |clause| format!("{clause}, and {within}"));
    let Some(gain) = question.gain else {
        let detectable = noisiest.detectable.map(|gain| amount(gain, question));
        let with_more = detectable.map(|gain| {
            let n = noisiest.n;
            format!(
                "; with {n} runs a side the minimum detectable effect is {gain} at {} power",
                percent(question.power)
            )
        });
        let more = with_more.unwrap_or_default();
        return (false, format!("No gain was given: {why}{more}."));
    };
    if gain > reach {
        let sentence =
            format!("A gain of {} between two runs is significant: {why}.", amount(gain, question));
        return (true, sentence);
    }
    let needed = match noisiest.runs_needed {
        Some(n) => format!("{n} runs a side detect it at {} power", percent(question.power)),
        None => "no practical number of runs detects it".to_owned(),
    };
    let gain = amount(gain, question);
    (false, format!("A gain of {gain} between two runs is not significant: {why}; {needed}."))
}

fn of_comparison(
    one: &Comparison,
    count: usize,
    spreads: &[Spread],
    question: &Question,
) -> (bool, String) {
    let Comparison { base, new, n, .. } = one;
    let runs = runs_of(one);
    let interval = match (one.gain_interval, &one.no_interval) {
        (Some([low, high]), _) => {
            let confidence = percent(question.confidence());
            format!("{confidence} interval {} to {}", short(low), short(high))
        }
        (None, Some(reason)) => format!("no interval: {reason}"),
        (None, None) => "no interval".to_owned(),
    };
    let p = match count {
        1 => format!("p = {}", short(one.p)),
        _ => format!("Holm-adjusted p = {} (raw {})", short(one.p_holm), short(one.p)),
    };
    let size = amount(one.gain.abs(), question);
    if one.gain == 0.0 {
        return (false, format!("Not significant: {new} and {base} have the same mean."));
    }
    if one.gain < 0.0 {
        let how = if one.p_holm <= question.level {
            "significantly worse"
        } else {
            "worse, but not significantly,"
        };
        return (false, format!("{new} is {how} than {base} (−{size}, {p}; {interval})."));
    }
    if one.p_holm <= question.level {
        let sentence = format!(
            "The gain of {new} over {base}, {size}, is significant: {p} over {runs} ({interval})."
        );
        return (true, sentence);
    }
    let smallest = one.smallest_p * count as f64;
    let why = if smallest > question.level {
        let level = percent(question.level);
        let among = if count > 1 { format!(", times {count} comparisons") } else { String::new() };
        if one.paired {
            let fewest = fewest_pairs(question.level / count as f64);
            format!(
                "with {runs} the smallest two-sided p is 2/2^{n} = {}{among}, so nothing can be \
                 significant at {level}; make at least {fewest} pairs",
                short(one.smallest_p)
            )
        } else {
            format!(
                "with so few runs the smallest two-sided p is {}{among}, so nothing can be significant \
                 at {level}; make more runs",
                short(one.smallest_p)
            )
        }
    } else {
        let least = one.detectable.map_or(String::new(), |gain| {
            let power = percent(question.power);
            format!(
                "; the minimum detectable effect of {runs} is {} at {power} power",
                amount(gain, question)
            )
        });
        format!("{p} over {runs} ({interval}){least}")
    };
    let last_bit =
        last_bit_clause(spreads, question).map_or(String::new(), |clause| format!("{clause}; "));
    (false, format!("The gain of {new} over {base}, {size}, is not significant: {last_bit}{why}."))
}
