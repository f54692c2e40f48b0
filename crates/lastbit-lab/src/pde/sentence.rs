//! A verdict in words.

use lastbit::verdict::{Doubt, VerdictKind};

use crate::number::Number;
use crate::record::VerdictRecord;
use crate::words::capitalized;

/// The verdict as a sentence.
pub fn in_words(verdict: &VerdictRecord) -> String {
    let (growth, error) = (verdict.growth_per_step.0, verdict.growth_standard_error);
    let rate = format!("{} ± {error} per step", Number(growth.abs()));
    let twins = if growth > 3.0 * error.0 {
        format!("a small difference grows by {rate}")
    } else if growth < -3.0 * error.0 {
        format!("a small difference shrinks by {rate}")
    } else {
        format!(
            "a small difference neither grows nor shrinks ({} ± {error} per step)",
            Number(growth)
        )
    };
    let steps = verdict.steps;
    match (verdict.kind, verdict.diverged_at) {
        (VerdictKind::Undecided, _) => {
            let why = verdict.doubt.map_or("the record does not say why", Doubt::why);
            let remedy = verdict.doubt.map_or("more steps may decide it", Doubt::remedy);
            format!(
                "undecided after {steps} steps: {why}; {twins} (growth below {} per step cannot be \
                 told from a transient). {}.",
                verdict.resolution,
                capitalized(remedy)
            )
        }
        (VerdictKind::Stable, _) => format!(
            "stable: over {steps} steps {twins} (growth below {} per step cannot be told from a \
             transient).",
            verdict.resolution
        ),
        (VerdictKind::Diverged, Some(step)) => {
            format!("diverged: unbounded, as seen by step {step}.")
        }
        (kind @ (VerdictKind::Restrained | VerdictKind::Diverged), _) => {
            let meaning = if growth > 3.0 * error.0 {
                ": the last bit decides"
            } else if growth < -3.0 * error.0 {
                ": a cycle that forgets the last bit"
            } else {
                ""
            };
            let raised = Number((100.0 * verdict.unstable_share.0).round());
            format!(
                "{kind}: bounded over {steps} steps without settling; {raised} % of the later \
                 steps do not lower the energy, and {twins}{meaning}.",
            )
        }
    }
}
