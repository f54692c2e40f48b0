//! A judged run of any [`Pde`]: verdict, hash, measured curves, the last-bit twin, closed forms, and the
//! state at some steps.

use lastbit::Watcher;
use lastbit::pde::{Mesh, Pde};

use super::{Snapshot, Twins, run_judged};
use crate::error::Error;
use crate::progress::Progress;
use crate::record::Outcome;
use crate::series::{Field, Series};

/// Name of the column or field that holds the state at a step.
pub fn snapshot_name(step: usize) -> String {
    format!("step-{step}")
}

/// Runs `pde` for `steps`, shows it to `extra`, and keeps the state at the steps `snapshots` under the
/// names that `name` gives them: columns of the series `profiles` on a line, fields in the plane.
///
/// The snapshots are returned too, with that of a divergence.
pub fn run_pde<P: Pde>(
    pde: P,
    steps: usize,
    snapshots: &[usize],
    name: impl Fn(usize) -> String,
    extra: &mut dyn Watcher<P>,
    progress: &Progress,
) -> Result<(Outcome, Vec<Snapshot>), Error> {
    let (mesh, closed_forms) = (pde.mesh(), pde.closed_forms());
    let names: Vec<&str> = pde.measures().into_iter().map(|(name, _)| name).collect();
    let measure = |run: &P| run.measures().into_iter().map(|(_, value)| value).collect();
    let (mut outcome, mut kept) =
        run_judged(pde, steps, snapshots, (&names, &measure), Twins::LastBit, extra, progress)?;
    for (name, value) in closed_forms {
        outcome.number(name, value);
    }
    // Older time levels follow the newest.
    kept.iter_mut().for_each(|snapshot| snapshot.state.truncate(mesh.points()));
    match mesh {
        Mesh::Line { points, dx } => {
            let mut profiles = Series::new([("x", (0..points).map(|i| i as f64 * dx).collect())]);
            let column = |snapshot: &Snapshot| (name(snapshot.step), snapshot.state.clone());
            profiles.columns.extend(kept.iter().map(column));
            outcome.series.insert("profiles".to_owned(), profiles);
        }
        Mesh::Plane { height, width } => {
            for Snapshot { step, state } in &kept {
                outcome.field(name(*step), Field { height, width, values: state.clone() });
            }
        }
    }
    Ok((outcome, kept))
}
