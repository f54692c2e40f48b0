//! Pictures of fields, as PNG within the page.

use base64::{Engine, engine::general_purpose::STANDARD};

use super::html;
use crate::error::Error;
use crate::figure::Pictures;
use crate::number::Number;
use crate::plot::source;
use crate::record::{Record, Store};

/// The pictures side by side, each with its name below.
pub fn of(store: &Store, record: &Record, pictures: &Pictures) -> Result<String, Error> {
    let mut panels = String::new();
    for panel in &pictures.panels {
        let found = source::picture(store, record, panel, pictures.range)?;
        let Some((field, file)) = found else { continue };
        panels.push_str(&format!(
            "<figure><img src=\"data:image/png;base64,{}\" width=\"{}\" height=\"{}\" alt=\"{}\">\
             <figcaption>{}</figcaption></figure>\n",
            STANDARD.encode(file),
            field.width,
            field.height,
            html::escape(&panel.label),
            html::inline(&panel.label)
        ));
    }
    Ok(format!("<div class=\"panels\">\n{panels}</div>\n"))
}

/// What the colours mean.
pub fn colours([low, high]: [f64; 2]) -> String {
    let [low, high] = [low, high].map(|end| Number(end).to_string());
    let [black, white, blue, red, magenta] = ["black", "white", "blue", "red", "magenta"]
        .map(|name| format!("<span class=\"swatch {name}\"></span>{name}"));
    format!(
        "<p class=\"colours\">{black} is {low}, {white} is {high}, grey between; {blue} is below, \
         {red} above, {magenta} not a number.</p>"
    )
}
