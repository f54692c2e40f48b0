//! A comparison on a terminal.

use lastbit::comparison::Comparison;

use crate::cli::table::table;
use lastbit_lab::diff::{Diff, Row, Side, Status, indices, is_comparable, tensors, verdict};
use lastbit_lab::number::Number;

/// For a terminal: what differs, then all together.
pub fn of(diff: &Diff) -> String {
    let different = diff.rows.iter().filter(|row| row.status == Status::Different);
    let mut lines: Vec<Vec<String>> = different.map(line).collect();
    let mut text = String::new();
    if !lines.is_empty() {
        lines.push(numbers_of("in all", "-", "-", &diff.total, "-".to_owned()));
        let header = [
            "tensor",
            "type",
            "shape",
            "RelL1",
            "equal %",
            "median ulps",
            "max ulps",
            "bits",
            "max |a - b|",
            "at",
        ];
        text = table(&header, lines) + "\n";
    }
    text += &not_compared(diff);
    text += &remarks(diff);
    if diff.rows.iter().any(|row| row.comparison.is_some()) {
        let [a, b] = diff.total.norms.map(Number);
        let apart = Number(diff.total.norm_of_difference);
        text += &format!("norms: A {a}, B {b}, A - B {apart}\n");
    }
    text += &format!("hashes of the parameters: A {}, B {}\n", diff.hashes[0], diff.hashes[1]);
    text + &verdict(diff) + "\n"
}

fn line(row: &Row) -> Vec<String> {
    let [Some(a), Some(b)] = &row.sides else { unreachable!("both sides were compared") };
    let Some(comparison) = &row.comparison else { unreachable!("it was compared") };
    let types = if a.dtype == b.dtype { a.dtype.to_string() } else { types(a, b) };
    let at = comparison.max_difference_at.filter(|_| is_comparable(comparison));
    let at = at.map_or("-".to_owned(), |at| place(at, &a.shape));
    numbers_of(&shown(&row.name), &types, &shape(a), comparison, at)
}

fn numbers_of(
    name: &str,
    types: &str,
    shape: &str,
    comparison: &Comparison,
    at: String,
) -> Vec<String> {
    let Comparison { equal_bits, entries, .. } = comparison;
    // Rounded down: 100 means all.
    let equal = 1_000_000.0 * *equal_bits as f64 / (*entries).max(1) as f64;
    let equal = if equal_bits == entries { 100.0 } else { equal.floor() / 10_000.0 };
    let bits = comparison.agreeing_bits.map_or("-".to_owned(), |bits| format!("{bits:.2}"));
    let largest = |text: String| match is_comparable(comparison) {
        true => text,
        false => "not comparable".to_owned(),
    };
    let median = match comparison.compared {
        0 => "-".to_owned(),
        _ => comparison.median_ulps.to_string(),
    };
    vec![
        name.to_owned(),
        types.to_owned(),
        shape.to_owned(),
        Number(comparison.rel_l1).to_string(),
        Number(equal).to_string(),
        median,
        largest(comparison.max_ulps.to_string()),
        bits,
        largest(Number(comparison.max_difference).to_string()),
        at,
    ]
}

/// A name on one line.
pub fn shown(name: &str) -> String {
    name.escape_debug().to_string()
}

/// Sizes of the dimensions.
pub fn shape(side: &Side) -> String {
    let sizes: Vec<String> = side.shape.iter().map(ToString::to_string).collect();
    if sizes.is_empty() { "number".to_owned() } else { sizes.join("x") }
}

fn types(a: &Side, b: &Side) -> String {
    format!("{}/{}", a.dtype, b.dtype)
}

fn place(at: usize, shape: &[usize]) -> String {
    let found: Vec<String> = indices(at, shape).iter().map(ToString::to_string).collect();
    if found.is_empty() { "-".to_owned() } else { format!("[{}]", found.join(",")) }
}

fn not_compared(diff: &Diff) -> String {
    let mut text = String::new();
    for (status, words) in [
        (Status::OtherShape, "other shape"),
        (Status::OtherType, "other type"),
        (Status::OnlyInA, "only in A"),
        (Status::OnlyInB, "only in B"),
    ] {
        for row in diff.rows.iter().filter(|row| row.status == status) {
            let side = |side: &Side| format!("{} {}", side.dtype, shape(side));
            let sides: Vec<String> = row.sides.iter().flatten().map(side).collect();
            text += &format!("{words}: {} ({})\n", shown(&row.name), sides.join(" and "));
        }
    }
    text
}

/// The first letters of a text; all of it is in the JSON.
fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}… ({} bytes)", &text[..end], text.len()),
        None => format!("{text:?}"),
    }
}

fn remarks(diff: &Diff) -> String {
    let mut text = String::new();
    let is_mixed = |row: &&Row| match &row.sides {
        [Some(a), Some(b)] => row.comparison.is_some() && a.dtype != b.dtype,
        _ => false,
    };
    let mixed = diff.rows.iter().filter(is_mixed).count();
    if mixed > 0 {
        text += &format!(
            "floats of two types: {}, compared in F64, with ulps and bits of the coarser type\n",
            tensors(mixed)
        );
    }
    let Comparison { entries, compared, nan, infinite, .. } = &diff.total;
    if compared < entries {
        let left_out = entries - compared;
        text += &format!(
            "not finite: {left_out} of {entries} entries have no distance; NaN: {} in A, {} in B; \
             infinite: {} in A, {} in B\n",
            nan[0], nan[1], infinite[0], infinite[1]
        );
    }
    if !is_comparable(&diff.total) {
        let first = diff.rows.iter().find_map(|row| {
            let at = row.comparison.as_ref()?.first_not_comparable?;
            let shape = row.sides[0].as_ref().map_or(&[][..], |side| &side.shape);
            let index = place(at, shape);
            let index = if index == "-" { String::new() } else { format!(" at {index}") };
            Some(format!("{}{index}", shown(&row.name)))
        });
        let count = diff.total.not_comparable;
        text += &format!(
            "not comparable: {count} of {entries} entries, first {}; other numbers leave them out\n",
            first.unwrap_or_default()
        );
    }
    for (key, [a, b]) in &diff.metadata {
        let of = |side: &Option<String>| side.as_deref().map_or("absent".to_owned(), quoted);
        text += &format!("metadata: {}: {} in A, {} in B\n", shown(key), of(a), of(b));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_no_place() {
        assert_eq!(place(5, &[2, 3]), "[1,2]");
        assert_eq!(place(0, &[]), "-");
    }
}
