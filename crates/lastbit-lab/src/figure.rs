//! Figures as data: what a chart shows, independent of how it is drawn.
//!
//! ```text
//! Chart      curves over a common axis, levels to compare with, fitted lines
//! HeatMap    a table of numbers with coloured cells, and the spread of each row and column
//! Strips     the values of each row as dots along one axis, with mean and spread
//! Pictures   fields on one grey scale
//! ```
//!
//! A figure names series, fields and numbers of its record and holds none of its own, apart from
//! what the paper states ([`Quantity::Stated`]). The report draws it interactively, [`plot`](crate::plot) as
//! SVG and PNG. What belongs to a cell that is not finished yet is left out, or left empty.
//!
//! - **A line** of a chart ([`Segment`]) is linear in the horizontal quantity: straight, on a
//!   logarithmic vertical axis an exponential, and bent where the horizontal axis is logarithmic too.
//!   It is dashed, in the colour of the curve it is fitted to.
//! - **A heat map** ([`HeatMap`]) shows each number times a factor, with fixed decimals, on a colour
//!   scale from its least to its greatest entry. Its margins hold standard deviations,
//!   `√(Σ (x − mean)²/(n − 1))`, of the finished entries. In the report it is a table whose numbers
//!   can be copied.
//! - **Strips** ([`Strips`]) compare distributions: dots that would cover each other are stacked, a
//!   tick marks the mean, a bar one standard deviation to each side, or an interval that is given.
//!   Centred, each row is shown minus its own mean, so that spreads compare although means differ.

use serde::{Deserialize, Serialize};

use crate::number::Number;
use crate::relative_path::RelativePath;

/// A drawing with its name and what is said about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Name, also of its files.
    pub id: RelativePath,
    /// One line above it.
    pub title: String,
    /// What it says, below it.
    pub caption: String,
    /// The drawing.
    #[serde(flatten)]
    pub drawing: Drawing,
}

impl Figure {
    /// A figure of any kind.
    pub fn new(id: &str, title: &str, caption: &str, drawing: Drawing) -> Self {
        let (title, caption) = (title.to_owned(), caption.to_owned());
        Self { id: RelativePath::new(id), title, caption, drawing }
    }

    /// A figure of a chart.
    pub fn chart(id: &str, title: &str, caption: &str, chart: Chart) -> Self {
        Self::new(id, title, caption, Drawing::Chart(chart))
    }

    /// A figure of pictures.
    pub fn pictures(id: &str, title: &str, caption: &str, pictures: Pictures) -> Self {
        Self::new(id, title, caption, Drawing::Pictures(pictures))
    }
}

/// What is drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Drawing {
    /// Curves over a common axis.
    Chart(Chart),
    /// A table of numbers with coloured cells.
    HeatMap(HeatMap),
    /// Values as dots along a common axis, row by row.
    Strips(Strips),
    /// Pictures of fields on one grey scale.
    Pictures(Pictures),
}

/// A number of the record, or one that the paper states.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Quantity {
    /// A number of a cell.
    Measured {
        /// Key of the cell.
        cell: String,
        /// Name of the number.
        number: String,
    },
    /// The paper's number.
    Stated(Number),
}

impl Quantity {
    /// Where it comes from, in words.
    pub fn origin(&self) -> String {
        match self {
            Self::Measured { cell, number } => format!("{cell}, {number}"),
            Self::Stated(_) => "stated in the paper".to_owned(),
        }
    }
}

impl From<(&str, &str)> for Quantity {
    /// The number of this name in the cell of this key: `(cell, number)`.
    fn from((cell, number): (&str, &str)) -> Self {
        Self::Measured { cell: cell.to_owned(), number: number.to_owned() }
    }
}

impl From<f64> for Quantity {
    fn from(value: f64) -> Self {
        Self::Stated(Number(value))
    }
}

/// Curves over a common axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chart {
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The curves.
    pub traces: Vec<Trace>,
    /// Horizontal lines to compare with.
    pub levels: Vec<Level>,
    /// Lines fitted to curves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Segment>,
}

impl Chart {
    /// A chart of curves alone.
    pub fn new(x: Axis, y: Axis, traces: Vec<Trace>) -> Self {
        Self { x, y, traces, levels: vec![], lines: vec![] }
    }

    /// Number of the colour of a curve, by its place.
    pub fn colour_of(&self, place: usize) -> usize {
        self.traces[place].colour.unwrap_or(place)
    }
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Name and unit.
    pub label: String,
    /// Logarithmic; values that are not positive are left out.
    pub log: bool,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), log: false }
    }

    /// A logarithmic axis.
    pub fn log(label: &str) -> Self {
        Self { label: label.to_owned(), log: true }
    }
}

/// A curve: two columns of a series of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Name in the legend.
    pub label: String,
    /// Key of the cell.
    pub cell: String,
    /// Series of the cell.
    pub series: String,
    /// Column of the horizontal axis.
    pub x: String,
    /// Column of the vertical axis.
    pub y: String,
    /// With a mark at each point.
    #[serde(default)]
    pub marks: bool,
    /// Number of its colour; without one, its place among the curves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colour: Option<usize>,
}

impl Trace {
    /// A curve without marks: columns `x` and `y` of a series of a cell.
    pub fn new(label: &str, cell: &str, series: &str, x: &str, y: &str) -> Self {
        let [label, cell, series, x, y] = [label, cell, series, x, y].map(str::to_owned);
        Self { label, cell, series, x, y, marks: false, colour: None }
    }

    /// The same with a mark at each point.
    pub fn marked(self) -> Self {
        Self { marks: true, ..self }
    }
}

/// A horizontal line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// Name.
    pub label: String,
    /// Height; finite.
    pub y: f64,
}

/// A line between two points: linear across, and up in the scaling of the vertical axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// Name in the legend.
    pub label: String,
    /// Label of the curve whose colour it takes.
    pub trace: String,
    /// Where it begins: across, up.
    pub from: [Quantity; 2],
    /// Where it ends.
    pub to: [Quantity; 2],
}

/// A table of numbers with coloured cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeatMap {
    /// What the numbers are, with their unit after the factor.
    pub label: String,
    /// What the rows are.
    pub row_heading: String,
    /// What the columns are.
    pub column_heading: String,
    /// Names of the rows.
    pub rows: Vec<String>,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// The numbers, row by row.
    pub entries: Vec<Vec<Quantity>>,
    /// What each is multiplied by: 100 shows fractions as percent.
    pub factor: f64,
    /// Digits after the point.
    pub decimals: usize,
    /// Standard deviations beside and below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margins: Option<Margins>,
}

/// Names of the margins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Margins {
    /// Of the column with the standard deviation of each row.
    pub of_rows: String,
    /// Of the row with the standard deviation of each column.
    pub of_columns: String,
}

impl HeatMap {
    /// A number as the table shows it.
    pub fn text(&self, value: f64) -> String {
        format!("{value:.*}", self.decimals)
    }
}

/// Rows of dots along a common axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Strips {
    /// Name of the axis, with the unit after the factor.
    pub label: String,
    /// What each value is multiplied by: 100 shows fractions as percent.
    pub factor: f64,
    /// Each row is shown minus its own mean.
    #[serde(default)]
    pub centred: bool,
    /// The rows, from above.
    pub rows: Vec<Strip>,
}

impl Strips {
    /// Rows of values as they are.
    pub fn new(label: &str, rows: Vec<Strip>) -> Self {
        Self { label: label.to_owned(), factor: 1.0, centred: false, rows }
    }
}

/// A row of dots.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Strip {
    /// Name beside it.
    pub label: String,
    /// Its values; a row may have none but an interval, whose middle is then its mean.
    pub values: Vec<Quantity>,
    /// Low and high end of the bar, before the factor, instead of one standard deviation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[Quantity; 2]>,
}

impl Strip {
    /// Values, whose bar is one standard deviation.
    pub fn new(label: impl Into<String>, values: Vec<Quantity>) -> Self {
        Self { label: label.into(), values, interval: None }
    }
}

/// Pictures side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pictures {
    /// The value shown black and the one shown white, both finite; those beyond are coloured.
    pub range: [f64; 2],
    /// The pictures.
    pub panels: Vec<Panel>,
}

/// A field of a cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Panel {
    /// Line below the picture.
    pub label: String,
    /// Key of the cell.
    pub cell: String,
    /// Field of the cell.
    pub field: String,
}

/// Horizontal bars, with one name for those of a row in all panels.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// Line above them.
    pub title: String,
    /// Names of the rows.
    pub names: Vec<String>,
    /// Panels side by side.
    pub panels: Vec<BarPanel>,
}

/// Bars over a common axis.
#[derive(Debug, Clone, PartialEq)]
pub struct BarPanel {
    /// The axis.
    pub axis: Axis,
    /// A value for each row.
    pub values: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn every_kind_survives_its_file() {
        let out = tempfile::tempdir().unwrap();
        for (store, record) in sample::all(out.path()) {
            let back = store.load().unwrap().unwrap();
            assert!(back.figures == record.figures, "the figures of {} changed", record.id);
        }
    }

    #[test]
    fn a_chart_without_lines_is_written_as_before_there_were_any() {
        let chart = Chart::new(Axis::linear("x"), Axis::log("y"), vec![]);
        let drawing = Drawing::Chart(chart);
        let text = serde_json::to_string(&drawing).unwrap();
        assert_eq!(
            text,
            "{\"kind\":\"chart\",\"x\":{\"label\":\"x\",\"log\":false},\
             \"y\":{\"label\":\"y\",\"log\":true},\"traces\":[],\"levels\":[]}"
        );
        assert_eq!(serde_json::from_str::<Drawing>(&text).unwrap(), drawing);
    }
}
