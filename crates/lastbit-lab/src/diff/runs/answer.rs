//! The answer in words: where two runs first differ, in what, and how the difference grows.

use lastbit::growth::CONFIDENCE;

use super::{Evidence, GrowthOfDistance, RunDiff, TensorDifference, TensorsAt};
use crate::number::Number;

/// One sentence on the first difference, one on its growth, one on the logs where they say more.
pub fn of(found: &RunDiff) -> String {
    let mut sentences = vec![match found.first_different_step {
        None => identical(found),
        Some(step) => different(found, step),
    }];
    sentences.extend(growth(found));
    sentences.extend(again(found));
    sentences.extend(logs(found));
    sentences.join(" ")
}

/// "all 40 common steps (0 to 2000)"
fn identical(found: &RunDiff) -> String {
    let (unit, first, last) = (found.unit.name(), found.first_common_step, found.last_common_step);
    match found.common_steps {
        1 => format!("Identical at {unit} {first}, the only one in common."),
        count => format!("Identical at all {count} common {unit}s, {first} to {last}."),
    }
}

fn different(found: &RunDiff, step: u64) -> String {
    let unit = found.unit.name();
    let what = what_differs(found, step);
    match found.last_identical_step {
        None if step == 0 => format!("They differ from {unit} 0 in {what}."),
        None => format!(
            "They differ at {unit} {step}, the first in common, in {what}; what was before is not known."
        ),
        Some(last) => {
            let at = match (last + 1 == step, found.identical_again_at) {
                (true, None) => format!("from {unit} {step} on"),
                (true, Some(_)) => format!("at {unit} {step}"),
                (false, _) => format!("at {unit} {step}, the next in common,"),
            };
            format!("Identical up to {unit} {last}; {at} they differ in {what}.")
        }
    }
}

fn what_differs(found: &RunDiff, step: u64) -> String {
    let unit = found.unit.name();
    match &found.tensors {
        Some(tensors) if tensors.step == step => first_of(tensors),
        Some(tensors) => format!(
            "the hash of all parameters; tensors are known first at {unit} {}: {}",
            tensors.step,
            first_of(tensors)
        ),
        None => "the hash of all parameters; no common checkpoint says in which tensors".to_owned(),
    }
}

/// "`w` by 1 ulp (values not saved), and 4 more of 62 tensors"
fn first_of(tensors: &TensorsAt) -> String {
    let name = |one: &TensorDifference| format!("`{}`", one.name.escape_debug());
    let (count, compared) = (tensors.different.len(), tensors.compared);
    let first = &tensors.different[0];
    let size = size_of(first);
    match count {
        1 => format!("{}{size}, one of {compared} tensors", name(first)),
        _ if count == compared => {
            format!("{}{size} and all other tensors ({compared} in all)", name(first))
        }
        _ => format!("{}{size} and {} more of {compared} tensors", name(first), count - 1),
    }
}

/// By how much a tensor differs.
fn size_of(one: &TensorDifference) -> String {
    match (one.max_ulps, one.rel_l1) {
        _ if one.not_comparable.is_some_and(|count| count > 0) => {
            " (NaN or infinite on one side)".to_owned()
        }
        (Some(0), _) => " (equal values of other bits)".to_owned(),
        (Some(1), _) => " by 1 ulp".to_owned(),
        (Some(ulps), _) => format!(" by up to {ulps} ulps"),
        (None, Some(rel_l1)) => format!(" by RelL1 {rel_l1}"),
        (None, None) => " (its values were not saved)".to_owned(),
    }
}

/// None where nothing differs.
fn growth(found: &RunDiff) -> Option<String> {
    found.first_different_step?;
    let unit = found.unit.name();
    Some(match &found.growth {
        GrowthOfDistance::None { why } => format!("No growth rate: {why}."),
        GrowthOfDistance::Fitted { per_step, standard_error, points, from, to } => {
            let (rate, error) = (per_step.0, standard_error.0);
            let over = format!("from {unit} {} to {} ({points} points)", from[0], to[0]);
            let size = format!("{} ± {} e-folds per {unit}", Number(rate.abs()), Number(error));
            if rate.abs() <= CONFIDENCE * error {
                format!(
                    "Whether the distance grows is undecided: {per_step} ± {standard_error} e-folds per {unit} {over}; three \
                     standard errors reach beyond 0."
                )
            } else if rate > 0.0 {
                format!("The distance grows by {size} {over}.")
            } else {
                format!("The distance shrinks by {size} {over}.")
            }
        }
    })
}

fn again(found: &RunDiff) -> Option<String> {
    let step = found.identical_again_at?;
    let row = found.steps.iter().find(|row| row.step == step);
    let what = match row.map(|row| row.by) {
        Some(Evidence::Hash) => "Their parameters are",
        _ => "They are",
    };
    let unit = found.unit.name();
    Some(format!("{what} identical again at {unit} {step}."))
}

/// Where the logs say more than the steps that were compared.
fn logs(found: &RunDiff) -> Option<String> {
    let first = found.first_metric.as_ref()?;
    let unit = found.unit.name();
    if found.first_different_step.is_some_and(|step| step <= first.step) {
        return None;
    }
    let metric = first.metric.escape_debug();
    let but = if found.first_different_step.is_none() { "But the logged" } else { "The logged" };
    let until = match first.last_equal_step {
        Some(last) => format!(", equal up to {unit} {last}"),
        None => String::new(),
    };
    Some(format!("{but} `{metric}` differs from {unit} {} on{until}.", first.step))
}
