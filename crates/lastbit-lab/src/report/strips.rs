//! Interactive strips: their data and the place where the script draws them.

use serde_json::json;

use super::{chart, html};
use crate::error::Error;
use crate::figure::Strips;
use crate::number::Number;
use crate::plot::colour;
use crate::plot::rows::{self, Key, Row};
use crate::record::{Record, Store};

/// Share of the axis within which two dots would touch.
const APART: f64 = 0.03;
/// Most of a row that a dot may be away from its middle, in rows.
const REACH: f64 = 0.3;
/// From level to level, in rows.
const STEP: f64 = 0.14;

/// The place of strips, with their data.
pub fn of(store: &Store, record: &Record, title: &str, strips: &Strips) -> Result<String, Error> {
    let rows = rows::read(store, record, strips)?;
    let extent = || rows.iter().flat_map(Row::extent);
    let width = extent().fold(f64::NEG_INFINITY, f64::max) - extent().fold(f64::INFINITY, f64::min);
    let data = json!({
        "kind": "strips",
        "x": { "label": strips.label, "log": false },
        "rows": rows.iter().map(|row| row_data(row, width)).collect::<Vec<_>>(),
    });
    let words: Vec<String> = rows
        .iter()
        .map(|row| format!("{}: {} values, {}", row.label, row.dots.len(), row.summary()))
        .collect();
    let label = format!(
        "Values as dots: {title}. Across: {}. Rows: {}. Plus and minus zoom, left and right move, \
         0 shows all.",
        strips.label,
        words.join("; ")
    );
    // Names take two or three lines on a phone.
    let height = 4.8 * rows.len().max(1) as f64 + 6.0;
    let style = format!(" style=\"height:{height}rem\"");
    Ok(chart::place(&legend(&rows), &style, &label, &data.to_string()))
}

fn colour_of(stated: bool) -> String {
    colour::css(colour::of_curve(usize::from(stated)))
}

fn row_data(row: &Row, width: f64) -> serde_json::Value {
    let shown = row.shown();
    let apart = APART * width;
    // Where the axis has no width, all dots are at one place.
    let apart = if apart > 0.0 { apart } else { f64::MIN_POSITIVE };
    let levels = rows::stacked(&shown, apart);
    let highest = levels.iter().map(|level| level.unsigned_abs()).max().unwrap_or(0);
    let step = STEP.min(REACH / f64::from(highest.max(1)));
    let text: Vec<String> =
        row.dots.iter().map(|dot| format!("{} ({})", Number(dot.value), dot.origin)).collect();
    json!({
        "label": row.label,
        "summary": row.summary(),
        "colour": colour_of(row.stated),
        "x": shown,
        "lift": levels.iter().map(|level| step * f64::from(*level)).collect::<Vec<_>>(),
        "text": text,
        "mean": row.mean.map(|mean| mean - row.shift),
        "bar": row.bar.map(|ends| ends.map(|end| end - row.shift)),
        "given": row.given,
    })
}

fn legend(rows: &[Row]) -> String {
    let key = |key: Key| {
        let sign = match key {
            Key::Dot { stated } => {
                format!("<span class=\"dot\" style=\"background:{}\"></span>", colour_of(stated))
            }
            Key::Mean => "<span class=\"mean\"></span>".to_owned(),
            Key::Bar { given: false } => "<span class=\"bar\"></span>".to_owned(),
            Key::Bar { given: true } => "<span class=\"bar given\"></span>".to_owned(),
        };
        format!("<span class=\"key\">{sign}{}</span>", html::escape(key.text()))
    };
    rows::keys(rows).into_iter().map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{Quantity, Strip};
    use crate::sample;
    use serde_json::Value;

    fn data(page: &str) -> Value {
        let (_, json) = page.split_once("<script type=\"application/json\">").unwrap();
        serde_json::from_str(json.split_once("</script>").unwrap().0).unwrap()
    }

    #[test]
    fn dots_say_what_they_are_and_where_from() {
        let out = tempfile::tempdir().unwrap();
        let (store, record) = sample::training(out.path());
        let values: Vec<Quantity> = vec![("seed0", "test_accuracy-k1").into(), 0.5.into()];
        let rows = vec![Strip::new("a < b", values)];
        let strips = Strips { factor: 100.0, centred: true, ..Strips::new("%", rows) };
        let page = of(&store, &record, "t", &strips).unwrap();
        assert!(page.contains("a &lt; b: 2 values, ") && !page.contains("a < b"));
        let row = &data(&page)["rows"][0];
        assert_eq!(row["text"][1], "50 (stated in the paper)");
        assert!(row["text"][0].as_str().unwrap().ends_with("(seed0, test_accuracy-k1)"));
        let [low, high] = [0, 1].map(|k| row["x"][k].as_f64().unwrap());
        // The mean and both differences are rounded, each by at most half of 2⁻⁴⁷.
        assert!((low + high).abs() <= 1.5 * 2.0_f64.powi(-47), "not about zero: {low}, {high}");
        assert_eq!(row["mean"], 0.0);
    }

    #[test]
    fn equal_values_and_no_values_are_laid_out_too() {
        let out = tempfile::tempdir().unwrap();
        let (store, record) = sample::training(out.path());
        let rows = vec![Strip::new("r", vec![0.5.into(); 3]), Strip::new("r", vec![])];
        let strips = Strips::new("%", rows);
        let data = data(&of(&store, &record, "t", &strips).unwrap());
        assert_eq!(data["rows"][0]["lift"], json!([0.0, STEP, -STEP]));
        assert_eq!(data["rows"][1]["mean"], Value::Null);
    }
}
