//! What the measurements of a run say, in sentences.
//!
//! ```text
//! E     median edge ratio of the last quarter of the measurements
//! E < 0.9           below the edge of stability
//! 0.9 <= E <= 1.1   at the edge of stability
//! E > 1.1           above the edge of stability
//! ```
//!
//! At the edge, full-batch gradient descent oscillates around a ratio of 1 by some percent; on mini-batches it may stay
//! below. The sentence states E, so that the reader can draw the line elsewhere.

use lastbit::verdict::VerdictKind;

use super::history::History;
use super::row::Row;
use super::settings::Settings;
use super::summary::EdgeSummary;
use crate::number::{Number, significant};

/// Where "at the edge" begins and ends.
const AT_EDGE: [f64; 2] = [0.9, 1.1];

/// A number with the digits that a sentence needs.
fn short(value: f64) -> Number {
    Number(if value.is_finite() { significant(value, 3) } else { value })
}

/// The sentences, the main one first; `share` is that of the time which measurements took.
pub fn sentences(settings: &Settings, history: &History, share: f64) -> String {
    let Some(last) = &history.last else { return "Nothing was measured.".to_owned() };
    let mut all = Vec::new();
    let diverged = not_finite(history);
    match history.edge() {
        Some(edge) => all.extend(diverged.into_iter().chain([at_edge(settings, &edge)])),
        None => all.extend(diverged.or_else(|| sharpness(history)).or_else(|| loss(history))),
    }
    all.extend(critical_lr(history));
    all.extend(growth(history));
    let count = history.count();
    let plural = if count == 1 { "step" } else { "steps" };
    let percent = short(100.0 * share);
    all.push(format!(
        "Measured at {count} {plural}, the last one step {}; that took {percent} % of the time.",
        last.step
    ));
    all.join(" ")
}

fn not_finite(history: &History) -> Option<String> {
    let loss = |row: &Row| row.loss.or(row.probe_loss);
    let all = history.measured(loss);
    let ended = all.iter().rev().take_while(|(_, loss)| !loss.is_finite()).last()?;
    Some(format!("Diverged: the loss is not finite from step {} on.", ended.0))
}

fn at_edge(settings: &Settings, edge: &EdgeSummary) -> String {
    let EdgeSummary { late_from_step, late_measurements, last_step, .. } = edge;
    let late_median = short(edge.late_median.0);
    let place = match edge.late_median.0 {
        ratio if ratio < AT_EDGE[0] => "below the edge of stability",
        ratio if ratio <= AT_EDGE[1] => "at the edge of stability",
        _ => "above the edge of stability",
    };
    let optimizer = settings.text("optimizer", "name").unwrap_or_else(|| "the optimizer".into());
    let when = if late_from_step == last_step {
        format!("at step {last_step}")
    } else {
        format!("median of {late_measurements} measurements, steps {late_from_step} to {last_step}")
    };
    let reached = match edge.first_step_at_edge {
        Some(step) => format!("It first reached the limit at step {step}"),
        None => "It never reached the limit".to_owned(),
    };
    let (max, max_step) = (short(edge.max.0), edge.max_step);
    format!(
        "The training ran {place}: its sharpness was {late_median} times the stability limit of {optimizer} ({when}). \
         {reached}; the largest ratio was {max} at step {max_step}."
    )
}

fn sharpness(history: &History) -> Option<String> {
    let all = history.measured(|row| row.sharpness);
    let ((first_step, first), (last_step, last)) = (*all.first()?, *all.last()?);
    Some(match first_step == last_step {
        true => format!("The sharpness was {} at step {first_step}.", short(first)),
        false => format!(
            "The sharpness went from {} at step {first_step} to {} at step {last_step}.",
            short(first),
            short(last)
        ),
    })
}

fn loss(history: &History) -> Option<String> {
    let all = history.measured(|row| row.loss);
    let ((first_step, first), (last_step, last)) = (*all.first()?, *all.last()?);
    let (first, last) = (short(first), short(last));
    Some(format!("The loss went from {first} at step {first_step} to {last} at step {last_step}."))
}

fn critical_lr(history: &History) -> Option<String> {
    let ratio = |row: &Row| Some(Number(row.lr?.0 / row.critical_lr?.0));
    let all = history.measured(|row| ratio(row).filter(|ratio| !ratio.0.is_nan()));
    let above = all.iter().filter(|(_, ratio)| *ratio > 1.0).count();
    let count = all.len();
    (count > 0).then(|| {
        format!(
            "The learning rate was above the critical one, so that the next step would have raised the loss of the \
             probe batches, in {above} of {count} measurements."
        )
    })
}

fn growth(history: &History) -> Option<String> {
    let (row, verdict) = history.last_with(|row| row.verdict)?;
    let (growth, error) = (short(row.growth_per_step?.0), short(row.growth_standard_error?.0));
    let step = row.step;
    let gloss = match verdict {
        VerdictKind::Stable => "stable, small differences do not grow",
        VerdictKind::Restrained => "restrained, bounded but small differences keep growing",
        VerdictKind::Diverged => return Some(format!("Verdict at step {step}: diverged.")),
        VerdictKind::Undecided => "undecided",
    };
    Some(format!("Verdict at step {step}: {gloss} (growth {growth} ± {error} e-folds per step)."))
}
