//! Pieces of HTML that all parts of the report share.

use crate::number::Number;
use crate::record::{Record, Status, VerdictRecord};

/// Text as it stands, in content or in an attribute.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// Paragraphs divided by empty lines; text between backticks is code.
pub fn prose(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty());
    paragraphs.map(|paragraph| format!("<p>{}</p>", inline(paragraph))).collect()
}

/// One line of text; between backticks it is code.
pub fn inline(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    // A backtick without its partner is a character like any other.
    if parts.len().is_multiple_of(2) {
        return escape(text);
    }
    let part = |(k, part): (usize, &&str)| match k % 2 {
        0 => escape(part),
        _ => code(part),
    };
    parts.iter().enumerate().map(part).collect()
}

/// Text as code.
pub fn code(text: &str) -> String {
    format!("<code>{}</code>", escape(text))
}

/// A number for reading, its exact value for pointing at.
pub fn number(number: Number) -> String {
    let (shown, exact) = (number.to_string(), format!("{:?}", number.0));
    if shown == exact {
        format!("<span class=\"number\">{shown}</span>")
    } else {
        format!("<span class=\"number\" title=\"{exact}\">{shown}</span>")
    }
}

/// A word with a colour; the colour alone says nothing.
pub fn badge(class: &str, word: &str) -> String {
    format!("<span class=\"badge {}\">{}</span>", escape(class), escape(word))
}

/// What a record says about its claim; where that is not tested, why.
pub fn status(record: &Record) -> String {
    let status = record.status();
    let mut text = badge(status.name(), status.in_words());
    if let Status::NotTested { why } = status {
        text.push_str(&format!("<div class=\"why quiet\">{}</div>", inline(why)));
    }
    text
}

/// The verdict on a run.
pub fn verdict(verdict: &VerdictRecord) -> String {
    let mut text = badge(verdict.kind.name(), verdict.kind.name());
    if let Some(step) = verdict.diverged_at {
        text.push_str(&format!(" <span class=\"quiet\">at step {step}</span>"));
    }
    if let Some(doubt) = verdict.doubt {
        text.push_str(&format!(" <span class=\"quiet\">{}</span>", escape(doubt.why())));
    }
    text
}

/// The name of each record's section within the page; of equal names the later ones are numbered.
pub fn anchors(records: &[&Record]) -> Vec<String> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let mut all: Vec<String> = Vec::new();
    for record in records {
        let name: String =
            format!("{}--{}", record.id, record.folder_name()).chars().map(plain).collect();
        let numbered = (2..).map(|n| format!("{name}--{n}"));
        let mut candidates = std::iter::once(name.clone()).chain(numbered);
        all.extend(candidates.find(|candidate| !all.contains(candidate)));
    }
    all
}

/// A table in a box of its own, in which it scrolls if it is wider or longer than the page.
pub fn table(label: &str, class: &str, head: &[String], rows: &[Vec<String>]) -> String {
    let head: String = head.iter().map(|cell| format!("<th scope=\"col\">{cell}</th>")).collect();
    let row = |cells: &Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = rows.iter().map(row).collect();
    format!(
        "<div class=\"box\" role=\"region\" aria-label=\"{}\" tabindex=\"0\">\
         <table class=\"{class}\">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\
         </table></div>\n",
        escape(label)
    )
}

/// Something for those who ask, closed at first.
pub fn details(summary: &str, content: &str) -> String {
    format!("<details><summary>{}</summary>\n{content}</details>\n", escape(summary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_has_paragraphs_and_code_and_no_markup_of_its_own() {
        assert_eq!(prose("a `x < y`\n\n<b>"), "<p>a <code>x &lt; y</code></p><p>&lt;b&gt;</p>");
        assert_eq!(inline("one ` alone"), "one ` alone");
    }

    #[test]
    fn equal_records_have_sections_of_their_own() {
        let out = tempfile::tempdir().unwrap();
        let samples = crate::sample::all(out.path());
        let record = &samples[0].1;
        let anchors = anchors(&[record, record, &samples[1].1, record]);
        let distinct: std::collections::BTreeSet<&String> = anchors.iter().collect();
        assert_eq!(distinct.len(), 4, "{anchors:?}");
        assert_eq!(anchors[1], format!("{}--2", anchors[0]));
    }

    #[test]
    fn numbers_carry_all_their_digits() {
        assert_eq!(
            number(Number(-1.0 / 3.0)),
            "<span class=\"number\" title=\"-0.3333333333333333\">-0.33333</span>"
        );
        assert_eq!(number(Number(f64::NAN)), "<span class=\"number\">NaN</span>");
        assert_eq!(number(Number(0.5)), "<span class=\"number\">0.5</span>");
    }
}
