//! Where an interrupted run resumes: at the last checkpoint that is whole, has the settings of the run, and whose metrics are
//! whole.
//!
//! ```text
//! no bit of the checkpoint has changed
//! its settings are those asked for       no key may differ; another fork of the run is made with --fork
//! the metrics up to it have its hash     and so have the other files that the last step wrote, at the last checkpoint
//! ```
//!
//! Where the last checkpoint or a file fails, the one before is tried, and the steps from there are made again: the same bytes.

use std::path::Path;

use super::checkpoint::{self, Opened, path_of};
use super::metrics::{ATTRIBUTION, Columns, Metrics, Row, WholeMetrics};
use super::prefix_hash::RunningHash;
use super::prepare::Prepared;
use super::run::last_files;
use super::settings::ConfigFile;
use super::summary::History;
use crate::error::Error;
use crate::progress::Monitor;

/// A checkpoint and the files that belong to it, whole.
pub struct Resumed {
    /// The checkpoint.
    pub opened: Opened,
    /// The metrics, cut where it was written.
    pub metrics: Metrics,
    /// What their rows say of each replica.
    pub histories: Vec<History>,
    /// What `attribution.csv` held, if there is one.
    pub attribution: Option<RunningHash>,
}

impl Resumed {
    /// The last one of a run. Files are changed only once it is found: later checkpoints are removed, later rows cut off.
    pub fn last(prepared: &Prepared, folder: &Path, monitor: &dyn Monitor) -> Result<Self, Error> {
        let mut damage = None;
        for step in checkpoint::steps_in(folder)?.into_iter().rev() {
            let path = path_of(folder, step);
            match Whole::read(prepared, folder, &path) {
                Ok(whole) => {
                    if let Some(damage) = damage {
                        let note = format!("{damage}; resuming from {}", path.display());
                        monitor.note(&note);
                        checkpoint::remove_after(folder, step)?;
                    }
                    return whole.reopen(prepared, folder);
                }
                Err(error @ Error::Input { .. }) => {
                    damage.get_or_insert(error);
                }
                Err(other) => return Err(other),
            }
        }
        Err(Error::NotResumable {
            message: damage.map_or_else(
                || {
                    let checkpoints = folder.join("checkpoints");
                    format!("{}: found no checkpoint, expected one", checkpoints.display())
                },
                |damage| damage.to_string(),
            ),
            advice:
                "no checkpoint is whole with all that belongs to it: put the files back, start \
                     again in another folder, or begin another run at a checkpoint with --fork"
                    .to_owned(),
        })
    }
}

/// The settings in the last whole checkpoint of a run, if there is one.
pub fn settings_in_checkpoints(folder: &Path) -> Result<Option<ConfigFile>, Error> {
    for step in checkpoint::steps_in(folder)?.into_iter().rev() {
        let path = path_of(folder, step);
        match Opened::read(&path) {
            Ok(opened) => return ConfigFile::parse(&opened.state.settings, &path, &[]).map(Some),
            Err(Error::Input { .. }) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(None)
}

/// What was checked and not changed yet.
struct Whole {
    opened: Opened,
    metrics: WholeMetrics,
    histories: Vec<History>,
    attribution: Option<RunningHash>,
}

impl Whole {
    fn read(prepared: &Prepared, folder: &Path, path: &Path) -> Result<Self, Error> {
        let opened = Opened::read(path)?;
        check_settings(prepared, &opened, path)?;
        let mut histories = vec![History::default(); prepared.variants.named.len()];
        let note = |row: Row| {
            histories[prepared.variants.position(&row.replica)?].add(row);
            Ok(())
        };
        let noted = &opened.state.files;
        let metrics = WholeMetrics::check(folder, noted, note)?;
        let attribution = noted.get(ATTRIBUTION);
        let attribution =
            attribution.map(|hash| hash.check_beginning(&folder.join(ATTRIBUTION))).transpose()?;
        for name in last_files(prepared) {
            noted.get(&*name).map_or(Ok(()), |hash| hash.check(&folder.join(&name)))?;
        }
        Ok(Self { opened, metrics, histories, attribution })
    }

    fn reopen(self, prepared: &Prepared, folder: &Path) -> Result<Resumed, Error> {
        let Self { opened, metrics, histories, attribution } = self;
        let metrics = metrics.reopen(folder, Columns::of(&prepared.found.settings))?;
        Ok(Resumed { opened, metrics, histories, attribution })
    }
}

/// A run is resumed with the settings and the data it began with; changed settings make a fork.
fn check_settings(prepared: &Prepared, opened: &Opened, path: &Path) -> Result<(), Error> {
    let began_with = ConfigFile::parse(&opened.state.settings, path, &[])?;
    if let Some((key, then, now)) = began_with.first_difference(&prepared.found) {
        let expected = format!("{then}, as in {}", path.display());
        return Err(Error::NotResumable {
            message: prepared.found.refuse(&key, now, expected).to_string(),
            advice: "put the value back; --fork with that checkpoint and another --out changes \
                     settings"
                .to_owned(),
        });
    }
    if opened.state.data != prepared.data_hash {
        let found = format!("contents with the hash {}", prepared.data_hash);
        let expected = format!("those the run began with, {}", opened.state.data);
        return Err(prepared.found.refuse("data.name", found, expected));
    }
    Ok(())
}
