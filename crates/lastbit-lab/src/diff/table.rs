//! A comparison as JSON: a verdict in words, the totals, and the numbers of each tensor.

use std::fmt;
use std::path::Path;

use lastbit::comparison::Comparison;
use serde_json::{Value, json};

use super::{Diff, Row, Side};
use crate::error::Error;
use crate::number::Number;
use crate::tensors::TensorFile;

/// The tensors that are compared: all, or those whose name matches a pattern.
#[derive(Debug, Clone)]
pub struct Only(Option<glob::Pattern>);

impl Only {
    /// Reads a pattern; `*` stands for any characters, `?` for one.
    pub fn parse(pattern: Option<&str>) -> Result<Self, Error> {
        let parse = |text: &str| {
            glob::Pattern::new(text).map_err(|error| {
                let expected = format!("a pattern such as 'layer1.*' ({error})");
                Error::setting("--only", text, expected)
            })
        };
        Ok(Self(pattern.map(parse).transpose()?))
    }

    /// Whether every name matches, because there is no pattern.
    pub fn is_all(&self) -> bool {
        self.0.is_none()
    }

    /// Whether a tensor of this name is compared.
    pub fn matches(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|pattern| pattern.matches(name))
    }

    /// Compares the tensors that match; a pattern that no tensor matches is refused.
    pub fn compare(&self, a: &TensorFile, b: &TensorFile) -> Result<Diff, Error> {
        let diff = Diff::of(a, b, |name| self.matches(name));
        match &self.0 {
            Some(pattern) if diff.rows.is_empty() => {
                Err(Error::setting("--only", pattern.as_str(), names(a, b)))
            }
            _ => Ok(diff),
        }
    }
}

impl fmt::Display for Only {
    /// The pattern.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.0.as_ref().map_or("*", glob::Pattern::as_str))
    }
}

/// What `--only` could have named.
fn names(a: &TensorFile, b: &TensorFile) -> String {
    const SHOWN: usize = 5;
    let all: Vec<&str> =
        a.tensors.iter().chain(&b.tensors).map(|tensor| tensor.name.as_str()).collect();
    let some: Vec<String> =
        all.iter().take(SHOWN).map(|name| name.escape_debug().to_string()).collect();
    let more = if all.len() > SHOWN { ", …" } else { "" };
    format!("a pattern that fits a tensor; there are {}{more}", some.join(", "))
}

/// The verdict in words.
pub fn verdict(diff: &Diff) -> String {
    match (diff.different(), diff.rows.len()) {
        (0, all) => format!("identical bits: {}", tensors(all)),
        (some, all) if is_comparable(&diff.total) => format!("{some} of {all} tensors differ"),
        (some, all) => {
            let count = diff.total.not_comparable;
            let (entries, are) = if count == 1 { ("entry", "is") } else { ("entries", "are") };
            format!(
                "{some} of {all} tensors differ; {count} {entries} {are} not comparable (NaN or infinite)"
            )
        }
    }
}

/// Whether every entry that differs has a distance.
pub fn is_comparable(comparison: &Comparison) -> bool {
    comparison.not_comparable == 0
}

/// So many tensors.
pub fn tensors(count: usize) -> String {
    if count == 1 { "1 tensor".to_owned() } else { format!("{count} tensors") }
}

/// The index in each dimension of an entry.
pub fn indices(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::with_capacity(shape.len());
    for size in shape.iter().rev() {
        found.push(at % size);
        at /= size;
    }
    found.reverse();
    found
}

/// All numbers.
pub fn json(diff: &Diff, a: &Path, b: &Path) -> Value {
    let row = |row: &Row| {
        let [a, b] = [0, 1].map(|i| row.sides[i].as_ref().map(side));
        let shape = row.sides[0].as_ref().map_or(&[][..], |side| &side.shape);
        json!({
            "name": row.name,
            "status": row.status,
            "a": a,
            "b": b,
            "ulps_of": row.ulps_of,
            "numbers": row.comparison.as_ref().map(|c| numbers(c, shape)),
        })
    };
    let metadata = diff.metadata.iter().map(|(key, [a, b])| (key.clone(), json!({"a": a, "b": b})));
    let mut total = numbers(&diff.total, &[]);
    total["max_difference_at"] =
        json!(diff.total_at.as_ref().filter(|_| is_comparable(&diff.total)));
    total["first_not_comparable"] = json!(diff.not_comparable_at);
    json!({
        "a": {"file": a, "hash": diff.hashes[0]},
        "b": {"file": b, "hash": diff.hashes[1]},
        "verdict": verdict(diff),
        "identical": diff.different() == 0,
        "tensors_in_all": diff.rows.len(),
        "tensors_different": diff.different(),
        "total": total,
        "metadata": metadata.collect::<serde_json::Map<_, _>>(),
        "tensors": diff.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn side(side: &Side) -> Value {
    json!({"dtype": side.dtype, "shape": side.shape, "hash": side.hash})
}

/// The numbers of a comparison, by name.
pub fn numbers(c: &Comparison, shape: &[usize]) -> Value {
    // What has entries without a distance has no largest distance, and no median where all are such.
    let largest = |value: Value| if is_comparable(c) { value } else { Value::Null };
    let of_compared =
        |value: Value| if c.compared > 0 || c.entries == 0 { value } else { Value::Null };
    json!({
        "entries": c.entries,
        "compared": c.compared,
        "equal_bits": c.equal_bits,
        "nan_a": c.nan[0],
        "nan_b": c.nan[1],
        "infinite_a": c.infinite[0],
        "infinite_b": c.infinite[1],
        "not_comparable": c.not_comparable,
        "first_not_comparable": c.first_not_comparable.map(|at| indices(at, shape)),
        "rel_l1": Number(c.rel_l1),
        "median_ulps": of_compared(json!(c.median_ulps)),
        "max_ulps": largest(of_compared(json!(c.max_ulps))),
        "agreeing_bits": c.agreeing_bits.map(Number),
        "max_difference": largest(of_compared(json!(Number(c.max_difference)))),
        "max_difference_at": largest(json!(c.max_difference_at.map(|at| indices(at, shape)))),
        "norm_a": Number(c.norms[0]),
        "norm_b": Number(c.norms[1]),
        "norm_of_difference": Number(c.norm_of_difference),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_an_index_in_each_dimension() {
        assert_eq!(indices(23, &[2, 3, 4]), [1, 2, 3]);
        assert_eq!(indices(5, &[2, 3]), [1, 2]);
    }
}
