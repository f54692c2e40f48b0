//! What was found: in a sentence, and as a result to be printed.

use lastbit::search::Bracket;
use lastbit::verdict::{Doubt, VerdictKind};
use serde::Serialize;

use super::{End, Over, ProbeResult, Property, Search, SearchResult};
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
    of_seeds: Vec<(u64, &'a Bracket, &'a SearchResult)>,
}

fn ends(found: &[(u64, SearchResult)]) -> Vec<Ends<'_>> {
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

fn probe_at(found: &SearchResult, at: f64) -> &ProbeResult {
    found.probes.iter().find(|probe| probe.at == at).expect("both ends of a bracket were tried")
}

/// Least, middle and greatest.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    [values[0], 0.5 * (values[(n - 1) / 2] + values[n / 2]), values[n - 1]]
}

/// One sentence for each end of the interval.
pub fn sentence(search: &Search, found: &[(u64, SearchResult)]) -> String {
    let sentences = ends(found).into_iter().map(|ends| match &ends.of_seeds[..] {
        [(_, bracket, found)] => of_one(search, ends.end, bracket, found),
        several => {
            let digits = |value: f64| shown(value, search.tolerance);
            let edges = several.iter().map(|(_, bracket, _)| bracket.middle()).collect();
            let [least, middle, greatest] = spread(edges).map(digits);
            let predicted: Vec<f64> = several
                .iter()
                .filter_map(|(_, bracket, found)| {
                    probe_at(found, bracket.holds).measured(|curvature| curvature.predicted)
                })
                .collect();
            let is_of_growth = search.property == Property::Stable;
            let by_sharpness = if is_of_growth && predicted.len() == several.len() {
                let [least, middle, greatest] = spread(predicted).map(digits);
                format!("; CFL edge, by the sharpness: from {least} to {greatest}, median {middle}")
            } else {
                String::new()
            };
            format!(
                "{}: from {least} to {greatest} over {} seeds, median {middle}{by_sharpness}.",
                name(search, ends.end),
                several.len(),
            )
        }
    });
    let sentences: Vec<String> = sentences.collect();
    sentences.join(" ")
}

/// The name of an edge with what it bounds.
fn name(search: &Search, end: End) -> String {
    let (edge, property) = (search.property.edge_name(), search.property.name());
    format!("{edge} ({} {property} {})", end.name(), search.over.name())
}

/// The sentence on one end of the interval for one seed.
pub fn of_one(search: &Search, end: End, bracket: &Bracket, found: &SearchResult) -> String {
    let digits = |value: f64| shown(value, search.tolerance);
    let [holds, fails] = [bracket.holds, bracket.fails].map(|at| probe_at(found, at));
    let at = |probe: &ProbeResult| format!("{} ({})", digits(probe.at), probe.verdict.in_short());
    // Only probes that cannot tell leave a bracket wider than was asked for.
    let is_open = bracket.relative_width() > search.tolerance;
    let open = if is_open { ", probes in between undecided" } else { "" };
    let contradiction = found.contradiction.map_or(String::new(), |(fails, holds)| {
        let property = search.property.name();
        format!(
            "; verdicts are not monotone: not {property} at {}, {property} again at {}",
            digits(fails),
            digits(holds)
        )
    });
    format!(
        "{}: between {} and {}{open}{}{contradiction}.",
        name(search, end),
        at(holds),
        at(fails),
        by_sharpness(search, end, holds),
    )
}

/// What the sharpness says where the stable side of a bracket ended.
fn by_sharpness(search: &Search, end: End, holds: &ProbeResult) -> String {
    let ratio = holds.measured(|curvature| curvature.edge_ratio);
    let Some(ratio) = ratio.filter(|_| search.property == Property::Stable) else {
        return String::new();
    };
    let said = match (end, holds.measured(|curvature| curvature.predicted)) {
        (End::Largest, Some(predicted)) => {
            let predicted = shown(predicted, search.tolerance);
            format!("; CFL edge, by the sharpness where the stable run ended: {predicted}")
        }
        _ => format!("; sharpness there: {} of the threshold", Number(ratio)),
    };
    let gradient = holds.measured(|curvature| curvature.gradient_norm).unwrap_or(f64::NAN);
    match gradient <= AT_REST {
        true => format!("{said} (converged, gradient norm {})", Number(gradient)),
        false => {
            let why = "unreliable, the run had not converged: gradient norm";
            format!("{said} ({why} {})", Number(gradient))
        }
    }
}

/// The edges of all seeds, and all that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EdgeResult {
    /// The parameter that was varied.
    pub over: Over,
    /// What holds on one side of an edge.
    pub property: Property,
    /// The edges in words.
    pub sentence: String,
    /// Each end of the values with the property.
    pub edges: Vec<EndResult>,
    /// The probes of each seed.
    pub tried: Vec<SeedProbes>,
    /// What was left out of the configuration.
    pub notes: Vec<String>,
}

/// The edges of all seeds at one end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EndResult {
    /// Which end.
    pub end: End,
    /// Smallest edge of a seed.
    pub min: f64,
    /// Median edge.
    pub median: f64,
    /// Largest edge of a seed.
    pub max: f64,
    /// Seed by seed.
    pub seeds: Vec<SeedEdge>,
}

/// An edge of one seed. Of the curvature only finite numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeedEdge {
    /// Seed of the first weights.
    pub seed: u64,
    /// Middle of the bracket.
    pub edge: f64,
    /// Its end where the property holds.
    pub holds: f64,
    /// Its other end.
    pub fails: f64,
    /// The verdict there.
    pub fails_verdict: VerdictKind,
    /// Why that is undecided, if it is; a run may be known not to be stable all the same.
    pub fails_doubt: Option<Doubt>,
    /// Width of the bracket over its middle.
    pub relative_width: f64,
    /// The edge that the sharpness predicts where the probe at `holds` ended.
    pub predicted: Option<f64>,
    /// Largest eigenvalue of the Hessian there.
    pub sharpness: Option<f64>,
    /// Residual of its eigenvector.
    pub sharpness_residual: Option<f64>,
    /// Sharpness over the threshold of the optimizer.
    pub edge_ratio: Option<f64>,
    /// Norm of the gradient there.
    pub gradient_norm: Option<f64>,
}

/// What was tried from one seed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeedProbes {
    /// Seed of the first weights.
    pub seed: u64,
    /// All probes, in order.
    pub probes: Vec<ProbeResult>,
    /// Why there is no edge, where there is none.
    pub why_no_edge: Option<String>,
    /// Two values that contradict a single edge: the property fails at the first and holds again at the second.
    pub contradiction: Option<(f64, f64)>,
}

impl EdgeResult {
    /// Puts together what was found from each seed.
    pub fn new(search: &Search, found: &[(u64, SearchResult)], notes: Vec<String>) -> Self {
        let edge = |(seed, bracket, found): &(u64, &Bracket, &SearchResult)| {
            let holds = probe_at(found, bracket.holds);
            SeedEdge {
                seed: *seed,
                edge: bracket.middle(),
                holds: bracket.holds,
                fails: bracket.fails,
                fails_verdict: probe_at(found, bracket.fails).verdict.kind,
                fails_doubt: probe_at(found, bracket.fails).verdict.doubt,
                relative_width: bracket.relative_width(),
                predicted: holds.measured(|c| c.predicted),
                sharpness: holds.measured(|c| c.sharpness),
                sharpness_residual: holds.measured(|c| c.sharpness_residual),
                edge_ratio: holds.measured(|c| c.edge_ratio),
                gradient_norm: holds.measured(|c| c.gradient_norm),
            }
        };
        let of_end = |ends: Ends| {
            let middles = ends.of_seeds.iter().map(|(_, bracket, _)| bracket.middle()).collect();
            let [min, median, max] = spread(middles);
            let seeds = ends.of_seeds.iter().map(edge).collect();
            EndResult { end: ends.end, min, median, max, seeds }
        };
        let of_seed = |(seed, found): &(u64, SearchResult)| SeedProbes {
            seed: *seed,
            probes: found.probes.clone(),
            why_no_edge: found.why_none(search.property),
            contradiction: found.contradiction,
        };
        Self {
            over: search.over,
            property: search.property,
            sentence: sentence(search, found),
            edges: ends(found).into_iter().map(of_end).collect(),
            tried: found.iter().map(of_seed).collect(),
            notes,
        }
    }
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
