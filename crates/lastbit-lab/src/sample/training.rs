//! A record of trainings: many numbers, many curves, fitted lines, a heat map, strips.

use std::path::Path;

use lastbit::verdict::VerdictKind;

use super::{cell, figure, record};
use crate::figure::Strip;
use crate::figure::{
    Axis, Chart, Drawing, HeatMap, Level, Margins, Quantity, Segment, Strips, Trace,
};
use crate::number::Number;
use crate::record::{Record, Store};
use crate::series::Series;

const FACTORS: [u32; 6] = [1, 3, 5, 7, 9, 11];
/// More cells than a screen has room for rows.
const OTHERS: usize = 42;

fn accuracy_of(k: u32) -> String {
    format!("test_accuracy-k{k}")
}

/// Six seeds with six replicas each, whose distances grow from the last bit until they saturate.
pub fn training(out: &Path) -> (Store, Record) {
    let store = Store::create(out, &record("tab-training", "", vec![])).unwrap();
    let mut cells = Vec::new();
    for seed in 0..6_u32 {
        let key = format!("seed{seed}");
        let mut made = cell(&key, VerdictKind::Restrained);
        made.verdict = None;
        for k in FACTORS {
            let phase = f64::from(7 * seed + 3 * k);
            let accuracy = ((0.4512 + 0.004 * phase.sin()) * 1e4).round() / 1e4;
            made.numbers.insert(accuracy_of(k), Number(accuracy));
            made.numbers.insert(format!("train_loss-k{k}"), Number(1.5 + 0.01 * phase.cos()));
            made.numbers.insert(format!("rel_l1-k{k}"), Number(0.31 + 1e-3 * phase));
        }
        let steps: Vec<f64> = (0..=400).map(f64::from).collect();
        let rate = 1.0 / (10.0 + 2.0 * f64::from(seed));
        let grown = |step: f64| 3e-9 * (rate * step).exp();
        for name in ["conv", "all"] {
            let scale = if name == "conv" { 1.0 } else { 0.2 };
            let distance = steps.iter().map(|step| match *step as u32 {
                // The first steps are equal, and a measurement is missing here and there.
                0 => 0.0,
                120..=130 if seed == 2 => f64::NAN,
                _ => scale * 1.9 * grown(*step) / (1.9 + grown(*step)),
            });
            let series = Series::new([("step", steps.clone()), ("rel_l1", distance.collect())]);
            store.save_series(&mut made, name, &series).unwrap();
        }
        let fit = [
            ("fit_x0", 5.0),
            ("fit_y0", grown(5.0)),
            ("fit_x1", 200.0),
            ("fit_y1", grown(200.0).min(1.9)),
        ];
        for (name, value) in fit {
            made.numbers.insert(name.into(), Number(value));
        }
        cells.push(made);
    }
    for other in 0..OTHERS {
        let mut made = cell(
            &format!("learning-rate-{:.4}-momentum-0.9", 0.1 / 1.1_f64.powi(other as i32)),
            VerdictKind::Stable,
        );
        made.numbers.insert(accuracy_of(1), Number(0.44));
        cells.push(made);
    }
    let figures = vec![
        figure("accuracies", Drawing::HeatMap(accuracies(6))),
        figure("spreads", Drawing::Strips(spreads(true))),
        figure("as-they-are", Drawing::Strips(spreads(false))),
        figure("distances", Drawing::Chart(distances(Axis::linear("step")))),
        figure("distances-log", Drawing::Chart(distances(Axis::log("step")))),
    ];
    let made = record("tab-training", "Trainings that differ in the last bit", cells);
    let record = Record { figures, ..made };
    store.save(&record).unwrap();
    (store, record)
}

/// Accuracies of the first `seeds` cells.
pub fn accuracies(seeds: usize) -> HeatMap {
    let row = |seed: usize| {
        let entry = |k: u32| (format!("seed{seed}").as_str(), accuracy_of(k).as_str()).into();
        FACTORS.map(entry).to_vec()
    };
    HeatMap {
        label: "test accuracy, %".into(),
        row_heading: "batches".into(),
        column_heading: "factor k of the last-bit perturbation".into(),
        rows: (0..seeds).map(|seed| format!("seed {seed}")).collect(),
        columns: FACTORS.map(|k| format!("k = {k}")).to_vec(),
        entries: (0..seeds).map(row).collect(),
        factor: 100.0,
        decimals: 2,
        margins: Some(Margins {
            of_rows: "STD over k".into(),
            of_columns: "STD over seeds".into(),
        }),
    }
}

fn spreads(centred: bool) -> Strips {
    let measured = |cells: &[usize], factors: &[u32]| -> Vec<Quantity> {
        let of =
            |seed: usize, k: u32| (format!("seed{seed}").as_str(), accuracy_of(k).as_str()).into();
        cells.iter().flat_map(|seed| factors.iter().map(move |k| of(*seed, *k))).collect()
    };
    let paper = [0.9322, 0.9347, 0.9331, 0.9331, 0.9308, 0.9341].map(Quantity::from).to_vec();
    let strip = |label: &str, values, interval| Strip { label: label.into(), values, interval };
    let all = [0, 1, 2, 3, 4, 5];
    Strips {
        label: if centred {
            "test accuracy minus its mean, percentage points".into()
        } else {
            "test accuracy, %".into()
        },
        factor: 100.0,
        centred,
        rows: vec![
            strip("ours, over k (seed 0)", measured(&[0], &FACTORS), None),
            strip("ours, over seeds (k = 1)", measured(&all, &[1]), None),
            strip("ours, all trainings of all seeds", measured(&all, &FACTORS), None),
            strip("the paper's, over k", paper, None),
            strip("the paper's, 95 % interval alone", vec![], Some([0.9305.into(), 0.9355.into()])),
        ],
    }
}

fn distances(x: Axis) -> Chart {
    let seeds = ["seed0", "seed1", "seed2", "seed3", "seed4", "seed5"];
    let traces = ["conv", "all"].into_iter().flat_map(|series| {
        seeds.map(|seed| Trace::new(&format!("{seed}, {series}"), seed, series, "step", "rel_l1"))
    });
    let fit = |seed: &str| Segment {
        label: format!("fit of {seed}: × e per {} steps", if seed == "seed0" { 10 } else { 16 }),
        trace: format!("{seed}, conv"),
        from: [(seed, "fit_x0").into(), (seed, "fit_y0").into()],
        to: [(seed, "fit_x1").into(), (seed, "fit_y1").into()],
    };
    Chart {
        levels: vec![
            Level { label: "largest possible".into(), y: 2.0 },
            Level { label: "unit roundoff".into(), y: 2.0_f64.powi(-24) },
        ],
        lines: vec![fit("seed0"), fit("seed3")],
        ..Chart::new(x, Axis::log("RelL1"), traces.collect())
    }
}
