//! The report: one HTML file that shows records, opens without a network and sends nothing.
//!
//! Invariant: it reads records and nothing else. Equal records give equal bytes: no time, no
//! machine, no order of a hash map.
//!
//! A record of which a file is damaged is listed as damaged, with that file; none of its numbers is shown.

mod chart;
mod findings;
mod heat_map;
mod html;
mod overview;
mod picture;
mod section;
mod strips;
mod tables;
mod write;

pub use write::{Shown, Written, write};

use base64::{Engine, engine::general_purpose::STANDARD};
use lastbit_assets::PLOTLY_JS;

use crate::error::Error;
use crate::record::{Record, Store};

/// A report, and what it is about.
pub struct Report<'a> {
    /// The HTML.
    pub page: String,
    /// The records that are shown.
    pub shown: Vec<&'a Record>,
    /// What is wrong with the others.
    pub damaged: Vec<Error>,
}

/// The report of these records, in their order, and of others that were found to be damaged.
pub fn render(records: &[(Store, Record)], mut damaged: Vec<Error>) -> Result<Report<'_>, Error> {
    let all: Vec<&Record> = records.iter().map(|(_, record)| record).collect();
    let (mut shown, mut anchors, mut sections) = (Vec::new(), Vec::new(), String::new());
    for ((store, record), anchor) in records.iter().zip(html::anchors(&all)) {
        match section::of(store, record, &anchor) {
            Ok(section) => sections.push_str(&section),
            Err(error @ Error::Damaged { .. }) => {
                damaged.push(error);
                continue;
            }
            Err(error) => return Err(error),
        }
        shown.push(record);
        anchors.push(anchor);
    }
    sections.push_str(&findings::section());
    let page = fill(
        include_str!("template.html"),
        &[
            ("style", include_str!("style.css")),
            ("lead", overview::lead(&shown)),
            ("summary", &overview::summary(&shown)),
            ("damaged", &overview::damaged(&damaged)),
            ("overview", &overview::table(&shown, &anchors)),
            ("sections", &sections),
            ("plotly", &STANDARD.encode(PLOTLY_JS)),
            ("strips", include_str!("strips.js")),
            ("script", include_str!("report.js")),
        ],
    );
    Ok(Report { page, shown, damaged })
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
        render(&sample::all(out.path()), vec![]).unwrap().page
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
        let page = render(&[], vec![]).unwrap().page;
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    }

    #[test]
    fn a_damaged_record_is_listed_with_its_file_and_shows_no_number() {
        let out = tempfile::tempdir().unwrap();
        let records = sample::all(out.path());
        let title = &records[0].1.page.title;
        assert!(render(&records, vec![]).unwrap().page.contains(title));
        let curve = &records[0].1.cells[0].series["energy"];
        std::fs::write(records[0].0.folder().join(&**curve), "").unwrap();
        let report = render(&records, vec![]).unwrap();
        assert_eq!((report.shown.len(), report.damaged.len()), (records.len() - 1, 1));
        assert!(report.page.contains(&**curve) && !report.page.contains(title));
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
        let page = render(&records, vec![]).unwrap().page;
        std::fs::write(folder.join("report.html"), page).unwrap();
    }
}
