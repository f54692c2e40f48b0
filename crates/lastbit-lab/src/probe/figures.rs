//! The charts of a run: whatever was measured.

use super::history::History;
use super::row::Column;
use crate::figure::{Axis, Chart, Figure, Level, Trace};
use crate::series::Series;

/// Up to so many points of a curve have marks.
const MOST_MARKS: usize = 100;

/// A chart and its curves.
pub struct Drawn {
    /// The chart.
    pub figure: Figure,
    /// The series that it names.
    pub series: Vec<(String, Series)>,
}

/// Name of a series, its columns, and the columns that are curves with their labels.
type Curves<'a> = (&'a str, &'a [Column], &'a [(&'a str, &'a str)]);

/// All charts of a run, the main one first; `cell` is the key of its cell.
pub fn of(history: &History, cell: &str) -> Vec<Drawn> {
    let run = Charts { history, cell };
    [run.edge(), run.loss(), run.sharpness(), run.critical_lr(), run.growth(), run.layers()]
        .into_iter()
        .flatten()
        .collect()
}

struct Charts<'a> {
    history: &'a History,
    cell: &'a str,
}

impl Charts<'_> {
    /// Curves of a series with their labels; those without a finite number are left out.
    fn traces(&self, name: &str, series: &Series, labels: &[(&str, &str)]) -> Vec<Trace> {
        let trace = |(column, label): &(&str, &str)| {
            let values = series.column(column)?;
            let finite = values.iter().filter(|value| value.is_finite()).count();
            let trace = Trace::new(label, self.cell, name, "step", column);
            (finite > 0).then_some(Trace { marks: finite <= MOST_MARKS, ..trace })
        };
        labels.iter().filter_map(trace).collect()
    }

    fn chart(
        &self,
        text: [&str; 3],
        y: Axis,
        curves: &[Curves],
        levels: Vec<Level>,
    ) -> Option<Drawn> {
        let (mut traces, mut series) = (Vec::new(), Vec::new());
        for (name, columns, labels) in curves {
            if let Some(curve) = self.history.curve(columns) {
                traces.extend(self.traces(name, &curve, labels));
                series.push(((*name).to_owned(), curve));
            }
        }
        let [id, title, caption] = text;
        let chart = Chart { levels, ..Chart::new(Axis::linear("step"), y, traces) };
        let has_curve = !chart.traces.is_empty();
        has_curve.then(|| Drawn { figure: Figure::chart(id, title, caption, chart), series })
    }

    fn edge(&self) -> Option<Drawn> {
        let caption = "Sharpness over the stability limit of the optimizer, on the probe batches. Above 1, a step on these \
                       batches overshoots along the sharpest direction, and small differences grow.";
        self.chart(
            ["edge-ratio", "How near the training is to its edge of stability", caption],
            Axis::linear("edge ratio"),
            &[("edge", &[("edge_ratio", |row| row.edge_ratio)], &[("edge_ratio", "edge ratio")])],
            vec![Level { label: "edge of stability".to_owned(), y: 1.0 }],
        )
    }

    fn loss(&self) -> Option<Drawn> {
        let caption =
            "Of the training as it was reported, and of the probe batches without dropout.";
        self.chart(
            ["loss", "Loss", caption],
            Axis::log("loss"),
            &[
                ("loss", &[("loss", |row| row.loss)], &[("loss", "training")]),
                (
                    "probe-loss",
                    &[("probe_loss", |row| row.probe_loss)],
                    &[("probe_loss", "probe batches")],
                ),
            ],
            vec![],
        )
    }

    fn sharpness(&self) -> Option<Drawn> {
        let caption = "The largest eigenvalue of the Hessian of the loss on the probe batches. Where the stability limit of \
                       the optimizer is one number for all parameters, it is the second curve.";
        self.chart(
            ["sharpness", "Sharpness", caption],
            // A learning rate that falls to 0 lifts the limit beyond all bounds.
            Axis::log("sharpness"),
            &[(
                "sharpness",
                &[("sharpness", |row| row.sharpness), ("threshold", |row| row.threshold)],
                &[("sharpness", "sharpness"), ("threshold", "stability limit")],
            )],
            vec![],
        )
    }

    fn critical_lr(&self) -> Option<Drawn> {
        let caption = "The largest learning rate whose next step does not raise the loss of the probe batches, beside the \
                       learning rate.";
        self.chart(
            ["critical-lr", "Critical learning rate of the next step", caption],
            Axis::log("learning rate"),
            &[(
                "critical-lr",
                &[("critical_lr", |row| row.critical_lr), ("lr", |row| row.lr)],
                &[("critical_lr", "critical"), ("lr", "learning rate")],
            )],
            vec![],
        )
    }

    fn growth(&self) -> Option<Drawn> {
        let caption = "Growth rate of a perturbed copy (finite-time Lyapunov exponent), in e-folds per step on the probe \
                       batches. Above 0, small differences grow.";
        self.chart(
            ["growth", "Growth of a perturbed copy", caption],
            Axis::linear("e-folds per step"),
            &[(
                "growth",
                &[("growth_per_step", |row| row.growth_per_step)],
                &[("growth_per_step", "growth rate")],
            )],
            vec![Level { label: "no growth".to_owned(), y: 0.0 }],
        )
    }

    fn layers(&self) -> Option<Drawn> {
        let (names, series) = self.history.layers()?;
        let columns = series.columns.iter().skip(1).map(|(column, _)| column.as_str());
        let labels: Vec<(&str, &str)> = columns.zip(names.iter().map(String::as_str)).collect();
        let traces = self.traces("layers", &series, &labels);
        let caption = "The largest eigenvalue of each layer's own block of the Hessian: the sharpness if all others were \
                       held. The layers that were sharpest at the last measurement.";
        let chart = Chart::new(Axis::linear("step"), Axis::log("sharpness of the block"), traces);
        let figure = Figure::chart("layers", "Sharpness of layers", caption, chart);
        Some(Drawn { figure, series: vec![("layers".to_owned(), series)] })
    }
}
