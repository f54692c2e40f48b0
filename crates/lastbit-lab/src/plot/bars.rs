//! Layout of bars: a name for each row, then panels side by side, each with its own axis.

use super::axis::{Scale, Tick};
use super::canvas::{Anchor, Canvas, Shape, width_of};
use super::chart::{Frame, TICK, put_text};
use super::look::{BORDER, INK, LEADING, QUIET, TEXT, WIDTH};
use super::put_title;
use crate::figure::{BarPanel, Bars};
use crate::number::Number;
use crate::plot::colour;

/// From row to row.
const ROW: f64 = 34.0;
/// Height of a bar.
const BAR: f64 = 20.0;
/// Height of the letters of a name.
const NAME: f64 = 24.0;
/// A name is not wider than this.
const WIDEST: f64 = 520.0;
/// Between panels.
const GAP: f64 = 56.0;

/// Lays bars out.
pub fn lay_out(bars: &Bars) -> Canvas {
    let mut canvas = Canvas { width: WIDTH as u32, height: 0, shapes: Vec::new() };
    let top = put_title(&mut canvas, &bars.title);
    let bottom = top + ROW * bars.names.len().max(1) as f64;
    let names: Vec<String> = bars.names.iter().map(|name| shortened(name)).collect();
    let widest = names.iter().map(|name| width_of(name, NAME, false)).fold(0.0, f64::max);
    for (row, name) in names.into_iter().enumerate() {
        let at = (BORDER + widest, middle(top, row));
        put_small(&mut canvas, at, name, INK, Anchor::Right);
    }
    let left = BORDER + widest + 18.0;
    let panels = bars.panels.len().max(1) as f64;
    let width = (WIDTH - BORDER - left - GAP * (panels - 1.0)) / panels;
    for (k, panel) in bars.panels.iter().enumerate() {
        let left = left + k as f64 * (width + GAP);
        let frame = Frame { left, right: left + width, top, bottom };
        put_panel(&mut canvas, &frame, panel, colour::of_curve(k));
    }
    canvas.height = (bottom + TICK + 2.0 * LEADING * TEXT + BORDER) as u32;
    canvas
}

fn middle(top: f64, row: usize) -> f64 {
    top + ROW * (row as f64 + 0.5)
}

/// A name that fits: its ends tell tensors apart, so the middle goes.
fn shortened(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let cut = |kept: usize| -> String {
        let (head, tail) = (kept / 2, kept - kept / 2);
        let end = letters[letters.len() - tail..].iter();
        letters[..head].iter().chain(&['…']).chain(end).collect()
    };
    let fits = |text: &String| width_of(text, NAME, false) <= WIDEST;
    let whole = name.to_owned();
    if fits(&whole) {
        return whole;
    }
    (1..letters.len()).rev().map(cut).find(fits).unwrap_or_default()
}

fn put_small(canvas: &mut Canvas, at: (f64, f64), text: String, colour: [u8; 3], anchor: Anchor) {
    canvas.shapes.push(Shape::Text { at, text, size: NAME, colour, anchor, bold: false });
}

fn put_panel(canvas: &mut Canvas, frame: &Frame, panel: &BarPanel, colour: [u8; 3]) {
    let BarPanel { axis, values } = panel;
    // A bar begins at the left end, so the least value must not lie on it: 0, or half of it.
    let least = values.iter().copied().filter(|v| !axis.log || *v > 0.0).fold(f64::NAN, f64::min);
    let origin = if axis.log { least / 2.0 } else { 0.0 };
    let scale = Scale::of(values.iter().copied().chain([origin]), axis.log);
    let ticks = thinned(scale.ticks(), frame.right - frame.left);
    frame.put_grid(canvas, &ticks, &[]);
    for (row, value) in values.iter().enumerate() {
        let y = middle(frame.top, row);
        match scale.place(*value) {
            Some(place) => {
                let (from, to) = ((frame.left, y - BAR / 2.0), (frame.x(place), y + BAR / 2.0));
                canvas.shapes.push(Shape::Block { from, to, colour });
            }
            // Zero has no logarithm, and NaN no place.
            None => {
                let at = (frame.left + 10.0, y);
                put_small(canvas, at, Number(*value).to_string(), QUIET, Anchor::Left);
            }
        }
    }
    frame.put_border(canvas);
    let below = ((frame.left + frame.right) / 2.0, frame.bottom + TICK + 2.0 * TEXT);
    put_text(canvas, below, &axis.label, INK, Anchor::Middle);
}

/// Takes every second label away until none touches the next.
pub fn thinned(mut ticks: Vec<Tick>, width: f64) -> Vec<Tick> {
    loop {
        let labels: Vec<(f64, f64)> = ticks
            .iter()
            .filter_map(|tick| Some((tick.at * width, width_of(tick.label.as_ref()?, TEXT, false))))
            .collect();
        let touch = |pair: &[(f64, f64)]| {
            pair[1].0 - pair[0].0 < (pair[0].1 + pair[1].1) / 2.0 + 0.5 * TEXT
        };
        if !labels.windows(2).any(touch) {
            return ticks;
        }
        let labelled = ticks.iter_mut().filter(|tick| tick.label.is_some());
        labelled.skip(1).step_by(2).for_each(|tick| tick.label = None);
    }
}

#[cfg(test)]
mod tests {
    use super::super::canvas::load_font;
    use super::*;
    use crate::figure::Axis;

    #[test]
    fn a_long_name_loses_its_middle() {
        load_font().unwrap();
        assert_eq!(shortened("conv1.weight"), "conv1.weight");
        let long = format!("first{}last", ".block".repeat(30));
        let short = shortened(&long);
        assert!(short.starts_with("first") && short.ends_with("last") && short.contains('…'));
        assert!(width_of(&short, NAME, false) <= WIDEST);
    }

    #[test]
    fn labels_are_thinned_until_they_are_apart() {
        load_font().unwrap();
        let tick = |k: u32| Tick { at: f64::from(k) / 8.0, label: Some(format!("10⁻{k}")) };
        let labelled = |width: f64| {
            let ticks = thinned((0..9).map(tick).collect(), width);
            assert_eq!(ticks.len(), 9);
            ticks.iter().filter(|tick| tick.label.is_some()).count()
        };
        assert_eq!([2000.0, 500.0, 10.0].map(labelled), [9, 5, 1]);
    }

    #[test]
    fn bars_grow_with_their_values_and_zero_has_none() {
        load_font().unwrap();
        let values = vec![1e-6, 0.0, 1e-3, f64::NAN];
        let panel = BarPanel { axis: Axis::log("RelL1"), values };
        let names = ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let canvas = lay_out(&Bars { title: "t".into(), names, panels: vec![panel] });
        let lengths: Vec<f64> = canvas
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Block { from, to, .. } => Some(to.0 - from.0),
                _ => None,
            })
            .collect();
        assert_eq!(lengths.len(), 2);
        assert!(0.0 < lengths[0] && lengths[0] < lengths[1], "{lengths:?}");
        let nothing = lay_out(&Bars { title: "t".into(), names: vec![], panels: vec![] });
        assert!(nothing.to_png().is_ok());
    }
}
