//! Interactive charts: their data and the place where the script draws them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::html;
use crate::error::Error;
use crate::figure::Chart;
use crate::number::{Number, shortest};
use crate::plot::{colour, source};
use crate::record::{Record, Store};

/// The place of a chart, with its data.
pub fn of(store: &Store, record: &Record, title: &str, chart: &Chart) -> Result<String, Error> {
    let mut columns = Columns::default();
    let mut traces = Vec::new();
    for (k, trace) in chart.traces.iter().enumerate() {
        let Some(points) = source::points(store, record, trace)? else { continue };
        let k = chart.colour_of(k);
        // When the colours have gone round, the pen changes.
        let dash = ["solid", "dash", "dot"][k / colour::CURVES.len() % 3];
        traces.push(json!({
            "label": trace.label,
            "x": columns.index(&points.x),
            "y": columns.index(&points.y),
            "marks": trace.marks,
            "colour": colour::css(colour::of_curve(k)),
            "dash": dash,
        }));
    }
    for segment in &chart.lines {
        let Some((curve, points)) = source::line(store, record, chart, segment)? else { continue };
        traces.push(json!({
            "label": segment.label,
            "x": columns.index(&points.x),
            "y": columns.index(&points.y),
            "marks": false,
            "colour": colour::css(colour::of_curve(chart.colour_of(curve))),
            "dash": "12px,7px",
            "fitted": true,
        }));
    }
    let levels: Vec<Value> = chart
        .levels
        .iter()
        .filter(|level| level.y.is_finite())
        .map(|level| json!({ "label": level.label, "y": level.y, "text": Number(level.y).to_string() }))
        .collect();
    let mut data = Map::new();
    for (name, axis) in [("x", &chart.x), ("y", &chart.y)] {
        data.insert(name.to_owned(), json!({ "label": axis.label, "log": axis.log }));
    }
    let names = chart.traces.iter().map(|trace| trace.label.as_str());
    let names: Vec<&str> = names.chain(chart.lines.iter().map(|l| l.label.as_str())).collect();
    let label = format!(
        "Chart: {title}. Across: {}. Up: {}. Curves: {}. Plus and minus zoom, arrows move, 0 shows all.",
        chart.x.label,
        chart.y.label,
        names.join("; ")
    );
    data.insert("traces".to_owned(), Value::Array(traces));
    data.insert("levels".to_owned(), Value::Array(levels));
    let data = Value::Object(data).to_string();
    let data = format!("{},\"columns\":{}}}", &data[..data.len() - 1], columns.to_json());
    Ok(place("", "", &label, &data))
}

/// The place where the script draws `data`, with the attributes of the plot.
pub fn place(legend: &str, attributes: &str, label: &str, data: &str) -> String {
    format!(
        "<div class=\"chart\">\n<div class=\"legend\">{legend}</div>\n\
         <div class=\"plot\"{attributes} role=\"group\" tabindex=\"0\" aria-label=\"{}\"></div>\n\
         <script type=\"application/json\">{}</script>\n</div>\n",
        html::escape(label),
        within_script(data)
    )
}

/// JSON that cannot end the script it stands in.
fn within_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// Columns of numbers as JSON, each once: curves often share their horizontal axis.
#[derive(Default)]
struct Columns {
    texts: Vec<String>,
    known: BTreeMap<String, usize>,
}

impl Columns {
    fn index(&mut self, values: &[f64]) -> usize {
        let text = values.iter().map(|value| entry(*value)).collect::<Vec<_>>().join(",");
        *self.known.entry(text).or_insert_with_key(|text| {
            self.texts.push(text.clone());
            self.texts.len() - 1
        })
    }

    fn to_json(&self) -> String {
        let columns: Vec<String> = self.texts.iter().map(|text| format!("[{text}]")).collect();
        format!("[{}]", columns.join(","))
    }
}

/// A number in few characters; a gap where there is none.
fn entry(value: f64) -> String {
    if value.is_finite() { shortest(value) } else { "null".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([1.0, 0.1, 1e-12, 1e22].map(entry), ["1", "0.1", "1e-12", "1e22"]);
        assert_eq!([f64::NAN, f64::INFINITY].map(entry), ["null", "null"]);
    }

    proptest! {
        #![proptest_config(crate::fixed_seed())]

        #[test]
        fn numbers_keep_their_bits(value in any::<f64>().prop_filter("finite", |v| v.is_finite())) {
            let back: f64 = serde_json::from_str(&entry(value)).unwrap();
            prop_assert_eq!(back, value);
        }
    }

    #[test]
    fn equal_columns_are_written_once() {
        let mut columns = Columns::default();
        let indices = [&[1.0, 2.0][..], &[3.0], &[1.0, 2.0]].map(|values| columns.index(values));
        assert_eq!(indices, [0, 1, 0]);
        assert_eq!(columns.to_json(), "[[1,2],[3]]");
    }

    #[test]
    fn data_cannot_end_its_script() {
        let json = within_script("{\"a\":\"</script><!--\"}");
        assert!(!json.contains('<'));
        let back: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(back["a"], "</script><!--");
    }
}
