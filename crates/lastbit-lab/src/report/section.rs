//! The section of one record.

use super::{chart, heat_map, html, picture, strips, tables};
use crate::error::Error;
use crate::figure::{Drawing, Figure};
use crate::record::{Record, Status, Store};

/// Columns of a heat map, and names in the legend of a chart, that fit beside another figure.
const MOST_COLUMNS: usize = 6;
const MOST_NAMES: usize = 10;

/// The section of a record: what is claimed, what is seen, what was measured, where it is from.
pub fn of(store: &Store, record: &Record, anchor: &str) -> Result<String, Error> {
    let status = record.status();
    let mut section = format!(
        "<section id=\"{anchor}\" aria-labelledby=\"{anchor}-title\">\n\
         <p class=\"name\"><code>{}</code> <span class=\"quiet\">{}</span>{}</p>\n\
         <h2 id=\"{anchor}-title\">{}</h2>\n",
        html::escape(&record.id),
        html::escape(&record.folder_name()),
        match status {
            Status::NoClaim => String::new(),
            other => format!(" {}", html::badge(other.name(), other.in_words())),
        },
        html::inline(&record.page.title),
    );
    if !record.is_complete() {
        section.push_str(&format!(
            "<p class=\"notice\">{} of {} cells are finished; checks are made when all are.</p>\n",
            record.cells.len(),
            record.planned
        ));
    }
    if let Status::NotTested { why } = status {
        section.push_str(&format!(
            "<p class=\"notice plain\">The claim is not tested at this scale: {}.</p>\n",
            html::inline(why)
        ));
    }
    section.push_str(&text(record));
    section.push_str("<div class=\"figures\">\n");
    for (k, figure) in record.figures.iter().enumerate() {
        section.push_str(&drawn(store, record, figure, &format!("{anchor}-figure-{k}"))?);
    }
    section.push_str("</div>\n");
    section.push_str(&tables::checks(record));
    section.push_str(&tables::cells(record));
    section.push_str(&tables::settings(record));
    section.push_str(&tables::provenance(record));
    section.push_str("</section>\n");
    Ok(section)
}

fn text(record: &Record) -> String {
    let page = &record.page;
    let differences: String =
        page.differences.iter().map(|line| format!("<li>{}</li>", html::inline(line))).collect();
    let differences =
        if differences.is_empty() { String::new() } else { format!("<ul>{differences}</ul>") };
    let parts = [
        // An exhibit repeats what somebody claims; a run of one's own has a result.
        (if record.scale.is_some() { "Claim" } else { "Result" }, html::prose(&page.claim)),
        ("Method", html::prose(&page.method)),
        ("Reference", html::prose(&page.reference)),
        ("Differences", differences),
    ];
    let shown = parts.iter().filter(|(_, content)| !content.is_empty());
    let items: String =
        shown.map(|(name, content)| format!("<dt>{name}</dt><dd>{content}</dd>\n")).collect();
    format!("<dl class=\"text\">\n{items}</dl>\n")
}

fn drawn(store: &Store, record: &Record, figure: &Figure, id: &str) -> Result<String, Error> {
    let (class, content, note) = match &figure.drawing {
        Drawing::Chart(chart) => {
            let entries = chart.traces.len() + chart.lines.len() + chart.levels.len();
            let class = if entries > MOST_NAMES { "curves whole" } else { "curves" };
            (class, chart::of(store, record, &figure.title, chart)?, String::new())
        }
        Drawing::HeatMap(map) => {
            let class =
                if map.columns.len() > MOST_COLUMNS { "heat-map whole" } else { "heat-map" };
            (class, heat_map::of(store, record, &figure.title, map)?, String::new())
        }
        Drawing::Strips(strips) => {
            ("strips", strips::of(store, record, &figure.title, strips)?, String::new())
        }
        Drawing::Pictures(pictures) => {
            let content = picture::of(store, record, pictures)?;
            ("fields whole", content, picture::colours(pictures.range))
        }
    };
    Ok(format!(
        "<figure class=\"{class}\" aria-labelledby=\"{id}\">\n<h3 id=\"{id}\">{}</h3>\n{content}\
         <figcaption>{}{note}</figcaption>\n</figure>\n",
        html::inline(&figure.title),
        html::prose(&figure.caption),
    ))
}
