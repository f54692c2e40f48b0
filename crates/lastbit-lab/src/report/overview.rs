//! The first thing one sees: which exhibits hold.

use super::html;
use crate::record::{Band, Check, Origin, Record};

/// One line that counts.
pub fn summary(records: &[&Record]) -> String {
    let with = |status: &str| records.iter().filter(|r| r.status() == status).count();
    let words = [
        ("holds", "hold"),
        ("fails", "fail"),
        ("unfinished", "unfinished"),
        ("unchecked", "unchecked"),
    ];
    let parts: Vec<String> = words
        .into_iter()
        .map(|(status, many)| (with(status), if with(status) == 1 { status } else { many }))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let checks: Vec<&Check> = records.iter().flat_map(|record| &record.checks).collect();
    let held = checks.iter().filter(|check| check.holds).count();
    format!(
        "{} {}: {}. {held} of {} checks hold.",
        records.len(),
        if records.len() == 1 { "exhibit" } else { "exhibits" },
        if parts.is_empty() { "none yet".to_owned() } else { parts.join(", ") },
        checks.len()
    )
}

/// The table of exhibits.
pub fn table(records: &[&Record], anchors: &[String]) -> String {
    let head = ["Exhibit", "Status", "Scale", "Checks", "Most telling checks", "Paper", "Ours"];
    let rows: Vec<Vec<String>> =
        records.iter().zip(anchors).map(|(record, anchor)| row(record, anchor)).collect();
    html::table("Exhibits", "exhibits", &head.map(str::to_owned), &rows)
}

fn row(record: &Record, anchor: &str) -> Vec<String> {
    let status = record.status();
    let held = record.checks.iter().filter(|check| check.holds).count();
    let mut row = vec![
        format!(
            "<a href=\"#{anchor}\"><code>{}</code></a><br><span class=\"quiet\">{}</span>",
            html::escape(&record.id),
            html::inline(&record.page.title)
        ),
        html::badge(status, status),
        html::escape(&record.folder_name()),
        format!("<span class=\"number\">{held}/{}</span>", record.checks.len()),
    ];
    let telling = most_telling(&record.checks);
    // One line each, whatever its length, so that the three columns stay side by side.
    let lines = |of: &dyn Fn(&Check) -> String| {
        let line = |check: &&Check| format!("<div class=\"one-line\">{}</div>", of(check));
        telling.iter().map(line).collect::<String>()
    };
    row.push(lines(&|check| html::inline(&check.name)));
    row.push(lines(&|check| {
        let bound = match check.band {
            Band::AtMost | Band::AtLeast => format!("{} {}", check.band, check.expected),
            Band::Same | Band::Relative(_) | Band::Absolute(_) | Band::Factor(_) => {
                check.expected.to_string()
            }
        };
        match check.origin {
            Origin::Paper => value(&bound),
            other => format!("{} <span class=\"quiet\">{other}</span>", value(&bound)),
        }
    }));
    row.push(lines(&|check| value(&check.found.to_string())));
    row
}

/// A check's number or word.
pub fn value(text: &str) -> String {
    format!("<span class=\"number\">{}</span>", html::escape(text))
}

/// At most four: those that fail, then comparisons with the paper, or else the first.
fn most_telling(checks: &[Check]) -> Vec<&Check> {
    let failing = checks.iter().filter(|check| !check.holds);
    let with_paper = checks.iter().filter(|check| check.holds && check.origin == Origin::Paper);
    let telling: Vec<&Check> = failing.chain(with_paper).take(4).collect();
    if telling.is_empty() { checks.iter().take(1).collect() } else { telling }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_failure_is_more_telling_than_the_paper_and_that_than_a_closed_form() {
        let theory = Check::number("a", Origin::ClosedForm, 1.0, 1.0, Band::Same);
        let paper = Check::word("b", Origin::Paper, "all", "all");
        let failure = Check::number("c", Origin::ClosedForm, 1.0, 2.0, Band::Same);
        let all = [theory.clone(), paper.clone(), failure.clone()];
        assert_eq!(most_telling(&all), [&failure, &paper]);
        assert_eq!(most_telling(&all[..1]), [&theory]);
        assert_eq!(most_telling(&vec![paper; 9]).len(), 4);
    }

    #[test]
    fn each_exhibit_has_a_row_with_its_status() {
        let out = tempfile::tempdir().unwrap();
        let samples = sample::all(out.path());
        let records: Vec<&Record> = samples.iter().map(|(_, record)| record).collect();
        let table = table(&records, &html::anchors(&records));
        assert_eq!(table.matches("<tr>").count(), 1 + records.len());
        for status in ["holds", "fails", "unfinished"] {
            assert!(table.contains(&html::badge(status, status)), "{status}");
        }
        assert!(summary(&records).contains("1 holds, 1 fails, 1 unfinished"));
    }
}
