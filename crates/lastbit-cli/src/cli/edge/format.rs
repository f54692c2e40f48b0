//! An edge search as text.

use lastbit_lab::edge::{Draw, Search, SearchResult, of_one, sentence};
use lastbit_lab::number::{Number, digits, significant};
use lastbit_lab::words::capitalized;

use crate::cli::table::table;

/// The answer as text.
pub fn text(search: &Search, found: &[(Draw, SearchResult)], notes: &[String]) -> String {
    let several = found.len() > 1;
    let mut rows = Vec::new();
    for (draw, found) in found {
        let batch = draw.batch.map_or(String::new(), |batch| format!(", batches {batch}"));
        for probe in &found.probes {
            let shown =
                |value: Option<f64>| value.map_or("-".to_owned(), |n| Number(n).to_string());
            rows.push(vec![
                format!("{}{batch}", draw.seed),
                digits(significant(probe.at, 12)),
                probe.verdict.in_short(),
                format!(
                    "{} ± {}",
                    probe.verdict.growth_per_step, probe.verdict.growth_standard_error
                ),
                probe.verdict.unstable_share.to_string(),
                shown(Some(probe.loss.0).filter(|loss| loss.is_finite())),
                shown(probe.measured(|curvature| curvature.edge_ratio)),
                probe.verdict.steps.to_string(),
            ]);
        }
    }
    let header = [
        "seed",
        search.over.name(),
        "verdict",
        "growth/step",
        "unstable steps",
        "loss",
        "sharpness/threshold",
        "steps",
    ];
    let mut text = table(&header, rows) + "\n";
    for (draw, found) in found {
        let name = if several { capitalized(&format!("{draw}: ")) } else { String::new() };
        for (end, bracket) in found.edges.iter().filter(|_| several) {
            text += &format!("{name}{}\n", of_one(search, *end, bracket, found));
        }
        if let Some(why) = found.why_none(search.property) {
            text += &format!("{name}no edge: {why}.\n");
        }
    }
    let sentence = sentence(search, found);
    if !sentence.is_empty() {
        text += &(capitalized(&sentence) + "\n");
    }
    notes.iter().for_each(|note| text += &format!("Note: {note}.\n"));
    text
}
