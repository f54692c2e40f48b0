//! A whole search as one cell of an exhibit, and the cell that tells what a search found.

use std::convert::Infallible;

use super::{EdgeResult, ProbeResult, Probes, Search};
use crate::progress::Progress;
use crate::record::Outcome;
use crate::series::Series;

/// What the cell of an edge repeats of the probe on its stable side.
const REPEATED: [&str; 5] =
    ["predicted", "sharpness", "sharpness_residual", "edge_ratio", "gradient_norm"];

/// Searches in memory. The curves of both sides of the first edge are kept, as `holds` and `fails`.
pub fn searched(probes: &Probes, search: &Search, progress: &Progress) -> Outcome {
    let mut runs: Vec<(f64, Outcome)> = Vec::new();
    let found = search.run(probes.own_value(), probes.threshold(), |at| {
        let run = probes.run(at, progress);
        let verdict = run.verdict.clone().expect("every probe is judged");
        let tried = ProbeResult { key: String::new(), at, verdict, numbers: run.numbers.clone() };
        runs.push((at, run));
        Ok::<_, Infallible>(tried)
    });
    let Ok(found) = found;
    let mut told = outcome(&found);
    told.device = runs.first().and_then(|(_, run)| run.device.clone());
    let Some((_, bracket)) = found.edges.first() else { return told };
    for (name, at) in [("holds", bracket.holds), ("fails", bracket.fails)] {
        if let Some((_, run)) = runs.iter_mut().find(|(own, _)| *own == at) {
            let curves = run.series.remove("curves").expect("every probe has its curve");
            told.series.insert(name.to_owned(), curves);
            told.hashes.extend(run.hash.take().map(|hash| (name.to_owned(), hash)));
        }
    }
    told
}

/// The edges of a seed as numbers, with its probes in the order of the parameter.
pub fn outcome(found: &EdgeResult) -> Outcome {
    let mut outcome = Outcome::default();
    outcome.number("probes", found.probes.len() as f64);
    for (end, bracket) in &found.edges {
        let name = |what: &str| format!("{}_{what}", end.name());
        outcome.number(&name("edge"), bracket.middle());
        outcome.number(&name("holds"), bracket.holds);
        outcome.number(&name("fails"), bracket.fails);
        let nearest = found.probes.iter().find(|probe| probe.at == bracket.holds);
        let numbers = nearest.iter().flat_map(|nearest| &nearest.numbers);
        for (number, value) in numbers.filter(|(number, _)| REPEATED.contains(&number.as_str())) {
            outcome.number(&name(number), value.0);
        }
    }
    let mut sorted: Vec<&ProbeResult> = found.probes.iter().collect();
    sorted.sort_by(|a, b| a.at.total_cmp(&b.at));
    let column = |of: &dyn Fn(&ProbeResult) -> f64| sorted.iter().map(|probe| of(probe)).collect();
    let number =
        |probe: &ProbeResult, name: &str| probe.numbers.get(name).map_or(f64::NAN, |n| n.0);
    let kind = |probe: &ProbeResult| match &probe.verdict {
        verdict if verdict.is_stable() => 0.0,
        verdict if verdict.is_diverged() => 2.0,
        _ => 1.0,
    };
    let series = Series::new([
        ("at", column(&|probe| probe.at)),
        ("verdict", column(&kind)),
        ("growth_per_step", column(&|probe| probe.verdict.growth_per_step.0)),
        ("unstable_share", column(&|probe| probe.verdict.unstable_share.0)),
        ("loss", column(&|probe| number(probe, "loss"))),
        ("edge_ratio", column(&|probe| number(probe, "edge_ratio"))),
        ("steps", column(&|probe| probe.verdict.steps as f64)),
    ]);
    outcome.series.insert("probes".to_owned(), series);
    outcome
}
