//! Layout of a chart: title, legend, then the curves within their axes.

use super::axis::{Scale, Tick};
use super::canvas::{Anchor, Canvas, Colour, Shape, width_of};
use super::look::{BORDER, GRID, INK, LEADING, TEXT, WIDTH};
use super::{level, put_title};
use crate::error::Error;
use crate::figure::Chart;
use crate::plot::colour;
use crate::plot::source::{self, Points};
use crate::record::{Record, Store};

/// Height of the rectangle within the axes.
const PLOT: f64 = 760.0;
const CURVE: f64 = 3.5;
const MARK: f64 = 6.5;
const AXIS: f64 = 2.0;
/// Length of a tick.
pub const TICK: f64 = 10.0;
/// Length of the sample of a curve in the legend.
const SAMPLE: f64 = 56.0;
/// Lengths drawn and left free: whole, dashed, dotted; then the colours have gone round thrice.
pub const DASHES: [Option<[f64; 2]>; 3] = [None, Some([18.0, 9.0]), Some([4.0, 7.0])];
/// A fitted line is broad and pale, below the curve that covers it where the fit is good.
const LINE: f64 = 11.0;
const LINE_DASH: [f64; 2] = [20.0, 14.0];
const LINE_PALE: f64 = 0.45;

/// A place on the page.
pub type Point = (f64, f64);

struct Curve<'a> {
    label: &'a str,
    marks: bool,
    points: Points,
    colour: Colour,
    dash: Option<[f64; 2]>,
    fitted: bool,
}

impl Curve<'_> {
    fn width(&self) -> f64 {
        if self.fitted { LINE } else { CURVE }
    }
}

/// Lays a chart out.
pub fn lay_out(
    store: &Store,
    record: &Record,
    title: &str,
    chart: &Chart,
) -> Result<Canvas, Error> {
    let curves = curves(store, record, chart)?;
    let shown = |point: &(&f64, &f64)| shows(*point.0, chart.x.log) && shows(*point.1, chart.y.log);
    let pairs = || curves.iter().flat_map(|c| c.points.x.iter().zip(&c.points.y)).filter(shown);
    let levels = chart.levels.iter().map(|level| level.y);
    let across = Scale::of(pairs().map(|(x, _)| *x), chart.x.log);
    let up = Scale::of(pairs().map(|(_, y)| *y).chain(levels), chart.y.log);

    let mut canvas = Canvas { width: WIDTH as u32, height: 0, shapes: Vec::new() };
    let top = put_title(&mut canvas, title);
    let top = put_legend(&mut canvas, &curves, top);
    let up_ticks = up.ticks();
    let widest = |widest: f64, label: &String| widest.max(width_of(label, TEXT, false));
    let labels = up_ticks.iter().filter_map(|tick| tick.label.as_ref()).fold(0.0, widest);
    let frame = Frame {
        left: BORDER + LEADING * TEXT + labels + 2.0 * TICK,
        right: WIDTH - BORDER,
        top,
        bottom: top + PLOT,
    };
    frame.put_grid(&mut canvas, &across.ticks(), &up_ticks);
    frame.put_labels(&mut canvas, &chart.x.label, &chart.y.label);
    let paths: Vec<Vec<Option<Point>>> =
        curves.iter().map(|curve| frame.path(&curve.points, &across, &up)).collect();
    for level in &chart.levels {
        if let Some(place) = up.place(level.y) {
            level::put(&mut canvas, &frame, level, frame.y(place), &paths);
        }
    }
    // The lines come last in the legend and lie lowest in the plot.
    for fitted in [true, false] {
        for (curve, path) in curves.iter().zip(&paths).filter(|(c, _)| c.fitted == fitted) {
            put_curve(&mut canvas, curve, path);
        }
    }
    frame.put_border(&mut canvas);
    canvas.height = (frame.bottom + TICK + 2.0 * LEADING * TEXT + BORDER) as u32;
    Ok(canvas)
}

/// The curves, then the lines fitted to them.
fn curves<'a>(store: &Store, record: &Record, chart: &'a Chart) -> Result<Vec<Curve<'a>>, Error> {
    let mut curves = Vec::new();
    for (k, trace) in chart.traces.iter().enumerate() {
        if let Some(points) = source::points(store, record, trace)? {
            let k = chart.colour_of(k);
            let (label, marks, colour) = (&trace.label, trace.marks, colour::of_curve(k));
            let dash = DASHES[k / colour::CURVES.len() % DASHES.len()];
            curves.push(Curve { label, marks, points, colour, dash, fitted: false });
        }
    }
    for segment in &chart.lines {
        if let Some((curve, points)) = source::line(store, record, chart, segment)? {
            let label = &segment.label;
            let colour = colour::pale(colour::of_curve(chart.colour_of(curve)), LINE_PALE);
            let dash = Some(LINE_DASH);
            curves.push(Curve { label, marks: false, points, colour, dash, fitted: true });
        }
    }
    Ok(curves)
}

fn shows(value: f64, log: bool) -> bool {
    value.is_finite() && (!log || value > 0.0)
}

/// Rows of samples with names; returns where the plot begins.
fn put_legend(canvas: &mut Canvas, curves: &[Curve], top: f64) -> f64 {
    let (mut x, mut y) = (BORDER, top);
    for curve in curves {
        let width = SAMPLE + 12.0 + width_of(curve.label, TEXT, false) + 44.0;
        if x > BORDER && x + width > WIDTH - BORDER {
            (x, y) = (BORDER, y + LEADING * TEXT);
        }
        let middle = y + TEXT / 2.0;
        let ends = [(x, middle), (x + SAMPLE, middle)];
        put_line(canvas, &ends, curve.colour, curve.width(), curve.dash);
        if curve.marks {
            let at = (x + SAMPLE / 2.0, middle);
            canvas.shapes.push(Shape::Dot { at, radius: MARK, colour: curve.colour });
        }
        put_text(canvas, (x + SAMPLE + 12.0, middle), curve.label, INK, Anchor::Left);
        x += width;
    }
    if curves.is_empty() { top } else { y + LEADING * TEXT + 14.0 }
}

/// A line of text of the usual size.
pub fn put_text(canvas: &mut Canvas, at: (f64, f64), text: &str, colour: Colour, anchor: Anchor) {
    let text = text.to_owned();
    canvas.shapes.push(Shape::Text { at, text, size: TEXT, colour, anchor, bold: false });
}

/// Straight strokes from point to point.
pub fn put_line(
    canvas: &mut Canvas,
    points: &[Point],
    colour: Colour,
    width: f64,
    dash: Option<[f64; 2]>,
) {
    let pieces = match dash {
        None => vec![points.to_vec()],
        Some(dash) => dashes(points, dash),
    };
    let path = |points| Shape::Path { points, colour, width };
    canvas.shapes.extend(pieces.into_iter().map(path));
}

/// The parts of a path that a dashed pen draws.
fn dashes(points: &[Point], [on, off]: [f64; 2]) -> Vec<Vec<Point>> {
    let mut pieces: Vec<Vec<Point>> = points.first().map(|p| vec![vec![*p]]).unwrap_or_default();
    let (mut drawing, mut left) = (true, on);
    for pair in points.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let (across, down) = (to.0 - from.0, to.1 - from.1);
        let length = (across * across + down * down).sqrt();
        let mut done = 0.0;
        while length - done > left {
            done += left;
            let share = done / length;
            let at = (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share);
            match pieces.last_mut() {
                Some(piece) if drawing => piece.push(at),
                _ => pieces.push(vec![at]),
            }
            drawing = !drawing;
            left = if drawing { on } else { off };
        }
        left -= length - done;
        if let (true, Some(piece)) = (drawing, pieces.last_mut()) {
            piece.push(to);
        }
    }
    pieces.retain(|piece| piece.len() > 1);
    pieces
}

fn put_curve(canvas: &mut Canvas, curve: &Curve, path: &[Option<Point>]) {
    for run in path.split(Option::is_none) {
        let run: Vec<Point> = run.iter().flatten().copied().collect();
        if run.len() > 1 {
            put_line(canvas, &run, curve.colour, curve.width(), curve.dash);
        }
        // A point between two gaps would be invisible without a mark.
        if curve.marks || run.len() == 1 {
            let dot = |at: &Point| Shape::Dot { at: *at, radius: MARK, colour: curve.colour };
            canvas.shapes.extend(run.iter().map(dot));
        }
    }
}

/// The rectangle within the axes.
pub struct Frame {
    /// Its edges.
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

impl Frame {
    /// Where a place on the horizontal axis is.
    pub fn x(&self, place: f64) -> f64 {
        self.left + (self.right - self.left) * place
    }

    fn y(&self, place: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * place
    }

    /// Ticks with their labels, and grid lines at those that have one.
    pub fn put_grid(&self, canvas: &mut Canvas, across: &[Tick], up: &[Tick]) {
        for tick in across {
            let x = self.x(tick.at);
            if let Some(label) = &tick.label {
                put_line(canvas, &[(x, self.top), (x, self.bottom)], GRID, 1.5, None);
                let at = (x, self.bottom + TICK + 0.7 * TEXT);
                put_text(canvas, at, label, INK, Anchor::Middle);
            }
            let length = if tick.label.is_some() { TICK } else { TICK / 2.0 };
            put_line(canvas, &[(x, self.bottom), (x, self.bottom + length)], INK, AXIS, None);
        }
        for tick in up {
            let y = self.y(tick.at);
            if let Some(label) = &tick.label {
                put_line(canvas, &[(self.left, y), (self.right, y)], GRID, 1.5, None);
                put_text(canvas, (self.left - 1.6 * TICK, y), label, INK, Anchor::Right);
            }
            let length = if tick.label.is_some() { TICK } else { TICK / 2.0 };
            put_line(canvas, &[(self.left - length, y), (self.left, y)], INK, AXIS, None);
        }
    }

    fn put_labels(&self, canvas: &mut Canvas, across: &str, up: &str) {
        let below = (self.x(0.5), self.bottom + TICK + 2.0 * TEXT);
        put_text(canvas, below, across, INK, Anchor::Middle);
        let beside = (BORDER + TEXT / 2.0, self.y(0.5));
        let text = up.to_owned();
        canvas.shapes.push(Shape::Upright { at: beside, text, size: TEXT, colour: INK });
    }

    /// Where the points of a curve are; none where the axes cannot show them.
    fn path(&self, points: &Points, across: &Scale, up: &Scale) -> Vec<Option<Point>> {
        let place = |(x, y): (&f64, &f64)| {
            let (x, y) = (across.place(*x)?, up.place(*y)?);
            Some((self.x(x), self.y(y)))
        };
        points.x.iter().zip(&points.y).map(place).collect()
    }

    /// The axes.
    pub fn put_border(&self, canvas: &mut Canvas) {
        let corners = [
            (self.left, self.top),
            (self.left, self.bottom),
            (self.right, self.bottom),
            (self.right, self.top),
            (self.left, self.top),
        ];
        put_line(canvas, &corners, INK, AXIS, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashes_go_round_corners_and_keep_their_rhythm() {
        let path = [(0.0, 0.0), (5.0, 0.0), (5.0, 20.0)];
        let drawn = dashes(&path, [10.0, 5.0]);
        assert_eq!(drawn[0], [(0.0, 0.0), (5.0, 0.0), (5.0, 5.0)]);
        assert_eq!(drawn[1], [(5.0, 10.0), (5.0, 20.0)]);
        assert_eq!(drawn.len(), 2);
        assert!(dashes(&[], [1.0, 1.0]).is_empty());
    }
}
