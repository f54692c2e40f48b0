//! `lastbit report`.

use std::path::Path;

use serde_json::json;

use super::CommandOutput;
use lastbit_lab::Error;
use lastbit_lab::report::{Written, write};

/// The answer of the command.
pub fn report(out: &Path) -> Result<CommandOutput, Error> {
    let Written { path, records, damaged } = write(out, None)?;
    let count = records.len();
    let plural = if count == 1 { "" } else { "s" };
    let damaged: Vec<String> = damaged.iter().map(Error::to_string).collect();
    let mut text: String = damaged.iter().map(|line| format!("Not shown: {line}\n")).collect();
    text += &format!("Report of {count} record{plural}: {}\n", path.display());
    let is_whole = damaged.is_empty();
    let json = json!({"report": path, "records": records, "damaged": damaged});
    Ok(CommandOutput::new(text, json).holds(is_whole))
}
