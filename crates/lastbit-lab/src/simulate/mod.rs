//! Judged runs of the PDEs: from settings to an [`Outcome`], for exhibits
//! and for runs of one's own alike.

pub mod beltrami;
pub mod heat;
pub mod kernel;
pub mod layer;
pub mod pde;

use std::convert::Infallible;
use std::ops::ControlFlow;

use lastbit::curve::Curve;
use lastbit::divergence::LastBitTwin;
use lastbit::growth::Growth;
use lastbit::verdict::{Horizon, Verdict, judge};
use lastbit::{Dynamics, Real, Watcher, hash_of_bits};

use crate::error::Error;
use crate::progress::{Progress, StopReason};
use crate::record::{Outcome, VerdictRecord};
use crate::series::Series;

lastbit::named_enum! {
    /// Precision of the state.
    pub enum Precision, default F32 {
        /// 24 significant bits.
        F32 = "f32",
        /// 53 significant bits.
        F64 = "f64",
    }
}

/// Distance, relative to the state, above which a last-bit twin counts as saturated.
pub const SATURATED: f64 = 1e-2;

/// RelL1 of the last-bit twin at the end: a number.
pub const TWIN_REL_L1: &str = "twin_rel_l1";

/// Its largest distance in ulps: a number.
pub const TWIN_MAX_ULPS: &str = "twin_max_ulps";

/// Names of the quantities measured along a run, and how to measure them all.
type Measures<'a, D> = (&'a [&'a str], &'a dyn Fn(&D) -> Vec<f64>);

/// Which twin goes beside a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twins {
    /// One kept a last bit away.
    LastBit,
    /// One that the caller watches.
    Own,
}

/// A state at one step.
pub struct Snapshot {
    /// Step.
    pub step: usize,
    /// State, exact in `f64`.
    pub state: Vec<f64>,
}

impl Snapshot {
    fn of<D: Dynamics>(step: usize, run: &D) -> Self {
        Self { step, state: run.state().iter().map(|x| x.to_f64()).collect() }
    }
}

/// Runs, judges and measures: the verdict, the hash, the curves that are measured, a twin that
/// differs by one last bit, and the state at the steps `snapshots` (those it reached) and at the step
/// of a divergence.
///
/// Curves and snapshots end at `steps`, also where the judge looks further.
fn run_judged<D: Dynamics<Error = Infallible>>(
    mut run: D,
    steps: usize,
    snapshots: &[usize],
    (names, measure): Measures<D>,
    twins: Twins,
    extra: &mut dyn Watcher<D>,
    progress: &Progress,
) -> Result<(Outcome, Vec<Snapshot>), Error> {
    let mut rows: Curve<Vec<f64>> = Curve::default();
    let mut kept: Vec<Snapshot> = Vec::new();
    let mut note = |step: usize, run: &D| {
        if step <= steps {
            rows.push_with(step, || measure(run));
        }
        if snapshots.contains(&step) {
            kept.push(Snapshot::of(step, run));
        }
    };
    let mut twin = UpTo { step: steps, watcher: LastBitTwin::new(&run) };
    let mut without = |_: usize, _: &D| ();
    let twin_or_none: &mut dyn Watcher<D> = match twins {
        Twins::LastBit => &mut twin,
        Twins::Own => &mut without,
    };
    let mut tick = Tick::new(progress, steps);
    let horizon = Horizon::of(steps);
    let Ok(judged) = judge(&mut run, horizon, &mut [&mut note, twin_or_none, extra, &mut tick]);
    tick.finished()?;

    if let Verdict::Diverged { step } = judged.verdict
        && !snapshots.contains(&step)
    {
        kept.push(Snapshot::of(step, &run));
    }
    let mut outcome = Outcome {
        verdict: Some(VerdictRecord::from(&judged)),
        hash: Some(hash_of_bits(run.state())),
        ..Outcome::default()
    };
    let rows = rows.points();
    let steps_of_rows: Vec<f64> = rows.iter().map(|(step, _)| *step as f64).collect();
    let times = steps_of_rows.iter().map(|step| step * run.dt()).collect();
    let mut curves = Series::new([("step", steps_of_rows), ("t", times)]);
    for (j, name) in names.iter().enumerate() {
        let column = rows.iter().map(|(_, values)| values[j]).collect();
        curves.columns.push(((*name).to_owned(), column));
    }
    outcome.series.insert("curves".to_owned(), curves);
    if twins == Twins::LastBit {
        add_twin(&mut outcome, &twin.watcher);
    }
    Ok((outcome, kept))
}

/// Steps between two reports of progress.
const TICK: usize = 64;

/// Reports the progress of a judged run, and ends the run where its monitor asks to stop.
pub struct Tick<'a> {
    progress: &'a Progress<'a>,
    /// Steps that the progress knows of; a judge may look further.
    planned: usize,
    stopped: Option<StopReason>,
}

impl<'a> Tick<'a> {
    /// Of a run of so many steps.
    pub fn new(progress: &'a Progress, planned: usize) -> Self {
        Self { progress, planned, stopped: None }
    }

    fn is_stopped(&mut self) -> bool {
        self.stopped = self.stopped.or_else(|| self.progress.stop_requested());
        self.stopped.is_some()
    }

    /// Fails if it ended the run: nothing can be said of it then.
    pub fn finished(&self) -> Result<(), Error> {
        self.stopped.map_or(Ok(()), |reason| Err(reason.into()))
    }
}

impl<D: Dynamics> Watcher<D> for Tick<'_> {
    fn watch(&mut self, step: usize, _: &D) -> Result<ControlFlow<()>, D::Error> {
        if step > 0 && step.is_multiple_of(TICK) {
            if step > self.planned {
                self.progress.extend(TICK as u64);
            }
            self.progress.advance(TICK as u64);
        }
        Ok(if self.is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn gives_up(&mut self) -> bool {
        self.is_stopped()
    }
}

/// Shows a watcher only the first steps of a run.
pub struct UpTo<W> {
    /// The last step it sees.
    pub step: usize,
    /// The watcher.
    pub watcher: W,
}

impl<D: Dynamics, W: Watcher<D>> Watcher<D> for UpTo<W> {
    fn watch(&mut self, step: usize, run: &D) -> Result<ControlFlow<()>, D::Error> {
        if step <= self.step {
            self.watcher.watch(step, run)
        } else {
            Ok(ControlFlow::Continue(()))
        }
    }
}

/// The curve of the last-bit twin, its end and its growth while it grows.
pub fn add_twin<D: Dynamics>(outcome: &mut Outcome, twin: &LastBitTwin<D>) {
    let points = twin.points();
    let column = |of: &dyn Fn(usize) -> f64| (0..points.len()).map(of).collect::<Vec<f64>>();
    let series = Series::new([
        ("step", column(&|i| points[i].0 as f64)),
        ("distance", column(&|i| points[i].1.distance)),
        ("rel_l1", column(&|i| points[i].1.rel_l1)),
        ("max_ulps", column(&|i| points[i].1.max_ulps as f64)),
    ]);
    outcome.series.insert("twin".to_owned(), series);
    if let Some((_, last)) = points.last() {
        outcome.number(TWIN_REL_L1, last.rel_l1);
        outcome.number(TWIN_MAX_ULPS, last.max_ulps as f64);
        outcome.number("twin_distance", last.distance);
    }
    let distances: Vec<(usize, f64)> = points.iter().map(|(step, p)| (*step, p.distance)).collect();
    if let Some(growth) = Growth::of_plain_twin(&distances, SATURATED) {
        outcome.number("twin_growth_per_step", growth.per_step);
        outcome.number("twin_growth_standard_error", growth.standard_error);
    }
}

/// Rounds to the precision of the state.
pub fn rounded<F: Real>(values: &[f64]) -> Vec<F> {
    values.iter().map(|value| F::of(*value)).collect()
}
