//! Arrays and tables of numbers. What is read is kept to the bit.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use lastbit::data::{Dataset, Inputs, Targets};
use lastbit_formats::npy::{self, Values};
use lastbit_formats::{Malformed, csv, listed, shape_text};

use crate::data::Columns;
use crate::data::convert::labels;
use crate::error::Error;
use crate::input::{read, read_table};

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
    all_finite(targets_path, &values, width)?;
    let targets = answers(values, width, classes).map_err(|e| Error::input(targets_path, e))?;
    let inputs = match inputs.values {
        Values::Bytes(bytes) => Inputs::Bytes(bytes),
        Values::Reals(values) => {
            all_finite(path, &values, shape.iter().product())?;
            Inputs::Reals(values)
        }
    };
    Ok(Dataset { shape, inputs, targets })
}

/// A table of which some columns are targets and the others inputs, with their names.
pub fn csv(
    path: &Path,
    target: &[String],
    classes: Option<usize>,
) -> Result<(Dataset, Columns), Error> {
    let table = table(path)?;
    let names: Vec<&str> = table.columns.iter().map(|(name, _)| name.as_str()).collect();
    let places: HashMap<&str, usize> = names.iter().enumerate().map(|(j, n)| (*n, j)).collect();
    let column = |name: &String| {
        places.get(name.as_str()).copied().ok_or_else(|| {
            let expected = format!("a column of {}: {}", path.display(), listed(&names));
            Error::setting("--target", format!("\"{name}\""), expected)
        })
    };
    let wanted: Vec<usize> = target.iter().map(column).collect::<Result<_, _>>()?;
    let targets: HashSet<usize> = wanted.iter().copied().collect();
    let others: Vec<usize> = (0..names.len()).filter(|j| !targets.contains(j)).collect();
    let found = match (wanted.len(), others.len(), classes) {
        (0, _, _) => Some("no column"),
        (_, 0, _) => Some("all columns"),
        (2.., _, Some(_)) => Some("several columns for one label"),
        _ => None,
    };
    if let Some(found) = found {
        let expected = format!("some, but not all, of the columns {}", listed(&names));
        return Err(Error::setting("--target", found, expected));
    }
    let rows = table.lines.len();
    let by_row = |columns: &[usize]| -> Vec<f64> {
        (0..rows)
            .flat_map(|row| columns.iter().map(move |j| (row, *j)))
            .map(|(row, j)| table.columns[j].1[row])
            .collect()
    };
    let targets = answers(by_row(&wanted), wanted.len(), classes)
        .map_err(|error| Error::input(path, error))?;
    let inputs = Inputs::Reals(by_row(&others));
    let names_of = |columns: &[usize]| columns.iter().map(|j| names[*j].to_owned()).collect();
    let columns = Columns { inputs: names_of(&others), targets: names_of(&wanted) };
    Ok((Dataset { shape: [1, 1, others.len()], inputs, targets }, columns))
}

/// A table with a name for each column and finite numbers alone.
fn table(path: &Path) -> Result<csv::Table, Error> {
    let table = csv::table(&read_table(path)?).map_err(|Malformed { found, expected }| {
        let expected = format!("{expected}; classes are whole numbers from 0");
        Error::input(path, Malformed::new(found, expected))
    })?;
    let refuse =
        |found: String, expected: &str| Error::input(path, Malformed::new(found, expected));
    let mut names = HashSet::new();
    if let Some((name, _)) = table.columns.iter().find(|(name, _)| !names.insert(name)) {
        let found = format!("two columns of the name \"{name}\"");
        return Err(refuse(found, "a name of its own for each column"));
    }
    for row in 0..table.lines.len() {
        for (j, (_, values)) in table.columns.iter().enumerate() {
            if !values[row].is_finite() {
                let found = format!("{} in {}", values[row], table.place(row, j));
                return Err(refuse(found, FINITE));
            }
        }
    }
    Ok(table)
}

const FINITE: &str = "finite numbers only";

/// Refuses an array of rows of `width` numbers if one of them is not finite.
fn all_finite(path: &Path, values: &[f64], width: usize) -> Result<(), Error> {
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(at) => {
            let found = format!("{} in row {} (counted from 0)", values[at], at / width);
            Err(Error::input(path, Malformed::new(found, FINITE)))
        }
    }
}

fn answers(values: Vec<f64>, width: usize, classes: Option<usize>) -> Result<Targets, Malformed> {
    match classes {
        Some(count) => Ok(Targets::Classes { count, labels: labels(&values, count)? }),
        None => Ok(Targets::Reals { width, values }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many that comparing each name with each other one would not come to an end.
    const COLUMNS: usize = 400_000;

    #[test]
    fn a_table_of_many_columns_takes_linear_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wide.csv");
        let header: Vec<String> = (0..COLUMNS).map(|j| format!("c{j}")).collect();
        let row = "1.5,".repeat(COLUMNS - 1) + "2\n";
        std::fs::write(&path, format!("{}\n{row}", header.join(","))).unwrap();
        let last = header[COLUMNS - 1].clone();
        let (set, columns) = csv(&path, std::slice::from_ref(&last), None).unwrap();
        assert_eq!((set.len(), set.shape), (1, [1, 1, COLUMNS - 1]));
        assert_eq!(columns.targets, [last]);
        // A message does not name all of them.
        let message = csv(&path, &["c".to_owned()], None).unwrap_err().to_string();
        assert!(message.ends_with("c18, c19 and 399980 more"), "{message}");
        std::fs::write(&path, format!("{},c7\n{row}", header[1..].join(","))).unwrap();
        let message = csv(&path, &["c1".to_owned()], None).unwrap_err().to_string();
        assert!(message.contains("two columns of the name \"c7\""), "{message}");
    }
}
