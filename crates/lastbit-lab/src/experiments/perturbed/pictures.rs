//! Figures of a table of accuracies: its numbers, their spread beside the paper's, and how the replicas
//! diverged.

use lastbit::statistics::components;
use lastbit::statistics::sample::deviation;

use super::factors;
use super::grid::{Grid, summary};
use super::paper::Printed;
use crate::figure::{
    Axis, Chart, Drawing, Figure, HeatMap, Margins, Quantity, Segment, Strip, Strips, Trace,
};
use crate::number::Number;
use crate::record::{Record, Scale};
use crate::train::{ReplicaNumber, ReplicaSeries};

impl Grid {
    /// The figures of a table, or of the seeds of it that are there.
    pub fn figures(&self, record: &Record) -> Vec<Figure> {
        if self.seeds_in(record).is_empty() {
            return Vec::new();
        }
        let scale = record.exhibit_scale();
        vec![
            self.heat_map(record, scale),
            self.spreads(record, scale),
            self.divergence(record, scale),
        ]
    }

    fn accuracy(&self, seed: u64, k: &str) -> Quantity {
        (self.key(seed).as_str(), ReplicaNumber::TestAccuracy.of(k).as_str()).into()
    }

    fn figure(&self, id: &str, title: &str, caption: &str, drawing: Drawing) -> Figure {
        Figure::new(&format!("{}{id}", self.prefix), title, caption, drawing)
    }

    fn heat_map(&self, record: &Record, scale: Scale) -> Figure {
        let seeds = self.seeds_in(record);
        let entries = |k: &String| seeds.iter().map(|seed| self.accuracy(*seed, k)).collect();
        let map = HeatMap {
            label: "test accuracy, percent".to_owned(),
            row_heading: "factor k".to_owned(),
            column_heading: "batch seed".to_owned(),
            rows: factors(scale).iter().map(|k| k.replace('k', "k = ")).collect(),
            columns: seeds.iter().map(u64::to_string).collect(),
            entries: factors(scale).iter().map(entries).collect(),
            factor: 100.0,
            decimals: 2,
            margins: Some(Margins {
                of_rows: "SD over seeds".to_owned(),
                of_columns: "SD over k".to_owned(),
            }),
        };
        let title = format!("Test accuracy, {}", self.title);
        self.figure("accuracy", &title, &self.in_words(record), Drawing::HeatMap(map))
    }

    fn in_words(&self, record: &Record) -> String {
        let rows = self.accuracies(record);
        let (found, paper) = (summary(&rows), self.paper.summary());
        let by_seed = self.by_seed(record);
        let share = components::Grid::of(&by_seed).map_or(f64::NAN, |grid| grid.rounding_share());
        let points = |value: f64| Number((1000.0 * value).round() / 1000.0);
        if let [seed] = by_seed.as_slice() {
            return format!(
                "One batch seed: mean {} percent; standard deviation over k (rounding) {} points. The \
                 paper has {} percent, and {} points on average over its seeds.",
                points(found.mean),
                points(deviation(seed)),
                points(paper.mean),
                points(paper.std_over_k),
            );
        }
        format!(
            "Mean {} percent. Mean standard deviation over k (rounding): {} points; over batch \
             seeds: {} points; in the paper {} and {}. Rounding accounts for {} percent of the \
             variance of a single run (two-way analysis of variance).",
            points(found.mean),
            points(found.std_over_k),
            points(found.std_over_seeds),
            points(paper.std_over_k),
            points(paper.std_over_seeds),
            Number((100.0 * share).round()),
        )
    }

    fn spreads(&self, record: &Record, scale: Scale) -> Figure {
        let (ks, seeds) = (factors(scale), self.seeds_in(record));
        let of_seed = |seed: &u64| {
            let values = ks.iter().map(|k| self.accuracy(*seed, k)).collect();
            Strip::new(format!("over k, seed {seed}"), values)
        };
        let mut rows: Vec<Strip> = seeds.iter().map(of_seed).collect();
        let values = seeds.iter().map(|seed| self.accuracy(*seed, "k1")).collect();
        rows.push(Strip::new("over seeds, k = 1", values));
        match self.paper {
            Printed::Table(table) => {
                let stated = |label: &str, values: Vec<f64>| {
                    let share = |percent: f64| Quantity::from(percent / 100.0);
                    Strip::new(label, values.into_iter().map(share).collect())
                };
                let first_seed = table.iter().map(|row| row[0]).collect();
                rows.push(stated("paper, over k, seed 1", first_seed));
                rows.push(stated("paper, over seeds, k = 1", table[0].to_vec()));
            }
            Printed::Summary(_) => {
                let paper = self.paper.summary();
                for (label, std) in [
                    ("paper, over k: SD", paper.std_over_k),
                    ("paper, over seeds: SD", paper.std_over_seeds),
                ] {
                    let ends =
                        [-1.0, 1.0].map(|sign| Quantity::from((paper.mean + sign * std) / 100.0));
                    let label = label.to_owned();
                    rows.push(Strip { label, values: vec![], interval: Some(ends) });
                }
            }
        }
        let strips = Strips {
            label: "test accuracy minus row mean, points".to_owned(),
            factor: 100.0,
            centred: true,
            rows,
        };
        let title = format!("Spread of the test accuracies, {}", self.title);
        let caption = "One dot per network. If the rows are equally wide, rounding and batches matter \
                       equally.";
        self.figure("spread", &title, caption, Drawing::Strips(strips))
    }

    fn divergence(&self, record: &Record, scale: Scale) -> Figure {
        let key = self.key(self.seeds_in(record)[0]);
        let ks = factors(scale);
        let name = |k: &String| format!("{k} against k1");
        let trace =
            |k: &String| Trace::new(&name(k), &key, &ReplicaSeries::Curves.of(k), "step", "rel_l1");
        // The growth takes a few steps of many.
        let traces = ks[1..].iter().map(trace).collect();
        let mut chart = Chart::new(Axis::log("step"), Axis::log("RelL1"), traces);
        let fitted = |k: &&String| record.number(&key, &ReplicaNumber::FitTo.of(k)).is_finite();
        let line = |k: &String| growth_line(record, &key, k, &name(k));
        chart.lines = ks[1..].iter().filter(fitted).map(line).collect();
        let title = format!("Divergence of the replicas of the first seed, {}", self.title);
        let caption = "RelL1 to the replica with k = 1: a difference of one ulp grows to the size of \
                       the weights. Dashed: exponential fit below 0.01.";
        self.figure("rel-l1", &title, caption, Drawing::Chart(chart))
    }
}

/// The line fitted to the growth of a replica's distance.
pub fn growth_line(record: &Record, cell: &str, replica: &str, trace: &str) -> Segment {
    let quantity = |what: ReplicaNumber| (cell, what.of(replica).as_str()).into();
    let rate = record.number(cell, &ReplicaNumber::GrowthPerStep.of(replica));
    Segment {
        label: format!("{replica}: x e in {} steps", Number((10.0 / rate).round() / 10.0)),
        trace: trace.to_owned(),
        from: [quantity(ReplicaNumber::FitFromStep), quantity(ReplicaNumber::FitFrom)],
        to: [quantity(ReplicaNumber::FitToStep), quantity(ReplicaNumber::FitTo)],
    }
}
