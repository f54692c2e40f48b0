//! Layout of strips: a legend, then for each row its name, its dots on bar and tick, its numbers.

use super::axis::Scale;
use super::bars::thinned;
use super::canvas::{Anchor, Canvas, Colour, Shape, lines_of, width_of};
use super::chart::{Frame, TICK, put_line, put_text};
use super::colour;
use super::look::{BORDER, INK, LEADING, QUIET, TEXT, WIDTH};
use super::put_title;
use super::rows::{self, Row};
use crate::error::Error;
use crate::figure::Strips;
use crate::record::{Record, Store};

/// Height of a row.
const ROW: f64 = 104.0;
/// Height of a bar and of the tick of a mean.
const BAR: f64 = 72.0;
/// Width of that tick.
const MEAN: f64 = 4.0;
/// Of a dot.
const RADIUS: f64 = 8.0;
/// Between names, dots and numbers.
const GAP: f64 = 22.0;
/// Names are not wider than this.
const NAMES: f64 = 420.0;
/// Share of its colour that a bar keeps on white.
const PALE: f64 = 0.25;

/// Lays strips out.
pub fn lay_out(
    store: &Store,
    record: &Record,
    title: &str,
    strips: &Strips,
) -> Result<Canvas, Error> {
    let rows = rows::read(store, record, strips)?;
    let mut canvas = Canvas { width: WIDTH as u32, height: 0, shapes: Vec::new() };
    let top = put_title(&mut canvas, title);
    let top = put_legend(&mut canvas, &rows, top);
    let wide = |texts: &mut dyn Iterator<Item = &String>| {
        texts.map(|text| width_of(text, TEXT, false)).fold(0.0, f64::max)
    };
    let names: Vec<Vec<String>> =
        rows.iter().map(|row| lines_of(&row.label, TEXT, false, NAMES)).collect();
    let numbers: Vec<String> = rows.iter().map(|row| row.summary().replace('-', "−")).collect();
    let height = |lines: &Vec<String>| ROW.max((lines.len() as f64 + 0.4) * LEADING * TEXT);
    let heights: Vec<f64> = names.iter().map(height).collect();
    let frame = Frame {
        left: BORDER + wide(&mut names.iter().flatten()) + GAP,
        right: WIDTH - BORDER - wide(&mut numbers.iter()) - GAP,
        top,
        bottom: top + heights.iter().sum::<f64>().max(ROW),
    };
    let scale = Scale::of(rows.iter().flat_map(Row::extent), false);
    let ticks = thinned(scale.ticks(), frame.right - frame.left);
    frame.put_grid(&mut canvas, &ticks, &[]);
    let mut above = top;
    for (k, row) in rows.iter().enumerate() {
        let middle = above + heights[k] / 2.0;
        above += heights[k];
        let first = middle - (names[k].len() as f64 - 1.0) / 2.0 * LEADING * TEXT;
        for (line, text) in names[k].iter().enumerate() {
            let at = (frame.left - GAP, first + line as f64 * LEADING * TEXT);
            put_text(&mut canvas, at, text, INK, Anchor::Right);
        }
        put_text(&mut canvas, (frame.right + GAP, middle), &numbers[k], INK, Anchor::Left);
        put_row(&mut canvas, &frame, &scale, row, middle);
    }
    frame.put_border(&mut canvas);
    let below = (frame.x(0.5), frame.bottom + TICK + 2.0 * TEXT);
    put_text(&mut canvas, below, &strips.label, INK, Anchor::Middle);
    canvas.height = (frame.bottom + TICK + 2.0 * LEADING * TEXT + BORDER) as u32;
    Ok(canvas)
}

fn colour_of(row: &Row) -> Colour {
    colour::of_curve(usize::from(row.stated))
}

/// What dots, tick and bar are; returns where the rows begin.
fn put_legend(canvas: &mut Canvas, rows: &[Row], top: f64) -> f64 {
    let middle = top + TEXT / 2.0;
    let mut x = BORDER;
    let name = |canvas: &mut Canvas, x: &mut f64, text: &str| {
        *x += RADIUS + 14.0;
        put_text(canvas, (*x, middle), text, INK, Anchor::Left);
        *x += width_of(text, TEXT, false) + 44.0 + RADIUS;
    };
    for key in rows::keys(rows) {
        x += RADIUS;
        match key {
            rows::Key::Dot { stated } => {
                let colour = colour::of_curve(usize::from(stated));
                canvas.shapes.push(Shape::Dot { at: (x, middle), radius: RADIUS, colour });
            }
            rows::Key::Mean => {
                let ends = [(x, middle - TEXT / 2.0), (x, middle + TEXT / 2.0)];
                put_line(canvas, &ends, INK, MEAN, None);
            }
            rows::Key::Bar { given } => {
                let (from, to) = ((x - RADIUS, top), (x + 3.0 * RADIUS, top + TEXT));
                canvas.shapes.push(Shape::Block { from, to, colour: colour::pale(QUIET, PALE) });
                for end in [from.0, to.0].into_iter().filter(|_| given) {
                    put_line(canvas, &[(end, from.1), (end, to.1)], QUIET, MEAN / 2.0, None);
                }
                x += 2.0 * RADIUS;
            }
        }
        name(canvas, &mut x, key.text());
    }
    top + LEADING * TEXT + 14.0
}

fn put_row(canvas: &mut Canvas, frame: &Frame, scale: &Scale, row: &Row, middle: f64) {
    let x = |value: f64| scale.place(value - row.shift).map(|place| frame.x(place));
    let (upper, lower) = (middle - BAR / 2.0, middle + BAR / 2.0);
    if let Some((low, high)) = row.bar.and_then(|[low, high]| x(low).zip(x(high))) {
        let colour = colour::pale(colour_of(row), PALE);
        canvas.shapes.push(Shape::Block { from: (low, upper), to: (high, lower), colour });
        // An interval is told from a standard deviation by its closed ends.
        for end in [low, high].into_iter().filter(|_| row.given) {
            put_line(canvas, &[(end, upper), (end, lower)], colour_of(row), MEAN / 2.0, None);
        }
    }
    if let Some(mean) = row.mean.and_then(x) {
        put_line(canvas, &[(mean, upper), (mean, lower)], INK, MEAN, None);
    }
    let places: Vec<f64> = row.dots.iter().filter_map(|dot| x(dot.value)).collect();
    let levels = rows::stacked(&places, 2.0 * RADIUS);
    let highest = levels.iter().map(|level| level.unsigned_abs()).max().unwrap_or(0);
    // Too many at one place come to lie closer, so that they stay within their row.
    let step = (2.0 * RADIUS).min((BAR / 2.0 - RADIUS) / f64::from(highest.max(1)));
    for (x, level) in places.into_iter().zip(levels) {
        let at = (x, middle - step * f64::from(level));
        canvas.shapes.push(Shape::Dot { at, radius: RADIUS, colour: colour_of(row) });
    }
}

#[cfg(test)]
mod tests {
    use super::super::canvas::load_font;
    use super::*;
    use crate::figure::{Quantity, Strip};
    use crate::sample;

    fn laid_out(strips: &Strips) -> Canvas {
        load_font().unwrap();
        let out = tempfile::tempdir().unwrap();
        let (store, record) = sample::training(out.path());
        lay_out(&store, &record, "t", strips).unwrap()
    }

    fn dots(canvas: &Canvas) -> Vec<(f64, f64)> {
        let dot = |shape: &Shape| match shape {
            Shape::Dot { at, .. } => Some(*at),
            _ => None,
        };
        canvas.shapes.iter().filter_map(dot).collect()
    }

    #[test]
    fn a_dot_for_each_value_and_none_out_of_its_row() {
        let values: Vec<Quantity> = vec![0.5.into(); 40];
        let canvas = laid_out(&Strips::new("x", vec![Strip::new("equal", values)]));
        // One is the legend's.
        let dots = &dots(&canvas)[1..];
        assert_eq!(dots.len(), 40);
        let heights = || dots.iter().map(|dot| dot.1);
        let (high, low) = (heights().fold(f64::INFINITY, f64::min), heights().fold(0.0, f64::max));
        // Rounding of a few additions of numbers below 1000.
        assert!(low - high <= BAR - 2.0 * RADIUS + 1e-9, "{high} to {low}");
        let mut different: Vec<u64> = heights().map(f64::to_bits).collect();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), 40, "dots cover each other");
    }

    #[test]
    fn rows_without_values_have_no_dots() {
        let strips = Strips { centred: true, ..Strips::new("x", vec![Strip::new("none", vec![])]) };
        assert!(laid_out(&strips).to_png().is_ok());
        let nothing = Strips { rows: vec![], ..strips };
        assert_eq!(dots(&laid_out(&nothing)).len(), 0);
    }
}
