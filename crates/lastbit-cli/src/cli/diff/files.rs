//! A comparison as CSV and as a figure.

use std::path::Path;

use lastbit::comparison::Comparison;
use serde_json::{Value, json};

use super::text::{shape, shown};
use lastbit_lab::diff::{Diff, Row, Side, Status, is_comparable, numbers, verdict};
use lastbit_lab::figure::{Axis, BarPanel, Bars};

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

/// NaN, which is drawn as no bar and sorted before all numbers, where there is no largest distance.
pub fn largest_ulps(c: &Comparison) -> f64 {
    if is_comparable(c) { c.max_ulps as f64 } else { f64::NAN }
}

/// Like [`largest_ulps`], of the absolute difference.
pub fn largest_difference(c: &Comparison) -> f64 {
    if is_comparable(c) { c.max_difference } else { f64::NAN }
}

/// Rows of a figure at most.
const BARS: usize = 60;

/// RelL1 and largest ulps of the tensors that differ, in their order; of very many, those with the
/// largest RelL1.
pub fn bars(diff: &Diff, a: &Path, b: &Path) -> Bars {
    let different = diff.rows.iter().filter(|row| row.status == Status::Different);
    let all: Vec<(&Row, &Comparison)> =
        different.filter_map(|row| Some((row, row.comparison.as_ref()?))).collect();
    let mut places: Vec<usize> = (0..all.len()).collect();
    places.sort_by(|i, j| all[*j].1.rel_l1.total_cmp(&all[*i].1.rel_l1));
    places.truncate(BARS);
    places.sort_unstable();
    let file = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut title = format!("{} against {}: {}", file(a), file(b), verdict(diff));
    if all.len() > BARS {
        title += &format!("; the {BARS} with the largest RelL1");
    }
    let panel = |label: &str, of: fn(&Comparison) -> f64| BarPanel {
        axis: Axis::log(label),
        values: places.iter().map(|i| of(all[*i].1)).collect(),
    };
    let panels =
        vec![panel("RelL1", |c| c.rel_l1), panel("largest distance in ulps", largest_ulps)];
    Bars {
        title,
        names: places.iter().map(|i| shown(&all[*i].0.name)).collect(),
        // Without a bar there is nothing to measure: the title says it all.
        panels: if places.is_empty() { vec![] } else { panels },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lastbit_lab::tensors::{Tensor, TensorFile, Values};

    /// `count` tensors, of which the later ones are further apart; every third is identical.
    fn diff(count: usize) -> Diff {
        let file = |side: f64| {
            let tensor = |i: usize| {
                let apart = if i.is_multiple_of(3) { 0.0 } else { side * i as f64 };
                Tensor {
                    name: i.to_string(),
                    shape: vec![1],
                    values: Values::F64(vec![1.0 + apart]),
                }
            };
            TensorFile { tensors: (0..count).map(tensor).collect(), ..TensorFile::default() }
        };
        Diff::of(&file(0.0), &file(1e-3), |_| true)
    }

    #[test]
    fn of_many_tensors_the_furthest_apart_are_drawn_in_their_order() {
        let drawn = |count: usize| bars(&diff(count), Path::new("x/a"), Path::new("x/b"));
        let few = drawn(5);
        assert_eq!(few.names, ["1", "2", "4"]);
        assert_eq!(few.title, "a against b: 3 of 5 tensors differ");
        let many = drawn(150);
        // 100 of 150 differ; the last 60 of those begin at 61.
        assert_eq!((many.names.len(), many.names[0].as_str()), (60, "61"));
        assert!(
            many.panels.iter().all(|panel| panel.values.is_sorted() && panel.values.len() == 60)
        );
        assert!(many.title.ends_with("100 of 150 tensors differ; the 60 with the largest RelL1"));
        assert!(drawn(1).panels.is_empty(), "nothing to draw");
    }

    #[test]
    fn every_row_of_the_csv_has_every_column() {
        let text = String::from_utf8(csv(&diff(4))).unwrap();
        let commas: Vec<usize> = text.lines().map(|line| line.matches(',').count()).collect();
        assert_eq!(commas, [26; 5]);
    }
}
