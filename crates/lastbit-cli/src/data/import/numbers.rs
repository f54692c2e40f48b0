//! Arrays and tables of numbers. What is read is kept to the bit.

use std::path::Path;

use lastbit::data::{Dataset, Inputs, Targets};
use lastbit_formats::npy::{self, Values};
use lastbit_formats::{Malformed, csv, shape_text};

use crate::data::convert::labels;
use crate::error::Error;
use crate::input::read;

/// An array of inputs with an array of targets.
pub fn npy(path: &Path, targets: Option<&Path>, classes: Option<usize>) -> Result<Dataset, Error> {
    let Some(targets_path) = targets else {
        let expected =
            "the targets of the inputs, as --targets FILE.npy and --test-targets FILE.npy";
        return Err(Error::setting("--targets", "nothing", expected));
    };
    let inputs = npy::parse(&read(path)?).map_err(|error| Error::input(path, error))?;
    let (examples, shape) = match inputs.shape[..] {
        [n] => (n, [1, 1, 1]),
        [n, width] => (n, [1, 1, width]),
        [n, height, width] => (n, [height, width, 1]),
        [n, height, width, channels] => (n, [height, width, channels]),
        _ => {
            let found = format!("an array of shape {}", shape_text(&inputs.shape));
            return Err(Error::input(path, Malformed::new(found, "one to four sizes")));
        }
    };
    let array = npy::parse(&read(targets_path)?).map_err(|e| Error::input(targets_path, e))?;
    let refuse = |expected: String| {
        let found = format!("an array of shape {}", shape_text(&array.shape));
        Error::input(targets_path, Malformed::new(found, expected))
    };
    let width = match array.shape[..] {
        [n] if n == examples => 1,
        [n, width] if n == examples && width > 0 => width,
        _ => return Err(refuse(format!("a target for each of the {examples} inputs"))),
    };
    if classes.is_some() && width != 1 {
        return Err(refuse(format!("one label for each of the {examples} inputs")));
    }
    let values = array.values.clone().into_reals();
    let targets = answers(values, width, classes).map_err(|e| Error::input(targets_path, e))?;
    let inputs = match inputs.values {
        Values::Bytes(bytes) => Inputs::Bytes(bytes),
        Values::Reals(values) => Inputs::Reals(values),
    };
    Ok(Dataset { shape, inputs, targets })
}

/// A table of which some columns are targets and the others inputs.
pub fn csv(path: &Path, target: &[String], classes: Option<usize>) -> Result<Dataset, Error> {
    let table = csv::parse(&read(path)?).map_err(|error| Error::input(path, error))?;
    let names: Vec<&str> = table.iter().map(|(name, _)| name.as_str()).collect();
    let column = |name: &String| {
        names.iter().position(|known| known == name).ok_or_else(|| {
            let expected = format!("a column of {}: {}", path.display(), names.join(", "));
            Error::setting("--target", format!("\"{name}\""), expected)
        })
    };
    let wanted: Vec<usize> = target.iter().map(column).collect::<Result<_, _>>()?;
    let others: Vec<usize> = (0..table.len()).filter(|j| !wanted.contains(j)).collect();
    let found = match (wanted.len(), others.len(), classes) {
        (0, _, _) => Some("no column"),
        (_, 0, _) => Some("all columns"),
        (2.., _, Some(_)) => Some("several columns for one label"),
        _ => None,
    };
    if let Some(found) = found {
        let expected = format!("some, but not all, of the columns {}", names.join(", "));
        return Err(Error::setting("--target", found, expected));
    }
    let rows = table[0].1.len();
    let by_row = |columns: &[usize]| -> Vec<f64> {
        (0..rows)
            .flat_map(|row| columns.iter().map(move |j| (row, *j)))
            .map(|(row, j)| table[j].1[row])
            .collect()
    };
    let targets = answers(by_row(&wanted), wanted.len(), classes)
        .map_err(|error| Error::input(path, error))?;
    let inputs = Inputs::Reals(by_row(&others));
    Ok(Dataset { shape: [1, 1, others.len()], inputs, targets })
}

fn answers(values: Vec<f64>, width: usize, classes: Option<usize>) -> Result<Targets, Malformed> {
    match classes {
        Some(count) => Ok(Targets::Classes { count, labels: labels(&values, count)? }),
        None => Ok(Targets::Reals { width, values }),
    }
}
