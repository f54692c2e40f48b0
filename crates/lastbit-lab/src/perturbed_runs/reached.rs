//! Did the perturbation reach the program? Otherwise its runs are no envelope.
//!
//! The runs of a program that is bit-reproducible tell by their bits. Those of one that is not differ anyway; there the launcher tells,
//! by a file that it makes when it perturbs the first optimizer. Of another program it is not known, unless it makes that file, too.

use std::path::Path;

use super::differences;
use super::runs::Planned;
use crate::envelope::Reproducibility;
use crate::error::Error;
use crate::logged::LoggedRun;

/// Whether a perturbed run differs in any bit from one that is not.
pub fn by_bits(plain: &LoggedRun, perturbed: &[(String, LoggedRun)]) -> bool {
    perturbed.iter().any(|(_, run)| differences::first(plain, run).is_some())
}

/// Whether the launcher, or the program itself, said that it perturbed each of these runs.
pub fn by_markers(perturbed: &[Planned], out: &Path) -> Result<bool, Error> {
    for run in perturbed {
        if !run.finished(out)?.is_some_and(|finished| finished.perturbed) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What a reader of the envelope should know.
pub fn note(reached: Option<bool>, reproducibility: &Reproducibility) -> Option<String> {
    let note = match (reached, reproducibility) {
        (Some(true), _) => return None,
        (_, Reproducibility::BitIdentical) => {
            "no perturbed run differs from those without a perturbation in any bit: the perturbation probably did not reach the \
             program"
        }
        (Some(false), Reproducibility::Differs { .. }) => {
            "the launcher perturbed no optimizer of PyTorch in some run: the runs may differ only by what is not reproducible in the \
             program"
        }
        (None, Reproducibility::Differs { .. }) => {
            "it is not known whether the perturbation reached the program, whose runs differ without one, too"
        }
    };
    Some(note.to_owned())
}
