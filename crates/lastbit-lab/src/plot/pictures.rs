//! Layout of pictures: panels in rows, each with its name below, then the scale of colours.

use super::canvas::{Anchor, Canvas, Shape, lines_of, width_of};
use super::chart::put_text;
use super::look::{BORDER, INK, LEADING, TEXT, WIDTH};
use super::put_title;
use crate::error::Error;
use crate::figure::Pictures;
use crate::number::Number;
use crate::plot::{colour, source};
use crate::record::{Record, Store};
use crate::series::Field;

/// Pictures side by side at most.
const COLUMNS: usize = 4;
/// Between pictures.
const GAP: f64 = 36.0;
/// A single picture is not wider than this.
const WIDEST: f64 = 720.0;

/// Lays pictures out.
pub fn lay_out(
    store: &Store,
    record: &Record,
    title: &str,
    pictures: &Pictures,
) -> Result<Canvas, Error> {
    let mut panels = Vec::new();
    for panel in &pictures.panels {
        if let Some((field, file)) = source::picture(store, record, panel, pictures.range)? {
            panels.push((panel.label.as_str(), field, file));
        }
    }
    let mut canvas = Canvas { width: WIDTH as u32, height: 0, shapes: Vec::new() };
    let mut y = put_title(&mut canvas, title);
    let columns = even_columns(panels.len());
    let room = ((WIDTH - 2.0 * BORDER - GAP * (columns - 1) as f64) / columns as f64).min(WIDEST);
    for row in panels.chunks(columns) {
        let (mut lowest, mut x) = (y, BORDER);
        for (label, field, file) in row {
            let [width, height] = enlarged(field, room);
            let colours = field.values.iter().map(|v| colour::of_value(*v, pictures.range));
            canvas.shapes.push(Shape::Pixels {
                from: (x, y),
                to: (x + width, y + height),
                width: field.width,
                colours: colours.collect(),
                file: file.clone(),
            });
            let mut below = y + height + 0.9 * TEXT;
            for line in lines_of(label, TEXT, false, room) {
                put_text(&mut canvas, (x, below), &line, INK, Anchor::Left);
                below += LEADING * TEXT;
            }
            lowest = lowest.max(below);
            x += room + GAP;
        }
        y = lowest + GAP / 2.0;
    }
    let fields: Vec<&Field> = panels.iter().map(|(_, field, _)| field).collect();
    put_scale(&mut canvas, &fields, pictures.range, y);
    canvas.height = (y + TEXT + BORDER) as u32;
    Ok(canvas)
}

/// As few rows as needed, filled evenly: five pictures stand as three and two.
fn even_columns(count: usize) -> usize {
    let rows = count.div_ceil(COLUMNS).max(1);
    count.div_ceil(rows).max(1)
}

/// Size of a field of square pixels in a square of `room`; whole multiples where it is smaller.
fn enlarged(field: &Field, room: f64) -> [f64; 2] {
    let fit = room / field.width.max(field.height).max(1) as f64;
    let scale = if fit >= 1.0 { fit.floor() } else { fit };
    [field.width, field.height].map(|length| (length as f64 * scale).max(1.0))
}

/// The grey scale with its ends, and the colours beyond it that occur.
fn put_scale(canvas: &mut Canvas, fields: &[&Field], [low, high]: [f64; 2], y: f64) {
    let [lowest, highest] = [low, high].map(|end| Number(end).to_string());
    let grey = |place: f64| [(255.0 * place).round() as u8; 3];
    let mut x = super::put_scale(canvas, (BORDER, y), [&lowest, &highest], grey);
    let any = |holds: &dyn Fn(f64) -> bool| {
        fields.iter().any(|field| field.values.iter().any(|value| holds(*value)))
    };
    for (occurs, sample, text) in [
        (any(&|value| value < low), f64::NEG_INFINITY, "below"),
        (any(&|value| value > high), f64::INFINITY, "above"),
        (any(&f64::is_nan), f64::NAN, "not a number"),
    ] {
        if occurs {
            x += 28.0;
            let colour = colour::of_value(sample, [low, high]);
            canvas.shapes.push(Shape::Block { from: (x, y), to: (x + TEXT, y + TEXT), colour });
            x += TEXT + 12.0;
            put_text(canvas, (x, y + TEXT / 2.0), text, INK, Anchor::Left);
            x += width_of(text, TEXT, false) + 16.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_filled_evenly() {
        assert_eq!([0, 1, 3, 4, 5, 8, 9].map(even_columns), [1, 1, 3, 4, 3, 4, 3]);
    }

    #[test]
    fn small_fields_grow_by_whole_multiples_and_large_ones_shrink() {
        let field = |height, width| Field { height, width, values: vec![] };
        assert_eq!(enlarged(&field(32, 30), 100.0), [90.0, 96.0]);
        assert_eq!(enlarged(&field(100, 200), 100.0), [100.0, 50.0]);
    }
}
