//! A comparison as text, JSON, CSV and as a figure.

use std::path::Path;

use lastbit::comparison::Comparison;
use serde_json::{Value, json};

use crate::cli::table::table;
use crate::diff::{Diff, Row, Side, Status};
use crate::figure::{Axis, BarPanel, Bars};
use crate::record::Number;

/// The verdict in words.
fn verdict(diff: &Diff) -> String {
    match (diff.different(), diff.rows.len()) {
        (0, all) => format!("identical bits: {}", tensors(all)),
        (some, all) => format!("{some} of {all} tensors differ"),
    }
}

fn tensors(count: usize) -> String {
    if count == 1 { "1 tensor".to_owned() } else { format!("{count} tensors") }
}

/// For a terminal: what differs, then all together.
pub fn text(diff: &Diff) -> String {
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
        text = table(&header, &lines) + "\n";
    }
    text += &not_compared(diff);
    text += &remarks(diff);
    let [a, b] = diff.total.norms.map(Number);
    text += &format!("norms: A {a}, B {b}, A - B {}\n", Number(diff.total.norm_of_difference));
    text += &format!("hashes: A {}, B {}\n", diff.hashes[0], diff.hashes[1]);
    text + &verdict(diff) + "\n"
}

fn line(row: &Row) -> Vec<String> {
    let [Some(a), Some(b)] = &row.sides else { unreachable!("both sides were compared") };
    let Some(comparison) = &row.comparison else { unreachable!("it was compared") };
    let types = if a.dtype == b.dtype { a.dtype.to_string() } else { types(a, b) };
    let at = comparison.max_difference_at.map_or("-".to_owned(), |at| place(at, &a.shape));
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
    vec![
        name.to_owned(),
        types.to_owned(),
        shape.to_owned(),
        Number(comparison.rel_l1).to_string(),
        Number(equal).to_string(),
        comparison.median_ulps.to_string(),
        comparison.max_ulps.to_string(),
        bits,
        Number(comparison.max_difference).to_string(),
        at,
    ]
}

/// A name on one line.
fn shown(name: &str) -> String {
    name.escape_debug().to_string()
}

fn shape(side: &Side) -> String {
    let sizes: Vec<String> = side.shape.iter().map(ToString::to_string).collect();
    if sizes.is_empty() { "number".to_owned() } else { sizes.join("x") }
}

fn types(a: &Side, b: &Side) -> String {
    format!("{}/{}", a.dtype, b.dtype)
}

/// The index in each dimension of an entry.
fn indices(mut at: usize, shape: &[usize]) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::with_capacity(shape.len());
    for size in shape.iter().rev() {
        found.push(at % size);
        at /= size;
    }
    found.reverse();
    found
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
    for (key, [a, b]) in &diff.metadata {
        let of = |side: &Option<String>| {
            side.as_deref().map_or("absent".to_owned(), |text| format!("{text:?}"))
        };
        text += &format!("metadata: {}: {} in A, {} in B\n", shown(key), of(a), of(b));
    }
    text
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
    total["max_difference_at"] = json!(diff.total_at);
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

fn numbers(c: &Comparison, shape: &[usize]) -> Value {
    json!({
        "entries": c.entries,
        "compared": c.compared,
        "equal_bits": c.equal_bits,
        "nan_a": c.nan[0],
        "nan_b": c.nan[1],
        "infinite_a": c.infinite[0],
        "infinite_b": c.infinite[1],
        "rel_l1": Number(c.rel_l1),
        "median_ulps": c.median_ulps,
        "max_ulps": c.max_ulps,
        "agreeing_bits": c.agreeing_bits.map(Number),
        "max_difference": Number(c.max_difference),
        "max_difference_at": c.max_difference_at.map(|at| indices(at, shape)),
        "norm_a": Number(c.norms[0]),
        "norm_b": Number(c.norms[1]),
        "norm_of_difference": Number(c.norm_of_difference),
    })
}

/// A line for each tensor, with the numbers of the JSON under the same names.
pub fn csv(diff: &Diff) -> Vec<u8> {
    let names: Vec<String> = match numbers(&diff.total, &[]) {
        Value::Object(map) => map.keys().cloned().collect(),
        _ => unreachable!("numbers have names"),
    };
    let mut header: Vec<String> = [
        "name", "status", "dtype_a", "dtype_b", "shape_a", "shape_b", "hash_a", "hash_b", "ulps_of",
    ]
    .map(str::to_owned)
    .to_vec();
    header.extend(names.iter().cloned());
    let mut writer = csv::Writer::from_writer(Vec::new());
    let in_memory = "writing to memory does not fail";
    writer.write_record(&header).expect(in_memory);
    for row in &diff.rows {
        let each = |of: fn(&Side) -> String| {
            [0, 1].map(|i| row.sides[i].as_ref().map(of).unwrap_or_default())
        };
        let mut fields = vec![row.name.clone(), plain(&json!(row.status))];
        fields.extend(each(|side| side.dtype.to_string()));
        fields.extend(each(shape));
        fields.extend(each(|side| side.hash.clone()));
        fields.push(row.ulps_of.map(|dtype| dtype.to_string()).unwrap_or_default());
        let shape = row.sides[0].as_ref().map_or(&[][..], |side| &side.shape);
        let numbers = row.comparison.as_ref().map(|c| numbers(c, shape)).unwrap_or_default();
        fields.extend(names.iter().map(|name| plain(&numbers[name])));
        writer.write_record(&fields).expect(in_memory);
    }
    writer.into_inner().expect(in_memory)
}

/// A value without quotes; nothing for null.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Rows of a figure at most.
const BARS: usize = 60;

/// RelL1 and largest ulps of the tensors that differ, in their order; of very many, those with the
/// largest RelL1.
pub fn bars(diff: &Diff, a: &Path, b: &Path) -> Bars {
    let different = diff.rows.iter().filter(|row| row.status == Status::Different);
    let mut shown_rows: Vec<(&Row, &Comparison)> =
        different.filter_map(|row| Some((row, row.comparison.as_ref()?))).collect();
    let all = shown_rows.len();
    if all > BARS {
        let mut sizes: Vec<f64> = shown_rows.iter().map(|(_, c)| c.rel_l1).collect();
        sizes.sort_by(|x, y| y.total_cmp(x));
        shown_rows.retain(|(_, c)| c.rel_l1.total_cmp(&sizes[BARS - 1]).is_ge());
        shown_rows.truncate(BARS);
    }
    let file = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut title = format!("{} against {}: {}", file(a), file(b), verdict(diff));
    if all > BARS {
        title += &format!("; the {BARS} with the largest RelL1");
    }
    let values = |of: fn(&Comparison) -> f64| shown_rows.iter().map(|(_, c)| of(c)).collect();
    Bars {
        title,
        names: shown_rows.iter().map(|(row, _)| shown(&row.name)).collect(),
        panels: vec![
            BarPanel { axis: Axis::log("RelL1"), values: values(|c| c.rel_l1) },
            BarPanel {
                axis: Axis::log("largest distance in ulps"),
                values: values(|c| c.max_ulps as f64),
            },
        ],
    }
}
