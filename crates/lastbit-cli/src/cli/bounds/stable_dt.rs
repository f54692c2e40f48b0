//! The stable steps of a scheme in words and in JSON.

use lastbit::pde::scheme::Scheme;
use lastbit::spectrum::certified::{End, Kind, StableInterval, StableSteps, WIDEST_GAP};
use lastbit::spectrum::von_neumann::{Mode, most_unstable};
use serde_json::{Value, json};

use lastbit_lab::number::{Number, significant};

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

/// One object for programs: `kind`, the largest stable step `dt` where there is one edge, all intervals.
pub fn to_json(scheme: &Scheme, steps: &StableSteps) -> Value {
    let intervals = steps.intervals();
    let open = open(steps);
    let (kind, dt) = match &intervals[..] {
        _ if steps.is_always() => ("always", json!(null)),
        _ if steps.is_never() => ("never", json!(0.0)),
        [] => ("undecided", json!(null)),
        [StableInterval { from: End::Unbounded, to: End::Bracket { stable, .. }, .. }]
            if open.is_empty() =>
        {
            ("up-to", json!(stable))
        }
        _ => ("intervals", json!(null)),
    };
    let end = |end: &End| match end {
        End::Unbounded => json!(null),
        End::Bracket { stable, unstable, mode } => {
            let (dt, most) = beyond(scheme, *stable, *unstable, mode);
            json!({
                "stable": stable,
                "unstable": unstable,
                "beyond": {"dt": dt, "most_unstable": mode_json(&most)},
            })
        }
        End::Undecided { stable, open, why } => {
            json!({"stable": stable, "undecided_to": Number(*open), "why": why.to_string()})
        }
    };
    let interval = |interval: &StableInterval| json!({"from": end(&interval.from), "to": end(&interval.to), "gaps": interval.gaps});
    let undecided = |(from, to, why): &(f64, f64, String)| json!({"from": Number(*from), "to": Number(*to), "why": why});
    json!({
        "kind": kind,
        "dt": dt,
        "intervals": intervals.iter().map(interval).collect::<Vec<_>>(),
        "undecided": open.iter().map(undecided).collect::<Vec<_>>(),
    })
}

/// A frequency and its amplification.
pub fn mode_json(mode: &Mode) -> Value {
    let omega: Vec<Number> = mode.omega.iter().map(|entry| Number(*entry)).collect();
    json!({"omega": omega, "amplification": Number(mode.amplification)})
}

#[cfg(test)]
mod tests {
    use super::*;
    use lastbit::pde::scheme::Term;
    use lastbit::pde::textbook;
    use lastbit::spectrum::certified::stable_steps;

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
        let json = |scheme: &Scheme| to_json(scheme, &stable_steps(scheme));
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
