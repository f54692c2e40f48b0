//! The stable steps of a scheme, in words and as a result.

use lastbit::pde::scheme::Scheme;
use lastbit::spectrum::certified::{End, Kind, StableInterval, StableSteps, WIDEST_GAP};
use lastbit::spectrum::von_neumann::{Mode, most_unstable};
use serde::Serialize;

use crate::number::{Number, significant};

/// Edges are located to about twelve digits; eleven read well.
pub fn eleven_digits(x: f64) -> f64 {
    significant(x, 11)
}

/// A frequency, its entries separated by commas.
pub fn frequency(omega: &[f64]) -> String {
    let entries: Vec<String> = omega.iter().map(|entry| Number(*entry).to_string()).collect();
    entries.join(", ")
}

/// The largest stable step that has an edge above it.
pub fn last_stable(steps: &StableSteps) -> Option<f64> {
    let intervals = steps.intervals();
    intervals.iter().rev().find_map(|interval| match &interval.to {
        End::Bracket { stable, .. } | End::Undecided { stable, .. } => Some(*stable),
        End::Unbounded => None,
    })
}

/// Sentences for people.
pub fn in_words(scheme: &Scheme, steps: &StableSteps) -> String {
    if steps.is_always() {
        return "stable for every dt.".to_owned();
    }
    if steps.is_never() {
        return "stable for no dt, however small.".to_owned();
    }
    let intervals = steps.intervals();
    let mut sentences = Vec::new();
    if intervals.is_empty() {
        sentences.push("no dt could be shown to be stable.".to_owned());
    } else {
        let parts: Vec<String> = intervals.iter().map(interval_in_words).collect();
        sentences.push(format!("stable for dt {}.", parts.join(" and ")));
    }
    for interval in &intervals {
        for end in [&interval.from, &interval.to] {
            sentences.extend(edge_in_words(scheme, end));
        }
        for (from, to) in &interval.gaps {
            sentences.push(format!(
                "Between {from} and {to} the amplification is 1 to within rounding; only the steps on \
                 both sides are certain."
            ));
        }
    }
    for (from, to, why) in open(steps) {
        sentences.push(format!("Undecided for dt from {from} to {to}: {why}."));
    }
    sentences.join("\n")
}

fn interval_in_words(interval: &StableInterval) -> String {
    let shown = |end: &End| match end {
        End::Unbounded => None,
        End::Bracket { stable, .. } | End::Undecided { stable, .. } => Some(eleven_digits(*stable)),
    };
    match (shown(&interval.from), shown(&interval.to)) {
        (None, None) => "of every size".to_owned(),
        (None, Some(to)) => format!("up to {to}"),
        (Some(from), None) => format!("from {from} on"),
        (Some(from), Some(to)) => format!("from {from} to {to}"),
    }
}

fn edge_in_words(scheme: &Scheme, end: &End) -> Option<String> {
    let End::Bracket { stable, unstable, mode } = end else { return None };
    let (dt, mode) = beyond(scheme, *stable, *unstable, mode);
    let excess = if mode.amplification > 1.0 + 1e-12 {
        format!("by a factor of {} per step", Number(mode.amplification))
    } else {
        "by less than 1e-12 per step".to_owned()
    };
    let long = mode.omega.iter().all(|entry| entry.abs() < 0.01);
    let kind =
        if long && mode.omega.iter().any(|entry| *entry != 0.0) { ", a long wave" } else { "" };
    Some(format!(
        "Edge: {stable} is certainly stable, {unstable} certainly unstable. Beyond it, at dt = {}, \
         omega = {}{kind} is amplified {excess}.",
        eleven_digits(dt),
        frequency(&mode.omega),
    ))
}

/// The most amplified frequency a thousandth beyond an edge; where rounding hides it, the frequency that
/// was shown to be amplified at the edge.
fn beyond(scheme: &Scheme, stable: f64, unstable: f64, shown: &Mode) -> (f64, Mode) {
    let dt = if unstable > stable { unstable * 1.001 } else { unstable * 0.999 };
    let most = most_unstable(scheme, dt);
    if most.amplification > 1.0 + 1e-9 { (dt, most) } else { (unstable, shown.clone()) }
}

/// Undecided pieces that are neither a bracket nor a gap of an interval.
fn open(steps: &StableSteps) -> Vec<(f64, f64, String)> {
    let pieces = steps.pieces.iter();
    let wide = pieces
        .filter(|piece| piece.to.is_infinite() || piece.to - piece.from > WIDEST_GAP * piece.to);
    wide.filter_map(|piece| match &piece.kind {
        Kind::Undecided(why) => Some((piece.from, piece.to, why.to_string())),
        _ => None,
    })
    .collect()
}

lastbit::named_enum! {
    /// The shape of the set of stable steps.
    pub enum StableDtKind {
        /// Every step.
        Always = "always",
        /// No step, however small.
        Never = "never",
        /// None could be shown to be stable.
        Undecided = "undecided",
        /// All steps up to one edge.
        UpTo = "up-to",
        /// Anything else.
        Intervals = "intervals",
    }
}

/// The stable steps of a scheme.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StableDt {
    /// The shape of the set.
    pub kind: StableDtKind,
    /// The largest stable step where there is one edge; 0 where there is no stable step.
    pub dt: Option<f64>,
    /// Its intervals.
    pub intervals: Vec<StepInterval>,
    /// Steps about which nothing could be shown.
    pub undecided: Vec<UndecidedSteps>,
}

/// An interval of stable steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepInterval {
    /// Its lower edge; none where it reaches down to 0.
    pub from: Option<EdgeOfSteps>,
    /// Its upper edge; none where it has none.
    pub to: Option<EdgeOfSteps>,
    /// Pieces inside in which the amplification is 1 to within rounding.
    pub gaps: Vec<(f64, f64)>,
}

/// One edge of an interval of stable steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum EdgeOfSteps {
    /// It lies between two steps.
    Bracket {
        /// The last step shown to be stable.
        stable: f64,
        /// The first step shown to be unstable.
        unstable: f64,
        /// What happens there.
        beyond: Beyond,
    },
    /// It was not found.
    Undecided {
        /// The last step shown to be stable.
        stable: f64,
        /// Up to here nothing could be shown.
        undecided_to: Number,
        /// Why.
        why: String,
    },
}

/// What is amplified beyond an edge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beyond {
    /// A step a thousandth beyond it.
    pub dt: f64,
    /// The most amplified frequency there.
    pub most_unstable: ModeResult,
}

/// Steps about which nothing could be shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UndecidedSteps {
    /// From here.
    pub from: Number,
    /// To here.
    pub to: Number,
    /// Why.
    pub why: String,
}

/// A frequency and its amplification.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModeResult {
    /// Radians per mesh point, one entry per dimension.
    pub omega: Vec<Number>,
    /// Largest factor per step.
    pub amplification: Number,
}

impl From<&Mode> for ModeResult {
    fn from(mode: &Mode) -> Self {
        Self {
            omega: mode.omega.iter().map(|entry| Number(*entry)).collect(),
            amplification: Number(mode.amplification),
        }
    }
}

impl StableDt {
    /// What an analysis found.
    pub fn new(scheme: &Scheme, steps: &StableSteps) -> Self {
        let intervals = steps.intervals();
        let open = open(steps);
        let (kind, dt) = match &intervals[..] {
            _ if steps.is_always() => (StableDtKind::Always, None),
            _ if steps.is_never() => (StableDtKind::Never, Some(0.0)),
            [] => (StableDtKind::Undecided, None),
            [StableInterval { from: End::Unbounded, to: End::Bracket { stable, .. }, .. }]
                if open.is_empty() =>
            {
                (StableDtKind::UpTo, Some(*stable))
            }
            _ => (StableDtKind::Intervals, None),
        };
        let interval = |interval: &StableInterval| StepInterval {
            from: edge(scheme, &interval.from),
            to: edge(scheme, &interval.to),
            gaps: interval.gaps.clone(),
        };
        let undecided =
            |(from, to, why)| UndecidedSteps { from: Number(from), to: Number(to), why };
        Self {
            kind,
            dt,
            intervals: intervals.iter().map(interval).collect(),
            undecided: open.into_iter().map(undecided).collect(),
        }
    }
}

fn edge(scheme: &Scheme, end: &End) -> Option<EdgeOfSteps> {
    Some(match end {
        End::Unbounded => return None,
        End::Bracket { stable, unstable, mode } => {
            let (dt, most) = beyond(scheme, *stable, *unstable, mode);
            let beyond = Beyond { dt, most_unstable: ModeResult::from(&most) };
            EdgeOfSteps::Bracket { stable: *stable, unstable: *unstable, beyond }
        }
        End::Undecided { stable, open, why } => EdgeOfSteps::Undecided {
            stable: *stable,
            undecided_to: Number(*open),
            why: why.to_string(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lastbit::pde::scheme::Term;
    use lastbit::pde::textbook;
    use lastbit::spectrum::certified::stable_steps;
    use serde_json::json;

    fn words(scheme: &Scheme) -> String {
        in_words(scheme, &stable_steps(scheme))
    }

    fn factor(coefficient: &[f64]) -> Scheme {
        let term = Term { level: 0, offset: vec![0], coefficient: coefficient.to_vec() };
        Scheme::new(1, vec![term]).unwrap()
    }

    #[test]
    fn one_edge_no_edge_and_several() {
        let heat = words(&textbook::heat(1.0, 1.0));
        assert!(heat.starts_with("stable for dt up to 0.5.\nEdge: 0.4999999"), "{heat}");
        assert!(heat.ends_with(
            "at dt = 0.5005, omega = 3.1416 is amplified by a factor of 1.002 per step."
        ));
        let long = words(&textbook::advection_diffusion(10.0, 1e-4, 1.0));
        assert!(long.contains("up to 0.000002.") && long.contains("a long wave"), "{long}");
        assert_eq!(words(&textbook::advection_ftcs(1.0, 1.0)), "stable for no dt, however small.");
        assert_eq!(words(&textbook::heat_bdf2(1.0, 1.0)), "stable for every dt.");
        let inner = words(&factor(&[1.0, 1.0, -1.0]));
        assert!(inner.starts_with("stable for dt from 1 to 2.\n"), "{inner}");
        assert_eq!(inner.matches("Edge: ").count(), 2, "{inner}");
        let union = words(&factor(&[1.0, -2.09, 3.0, -1.0]));
        assert!(
            union.starts_with("stable for dt up to 1.1 and from 1.9 to 2.4826455357.\n"),
            "{union}"
        );
        let touching = words(&textbook::advection_beam_warming(1.0, 1.0));
        assert!(touching.starts_with("stable for dt up to 2.\n"), "{touching}");
        assert!(touching.contains("the amplification is 1 to within rounding"), "{touching}");
    }

    #[test]
    fn programs_find_the_kind_and_the_brackets() {
        let json = |scheme: &Scheme| json!(StableDt::new(scheme, &stable_steps(scheme)));
        let heat = json(&textbook::heat(1.0, 1.0));
        assert_eq!(heat["kind"], "up-to");
        let end = &heat["intervals"][0]["to"];
        let number = |key: &str| end[key].as_f64().unwrap();
        assert!(number("stable") <= 0.5 && 0.5 <= number("unstable"));
        assert_eq!(heat["dt"], end["stable"]);
        assert_eq!(end["beyond"]["most_unstable"]["omega"][0], std::f64::consts::PI);
        assert_eq!(json(&textbook::advection_ftcs(1.0, 1.0))["kind"], "never");
        assert_eq!(json(&textbook::heat_crank_nicolson(1.0, 1.0))["kind"], "always");
        let union = json(&factor(&[1.0, -2.09, 3.0, -1.0]));
        assert_eq!(
            (&union["kind"], union["intervals"].as_array().unwrap().len()),
            (&json!("intervals"), 2)
        );
    }
}
