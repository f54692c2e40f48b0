//! `lastbit list`.

use clap::Args;
use serde_json::json;

use super::CommandOutput;
use super::table::table;
use lastbit_lab::Error;
use lastbit_lab::experiments::{CATALOGUE, Exhibit, known};
use lastbit_lab::record::Scale;

/// The catalogue.
#[derive(Debug, Args)]
pub struct List {
    /// A figure or table, to read its description.
    #[arg(value_name = "ID")]
    id: Option<String>,
}

impl List {
    /// The catalogue or one page of it.
    pub fn answer(&self) -> Result<CommandOutput, Error> {
        match &self.id {
            None => Ok(catalogue()),
            Some(id) => known(id).map(page),
        }
    }
}

fn catalogue() -> CommandOutput {
    let title = |exhibit: &Exhibit| exhibit.page(Scale::Desk).title;
    let row = |exhibit: &Exhibit| vec![exhibit.id.to_owned(), title(exhibit)];
    let mut text = table(&["name", "shows"], CATALOGUE.iter().map(row));
    text.push_str("\nScales: smoke (seconds), desk (default), paper.\n");
    text.push_str("Run one: lastbit run fig-heat. Read its page: lastbit list fig-heat.\n");
    let entry = |exhibit: &Exhibit| {
        json!({
            "id": exhibit.id,
            "title": title(exhibit),
            "scales": ["smoke", "desk", "paper"],
        })
    };
    let exhibits: Vec<_> = CATALOGUE.iter().map(entry).collect();
    CommandOutput::new(text, json!({ "exhibits": exhibits }))
}

fn page(exhibit: &'static Exhibit) -> CommandOutput {
    let page = exhibit.page(Scale::Desk);
    let mut text = format!("{}: {}\n", exhibit.id, page.title);
    for (heading, body) in
        [("Claim", &page.claim), ("Method", &page.method), ("Reference", &page.reference)]
    {
        text.push_str(&format!("\n{heading}\n{}\n", wrapped(body)));
    }
    if !page.differences.is_empty() {
        text.push_str("\nDifferences from the paper, at desk scale\n");
        for item in &page.differences {
            text.push_str(&format!("{}\n", wrapped(&format!("- {item}"))));
        }
    }
    CommandOutput::new(text, json!({"id": exhibit.id, "page": page}))
}

/// Lines of at most 90 characters, broken at spaces.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.split("\n\n") {
        let mut line = String::new();
        for word in paragraph.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > 90 {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
        lines.push(String::new());
    }
    lines.join("\n").trim_end().to_owned()
}
