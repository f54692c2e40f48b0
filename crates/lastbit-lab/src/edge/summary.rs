//! What was found: in a sentence, as a table, as JSON.

use lastbit::search::Bracket;
use serde_json::{Value, json};

use super::{EdgeResult, End, ProbeResult, Property, Search};
use crate::number::{Number, significant};

/// A gradient of this size or less is called rest; the number itself stands beside the word.
const AT_REST: f64 = 1e-6;

/// Digits that tell the ends of a bracket apart, and at least five.
fn shown(value: f64, tolerance: f64) -> String {
    let digits = (2.0 - libm::log10(tolerance)).ceil().clamp(5.0, 16.0) as usize;
    let rounded = significant(value, digits);
    if (1e-4..1e7).contains(&rounded.abs()) { rounded.to_string() } else { format!("{rounded:e}") }
}

/// The edges of all seeds at one end.
struct Ends<'a> {
    end: End,
    of_seeds: Vec<(u64, &'a Bracket, &'a EdgeResult)>,
}

fn ends(found: &[(u64, EdgeResult)]) -> Vec<Ends<'_>> {
    let of = |end: End| {
        let mut of_seeds = Vec::new();
        for (seed, found) in found {
            let own = found.edges.iter().filter(|(own, _)| *own == end);
            of_seeds.extend(own.map(|(_, bracket)| (*seed, bracket, found)));
        }
        Ends { end, of_seeds }
    };
    let all = [of(End::Largest), of(End::Smallest)];
    all.into_iter().filter(|ends| !ends.of_seeds.is_empty()).collect()
}

/// A number of a probe, where it was measured and is finite.
pub fn number(tried: &ProbeResult, name: &str) -> Option<f64> {
    tried.numbers.get(name).map(|number| number.0).filter(|number| number.is_finite())
}

fn probe_at(found: &EdgeResult, at: f64) -> &ProbeResult {
    found.probes.iter().find(|probe| probe.at == at).expect("both ends of a bracket were tried")
}

/// Least, middle and greatest.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    [values[0], 0.5 * (values[(n - 1) / 2] + values[n / 2]), values[n - 1]]
}

/// One sentence for each end of the interval.
pub fn sentence(search: &Search, found: &[(u64, EdgeResult)]) -> String {
    let sentences = ends(found).into_iter().map(|ends| match &ends.of_seeds[..] {
        [(_, bracket, found)] => of_one(search, ends.end, bracket, found),
        several => {
            let digits = |value: f64| shown(value, search.tolerance);
            let edges = several.iter().map(|(_, bracket, _)| bracket.middle()).collect();
            let [least, middle, greatest] = spread(edges).map(digits);
            let predicted: Vec<f64> = several
                .iter()
                .filter_map(|(_, bracket, found)| {
                    number(probe_at(found, bracket.holds), "predicted")
                })
                .collect();
            let by_sharpness = if predicted.len() == several.len() {
                let [least, middle, greatest] = spread(predicted).map(digits);
                format!("; by the sharpness there: from {least} to {greatest}, median {middle}")
            } else {
                String::new()
            };
            format!(
                "{} {} {}: from {least} to {greatest} over {} seeds, median {middle}{by_sharpness}.",
                ends.end.name(),
                search.property.name(),
                search.over.name(),
                several.len(),
            )
        }
    });
    let sentences: Vec<String> = sentences.collect();
    sentences.join(" ")
}

/// The sentence on one end of the interval for one seed.
pub fn of_one(search: &Search, end: End, bracket: &Bracket, found: &EdgeResult) -> String {
    let digits = |value: f64| shown(value, search.tolerance);
    let [holds, fails] = [bracket.holds, bracket.fails].map(|at| probe_at(found, at));
    let at = |tried: &ProbeResult| format!("{} at {}", tried.verdict.kind, digits(tried.at));
    format!(
        "{} {} {}: {} ({}, {}){}.",
        end.name(),
        search.property.name(),
        search.over.name(),
        digits(bracket.middle()),
        at(holds),
        at(fails),
        by_sharpness(search, end, holds),
    )
}

/// What the sharpness says where the stable side of a bracket ended.
fn by_sharpness(search: &Search, end: End, holds: &ProbeResult) -> String {
    let Some(ratio) = number(holds, "edge_ratio").filter(|_| search.property == Property::Stable)
    else {
        return String::new();
    };
    let said = match (end, number(holds, "predicted")) {
        (End::Largest, Some(predicted)) => format!(
            "; by the sharpness where the stable run ended: {}",
            shown(predicted, search.tolerance)
        ),
        _ => format!("; sharpness there: {} of the threshold", Number(ratio)),
    };
    let gradient = number(holds, "gradient_norm").unwrap_or(f64::NAN);
    let rest = if gradient <= AT_REST { "at rest" } else { "not at rest" };
    format!("{said} ({rest}: gradient {})", Number(gradient))
}

/// The answer for programs.
pub fn json(search: &Search, found: &[(u64, EdgeResult)], notes: &[String]) -> Value {
    let edge = |(seed, bracket, found): &(u64, &Bracket, &EdgeResult)| {
        let holds = probe_at(found, bracket.holds);
        let measured = |name: &str| json!(number(holds, name));
        json!({
            "seed": seed,
            "edge": bracket.middle(),
            "holds": bracket.holds,
            "fails": bracket.fails,
            "fails_verdict": probe_at(found, bracket.fails).verdict.kind,
            "relative_width": bracket.relative_width(),
            "predicted": measured("predicted"),
            "sharpness": measured("sharpness"),
            "sharpness_residual": measured("sharpness_residual"),
            "edge_ratio": measured("edge_ratio"),
            "gradient_norm": measured("gradient_norm"),
        })
    };
    let all = ends(found).into_iter().map(|ends| {
        let middles = ends.of_seeds.iter().map(|(_, bracket, _)| bracket.middle()).collect();
        let [least, middle, greatest] = spread(middles);
        json!({
            "end": ends.end,
            "min": least,
            "median": middle,
            "max": greatest,
            "seeds": ends.of_seeds.iter().map(edge).collect::<Vec<_>>(),
        })
    });
    let probes = found.iter().map(|(seed, found)| {
        let probe = |probe: &ProbeResult| {
            json!({ "at": probe.at, "verdict": probe.verdict, "numbers": probe.numbers })
        };
        json!({ "seed": seed, "probes": found.probes.iter().map(probe).collect::<Vec<_>>(),
                "why_no_edge": found.why_none(search.property) })
    });
    json!({
        "over": search.over,
        "property": search.property,
        "sentence": sentence(search, found),
        "edges": all.collect::<Vec<_>>(),
        "tried": probes.collect::<Vec<_>>(),
        "notes": notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_digits_as_the_tolerance_needs() {
        assert_eq!(shown(96.123456, 0.01), "96.123");
        assert_eq!(shown(96.123456, 1e-5), "96.12346");
        assert_eq!(shown(0.5, 0.01), "0.5");
        assert_eq!(shown(1.25e-9, 0.01), "1.25e-9");
    }

    #[test]
    fn the_middle_of_an_even_number_of_seeds_is_between_two() {
        assert_eq!(spread(vec![4.0, 1.0, 3.0, 2.0]), [1.0, 2.5, 4.0]);
        assert_eq!(spread(vec![7.0]), [7.0; 3]);
    }
}
