//! The report: one HTML file that shows records, opens without a network and sends nothing.
//!
//! Invariant: it reads records and nothing else. Equal records give equal bytes: no time, no
//! machine, no order of a hash map.

mod chart;
mod findings;
mod heat_map;
mod html;
mod overview;
mod picture;
mod section;
mod strips;
mod tables;

use base64::{Engine, engine::general_purpose::STANDARD};
use lastbit_assets::PLOTLY_JS;

use crate::error::Error;
use crate::record::{Record, Store};

/// The report of these records, in their order.
pub fn render(records: &[(Store, Record)]) -> Result<String, Error> {
    let stores = records.iter().map(|(store, _)| store);
    let records: Vec<&Record> = records.iter().map(|(_, record)| record).collect();
    let anchors = html::anchors(&records);
    let mut sections = String::new();
    for ((store, record), anchor) in stores.zip(&records).zip(&anchors) {
        sections.push_str(&section::of(store, record, anchor)?);
    }
    sections.push_str(&findings::section());
    Ok(fill(
        include_str!("template.html"),
        &[
            ("style", include_str!("style.css")),
            ("summary", &overview::summary(&records)),
            ("overview", &overview::table(&records, &anchors)),
            ("sections", &sections),
            ("plotly", &STANDARD.encode(PLOTLY_JS)),
            ("strips", include_str!("strips.js")),
            ("script", include_str!("report.js")),
        ],
    ))
}

/// Replaces each `{{name}}` of the template, and nothing within what it puts there.
fn fill(template: &str, parts: &[(&str, &str)]) -> String {
    let mut page = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("the template closes its braces");
        let part = parts.iter().find(|(own, _)| *own == name);
        page.push_str(before);
        page.push_str(part.expect("the template names known parts").1);
        rest = after;
    }
    page + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn page() -> String {
        let out = tempfile::tempdir().unwrap();
        render(&sample::all(out.path())).unwrap()
    }

    #[test]
    fn equal_records_give_equal_pages_of_about_two_megabytes() {
        let first = page();
        assert_eq!(first, page());
        assert!((1_500_000..2_500_000).contains(&first.len()), "{} bytes", first.len());
    }

    #[test]
    fn what_records_say_cannot_become_markup() {
        let page = page();
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
        assert!(!page.contains("<script>alert(1)"));
        assert!(!page.contains("{{summary}}") && page.contains("{{untouched}}"));
    }

    #[test]
    fn nothing_on_the_page_points_elsewhere() {
        let page = page();
        let packed = STANDARD.encode(PLOTLY_JS);
        // The name of SVG's elements is written like an address.
        let own = page.replace(&packed, "").replace("http://www.w3.org/2000/svg", "");
        for needle in ["http://", "https://", "src=\"/", "url(", "@import"] {
            assert!(!own.contains(needle), "the page holds {needle}");
        }
    }

    #[test]
    fn a_report_over_nothing_is_still_a_page() {
        let page = render(&[]).unwrap();
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    }

    /// Leaves the sample page and figures in the folder `LASTBIT_SAMPLE`, for eyes and browsers.
    #[test]
    #[ignore = "it makes pages to look at and checks nothing"]
    fn the_samples_can_be_looked_at() {
        let Some(folder) = std::env::var_os("LASTBIT_SAMPLE") else { return };
        let folder = std::path::Path::new(&folder);
        let records = sample::all(folder);
        for (store, record) in &records {
            crate::plot::write_figures(store, record).unwrap();
        }
        std::fs::write(folder.join("report.html"), render(&records).unwrap()).unwrap();
    }
}
