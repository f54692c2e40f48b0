//! What was found: in a sentence, and as a result to be printed.

use lastbit::search::Bracket;
use lastbit::verdict::{Doubt, VerdictKind};
use serde::Serialize;

use super::repeats::{MedianEdge, medians};
use super::{Draw, End, Over, ProbeResult, Property, Search, SearchResult};
use crate::number::{Number, significant};

/// A gradient of this size or less is called rest; the number itself stands beside the word.
const AT_REST: f64 = 1e-6;

/// Digits that tell the ends of a bracket apart, and at least five.
fn shown(value: f64, tolerance: f64) -> String {
    let digits = (2.0 - libm::log10(tolerance)).ceil().clamp(5.0, 16.0) as usize;
    let rounded = significant(value, digits);
    if (1e-4..1e7).contains(&rounded.abs()) { rounded.to_string() } else { format!("{rounded:e}") }
}

/// The edges of all draws at one end.
struct Ends<'a> {
    end: End,
    of_draws: Vec<(Draw, &'a Bracket, &'a SearchResult)>,
}

fn ends(found: &[(Draw, SearchResult)]) -> Vec<Ends<'_>> {
    let of = |end: End| {
        let mut of_draws = Vec::new();
        for (draw, found) in found {
            let own = found.edges.iter().filter(|(own, _)| *own == end);
            of_draws.extend(own.map(|(_, bracket)| (*draw, bracket, found)));
        }
        Ends { end, of_draws }
    };
    let all = [of(End::Largest), of(End::Smallest)];
    all.into_iter().filter(|ends| !ends.of_draws.is_empty()).collect()
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

/// One sentence for each end of the interval; of repeated searches one for each seed, on the median edge.
pub fn sentence(search: &Search, found: &[(Draw, SearchResult)]) -> String {
    let medians = medians(search, found);
    let sentences: Vec<String> = if medians.is_empty() {
        ends(found).iter().map(|ends| of_end(search, ends)).collect()
    } else {
        let several = medians.len() > 1;
        medians.iter().map(|median| of_median(search, median, several, found)).collect()
    };
    sentences.join(" ")
}

fn of_end(search: &Search, ends: &Ends) -> String {
    match &ends.of_draws[..] {
        [(_, bracket, found)] => of_one(search, ends.end, bracket, found),
        several => {
            let edges = several.iter().map(|(_, bracket, _)| bracket.middle()).collect();
            let [least, middle, greatest] =
                spread(edges).map(|value| shown(value, search.tolerance));
            format!(
                "{}: from {least} to {greatest} over {} seeds, median {middle}{}.",
                name(search, ends.end),
                several.len(),
                cfl_edges(search, several),
            )
        }
    }
}

fn of_median(
    search: &Search,
    median: &MedianEdge,
    several: bool,
    found: &[(Draw, SearchResult)],
) -> String {
    let of = if several { format!(" of seed {}", median.seed) } else { String::new() };
    let known = median.in_words(search.property.name(), |value| shown(value, search.tolerance));
    let mut own = ends(found).into_iter().filter(|ends| ends.end == End::Largest);
    let own = own.next().map_or(vec![], |ends| ends.of_draws);
    let own: Vec<_> = own.into_iter().filter(|(draw, ..)| draw.seed == median.seed).collect();
    format!(
        "{}{of}, median over {} orders of the batches: {known}{}.",
        name(search, End::Largest),
        median.repeats,
        cfl_edges(search, &own),
    )
}

/// What the sharpness says where the stable sides of several brackets ended.
fn cfl_edges(search: &Search, several: &[(Draw, &Bracket, &SearchResult)]) -> String {
    let predicted: Vec<f64> = several
        .iter()
        .filter_map(|(_, bracket, found)| {
            probe_at(found, bracket.holds).measured(|curvature| curvature.predicted)
        })
        .collect();
    let is_known = !predicted.is_empty() && predicted.len() == several.len();
    if search.property != Property::Stable || !is_known {
        return String::new();
    }
    let [least, middle, greatest] = spread(predicted).map(|value| shown(value, search.tolerance));
    format!("; CFL edge, by the sharpness: from {least} to {greatest}, median {middle}")
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
        "{}: between {} and {}{open}{}{}{contradiction}.",
        name(search, end),
        at(holds),
        at(fails),
        by_resolution(search, end, bracket, holds),
        by_sharpness(search, end, holds),
    )
}

/// By how much, relatively, a learning rate exceeds the edge at most where differences grow by less than `resolution` a
/// step. Beyond the edge of a quadratic by `e` they grow by `ln(1 + 2e)` with SGD (`|1 − dt λ|` with `dt λ = 2 + 2e`),
/// and by more with momentum.
pub fn largest_excess(resolution: f64) -> f64 {
    0.5 * libm::expm1(resolution)
}

/// How much lower the edge may lie because growth below the resolution `r` counts as stable, where that is more than
/// the width of the bracket.
fn by_resolution(search: &Search, end: End, bracket: &Bracket, holds: &ProbeResult) -> String {
    let resolution = holds.verdict.resolution.0;
    let lower = 1.0 - 1.0 / (1.0 + largest_excess(resolution));
    let is_said = search.over == Over::Dt
        && end == End::Largest
        && search.property == Property::Stable
        && lower > bracket.relative_width();
    match is_said {
        true => format!(
            "; growth below {} per step counts as stable, so the edge may lie up to {} % lower (more --steps narrow this)",
            Number(resolution),
            Number(significant(100.0 * lower, 2))
        ),
        false => String::new(),
    }
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
    /// Median edges over orders of the batches, where searches were repeated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub medians: Vec<MedianEdge>,
    /// The probes of each search.
    pub tried: Vec<SeedProbes>,
    /// What was left out of the configuration.
    pub notes: Vec<String>,
}

/// The edges of all searches at one end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EndResult {
    /// Which end.
    pub end: End,
    /// Smallest edge of a search.
    pub min: f64,
    /// Median edge.
    pub median: f64,
    /// Largest edge of a search.
    pub max: f64,
    /// Search by search.
    pub seeds: Vec<SeedEdge>,
}

/// An edge of one search. Of the curvature only finite numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeedEdge {
    /// Seed of the first weights.
    pub seed: u64,
    /// Seed of the order of the batches, where searches were repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_seed: Option<u64>,
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

/// What was tried in one search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SeedProbes {
    /// Seed of the first weights.
    pub seed: u64,
    /// Seed of the order of the batches, where searches were repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_seed: Option<u64>,
    /// All probes, in order.
    pub probes: Vec<ProbeResult>,
    /// Why there is no edge, where there is none.
    pub why_no_edge: Option<String>,
    /// Two values that contradict a single edge: the property fails at the first and holds again at the second.
    pub contradiction: Option<(f64, f64)>,
}

impl EdgeResult {
    /// Puts together what was found by each search.
    pub fn new(search: &Search, found: &[(Draw, SearchResult)], notes: Vec<String>) -> Self {
        let edge = |(draw, bracket, found): &(Draw, &Bracket, &SearchResult)| {
            let holds = probe_at(found, bracket.holds);
            SeedEdge {
                seed: draw.seed,
                batch_seed: draw.batch,
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
            let middles = ends.of_draws.iter().map(|(_, bracket, _)| bracket.middle()).collect();
            let [min, median, max] = spread(middles);
            let seeds = ends.of_draws.iter().map(edge).collect();
            EndResult { end: ends.end, min, median, max, seeds }
        };
        let of_draw = |(draw, found): &(Draw, SearchResult)| SeedProbes {
            seed: draw.seed,
            batch_seed: draw.batch,
            probes: found.probes.clone(),
            why_no_edge: found.why_none(search.property),
            contradiction: found.contradiction,
        };
        Self {
            over: search.over,
            property: search.property,
            sentence: sentence(search, found),
            edges: ends(found).into_iter().map(of_end).collect(),
            medians: medians(search, found),
            tried: found.iter().map(of_draw).collect(),
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
