//! The first thing one sees: which exhibits hold.

use super::html;
use crate::error::Error;
use crate::record::{Band, Check, CheckOutcome, Origin, Record};

/// One line that counts.
pub fn summary(records: &[&Record]) -> String {
    let with = |name: &str| records.iter().filter(|r| r.status().name() == name).count();
    let words = [
        ("holds", "holds", "hold"),
        ("fails", "fails", "fail"),
        ("undecided", "undecided", "undecided"),
        ("not-tested", "not tested at this scale", "not tested at this scale"),
        ("unfinished", "unfinished", "unfinished"),
        ("no-claim", "without a claim", "without a claim"),
    ];
    let parts: Vec<String> = words
        .into_iter()
        .map(|(name, one, many)| (with(name), if with(name) == 1 { one } else { many }))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    format!(
        "{} {}: {}.",
        records.len(),
        if records.len() == 1 { "record" } else { "records" },
        if parts.is_empty() { "none yet".to_owned() } else { parts.join(", ") },
    )
}

/// Records that cannot be shown, and why; nothing where there are none.
pub fn damaged(errors: &[Error]) -> String {
    if errors.is_empty() {
        return String::new();
    }
    let item = |error: &Error| format!("<li>{}</li>\n", html::inline(&error.to_string()));
    let items: String = errors.iter().map(item).collect();
    let count = errors.len();
    let records =
        if count == 1 { "record is damaged and is" } else { "records are damaged and are" };
    format!(
        "<div class=\"notice\" id=\"damaged\"><p>{count} {records} not shown:</p>\n<ul>\n{items}</ul></div>\n"
    )
}

/// What the page is about.
pub fn lead(records: &[&Record]) -> &'static str {
    if are_own(records) {
        "Your own runs: what was found, the curves behind it, and the files that it comes from."
    } else {
        "Which step sizes are stable, and how much of a result the last bit of a float decides: each exhibit \
         repeats a figure or table, and each number stands beside the paper&#8217;s or a closed form."
    }
}

/// Whether there are runs and none of them is an exhibit.
fn are_own(records: &[&Record]) -> bool {
    !records.is_empty() && records.iter().all(|record| record.scale.is_none())
}

/// The table of exhibits, or of runs of one's own; of a single one its section says all.
pub fn table(records: &[&Record], anchors: &[String]) -> String {
    if are_own(records) {
        let head = ["Run", "Result"].map(str::to_owned);
        let row = |(record, anchor): (&&Record, &String)| {
            vec![link(record, anchor), html::prose(&record.page.claim)]
        };
        let rows: Vec<Vec<String>> = records.iter().zip(anchors).map(row).collect();
        return match rows.len() {
            1 => String::new(),
            _ => html::table("Runs", "runs", &head, &rows),
        };
    }
    let head = ["Exhibit", "Status", "Scale", "Checks", "Most telling checks", "Paper", "Ours"];
    let rows: Vec<Vec<String>> =
        records.iter().zip(anchors).map(|(record, anchor)| row(record, anchor)).collect();
    html::table("Exhibits", "exhibits", &head.map(str::to_owned), &rows)
}

/// A record by its name and title.
fn link(record: &Record, anchor: &str) -> String {
    format!(
        "<a href=\"#{anchor}\"><code>{}</code></a><br><span class=\"quiet\">{}</span>",
        html::escape(&record.id),
        html::inline(&record.page.title)
    )
}

fn row(record: &Record, anchor: &str) -> Vec<String> {
    let held = record.checks.iter().filter(|check| check.outcome == CheckOutcome::Holds).count();
    let count = match record.checks.len() {
        0 => String::new(),
        all => format!("<span class=\"number\">{held} of {all} hold</span>"),
    };
    let mut row = vec![
        link(record, anchor),
        html::status(record),
        html::escape(&record.folder_name()),
        count,
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
    row.push(lines(&|check| value(&check.found_in_words())));
    row
}

/// A check's number or word.
pub fn value(text: &str) -> String {
    format!("<span class=\"number\">{}</span>", html::escape(text))
}

/// At most four: those that fail, those that are undecided, then comparisons with the paper, or else the first.
fn most_telling(checks: &[Check]) -> Vec<&Check> {
    let with = |outcome| checks.iter().filter(move |check| check.outcome == outcome);
    let doubtful = with(CheckOutcome::Fails).chain(with(CheckOutcome::Undecided));
    let with_paper = with(CheckOutcome::Holds).filter(|check| check.origin == Origin::Paper);
    let telling: Vec<&Check> = doubtful.chain(with_paper).take(4).collect();
    if telling.is_empty() { checks.iter().take(1).collect() } else { telling }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Status;
    use crate::sample;

    #[test]
    fn a_failure_is_most_telling_then_doubt_then_the_paper_then_a_closed_form() {
        let theory = Check::number("a", Origin::ClosedForm, 1.0, 1.0, Band::Same);
        let paper = Check::word("b", Origin::Paper, "all", "all");
        let doubt = Check::word("c", Origin::Paper, "stable", "undecided");
        let failure = Check::number("d", Origin::ClosedForm, 1.0, 2.0, Band::Same);
        let all = [theory.clone(), paper.clone(), doubt.clone(), failure.clone()];
        assert_eq!(most_telling(&all), [&failure, &doubt, &paper]);
        assert_eq!(most_telling(&all[..1]), [&theory]);
        assert_eq!(most_telling(&vec![paper; 9]).len(), 4);
    }

    #[test]
    fn own_runs_are_listed_with_their_results_where_there_are_several() {
        let out = tempfile::tempdir().unwrap();
        let record = sample::restrained(out.path()).1;
        let own = Record { scale: None, ..record.clone() };
        let anchors = html::anchors(&[&own, &own]);
        assert_eq!(table(&[&own], &anchors[..1]), "");
        let runs = table(&[&own, &own], &anchors);
        assert_eq!(runs.matches(&html::prose(&own.page.claim)).count(), 2);
        assert!(anchors.iter().all(|anchor| runs.contains(&format!("#{anchor}"))));
        assert!(lead(&[&own]).starts_with("Your own runs"));
        assert!(lead(&[&own, &record]).starts_with("Which step sizes"));
    }

    #[test]
    fn each_exhibit_has_a_row_with_its_status() {
        let out = tempfile::tempdir().unwrap();
        let samples = sample::all(out.path());
        let mut records: Vec<Record> = samples.into_iter().map(|(_, record)| record).collect();
        // One without a test of its claim, one in doubt.
        let why = "`9` steps are too few";
        let checks = vec![Check::word("a", Origin::Paper, "stable", "undecided")];
        records.push(Record {
            not_tested: Some(why.to_owned()),
            checks: vec![],
            ..records[0].clone()
        });
        records.push(Record { checks, ..records[0].clone() });
        let records: Vec<&Record> = records.iter().collect();
        let table = table(&records, &html::anchors(&records));
        let rows: Vec<&str> = table.split("<tr>").skip(2).collect();
        assert_eq!(rows.len(), records.len());
        for (row, record) in rows.iter().zip(&records) {
            let status = record.status();
            assert!(row.contains(&html::badge(status.name(), status.in_words())), "{row}");
            assert_eq!(row.contains("badge holds"), status == Status::Holds, "{row}");
        }
        assert!(table.contains("<code>9</code> steps are too few"));
        assert!(!table.contains("0/0") && !table.contains("0 of 0"));
        let counted = "1 holds, 1 fails, 1 undecided, 1 not tested at this scale, 1 unfinished";
        assert!(summary(&records).contains(counted), "{}", summary(&records));
    }
}
