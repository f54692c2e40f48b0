//! Figures as data: what a chart shows, independent of how it is drawn.
//!
//! A figure names series and fields of its record; the report draws it interactively, [`draw`]
//! as SVG and PNG.

pub mod colour;
pub mod draw;
pub mod png;
pub mod source;

use serde::{Deserialize, Serialize};

/// A chart or a row of pictures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Name, also of its files.
    pub id: String,
    /// One line above it.
    pub title: String,
    /// What it says, below it.
    pub caption: String,
    /// The drawing.
    #[serde(flatten)]
    pub drawing: Drawing,
}

impl Figure {
    /// A figure of a chart.
    pub fn chart(id: &str, title: &str, caption: &str, chart: Chart) -> Self {
        let (id, title, caption) = (id.to_owned(), title.to_owned(), caption.to_owned());
        Self { id, title, caption, drawing: Drawing::Chart(chart) }
    }

    /// A figure of pictures.
    pub fn pictures(id: &str, title: &str, caption: &str, pictures: Pictures) -> Self {
        let (id, title, caption) = (id.to_owned(), title.to_owned(), caption.to_owned());
        Self { id, title, caption, drawing: Drawing::Pictures(pictures) }
    }
}

/// What is drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Drawing {
    /// Curves over a common axis.
    Chart(Chart),
    /// Pictures of fields on one grey scale.
    Pictures(Pictures),
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
}

impl Trace {
    /// A curve without marks: columns `x` and `y` of a series of a cell.
    pub fn new(label: &str, cell: &str, series: &str, x: &str, y: &str) -> Self {
        let [label, cell, series, x, y] = [label, cell, series, x, y].map(str::to_owned);
        Self { label, cell, series, x, y, marks: false }
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
