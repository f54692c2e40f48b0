//! Shapes on a page of pixels, and the two painters that turn them into files.
//!
//! A figure is laid out once, as shapes; SVG and PNG show the same.

use std::fmt::Write;
use std::io::Read;
use std::sync::LazyLock;

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::read::GzDecoder;
use lastbit_formats::png::Picture;
use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontDesc, FontFamily, FontStyle, FontTransform, RGBColor, ShapeStyle, TextStyle,
    register_font,
};

/// Red, green, blue.
pub type Colour = [u8; 3];

/// Names of the font in an SVG: the one whose widths we know, and its nearest of kin.
const FAMILY: &str = "DejaVu Sans, Verdana, Arial, sans-serif";
/// The SVG has coordinates of a quarter of a pixel, because plotters knows integers only.
const SVG_PARTS: i32 = 4;
/// The PNG is painted larger and averaged down, because plotters' lines are not smooth.
const PNG_PARTS: i32 = 3;
/// Plotters' letters stand this share of their height too high in a PNG, compared with its SVG.
const TEXT_TOO_HIGH: f64 = 0.125;

/// Where a text stands relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// The point is at its left end.
    Left,
    /// The point is in its middle.
    Middle,
    /// The point is at its right end.
    Right,
}

/// Something to paint. Lengths are in pixels, from the upper left corner.
#[derive(Debug, Clone)]
pub enum Shape {
    /// Straight lines from point to point.
    Path { points: Vec<(f64, f64)>, colour: Colour, width: f64 },
    /// A filled circle.
    Dot { at: (f64, f64), radius: f64, colour: Colour },
    /// A filled rectangle.
    Block { from: (f64, f64), to: (f64, f64), colour: Colour },
    /// A line of text, vertically centred on its point.
    Text { at: (f64, f64), text: String, size: f64, colour: Colour, anchor: Anchor, bold: bool },
    /// A text that reads from below to above, centred on its point.
    Upright { at: (f64, f64), text: String, size: f64, colour: Colour },
    /// Pixels enlarged to squares.
    Pixels { from: (f64, f64), to: (f64, f64), width: usize, colours: Vec<Colour>, file: Vec<u8> },
}

/// A page with shapes, later ones above earlier ones.
#[derive(Debug, Clone)]
pub struct Canvas {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// What is on it.
    pub shapes: Vec<Shape>,
}

type Outcome = Result<(), String>;

fn say(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Makes the font known to plotters; once more does no harm.
pub fn load_font() -> Outcome {
    static FILES: LazyLock<[Vec<u8>; 2]> = LazyLock::new(|| {
        lastbit_assets::FONTS.map(|packed| {
            let mut file = Vec::new();
            GzDecoder::new(packed).read_to_end(&mut file).expect("the font was packed whole");
            file
        })
    });
    for (style, file) in [FontStyle::Normal, FontStyle::Bold].into_iter().zip(&*FILES) {
        register_font(FAMILY, style, file).map_err(|_| "the font cannot be read".to_owned())?;
    }
    Ok(())
}

fn font(size: f64, bold: bool) -> FontDesc<'static> {
    let style = if bold { FontStyle::Bold } else { FontStyle::Normal };
    FontDesc::new(FontFamily::Name(FAMILY), size, style)
}

/// Width of a text in pixels. The font must be loaded.
pub fn width_of(text: &str, size: f64, bold: bool) -> f64 {
    font(size, bold).box_size(text).map_or(0.0, |(width, _)| f64::from(width))
}

/// Breaks a text at spaces into lines no wider than `width`, as far as its words allow.
pub fn lines_of(text: &str, size: f64, bold: bool, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width_of(&format!("{line} {word}"), size, bold) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

impl Canvas {
    /// The page as an SVG file.
    pub fn to_svg(&self) -> Result<String, String> {
        let [width, height] = [self.width, self.height].map(|n| n * SVG_PARTS as u32);
        let mut text = String::new();
        self.paint(SVGBackend::with_string(&mut text, (width, height)), SVG_PARTS)?;
        let parts = format!("width=\"{width}\" height=\"{height}\"");
        let whole = format!("width=\"{}\" height=\"{}\"", self.width, self.height);
        let mut text = text.replacen(&parts, &whole, 1);
        // Plotters would write a rectangle for each pixel, a hundred times the size.
        let end = text.rfind("</svg>").unwrap_or(text.len());
        text.insert_str(end, &self.pictures_in_svg());
        Ok(text)
    }

    fn pictures_in_svg(&self) -> String {
        let mut text = String::new();
        for shape in &self.shapes {
            if let Shape::Pixels { from, to, file, .. } = shape {
                let [x, y, width, height] = [from.0, from.1, to.0 - from.0, to.1 - from.1]
                    .map(|length| length * f64::from(SVG_PARTS));
                let data = STANDARD.encode(file);
                let _ = writeln!(
                    text,
                    "<image x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" \
                     preserveAspectRatio=\"none\" style=\"image-rendering: pixelated\" \
                     href=\"data:image/png;base64,{data}\"/>"
                );
            }
        }
        text
    }

    /// The page as a PNG file.
    pub fn to_png(&self) -> Result<Vec<u8>, String> {
        let (width, height) = (self.width as usize, self.height as usize);
        let parts = PNG_PARTS as usize;
        let mut large = vec![0_u8; 3 * width * height * parts * parts];
        let size = (self.width * PNG_PARTS as u32, self.height * PNG_PARTS as u32);
        self.paint(BitMapBackend::with_buffer(&mut large, size), PNG_PARTS)?;
        let mut pixels = Vec::with_capacity(3 * width * height);
        let mut sums = vec![[0_u16; 3]; width];
        let area = (parts * parts) as u16;
        for rows in large.chunks_exact(3 * width * parts * parts) {
            sums.fill([area / 2; 3]);
            for row in rows.chunks_exact(3 * width * parts) {
                let (blocks, _) = row.as_chunks::<{ 3 * PNG_PARTS as usize }>();
                for (sum, block) in sums.iter_mut().zip(blocks) {
                    for (k, part) in block.iter().enumerate() {
                        sum[k % 3] += u16::from(*part);
                    }
                }
            }
            pixels.extend(sums.as_flattened().iter().map(|sum| (sum / area) as u8));
        }
        Picture { shape: [height, width, 3], pixels }.to_png().map_err(say)
    }

    fn paint<B: DrawingBackend>(&self, backend: B, parts: i32) -> Outcome {
        let area = backend.into_drawing_area();
        area.fill(&RGBColor(255, 255, 255)).map_err(say)?;
        for shape in &self.shapes {
            paint_shape(&area, shape, f64::from(parts), parts == SVG_PARTS)?;
        }
        area.present().map_err(say)
    }
}

/// A path as single strokes with round joints: plotters' own joints grow thorns at sharp turns.
fn paint_pieces<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    points: &[(i32, i32)],
    style: ShapeStyle,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    for pair in points.windows(2) {
        area.draw(&PathElement::new(pair.to_vec(), style))?;
    }
    let radius = f64::from(style.stroke_width) / 2.0;
    for point in points.iter().skip(1).take(points.len().saturating_sub(2)) {
        area.draw(&Circle::new(*point, radius, style.filled()))?;
    }
    Ok(())
}

fn paint_shape<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    shape: &Shape,
    parts: f64,
    is_svg: bool,
) -> Outcome {
    let pixel = |(x, y): (f64, f64)| ((x * parts).round() as i32, (y * parts).round() as i32);
    let paint = |colour: &Colour| RGBColor(colour[0], colour[1], colour[2]);
    let styled = |size: f64, bold, colour, h_pos| TextStyle {
        font: font(size * parts, bold),
        color: paint(colour).to_backend_color(),
        pos: Pos::new(h_pos, VPos::Center),
    };
    let lower = if is_svg { 0.0 } else { TEXT_TOO_HIGH };
    match shape {
        Shape::Path { points, colour, width } => {
            let mut points: Vec<(i32, i32)> = points.iter().map(|point| pixel(*point)).collect();
            points.dedup();
            let style = paint(colour).stroke_width((width * parts).round() as u32);
            if is_svg {
                area.draw(&PathElement::new(points, style))
            } else {
                paint_pieces(area, &points, style)
            }
        }
        Shape::Dot { at, radius, colour } => {
            area.draw(&Circle::new(pixel(*at), (radius * parts).round(), paint(colour).filled()))
        }
        Shape::Block { from, to, colour } => {
            area.draw(&Rectangle::new([pixel(*from), pixel(*to)], paint(colour).filled()))
        }
        Shape::Text { at, text, size, colour, anchor, bold } => {
            let h_pos = match anchor {
                Anchor::Left => HPos::Left,
                Anchor::Middle => HPos::Center,
                Anchor::Right => HPos::Right,
            };
            let style = styled(*size, *bold, colour, h_pos);
            let at = pixel((at.0, at.1 + lower * size));
            area.draw(&Text::new(text.as_str(), at, style))
        }
        Shape::Upright { at, text, size, colour } => {
            let style = styled(*size, false, colour, HPos::Center);
            let style = style.transform(FontTransform::Rotate270);
            let at = pixel((at.0 + lower * size, at.1));
            area.draw(&Text::new(text.as_str(), at, style))
        }
        Shape::Pixels { .. } if is_svg => Ok(()),
        Shape::Pixels { from, to, width, colours, .. } => {
            let height = colours.len() / width.max(&1);
            let edge = |column: usize, row: usize| {
                let across = from.0 + (to.0 - from.0) * column as f64 / *width as f64;
                let down = from.1 + (to.1 - from.1) * row as f64 / height as f64;
                pixel((across, down))
            };
            for (k, colour) in colours.iter().enumerate() {
                let (column, row) = (k % width, k / width);
                let corners = [edge(column, row), edge(column + 1, row + 1)];
                area.draw(&Rectangle::new(corners, paint(colour).filled())).map_err(say)?;
            }
            Ok(())
        }
    }
    .map_err(say)
}
