//! Figures as SVG and PNG files.
//!
//! The layout is ours, because a diverging curve needs axes from `1e-300` to `1e300` that plotters
//! cannot make; plotters paints it. The same record gives the same bytes.

mod axis;
mod bars;
mod canvas;
mod chart;
pub mod colour;
pub mod grid;
mod heat_map;
mod level;
mod pictures;
mod png;
pub mod rows;
pub mod source;
mod spread;
mod strips;

use std::collections::BTreeMap;
use std::path::Path;

use self::canvas::Canvas;
use crate::error::Error;
use crate::figure::{Bars, Drawing, Figure};
use crate::files::write_atomically;
use crate::record::{Record, Store};
use crate::relative_path::RelativePath;
use crate::sealed::FileHash;

/// Writes `figures/ID.svg` and `figures/ID.png` for each figure of the record, and returns their hashes.
pub fn write_figures(
    store: &Store,
    record: &Record,
) -> Result<BTreeMap<RelativePath, FileHash>, Error> {
    let mut files = BTreeMap::new();
    for figure in &record.figures {
        let name = format!("figures/{}", figure.id);
        let refuse = |message: String| Error::Figure { path: store.folder().join(&name), message };
        canvas::load_font().map_err(refuse)?;
        let canvas = lay_out(store, record, figure)?;
        let svg = canvas.to_svg().map_err(refuse)?.into_bytes();
        let png = canvas.to_png().map_err(refuse)?;
        for (ending, bytes) in [("svg", svg), ("png", png)] {
            let file = RelativePath::new(format!("{name}.{ending}"));
            let hash = store.save_file(&file, &bytes)?;
            files.insert(file, hash);
        }
    }
    Ok(files)
}

/// Writes `STEM.svg` and `STEM.png`.
pub fn write_bars(stem: &Path, bars: &Bars) -> Result<(), Error> {
    let refuse = |message: String| Error::Figure { path: stem.to_owned(), message };
    canvas::load_font().map_err(refuse)?;
    let canvas = bars::lay_out(bars);
    let svg = canvas.to_svg().map_err(refuse)?;
    write_atomically(&stem.with_extension("svg"), svg.as_bytes())?;
    write_atomically(&stem.with_extension("png"), &canvas.to_png().map_err(refuse)?)
}

fn lay_out(store: &Store, record: &Record, figure: &Figure) -> Result<Canvas, Error> {
    match &figure.drawing {
        Drawing::Chart(chart) => chart::lay_out(store, record, &figure.title, chart),
        Drawing::HeatMap(map) => heat_map::lay_out(store, record, &figure.title, map),
        Drawing::Strips(strips) => strips::lay_out(store, record, &figure.title, strips),
        Drawing::Pictures(pictures) => pictures::lay_out(store, record, &figure.title, pictures),
    }
}

/// Sizes and colours that all figures share.
mod look {
    use super::canvas::Colour;

    /// Pixels across.
    pub const WIDTH: f64 = 1600.0;
    /// Pixels left free at the border.
    pub const BORDER: f64 = 40.0;
    /// Height of the title's letters.
    pub const TITLE: f64 = 38.0;
    /// Height of all other letters.
    pub const TEXT: f64 = 31.0;
    /// From line to line, in heights of letters.
    pub const LEADING: f64 = 1.4;
    /// Text and axes.
    pub const INK: Colour = [30, 34, 40];
    /// Comparison lines and their names.
    pub const QUIET: Colour = [95, 100, 108];
    /// Grid lines.
    pub const GRID: Colour = [228, 231, 235];
    /// Behind what is not coloured by its value.
    pub const TINT: Colour = [244, 245, 247];
    /// Around scales of colours.
    pub const OUTLINE: Colour = [150; 3];
}

/// A scale of colours between two numbers, as high as a line of text; returns where it ends.
fn put_scale(
    canvas: &mut Canvas,
    (x, y): (f64, f64),
    ends: [&str; 2],
    colour: impl Fn(f64) -> canvas::Colour,
) -> f64 {
    use canvas::{Anchor, Shape, width_of};
    use look::{INK, OUTLINE, TEXT};
    const STEPS: u32 = 64;
    const STEP: f64 = 4.0;
    const GAP: f64 = 16.0;
    let middle = y + TEXT / 2.0;
    chart::put_text(canvas, (x, middle), ends[0], INK, Anchor::Left);
    let left = x + width_of(ends[0], TEXT, false) + GAP;
    let right = left + f64::from(STEPS) * STEP;
    let (from, to) = ((left - 1.0, y - 1.0), (right + 1.0, y + TEXT + 1.0));
    canvas.shapes.push(Shape::Block { from, to, colour: OUTLINE });
    for k in 0..STEPS {
        let from = (left + f64::from(k) * STEP, y);
        let colour = colour(f64::from(k) / f64::from(STEPS - 1));
        canvas.shapes.push(Shape::Block { from, to: (from.0 + STEP, y + TEXT), colour });
    }
    chart::put_text(canvas, (right + GAP, middle), ends[1], INK, Anchor::Left);
    right + GAP + width_of(ends[1], TEXT, false) + GAP
}

/// Puts the title at the top and returns where the rest begins.
fn put_title(canvas: &mut Canvas, title: &str) -> f64 {
    use look::{BORDER, INK, LEADING, TITLE, WIDTH};
    let mut y = BORDER;
    for text in canvas::lines_of(title, TITLE, true, WIDTH - 2.0 * BORDER) {
        let at = (BORDER, y + TITLE / 2.0);
        let anchor = canvas::Anchor::Left;
        let shape = canvas::Shape::Text { at, text, size: TITLE, colour: INK, anchor, bold: true };
        canvas.shapes.push(shape);
        y += LEADING * TITLE;
    }
    y + TITLE / 3.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use lastbit_formats::png::parse;
    use std::fs;

    fn bytes(store: &Store, name: &str) -> Vec<u8> {
        fs::read(store.folder().join("figures").join(name)).unwrap()
    }

    #[test]
    fn every_figure_has_both_files_and_the_same_record_gives_the_same_bytes() {
        let files = |out: &Path| {
            let mut files = Vec::new();
            for (store, record) in sample::all(out) {
                write_figures(&store, &record).unwrap();
                for figure in &record.figures {
                    let png = bytes(&store, &format!("{}.png", figure.id));
                    assert_eq!(parse(&png).unwrap().shape[1], 1600);
                    let svg = bytes(&store, &format!("{}.svg", figure.id));
                    assert!(svg.starts_with(b"<svg width=\"1600\"") && svg.ends_with(b"</svg>\n"));
                    files.push((png, svg));
                }
            }
            files
        };
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert!(files(one.path()) == files(two.path()), "two drawings of one record differ");
    }

    #[test]
    fn text_in_an_svg_is_escaped() {
        let out = tempfile::tempdir().unwrap();
        let (store, mut record) = sample::restrained(out.path());
        record.figures.truncate(1);
        record.figures[0].title = "a < b & c".into();
        write_figures(&store, &record).unwrap();
        let svg = String::from_utf8(bytes(&store, &format!("{}.svg", record.figures[0].id)));
        assert!(svg.unwrap().contains("a &lt; b &amp; c"));
    }
}
