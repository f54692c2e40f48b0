//! The charts of a training run: whatever was measured of it.

use lastbit::attribution::Parts;
use lastbit::optim::schedule::Schedule;

use super::CELL;
use crate::figure::{Axis, Chart, Figure, Level, Trace};
use crate::record::Outcome;
use crate::series::Series;
use crate::train::names::ReplicaSeries;
use crate::train::prepare::Prepared;

/// Replicas whose curves are shown; more would hide each other.
const MOST_REPLICAS: usize = 8;

/// All charts of a run.
pub fn of(prepared: &Prepared, outcome: &Outcome) -> Vec<Figure> {
    let names = prepared.variants.named.iter().map(|named| named.name.as_str());
    let run = Run { prepared, outcome, names: names.take(MOST_REPLICAS).collect() };
    let charts = [
        run.loss(),
        run.accuracy(),
        run.sharpness(),
        run.edge(),
        run.layers(),
        run.density(),
        run.parting(),
        run.attribution(),
    ];
    charts.into_iter().flatten().collect()
}

struct Run<'a> {
    prepared: &'a Prepared,
    outcome: &'a Outcome,
    /// Replicas that are shown.
    names: Vec<&'a str>,
}

/// A chart over the steps, if it has a curve.
fn over_steps(text: [&str; 3], y: Axis, traces: Vec<Trace>, levels: Vec<Level>) -> Option<Figure> {
    let [id, title, caption] = text;
    let chart = Chart { levels, ..Chart::new(Axis::linear("step"), y, traces) };
    (!chart.traces.is_empty()).then(|| Figure::chart(id, title, caption, chart))
}

impl<'a> Run<'a> {
    /// Replicas with a series of this kind, and the series.
    fn with(&self, kind: ReplicaSeries) -> impl Iterator<Item = (&'a str, String, &'a Series)> {
        let outcome = self.outcome;
        self.names.clone().into_iter().filter_map(move |name| {
            let key = kind.of(name);
            outcome.series.get(&key).map(|series| (name, key, series))
        })
    }

    /// A curve if its column has a number.
    fn trace(&self, label: String, key: &str, series: &Series, column: &str) -> Option<Trace> {
        let has_number = series.column(column)?.iter().any(|value| value.is_finite());
        has_number.then(|| Trace::new(&label, CELL, key, "step", column))
    }

    /// The curve in the colour that its replica has in all figures.
    fn coloured(&self, name: &str, trace: Trace) -> Trace {
        Trace { colour: self.names.iter().position(|own| *own == name), ..trace }
    }

    /// A curve of a replica, if its column has a number.
    fn of_replica(&self, name: &str, key: &str, series: &Series, column: &str) -> Option<Trace> {
        self.trace(name.to_owned(), key, series, column).map(|trace| self.coloured(name, trace))
    }

    fn loss(&self) -> Option<Figure> {
        let mut traces: Vec<Trace> = self
            .with(ReplicaSeries::Curves)
            .filter_map(|(name, key, series)| self.of_replica(name, &key, series, "loss"))
            .collect();
        let spikes = self.with(ReplicaSeries::Curves).filter_map(|(name, key, series)| {
            let trace = self.trace(format!("{name}: spikes"), &key, series, "spike")?;
            Some(Trace { marks: true, ..self.coloured(name, trace) })
        });
        traces.extend(spikes);
        let caption = "Of the batch of each step, before the step. Where a step sees all examples, dots \
                       mark spikes: the tops of excursions of more than a hundredth above the least loss \
                       so far.";
        over_steps(["loss", "Loss", caption], Axis::log("loss"), traces, vec![])
    }

    fn accuracy(&self) -> Option<Figure> {
        let trace = |(name, key, series): (&str, String, &Series)| {
            // One evaluation, at the end, is no curve.
            (series.column("step")?.len() > 1).then_some(())?;
            self.of_replica(name, &key, series, "test_accuracy")
        };
        let traces = self.with(ReplicaSeries::Tests).filter_map(trace).collect();
        let text = ["accuracy", "Accuracy on the test set", "As a share of 1."];
        over_steps(text, Axis::linear("test accuracy"), traces, vec![])
    }

    /// The largest eigenvalues of the first replica, the largest of the others.
    fn sharpness(&self) -> Option<Figure> {
        let first = self.names[0];
        let mut traces = Vec::new();
        for (name, key, series) in self.with(ReplicaSeries::Sharpness) {
            traces.extend(self.of_replica(name, &key, series, "sharpness"));
            let more =
                (2..).map(|i| format!("sharpness_{i}")).take_while(|c| series.column(c).is_some());
            let more = more.map(|column| {
                (format!("{name}: {}", column.replace("sharpness_", "eigenvalue ")), column)
            });
            let others = [
                ("as the steps see it", "preconditioned_sharpness"),
                ("along the next update", "critical_sharpness"),
                ("of batches", "batch_sharpness"),
            ];
            let others =
                others.map(|(label, column)| (format!("{name}: {label}"), column.to_owned()));
            let own = more.chain(others).filter(|_| name == first);
            let own = own.filter_map(|(label, column)| self.trace(label, &key, series, &column));
            // Colours that no replica has.
            traces.extend(own.zip(self.names.len()..).map(|(t, k)| Trace { colour: Some(k), ..t }));
        }
        let levels = self.level().into_iter().collect();
        let caption = "The largest eigenvalue of the Hessian of the mean loss. A step is unstable along \
                       its vector while it lies above the threshold of the optimizer.";
        over_steps(["sharpness", "Sharpness", caption], Axis::linear("sharpness"), traces, levels)
    }

    /// The threshold, where it is one number for all steps and for the eigenvalues themselves.
    fn level(&self) -> Option<Level> {
        let plan = &self.prepared.plan;
        let method = plan.optimizer.method;
        let is_one = plan.schedule == Schedule::Constant && !method.is_preconditioned();
        let label = method.threshold_formula().to_owned();
        is_one.then(|| Level { label, y: method.threshold(plan.dt) })
    }

    /// Where no level in the figure of the sharpness says the same.
    fn edge(&self) -> Option<Figure> {
        if self.level().is_some() {
            return None;
        }
        let traces = self
            .with(ReplicaSeries::Sharpness)
            .filter_map(|(name, key, series)| self.of_replica(name, &key, series, "edge_ratio"));
        let edge = Level { label: "edge of stability".to_owned(), y: 1.0 };
        let caption = "Over the threshold at the learning rate of the step; for Adam and cfl the largest eigenvalue \
                       of the preconditioned Hessian.";
        let text = ["edge-ratio", "Sharpness over the threshold of the optimizer", caption];
        over_steps(text, Axis::linear("edge ratio"), traces.collect(), vec![edge])
    }

    fn layers(&self) -> Option<Figure> {
        let (_, key, series) = self.with(ReplicaSeries::Sharpness).next()?;
        let tensor = |name: &String| self.trace(name.clone(), &key, series, name);
        let parameters = self.prepared.network.parameters().iter();
        let mut traces: Vec<Trace> = parameters.filter_map(|p| tensor(&p.name)).collect();
        if !traces.is_empty() {
            traces.extend(self.trace("whole network".to_owned(), &key, series, "sharpness"));
        }
        let caption = "The largest eigenvalue of each weight tensor's own block of the Hessian: the \
                       sharpness if all others were held.";
        let title = format!("Sharpness of layers, {}", self.names[0]);
        over_steps(["layers", &title, caption], Axis::log("sharpness of the block"), traces, vec![])
    }

    fn density(&self) -> Option<Figure> {
        let trace = |(name, key, _): (&str, String, &Series)| {
            self.coloured(name, Trace::new(name, CELL, &key, "lambda", "density"))
        };
        let traces: Vec<Trace> = self.with(ReplicaSeries::Density).map(trace).collect();
        let chart = Chart::new(Axis::linear("eigenvalue"), Axis::log("density"), traces);
        let caption = "Share of the eigenvalues of the Hessian at the end, by stochastic Lanczos \
                       quadrature; each node is a Gaussian of a hundredth of the range.";
        let title = "Spectral density of the Hessian";
        (!chart.traces.is_empty()).then(|| Figure::chart("density", title, caption, chart))
    }

    /// Of the first replica that was compared.
    fn attribution(&self) -> Option<Figure> {
        let (name, key, series) = self.with(ReplicaSeries::Attribution).next()?;
        let has_part = |part: &str| series.column(part)?.iter().any(|x| *x != 0.0).then_some(());
        let mut traces: Vec<Trace> =
            self.trace("growth".to_owned(), &key, series, "growth").into_iter().collect();
        traces.extend(Parts::NAMES.iter().filter_map(|part| {
            has_part(part)?;
            self.trace(part.replace('_', " "), &key, series, part)
        }));
        let title = format!("Why {name} diverges from {}", self.names[0]);
        let caption = "Growth of their difference over single steps, in e-folds, and the parts it adds up to. Overshoot: \
                       curvature above the threshold of the optimizer, a numerical instability. Negative \
                       curvature: the flow's own. Kinks: what no linearization of the step sees, rounding included.";
        over_steps(["attribution", &title, caption], Axis::linear("e-folds a step"), traces, vec![])
    }

    fn parting(&self) -> Option<Figure> {
        let traces = self.with(ReplicaSeries::Curves).skip(1).filter_map(|(name, key, series)| {
            let label = format!("{name} beside {}", self.names[0]);
            Some(self.coloured(name, self.trace(label, &key, series, "rel_l1")?))
        });
        let text = ["rel-l1", "How replicas part", "RelL1 of all weights to the first replica."];
        over_steps(text, Axis::log("RelL1"), traces.collect(), vec![])
    }
}
