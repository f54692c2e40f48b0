//! The page of findings as a section of the report.

use super::html;

/// `docs/findings.md`, as HTML.
pub fn section() -> String {
    let text = include_str!("../../../../docs/findings.md");
    format!(
        "<section id=\"findings\"><details><summary>Findings: where the paper and the arithmetic \
         disagree</summary>\n{}</details></section>\n",
        to_html(text)
    )
}

/// Headings, paragraphs, lists and blocks of code: the part of Markdown that page uses.
fn to_html(text: &str) -> String {
    let mut out = String::new();
    let mut blocks = text.split("\n\n").filter(|block| !block.trim().is_empty());
    while let Some(block) = blocks.next() {
        let block = block.trim_matches('\n');
        if let Some(heading) = block.strip_prefix("## ") {
            out.push_str(&format!("<h3>{}</h3>\n", html::inline(heading)));
        } else if block.starts_with("# ") || block.starts_with("![") {
            // The section's summary is its title, and the report embeds no image files.
        } else if let Some(code) = block.strip_prefix("```text\n") {
            let mut code = code.to_owned();
            while !code.trim_end().ends_with("```") {
                let Some(more) = blocks.next() else { break };
                code.push_str("\n\n");
                code.push_str(more);
            }
            let code = code.trim_end().trim_end_matches("```");
            out.push_str(&format!("<pre>{}</pre>\n", html::escape(code.trim_end())));
        } else if let Some(items) = block.strip_prefix("- ") {
            let items = items.split("\n- ").map(joined);
            let items: String = items.map(|i| format!("<li>{}</li>\n", html::inline(&i))).collect();
            out.push_str(&format!("<ul>\n{items}</ul>\n"));
        } else {
            out.push_str(&format!("<p>{}</p>\n", html::inline(&joined(block))));
        }
    }
    out
}

/// The lines of a paragraph as one.
fn joined(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_markdown_that_are_used() {
        let html = to_html(
            "# T\n\n## A `b` < c\n\nOne\ntwo.\n\n![p](p.png)\n\n- x\n  y\n- z\n\n```text\na\n\nb\n```\n",
        );
        assert_eq!(
            html,
            "<h3>A <code>b</code> &lt; c</h3>\n<p>One two.</p>\n\
             <ul>\n<li>x y</li>\n<li>z</li>\n</ul>\n<pre>a\n\nb</pre>\n"
        );
    }

    #[test]
    fn every_heading_of_the_page_is_there() {
        let headings = include_str!("../../../../docs/findings.md").matches("\n## ").count();
        assert!(headings > 8);
        assert_eq!(section().matches("<h3>").count(), headings);
    }
}
