//! A heat map as a table: its numbers can be read aloud, searched for and copied.

use super::html;
use crate::error::Error;
use crate::figure::{HeatMap, Quantity};
use crate::plot::colour;
use crate::plot::grid::Grid;
use crate::record::{Record, Store};

/// The table, in a box of its own in which it scrolls, and the scale of its colours.
pub fn of(store: &Store, record: &Record, title: &str, map: &HeatMap) -> Result<String, Error> {
    let grid = Grid::read(store, record, map)?;
    let names = |names: &[String]| -> String {
        names.iter().map(|name| format!("<th scope=\"col\">{}</th>", html::inline(name))).collect()
    };
    let columns = map.columns.len();
    // The margin has a column of its own in both rows of the head.
    let beside = |cell: String| if map.margins.is_some() { cell } else { String::new() };
    let of_rows = map.margins.as_ref().map(|margins| html::inline(&margins.of_rows));
    let of_rows = of_rows.unwrap_or_default();
    let head = format!(
        "<tr><th scope=\"col\" rowspan=\"2\">{}</th><th scope=\"colgroup\" colspan=\"{columns}\">{}\
         </th>{}</tr>\n<tr>{}</tr>\n",
        html::inline(&map.row_heading),
        html::inline(&map.column_heading),
        beside(format!("<th scope=\"col\" rowspan=\"2\" class=\"margin\">{of_rows}</th>")),
        names(&map.columns),
    );
    let mut rows = String::new();
    for (k, name) in map.rows.iter().enumerate() {
        let pairs = map.entries[k].iter().zip(&grid.entries[k]);
        let entries: String = pairs.map(|(from, value)| entry(map, &grid, from, *value)).collect();
        rows.push_str(&format!(
            "<tr><th scope=\"row\">{}</th>{entries}{}</tr>\n",
            html::inline(name),
            beside(margin(map, grid.of_rows[k])),
        ));
    }
    let mut foot = String::new();
    if let Some(margins) = &map.margins {
        let below: String = grid.of_columns.iter().map(|std| margin(map, *std)).collect();
        let name = html::inline(&margins.of_columns);
        foot = format!(
            "<tfoot><tr><th scope=\"row\">{name}</th>{below}<td class=\"margin\"></td></tr></tfoot>\n"
        );
    }
    Ok(format!(
        "<div class=\"box\" role=\"region\" aria-label=\"{}\" tabindex=\"0\">\
         <table class=\"heat\">\n<caption>{}</caption>\n<thead>{head}</thead>\n\
         <tbody>\n{rows}</tbody>\n{foot}</table></div>\n{}",
        html::escape(title),
        html::inline(&map.label),
        scale(map, &grid),
    ))
}

fn entry(map: &HeatMap, grid: &Grid, from: &Quantity, value: Option<f64>) -> String {
    let Some(value) = value else {
        return "<td class=\"empty\"><span class=\"quiet\">to come</span></td>".to_owned();
    };
    let style = grid.shade(value).map_or(String::new(), |shade| {
        let text = if colour::text_on(shade) == [0; 3] { "#000" } else { "#fff" };
        format!(" style=\"background:{};color:{text}\"", colour::css(shade))
    });
    format!(
        "<td{style} title=\"{}: {value:?}\">{}</td>",
        html::escape(&from.origin()),
        map.text(value)
    )
}

fn margin(map: &HeatMap, std: Option<f64>) -> String {
    match std {
        Some(std) => format!("<td class=\"margin\" title=\"{std:?}\">{}</td>", map.text(std)),
        None => "<td class=\"margin\"></td>".to_owned(),
    }
}

/// The colours with the numbers at their ends.
fn scale(map: &HeatMap, grid: &Grid) -> String {
    let Some([low, high]) = grid.range else { return String::new() };
    // Between so near stops a browser's straight lines in sRGB do not leave those in OKLab visibly.
    let stop = |k: i32| colour::css(colour::shade(f64::from(k) / 16.0));
    let stops: Vec<String> = (0..=16).map(stop).collect();
    format!(
        "<p class=\"scale\">{} <span class=\"ramp\" style=\"background:linear-gradient(90deg,{})\">\
         </span> {} <span aria-hidden=\"true\">{}</span></p>\n",
        map.text(low),
        stops.join(","),
        map.text(high),
        html::inline(&map.label),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn table(change: impl Fn(&mut Record, &mut HeatMap)) -> String {
        let out = tempfile::tempdir().unwrap();
        let (store, mut record) = sample::training(out.path());
        let mut map = sample::accuracies(2);
        change(&mut record, &mut map);
        of(&store, &record, "a \"title\"", &map).unwrap()
    }

    #[test]
    fn a_table_with_caption_heads_and_numbers() {
        let page = table(|_, _| ());
        assert!(page.contains("aria-label=\"a &quot;title&quot;\""));
        assert!(page.contains("<caption>test accuracy, %</caption>"));
        assert_eq!(page.matches("<th scope=\"row\">").count(), 3);
        assert_eq!(page.matches("<td style=").count(), 12);
        assert_eq!(page.matches("<td class=\"margin\" title=").count(), 2 + 6);
        assert!(page.contains("title=\"seed0, test_accuracy-k1: 45."), "{page}");
    }

    #[test]
    fn what_is_to_come_is_empty_and_names_are_no_markup() {
        let page = table(|record, map| {
            record.cells.retain(|cell| cell.key != "seed1");
            map.rows[0] = "<b>&".into();
            map.margins = None;
        });
        assert_eq!(page.matches("<td class=\"empty\">").count(), 6);
        assert!(page.contains("&lt;b&gt;&amp;") && !page.contains("<b>"));
        assert!(!page.contains("margin") && !page.contains("<tfoot>"));
    }

    #[test]
    fn what_is_no_number_has_no_colour() {
        let page = table(|_, map| map.entries[0][0] = f64::NAN.into());
        assert!(page.contains("<td title=\"stated in the paper: NaN\">NaN</td>"));
    }
}
