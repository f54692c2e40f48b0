//! A level of a chart: a dashed line, with its name where the fewest curves pass.

use super::canvas::{Anchor, Canvas, width_of};
use super::chart::{DASHES, Frame, Point, put_line, put_text};
use super::look::{QUIET, TEXT};
use crate::figure::Level;

/// Between a name and the frame.
const INSET: f64 = 14.0;

/// Puts a level at the height `y`.
pub fn put(
    canvas: &mut Canvas,
    frame: &Frame,
    level: &Level,
    y: f64,
    paths: &[Vec<Option<Point>>],
) {
    put_line(canvas, &[(frame.left, y), (frame.right, y)], QUIET, 2.5, DASHES[1]);
    let width = width_of(&level.label, TEXT, false);
    let spots = [
        (frame.right - INSET, -0.65, Anchor::Right),
        (frame.right - INSET, 0.65, Anchor::Right),
        (frame.left + INSET, -0.65, Anchor::Left),
        (frame.left + INSET, 0.65, Anchor::Left),
    ];
    let crossings = |spot: &(f64, f64, Anchor)| {
        let left = if spot.2 == Anchor::Right { spot.0 - width } else { spot.0 };
        let middle = y + spot.1 * TEXT;
        let (from, to) = ((left, middle - TEXT / 2.0), (left + width, middle + TEXT / 2.0));
        let sticks_out = from.1 < frame.top || to.1 > frame.bottom;
        // A name outside is worse than any number of curves.
        if sticks_out { usize::MAX } else { within(paths, from, to) }
    };
    // The first of the best, so that names stay at the right as long as nothing is gained.
    let [first, rest @ ..] = spots;
    let best = rest.into_iter().fold((crossings(&first), first), |best, spot| {
        let count = crossings(&spot);
        if count < best.0 { (count, spot) } else { best }
    });
    let (x, offset, anchor) = best.1;
    put_text(canvas, (x, y + offset * TEXT), &level.label, QUIET, anchor);
}

/// Strokes that pass through a rectangle.
fn within(paths: &[Vec<Option<Point>>], from: Point, to: Point) -> usize {
    let strokes = paths.iter().flat_map(|path| path.windows(2));
    let crosses = |pair: &&[Option<Point>]| match pair {
        [Some(one), Some(other)] => meets(*one, *other, from, to),
        _ => false,
    };
    strokes.filter(crosses).count()
}

/// Whether a stroke meets a rectangle: what of it lies between left and right, and what lies between
/// top and bottom, have a part in common.
fn meets(one: Point, other: Point, from: Point, to: Point) -> bool {
    let share = |start: f64, end: f64, low: f64, high: f64| -> [f64; 2] {
        let span = end - start;
        if span == 0.0 {
            return if (low..=high).contains(&start) { [0.0, 1.0] } else { [1.0, 0.0] };
        }
        let (a, b) = ((low - start) / span, (high - start) / span);
        [a.min(b).max(0.0), a.max(b).min(1.0)]
    };
    let across = share(one.0, other.0, from.0, to.0);
    let down = share(one.1, other.1, from.1, to.1);
    across[0].max(down[0]) <= across[1].min(down[1])
}

#[cfg(test)]
mod tests {
    use super::super::canvas::{Shape, load_font};
    use super::*;

    #[test]
    fn strokes_and_rectangles() {
        let rectangle = |one, other| meets(one, other, (0.0, 0.0), (2.0, 1.0));
        assert!(rectangle((-1.0, -1.0), (3.0, 2.0)), "through it");
        assert!(rectangle((1.0, 0.5), (1.0, 0.6)), "within");
        assert!(rectangle((1.0, -1.0), (1.0, 5.0)), "upright through it");
        assert!(!rectangle((-1.0, 0.0), (1.0, 2.5)), "round the corner");
        assert!(!rectangle((3.0, 0.5), (4.0, 0.5)), "beside it");
        assert!(!rectangle((0.0, 2.0), (2.0, 2.0)), "below it");
    }

    #[test]
    fn a_name_stands_where_the_fewest_curves_pass() {
        load_font().unwrap();
        let frame = Frame { left: 100.0, right: 1500.0, top: 100.0, bottom: 800.0 };
        let spot = |y: f64, path: Vec<Option<Point>>| {
            let mut canvas = Canvas { width: 1600, height: 900, shapes: vec![] };
            let level = Level { label: "limit".into(), y: 1.0 };
            put(&mut canvas, &frame, &level, y, &[path]);
            match canvas.shapes.pop() {
                Some(Shape::Text { at, anchor, .. }) => (anchor, at.1 < y),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(spot(400.0, vec![]), (Anchor::Right, true));
        assert_eq!(spot(105.0, vec![]), (Anchor::Right, false));
        let above = vec![Some((800.0, 380.0)), Some((1500.0, 380.0))];
        assert_eq!(spot(400.0, above.clone()), (Anchor::Right, false));
        let right = vec![Some((1480.0, 200.0)), Some((1480.0, 700.0))];
        assert_eq!(spot(400.0, right), (Anchor::Left, true));
        let gap = vec![above[0], None, above[1]];
        assert_eq!(spot(400.0, gap), (Anchor::Right, true));
    }
}
