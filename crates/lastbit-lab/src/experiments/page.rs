//! The page of an exhibit, read from the doc comment at the top of its source file.
//!
//! ```text
//! //! # Title
//! //!
//! //! ## Claim | ## Method | ## Reference
//! //! paragraphs
//! //!
//! //! ## Differences
//! //! - smoke: shown at that scale only
//! //! - shown at every scale
//! ```

use crate::record::Page;

/// Parses the page at the scale of this name.
///
/// # Panics
///
/// If a line stands under an unknown heading; a test reads the page of every exhibit.
pub fn from_source(source: &str, scale: &str) -> Page {
    let mut page = Page {
        title: String::new(),
        claim: String::new(),
        method: String::new(),
        reference: String::new(),
        differences: Vec::new(),
    };
    let mut section = "";
    let doc = source.lines().map_while(|line| line.strip_prefix("//!")).map(str::trim);
    for line in doc {
        if let Some(heading) = line.strip_prefix("## ") {
            section = heading;
        } else if let Some(title) = line.strip_prefix("# ") {
            title.clone_into(&mut page.title);
        } else if section == "Differences" {
            add_item(&mut page.differences, line);
        } else {
            let part = match section {
                "Claim" => &mut page.claim,
                "Method" => &mut page.method,
                "Reference" => &mut page.reference,
                "" => continue,
                other => panic!("unknown heading \"{other}\" in the page \"{}\"", page.title),
            };
            add_line(part, line);
        }
    }
    for part in [&mut page.claim, &mut page.method, &mut page.reference] {
        part.truncate(part.trim_end().len());
    }
    page.differences = page.differences.iter().filter_map(|item| at_scale(item, scale)).collect();
    page
}

/// Joins the lines of a paragraph; an empty line begins another.
fn add_line(text: &mut String, line: &str) {
    if line.is_empty() {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        return;
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push(' ');
    }
    text.push_str(line);
}

fn add_item(items: &mut Vec<String>, line: &str) {
    if let Some(item) = line.strip_prefix("- ") {
        items.push(item.to_owned());
    } else if let (Some(last), false) = (items.last_mut(), line.is_empty()) {
        last.push(' ');
        last.push_str(line);
    }
}

/// The item without its scale, or nothing if it belongs to another.
fn at_scale(item: &str, scale: &str) -> Option<String> {
    for name in ["smoke", "desk", "paper"] {
        if let Some(text) = item.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")) {
            return (name == scale).then(|| text.to_owned());
        }
    }
    Some(item.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_from_its_doc_comment() {
        let source = "//! # A title\n//!\n//! ## Claim\n//! One line\n//! and another.\n//!\n\
            //! A second paragraph.\n//!\n//! ## Method\n//! How.\n//! ## Reference\n//! Where.\n\
            //! ## Differences\n//! - smoke: small\n//!   and quick\n//! - desk: large\n//! - always\n\
            use x;\n//! not the page";
        let page = from_source(source, "smoke");
        assert_eq!(page.title, "A title");
        assert_eq!(page.claim, "One line and another.\n\nA second paragraph.");
        assert_eq!((page.method.as_str(), page.reference.as_str()), ("How.", "Where."));
        assert_eq!(page.differences, ["small and quick", "always"]);
        assert_eq!(from_source(source, "paper").differences, ["always"]);
    }
}
