//! # Why do replicas diverge?
//!
//! ## Claim
//! The paper explains the growth of rounding errors by steps beyond the stability (CFL) limit. That
//! is one of three causes. *Overshoot*: a step is too long for a sharp direction, and the difference
//! changes its sign and grows; a smaller learning rate cures it. *Negative curvature*: the loss of
//! the batch curves downwards, and gradient descent with any learning rate drives the copies apart.
//! *Kinks*: the copies see different slopes, of a ReLU or of a strongly curved loss, which no
//! linearization describes. At the paper's learning rate less than half of what amplifies is
//! overshoot, and after the first steps hardly any of it.
//!
//! ## Method
//! One bit of one weight is flipped, at the start of training, later, and after the learning rate
//! has fallen. Over the steps that follow, the growth of the difference from the run without the
//! flip is split by cause: `d` is the difference before a step, `H` the Hessian of the batch's loss,
//! and the eigenvalues of `H` at which `d` has a part say which of its parts the step amplifies, and
//! by which sign. The split is exact for the momentum of the optimizer too. *Transient* is growth of
//! modes that are stable: momentum turns into distance. The parts, in e-folds per step, add up to the
//! growth.
//!
//! The second answer is independent of the first. The same span of training time is run with a half
//! and with a quarter of the learning rate. Growth per unit of training time that stays belongs to
//! the loss; growth that vanishes belongs to the step. This test sees what the first cannot:
//! curvature that is negative on some batches and positive on others averages out when steps are
//! small, and adds up to growth when they are large.
//!
//! Differences of a few roundings cannot be followed. In double precision they are enlarged to 1e-8
//! of the weights for the measurement; the linear parts do not depend on this, but the part of kinks
//! does, and is that of the enlarged difference.
//!
//! ## Reference
//! Not in the paper, whose Sections 4 and 6 it tests. The measures are those of Golub and Meurant
//! (spectral measure of a vector) and Benettin (growth rates).
//!
//! ## Differences
//! - desk: ResNet-8 on the 1200 embedded images of CIFAR-10, batches of 8, learning rate 0.1, then
//!   0.01 from step 900 on; bits are flipped before steps 0, 600 and 1050, and 40 steps attributed.
//! - smoke: 3 steps after the first flip, batches of 8, two networks. Too short for the claim.
//! - paper: ResNet-56 on CIFAR-10, batches of 128. The learning rate falls after 5 epochs instead of
//!   40; bits are flipped before steps 0, 1564 and 2346, and of the 40 steps that follow every second
//!   is attributed. In double precision only with the small weight decay; smaller learning rates only
//!   from the start.

use lastbit::attribution::Parts;

use super::Exhibit;
use super::perturbed::{settings, task, training_plan};
use crate::figure::{Axis, Chart, Drawing, Figure, HeatMap, Trace};
use crate::number::Number;
use crate::plan::{Plan, Task};
use crate::record::{Band, Check, Origin, Record, Scale};
use crate::train::{ReplicaNumber, ReplicaSeries, Training, part_of_growth, share_of_growth};

pub const EXHIBIT: Exhibit = Exhibit {
    id: ID,
    source: include_str!("ext_why.rs"),
    plan,
    not_tested_at_smoke: Some("three steps are too few to say what amplifies"),
    checks,
    figures,
    shows_parts: true,
    ..Exhibit::EMPTY
};

const ID: &str = "ext-why";

/// When the bit is flipped, in words and in keys.
const PHASES: [&str; 3] = ["early", "middle", "late"];
/// Parts in the columns of the tables: all but that of Adam.
const SHOWN: [&str; 5] = ["overshoot", "negative_curvature", "transient", "contraction", "kinks"];

/// The lengths of a scale.
struct Lengths {
    /// The steps before which a bit is flipped.
    flips: [usize; 3],
    /// Steps attributed after it, and from one to the next.
    attributed: usize,
    stride: usize,
    /// Hessian-vector products for each of them.
    nodes: usize,
}

fn lengths(scale: Scale) -> Lengths {
    match scale {
        Scale::Smoke => Lengths { flips: [0, 3, 6], attributed: 3, stride: 1, nodes: 4 },
        Scale::Desk => Lengths { flips: [0, 600, 1050], attributed: 40, stride: 1, nodes: 24 },
        Scale::Paper => Lengths { flips: [0, 1564, 2346], attributed: 20, stride: 2, nodes: 16 },
    }
}

/// A run, its flipped bit and the steps after it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Case {
    activation: &'static str,
    precision: &'static str,
    decay: &'static str,
    phase: usize,
    /// From the flip on, the learning rate is divided by this.
    divisor: usize,
}

impl Case {
    fn key(&self) -> String {
        let Self { activation, precision, decay, phase, divisor } = self;
        let divided = if *divisor == 1 { String::new() } else { format!("-rate-over-{divisor}") };
        format!("{activation}-{precision}-decay{decay}-{}{divided}", PHASES[*phase])
    }

    fn label(&self) -> String {
        let name = if self.activation == "relu" { "ReLU" } else { "Swish" };
        format!("{name}, {}, decay {}, {}", self.precision, self.decay, PHASES[self.phase])
    }

    fn replica(&self, scale: Scale) -> String {
        format!("flip-conv1.weight-0-at{}", lengths(scale).flips[self.phase])
    }

    /// The step size after the flip.
    fn rate(&self, scale: Scale) -> f64 {
        let fallen = scale != Scale::Smoke && self.phase == 2;
        (if fallen { 0.01 } else { 0.1 }) / self.divisor as f64
    }

    fn cell(&self, scale: Scale) -> Task {
        let Lengths { flips, attributed, stride, nodes } = lengths(scale);
        let (flip, divisor) = (flips[self.phase], self.divisor);
        // The flip is made in step `flip + 1`, so that the next is the first with a difference before it.
        let step = |i: usize| flip + 2 + divisor * stride * i;
        let steps: Vec<usize> = (0..attributed).map(step).collect();
        let last = steps[attributed - 1];
        let activation = match self.activation {
            "swish" => "network.activation={ swish = 1.0 }",
            _ => "network.activation=relu",
        };
        let mut changes = vec![
            activation.to_owned(),
            format!("training.precision={}", self.precision),
            format!("optimizer.alpha={}", self.decay),
            "replicas.k=[1]".to_owned(),
            format!(
                "replicas.flip-bit=[{{ tensor = \"conv1.weight\", index = 0, step = {flip} }}]"
            ),
            format!("training.steps={last}"),
            format!("training.metrics-every={}", if scale == Scale::Smoke { 1 } else { 10 }),
            format!("training.evaluate-every={last}"),
            format!("training.checkpoint-every={}", last.min(1000)),
            "training.fluctuation-batches=0".to_owned(),
            format!("attribution.steps={steps:?}"),
            format!("attribution.nodes={nodes}"),
        ];
        if scale == Scale::Smoke {
            changes.push("training.batch=8".to_owned());
        }
        if divisor > 1 && flip == 0 {
            changes.push(format!("optimizer.dt={}", self.rate(scale)));
        } else if divisor > 1 {
            changes.push(format!(
                "optimizer.schedule={{ kind = \"milestones\", gamma = {}, steps = [{flip}] }}",
                1.0 / divisor as f64
            ));
        } else if scale == Scale::Paper {
            let schedule = "optimizer.schedule={ kind = \"every\", gamma = 0.1, epochs = 5 }";
            changes.push(schedule.to_owned());
        }
        task(&self.key(), Training::new(settings(ID, scale, &changes)))
    }
}

/// The runs of the table of causes.
fn cases(scale: Scale) -> Vec<Case> {
    if scale == Scale::Smoke {
        let case = |(activation, precision): (&'static str, &'static str)| Case {
            activation,
            precision,
            decay: "5e-4",
            phase: 0,
            divisor: 1,
        };
        return [("relu", "f32"), ("swish", "f64")].map(case).into();
    }
    let mut cases = Vec::new();
    for activation in ["relu", "swish"] {
        for precision in ["f32", "f64"] {
            for decay in ["5e-4", "5e-3"] {
                if (scale, precision, decay) == (Scale::Paper, "f64", "5e-3") {
                    continue;
                }
                cases.extend((0..3).map(|phase| Case {
                    activation,
                    precision,
                    decay,
                    phase,
                    divisor: 1,
                }));
            }
        }
    }
    cases
}

/// Of the runs in double precision at the full learning rate, those with a smaller one.
fn refined(scale: Scale) -> Vec<Case> {
    let divisors: &[usize] = if scale == Scale::Smoke { &[2] } else { &[2, 4] };
    let last_phase = if scale == Scale::Paper { 0 } else { 1 };
    let is_refined =
        |case: &Case| (case.precision, case.decay) == ("f64", "5e-4") && case.phase <= last_phase;
    let all = cases(scale).into_iter().filter(is_refined);
    all.flat_map(|case| divisors.iter().map(move |divisor| Case { divisor: *divisor, ..case }))
        .collect()
}

fn growth(record: &Record, case: &Case) -> f64 {
    let replica = case.replica(record.exhibit_scale());
    record.number(&case.key(), &ReplicaNumber::AttributedGrowth.of(&replica))
}

fn share(record: &Record, case: &Case, part: &str) -> f64 {
    record.number(&case.key(), &share_of_growth(part, &case.replica(record.exhibit_scale())))
}

fn plan(scale: Scale) -> Plan {
    let all = cases(scale).into_iter().chain(refined(scale));
    training_plan(ID, scale, all.map(|case| case.cell(scale)).collect())
}

fn checks(record: &Record) -> Vec<Check> {
    let scale = record.exhibit_scale();
    let mut checks: Vec<Check> = Vec::new();
    for case in cases(scale) {
        let replica = case.replica(scale);
        let sum: f64 = Parts::NAMES
            .iter()
            .map(|part| record.number(&case.key(), &part_of_growth(part, &replica)))
            .sum();
        // A mean of 40 sums of six numbers that are known to 17 digits.
        let name = format!("sum of the parts of the growth, {}", case.label());
        let band = Band::Absolute(1e-12);
        checks.push(Check::number(&name, Origin::ClosedForm, growth(record, &case), sum, band));
    }
    for case in cases(scale).iter().filter(|case| case.phase < 2) {
        // "Hardly any" after the first steps: a twentieth.
        let most = if case.phase == 0 { 0.5 } else { 0.05 };
        let name = format!("share of overshoot, {}", case.label());
        let found = share(record, case, "overshoot");
        checks.push(Check::number(&name, Origin::Claim, most, found, Band::AtMost));
    }
    checks
}

fn figures(record: &Record) -> Vec<Figure> {
    let scale = record.exhibit_scale();
    let mut shown = cases(scale);
    shown.retain(|case| record.cell(&case.key()).is_some());
    if shown.is_empty() {
        return Vec::new();
    }
    let mut figures = vec![parts_table(&shown, scale), shares_table(&shown, scale)];
    figures.extend(refinement(record, scale));
    figures.extend(over_steps(&shown, scale));
    figures
}

fn table(shown: &[Case], label: &str, columns: Vec<String>) -> HeatMap {
    HeatMap {
        label: label.to_owned(),
        row_heading: "run".to_owned(),
        column_heading: "cause".to_owned(),
        rows: shown.iter().map(Case::label).collect(),
        columns,
        entries: Vec::new(),
        factor: 1.0,
        decimals: 3,
        margins: None,
    }
}

fn in_words(part: &str) -> String {
    part.replace('_', " ")
}

fn parts_table(shown: &[Case], scale: Scale) -> Figure {
    let mut columns = vec!["growth".to_owned()];
    columns.extend(SHOWN.map(in_words));
    let entries = |case: &Case| {
        let (key, replica) = (case.key(), case.replica(scale));
        let growth = ReplicaNumber::AttributedGrowth.of(&replica);
        let parts = SHOWN.map(|part| part_of_growth(part, &replica));
        [growth].iter().chain(&parts).map(|name| (key.as_str(), name.as_str()).into()).collect()
    };
    let map = HeatMap {
        entries: shown.iter().map(entries).collect(),
        ..table(shown, "e-folds per step", columns)
    };
    let caption = "Growth of the difference from the run without the flipped bit, mean over the steps \
                   after the flip, and what it is made of.";
    Figure::new("parts", "Growth by cause", caption, Drawing::HeatMap(map))
}

fn shares_table(shown: &[Case], scale: Scale) -> Figure {
    let amplifying = ["overshoot", "negative_curvature", "transient", "kinks"];
    let entries = |case: &Case| {
        let (key, replica) = (case.key(), case.replica(scale));
        let names = amplifying.map(|part| share_of_growth(part, &replica));
        names.iter().map(|name| (key.as_str(), name.as_str()).into()).collect()
    };
    let map = HeatMap {
        entries: shown.iter().map(entries).collect(),
        factor: 100.0,
        decimals: 0,
        ..table(shown, "percent of all that amplifies", amplifying.map(in_words).into())
    };
    let caption = "Contraction, which works against all of these, is left out. Overshoot is what the \
                   paper's explanation predicts.";
    Figure::new("shares", "Shares in what amplifies", caption, Drawing::HeatMap(map))
}

/// Growth per unit of training time at smaller learning rates; the table's caption says it per step.
fn refinement(record: &Record, scale: Scale) -> Option<Figure> {
    let mut rows: Vec<Case> =
        refined(scale).iter().map(|case| Case { divisor: 1, ..*case }).collect();
    rows.dedup();
    let divisors: &[usize] = if scale == Scale::Smoke { &[1, 2] } else { &[1, 2, 4] };
    let all =
        |row: &Case| divisors.iter().map(|divisor| Case { divisor: *divisor, ..*row }).collect();
    let all: Vec<Vec<Case>> = rows.iter().map(all).collect();
    let is_there = |case: &Case| record.cell(&case.key()).is_some();
    if !all.iter().flatten().all(is_there) {
        return None;
    }
    // Stated, not measured, as a number of the record: it is a quotient of one by the learning rate.
    let entries = |row: &Vec<Case>| {
        row.iter().map(|case| (growth(record, case) / case.rate(scale)).into()).collect()
    };
    let columns = divisors.iter().map(|n| format!("{}", Number(0.1 / *n as f64))).collect();
    let map = HeatMap {
        column_heading: "learning rate".to_owned(),
        entries: all.iter().map(entries).collect(),
        decimals: 2,
        ..table(&rows, "e-folds per unit of training time", columns)
    };
    let caption = "Over the same training time; mean over the steps attributed, of which a smaller share \
                   is attributed at smaller learning rates. What stays when the learning rate falls is \
                   the loss's own; what vanishes is the step's.";
    Some(Figure::new("refinement", "Growth at smaller steps", caption, Drawing::HeatMap(map)))
}

/// The growth over the steps after the first flip, for each activation.
fn over_steps(shown: &[Case], scale: Scale) -> Vec<Figure> {
    let first = shown.iter().filter(|case| case.phase == 0 && case.decay == "5e-4");
    let figure = |case: &Case| {
        let series = ReplicaSeries::Attribution.of(&case.replica(scale));
        let trace = |name: &str| Trace::new(&in_words(name), &case.key(), &series, "step", name);
        let chart = Chart::new(
            Axis::linear("step"),
            Axis::linear("e-folds per step"),
            SHOWN.map(trace).into(),
        );
        let title = format!("Growth by cause after the first flip: {}", case.label());
        let caption = "The parts add up to the growth of the difference in that step.";
        Figure::chart(
            &format!("steps-{}-{}", case.activation, case.precision),
            &title,
            caption,
            chart,
        )
    };
    first.map(figure).collect()
}
