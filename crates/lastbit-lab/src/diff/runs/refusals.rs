//! Runs that cannot be compared: what is wrong with them.

use std::path::Path;

use super::source::Source;
use crate::diff::Only;
use crate::error::Error;
use crate::input::refuse;

/// Tensors that one of two models lacks, or has in another shape.
pub fn other_model(path: &Path, faults: &[String]) -> Error {
    const SHOWN: usize = 3;
    let more = faults.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let found = format!("{}{more}", faults[..faults.len().min(SHOWN)].join("; "));
    let expected =
        "the tensors of A: two runs of one model; --only PATTERN compares those it matches";
    refuse(path, found, expected)
}

/// A pattern without a tensor.
pub fn none_matches<'a>(only: &Only, names: impl Iterator<Item = &'a str>) -> Error {
    const SHOWN: usize = 5;
    let names: Vec<&str> = names.take(SHOWN).collect();
    let expected = format!("a pattern that fits a tensor, such as {}", names.join(", "));
    Error::setting("--only", only, expected)
}

/// Refuses two probes of different models.
pub fn check_names(a: &Source, b: &Source, only: &Only) -> Result<(), Error> {
    let (Some(of_a), Some(of_b)) = (&a.fingerprints, &b.fingerprints) else { return Ok(()) };
    let lacks = |names: &[String], name: &&String| only.matches(name) && !names.contains(name);
    let missing = of_a.names.iter().filter(|name| lacks(&of_b.names, name));
    let more = of_b.names.iter().filter(|name| lacks(&of_a.names, name));
    let faults: Vec<String> = missing
        .map(|name| format!("no {name}"))
        .chain(more.map(|name| format!("{name}, which A lacks")))
        .collect();
    if !of_a.names.iter().any(|name| only.matches(name)) {
        return Err(none_matches(only, of_a.names.iter().map(String::as_str)));
    }
    if faults.is_empty() { Ok(()) } else { Err(other_model(&b.folder, &faults)) }
}

/// Runs without a common step.
pub fn nothing_in_common(a: &Source, b: &Source, only: &Only) -> Error {
    let steps = |source: &Source| {
        let steps = source.steps();
        match (steps.first(), steps.last()) {
            (Some(first), Some(last)) if first != last => {
                format!("{} {}s from {first} to {last}", steps.len(), source.unit.name())
            }
            (Some(only), _) => format!("{} {only} alone", source.unit.name()),
            _ => "none".to_owned(),
        }
    };
    let kinds = match (a.kind == b.kind, only.is_all()) {
        (false, _) => " (of runs of different kinds checkpoints alone can be compared)",
        (_, false) => " (without --only, hashes of all parameters are compared as well)",
        _ => "",
    };
    let found = format!(
        "no {} in common with {}: {} here, {} there",
        a.unit.name(),
        a.name(),
        steps(b),
        steps(a)
    );
    refuse(&b.folder, found, format!("two runs that have saved a common {}{kinds}", a.unit.name()))
}
