//! Layout of a heat map: names above and beside, a coloured block for each number, the spread of
//! rows and columns at the margins, the scale of colours below.

use super::canvas::{Anchor, Canvas, Colour, Shape, lines_of, width_of};
use super::chart::{put_line, put_text};
use super::look::{BORDER, GRID, INK, LEADING, QUIET, TEXT, TINT, WIDTH};
use super::{put_scale, put_title};
use crate::error::Error;
use crate::figure::HeatMap;
use crate::plot::colour;
use crate::plot::grid::Grid;
use crate::record::{Record, Store};

/// A block is not wider than this.
const WIDEST: f64 = 200.0;
/// Height of a block.
const BLOCK: f64 = 64.0;
/// Between blocks.
const SEAM: f64 = 2.0;
/// Between the blocks and their margins.
const GAP: f64 = 16.0;
/// Names of rows are not wider than this.
const NAMES: f64 = 480.0;
/// Letters are not smaller than this.
const SMALLEST: f64 = 12.0;

/// Lays a heat map out.
pub fn lay_out(
    store: &Store,
    record: &Record,
    title: &str,
    map: &HeatMap,
) -> Result<Canvas, Error> {
    let grid = Grid::read(store, record, map)?;
    let mut canvas = Canvas { width: WIDTH as u32, height: 0, shapes: Vec::new() };
    let top = put_title(&mut canvas, title);
    let table = Table::of(map, &grid, top);
    table.put_names(&mut canvas, map);
    for (row, entries) in grid.entries.iter().enumerate() {
        for (column, entry) in entries.iter().enumerate() {
            let shade = entry.and_then(|value| grid.shade(value));
            table.put_block(&mut canvas, (row, column), entry.map(|v| map.text(v)), shade);
        }
    }
    if map.margins.is_some() {
        let text = |std: &Option<f64>| std.map(|std| map.text(std));
        for (row, std) in grid.of_rows.iter().enumerate() {
            table.put_block(&mut canvas, (row, map.columns.len()), text(std), Some(TINT));
        }
        for (column, std) in grid.of_columns.iter().enumerate() {
            table.put_block(&mut canvas, (map.rows.len(), column), text(std), Some(TINT));
        }
    }
    let mut y = table.bottom + TEXT;
    let mut x = BORDER;
    if let Some(range) = grid.range {
        let [low, high] = range.map(|end| shown(map, end));
        x = put_scale(&mut canvas, (x, y), [&low, &high], colour::shade);
    }
    for line in lines_of(&map.label, TEXT, false, WIDTH - BORDER - x) {
        put_text(&mut canvas, (x, y + TEXT / 2.0), &line, INK, Anchor::Left);
        y += LEADING * TEXT;
    }
    canvas.height = (y + BORDER) as u32;
    Ok(canvas)
}

fn shown(map: &HeatMap, value: f64) -> String {
    map.text(value).replace('-', "−")
}

/// Height of letters with which each text fits into a width.
fn fitting(texts: impl Iterator<Item = String>, width: f64) -> f64 {
    // Widths are whole pixels, so they are measured large.
    let fits = |text: String| 0.9 * width / (width_of(&text, 1000.0, false) / 1000.0);
    texts.map(fits).fold(TEXT, f64::min).max(SMALLEST)
}

fn put_sized(canvas: &mut Canvas, at: (f64, f64), text: String, size: f64, colour: Colour) {
    let anchor = Anchor::Middle;
    canvas.shapes.push(Shape::Text { at, text, size, colour, anchor, bold: false });
}

/// Where names and blocks stand.
struct Table {
    /// Names of rows and columns, in lines.
    rows: Vec<Vec<String>>,
    columns: Vec<Vec<String>>,
    /// Where the names of columns begin.
    top: f64,
    /// Upper left corner of the first block.
    corner: (f64, f64),
    /// Width of a block, and heights of the rows.
    width: f64,
    heights: Vec<f64>,
    /// Where the blocks end.
    bottom: f64,
    /// Rows and columns without the margins.
    size: [usize; 2],
    /// Height of the letters within blocks, and of those of the names of columns.
    letters: f64,
    name_letters: f64,
}

impl Table {
    fn of(map: &HeatMap, grid: &Grid, top: f64) -> Self {
        let margin = |of: fn(&crate::figure::Margins) -> &String| map.margins.iter().map(of);
        let rows: Vec<&String> =
            map.rows.iter().chain(margin(|margins| &margins.of_columns)).collect();
        let columns: Vec<&String> =
            map.columns.iter().chain(margin(|margins| &margins.of_rows)).collect();
        let rows: Vec<Vec<String>> =
            rows.iter().map(|name| lines_of(name, TEXT, false, NAMES)).collect();
        let names = rows.iter().flatten().chain([&map.row_heading]);
        let widest = names.map(|name| width_of(name, TEXT, false)).fold(0.0, f64::max);
        let left = BORDER + widest + GAP;
        let room = WIDTH - BORDER - left - if map.margins.is_some() { GAP } else { 0.0 };
        let width = (room / columns.len().max(1) as f64).min(WIDEST);
        let numbers = grid.entries.iter().flatten().chain(&grid.of_rows).chain(&grid.of_columns);
        let letters = fitting(numbers.flatten().map(|value| shown(map, *value)), width);
        let words = columns.iter().flat_map(|name| name.split_whitespace());
        let name_letters = fitting(words.map(str::to_owned), width);
        let columns: Vec<Vec<String>> =
            columns.iter().map(|name| lines_of(name, name_letters, false, 0.95 * width)).collect();
        let lines = columns.iter().map(Vec::len).max().unwrap_or(0);
        let above = (lines + 1) as f64 * LEADING * TEXT;
        let height = |lines: &Vec<String>| BLOCK.max((lines.len() as f64 + 0.4) * LEADING * TEXT);
        let heights: Vec<f64> = rows.iter().map(height).collect();
        let size = [map.rows.len(), map.columns.len()];
        let gap = if map.margins.is_some() { GAP } else { 0.0 };
        let corner = (left, top + above);
        let bottom = corner.1 + heights.iter().sum::<f64>() + gap;
        Self { rows, columns, top, corner, width, heights, bottom, size, letters, name_letters }
    }

    /// Corners of a block; the one after the last is a margin.
    fn block(&self, (row, column): (usize, usize)) -> [(f64, f64); 2] {
        let gap = |place: usize, count: usize| if place >= count { GAP } else { 0.0 };
        let x = self.corner.0 + column as f64 * self.width + gap(column, self.size[1]);
        let above: f64 = self.heights[..row].iter().sum();
        let y = self.corner.1 + above + gap(row, self.size[0]);
        [(x, y), (x + self.width - SEAM, y + self.heights[row] - SEAM)]
    }

    fn put_names(&self, canvas: &mut Canvas, map: &HeatMap) {
        let last = self.block((0, self.size[1].saturating_sub(1)))[1].0;
        let middle = (self.corner.0 + last) / 2.0;
        let line = LEADING * TEXT;
        let at = (middle, self.top + line / 2.0);
        put_text(canvas, at, &map.column_heading, QUIET, Anchor::Middle);
        let at = (self.corner.0 - GAP, self.corner.1 - line / 2.0);
        put_text(canvas, at, &map.row_heading, QUIET, Anchor::Right);
        for (column, lines) in self.columns.iter().enumerate() {
            let [from, to] = self.block((0, column));
            for (k, text) in lines.iter().rev().enumerate() {
                let at = ((from.0 + to.0) / 2.0, self.corner.1 - (k as f64 + 0.5) * line);
                put_sized(canvas, at, text.clone(), self.name_letters, INK);
            }
        }
        for (row, lines) in self.rows.iter().enumerate() {
            let [from, to] = self.block((row, 0));
            let middle = (from.1 + to.1) / 2.0 - (lines.len() as f64 - 1.0) / 2.0 * line;
            for (k, text) in lines.iter().enumerate() {
                let at = (self.corner.0 - GAP, middle + k as f64 * line);
                put_text(canvas, at, text, INK, Anchor::Right);
            }
        }
    }

    /// A number on its colour; an outline alone where there is none.
    fn put_block(
        &self,
        canvas: &mut Canvas,
        place: (usize, usize),
        text: Option<String>,
        shade: Option<Colour>,
    ) {
        let [from, to] = self.block(place);
        match shade {
            Some(colour) if text.is_some() => {
                canvas.shapes.push(Shape::Block { from, to, colour });
            }
            _ => {
                let corners = [from, (to.0, from.1), to, (from.0, to.1), from];
                put_line(canvas, &corners, GRID, 2.0, None);
            }
        }
        if let Some(text) = text {
            let text = text.replace('-', "−");
            let colour = shade.map_or(INK, colour::text_on);
            let at = ((from.0 + to.0) / 2.0, (from.1 + to.1) / 2.0);
            put_sized(canvas, at, text, self.letters, colour);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::canvas::load_font;
    use super::*;
    use crate::sample;

    fn laid_out(change: impl Fn(&mut Record, &mut HeatMap)) -> Canvas {
        load_font().unwrap();
        let out = tempfile::tempdir().unwrap();
        let (store, mut record) = sample::training(out.path());
        let mut map = sample::accuracies(6);
        change(&mut record, &mut map);
        lay_out(&store, &record, "t", &map).unwrap()
    }

    fn blocks(canvas: &Canvas) -> usize {
        let is_block = |shape: &&Shape| matches!(shape, Shape::Block { .. });
        canvas.shapes.iter().filter(is_block).count()
    }

    #[test]
    fn a_block_for_each_number_and_each_spread() {
        let scale = 65;
        assert_eq!(blocks(&laid_out(|_, _| ())) - scale, 6 * 6 + 6 + 6);
        assert_eq!(blocks(&laid_out(|_, map| map.margins = None)) - scale, 6 * 6);
        let to_come = laid_out(|record, _| record.cells.retain(|cell| cell.key != "seed3"));
        assert_eq!(blocks(&to_come) - scale, 5 * 6 + 5 + 6);
        assert_eq!(blocks(&laid_out(|record, _| record.cells.retain(|_| false))), 0);
    }

    #[test]
    fn numbers_stay_within_their_blocks() {
        let canvas = laid_out(|_, map| {
            for columns in &mut map.entries {
                *columns = columns.iter().cycle().take(24).cloned().collect();
            }
            map.columns = (0..24).map(|k| format!("3.{k}e-6")).collect();
            map.column_heading = String::new();
        });
        let blocks: Vec<(f64, f64)> = canvas
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Block { from, to, .. } if to.0 - from.0 > 10.0 => Some((from.0, to.0)),
                _ => None,
            })
            .collect();
        assert!(blocks.iter().all(|block| block.1 <= WIDTH - BORDER));
        let mut texts = 0;
        for shape in &canvas.shapes {
            if let Shape::Text { at, text, size, anchor: Anchor::Middle, .. } = shape {
                let half = width_of(text, *size, false) / 2.0;
                // Widths are whole pixels.
                let around = |block: &&(f64, f64)| {
                    block.0 <= at.0 - half + 1.0 && at.0 + half <= block.1 + 1.0
                };
                assert!(blocks.iter().any(|block| around(&block)), "{text} sticks out");
                texts += usize::from(!text.is_empty());
            }
        }
        // Numbers of 6 rows, both margins, names of the columns, "STD" above "over k".
        assert_eq!(texts, 6 * 24 + 6 + 24 + 24 + 2);
    }
}
