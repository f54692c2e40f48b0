//! A whole search as one cell of an exhibit, and the cell of what a search found.

use lastbit::verdict::VerdictKind;

use super::result::ProbeCurvature;
use super::{EdgeNumber, ProbeResult, Probes, Search, SearchResult};
use crate::error::Error;
use crate::number::Number;
use crate::progress::Progress;
use crate::record::Outcome;
use crate::series::Series;

/// Number of the probes in the cell of a search, and its series of them.
pub const PROBES: &str = "probes";

/// Searches in memory. The curves of both sides of the first edge are kept, as `holds` and `fails`.
pub fn searched(probes: &Probes, search: &Search, progress: &Progress) -> Result<Outcome, Error> {
    let mut runs: Vec<(f64, Outcome)> = Vec::new();
    let found = search.run(probes.own_value(), probes.threshold(), |at| {
        let (result, run) = probes.run(at, progress)?;
        runs.push((at, run));
        Ok::<_, Error>(result)
    })?;
    let mut whole = outcome(&found);
    whole.device = runs.first().and_then(|(_, run)| run.device.clone());
    let Some((_, bracket)) = found.edges.first() else { return Ok(whole) };
    for (name, at) in [(EdgeNumber::Holds, bracket.holds), (EdgeNumber::Fails, bracket.fails)] {
        if let Some((_, run)) = runs.iter_mut().find(|(own, _)| *own == at) {
            let name = name.name().to_owned();
            let curves = run.series.remove("curves").expect("every probe has its curve");
            whole.series.insert(name.clone(), curves);
            whole.hashes.extend(run.hash.take().map(|hash| (name, hash)));
        }
    }
    Ok(whole)
}

/// The edges of a seed as numbers, with its probes in the order of the parameter.
pub fn outcome(found: &SearchResult) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.number(PROBES, found.probes.len() as f64);
    for (end, bracket) in &found.edges {
        outcome.number(&EdgeNumber::Edge.of(*end), bracket.middle());
        outcome.number(&EdgeNumber::Holds.of(*end), bracket.holds);
        outcome.number(&EdgeNumber::Fails.of(*end), bracket.fails);
        let nearest = found.probes.iter().find(|probe| probe.at == bracket.holds);
        let curvature = nearest.and_then(|nearest| nearest.curvature);
        for (name, Number(value)) in curvature.iter().flat_map(ProbeCurvature::named) {
            outcome.number(&name.of(*end), value);
        }
    }
    let mut sorted: Vec<&ProbeResult> = found.probes.iter().collect();
    sorted.sort_by(|a, b| a.at.total_cmp(&b.at));
    let column = |of: &dyn Fn(&ProbeResult) -> f64| sorted.iter().map(|probe| of(probe)).collect();
    let kind = |probe: &ProbeResult| match probe.verdict.kind {
        VerdictKind::Stable => 0.0,
        VerdictKind::Restrained => 1.0,
        VerdictKind::Diverged => 2.0,
        VerdictKind::Undecided => f64::NAN,
    };
    let ratio = |probe: &ProbeResult| probe.curvature.map_or(f64::NAN, |c| c.edge_ratio.0);
    let series = Series::new([
        ("at", column(&|probe| probe.at)),
        ("verdict", column(&kind)),
        ("growth_per_step", column(&|probe| probe.verdict.growth_per_step.0)),
        ("unstable_share", column(&|probe| probe.verdict.unstable_share.0)),
        ("loss", column(&|probe| probe.loss.0)),
        ("edge_ratio", column(&ratio)),
        ("steps", column(&|probe| probe.verdict.steps as f64)),
    ]);
    outcome.series.insert(PROBES.to_owned(), series);
    outcome
}
