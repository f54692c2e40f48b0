//! The verdict in one sentence: "not significant" unless a test says otherwise.
//!
//! - **Groups are compared**: a gain is significant if its p-value, adjusted for the number of
//!   comparisons, is at most the level.
//! - **No groups are compared**: a gain between two single runs is significant if it exceeds
//!   `t_{1−level/2, n−1} √2 sigma`, the difference of two runs of one method at that confidence; sigma
//!   is the largest of the groups'.

use lastbit::statistics::distributions::student_quantile;
use lastbit::statistics::permutation::fewest_pairs;
use serde::Serialize;

use super::Question;
use super::amount::{amount, pairs, percent, short};
use super::comparison::Comparison;
use super::spread::Spread;

/// Whether the gains are significant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// Whether every gain in question is.
    pub significant: bool,
    /// Why, one sentence for each comparison.
    pub sentences: Vec<String>,
    /// Largest difference to expect between two single runs of one method.
    pub between_two_runs: Option<f64>,
}

/// The verdict.
pub fn of(spreads: &[Spread], comparisons: &[Comparison], question: &Question) -> Verdict {
    let floor = floor(spreads, question);
    let between_two_runs = floor.map(|(_, reach)| reach);
    if comparisons.is_empty() {
        let (significant, sentence) = of_a_gain(spreads, floor, question);
        return Verdict { significant, sentences: vec![sentence], between_two_runs };
    }
    let count = comparisons.len();
    let each: Vec<(bool, String)> =
        comparisons.iter().map(|one| of_comparison(one, count, spreads, question)).collect();
    Verdict {
        significant: each.iter().all(|(significant, _)| *significant),
        sentences: each.into_iter().map(|(_, sentence)| sentence).collect(),
        between_two_runs,
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
    let runs = if one.paired { pairs(*n) } else { "the runs of both".to_owned() };
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
        return (false, format!("{new} is {how} than {base} (−{size}, {p})."));
    }
    if one.p_holm <= question.level {
        let within = one.gain_bca.map_or(String::new(), |[low, high]| {
            let (low, high) = (short(low), short(high));
            format!(" ({} interval {low} to {high})", percent(question.confidence()))
        });
        return (
            true,
            format!(
                "The gain of {new} over {base}, {size}, is significant: {p} over {runs}{within}."
            ),
        );
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
        let what = if one.paired { "pairs" } else { "runs a side" };
        let sought =
            if question.gain.is_some() { "the gain asked for" } else { "a gain of this size" };
        let needed = one
            .runs_needed
            .map(|n| format!("; {n} {what} detect {sought} at {} power", percent(question.power)));
        format!("{p} over {runs}{}", needed.unwrap_or_default())
    };
    let last_bit =
        last_bit_clause(spreads, question).map_or(String::new(), |clause| format!("{clause}; "));
    (false, format!("The gain of {new} over {base}, {size}, is not significant: {last_bit}{why}."))
}
