//! Tables of results: one run a line, with the columns `group`, `value` and, where runs of several
//! groups belong together, `seed`. The header names them, in any order; other columns are left
//! alone.

use crate::{Malformed, listed};

const COLUMNS: &str =
    "a header with the columns group, value and, for pairs, seed, separated by commas";

/// Numbers of larger size cannot be squared.
pub const LARGEST: f64 = 1e100;

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What was run.
    pub group: String,
    /// With which seed, if the table says so; any text.
    pub seed: Option<String>,
    /// What came out.
    pub value: f64,
}

/// Reads the runs in their order.
pub fn parse(bytes: &[u8]) -> Result<Vec<Run>, Malformed> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(bytes);
    let header = reader.headers().map_err(|error| Malformed::new(error, COLUMNS))?.clone();
    let column = |name: &str| header.iter().position(|own| own.eq_ignore_ascii_case(name));
    let required = |name: &str| {
        let names: Vec<&str> = header.iter().collect();
        let found = format!("no column \"{name}\" among \"{}\"", listed(&names));
        column(name).ok_or_else(|| Malformed::new(found, COLUMNS))
    };
    let (group, value, seed) = (required("group")?, required("value")?, column("seed"));
    let mut results = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| Malformed::new(error, "as many entries as columns"))?;
        let line = record.position().map_or(0, csv::Position::line);
        let entry = |column: usize, name: &str| match record.get(column) {
            Some(text) if text.contains(char::is_control) => {
                let found = format!("{text:?} in line {line}, column {name}");
                Err(Malformed::new(found, "text without control characters and line breaks"))
            }
            Some(text) if !text.is_empty() => Ok(text),
            _ => {
                let found = format!("nothing in line {line}, column {name}");
                Err(Malformed::new(found, "a value in every line"))
            }
        };
        let text = entry(value, "value")?;
        let number = text.parse().ok().filter(|number: &f64| number.abs() <= LARGEST);
        let Some(number) = number else {
            let found = format!("\"{text}\" in line {line}, column value");
            let expected = "a finite number such as 93.4 (of size up to 1e100), without unit or \
                            percent sign; leave out runs without a result";
            return Err(Malformed::new(found, expected));
        };
        results.push(Run {
            group: entry(group, "group")?.to_owned(),
            seed: seed.map(|seed| entry(seed, "seed").map(str::to_owned)).transpose()?,
            value: number,
        });
    }
    if results.is_empty() {
        return Err(Malformed::new("no runs", "a line for each run below the header"));
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name() {
        let table = b"value, note ,Seed,group\n93.1,x,0,old\n 93.4 ,\"a, b\",1, new \n";
        let run = |group: &str, seed: &str, value: f64| Run {
            group: group.to_owned(),
            seed: Some(seed.to_owned()),
            value,
        };
        assert_eq!(parse(table).unwrap(), [run("old", "0", 93.1), run("new", "1", 93.4)]);
        assert_eq!(parse(b"group,value\na,1\n").unwrap()[0].seed, None);
    }

    #[test]
    fn every_fault_names_its_place() {
        for (text, part) in [
            ("", "no column \"group\""),
            ("group,seed\na,1\n", "no column \"value\" among \"group, seed\""),
            ("group,value\n", "no runs"),
            ("group,value\na,1\nb,two\n", "\"two\" in line 3, column value"),
            ("group,value\na,NaN\n", "\"NaN\" in line 2, column value"),
            ("group,value\na,1e200\n", "\"1e200\" in line 2"),
            ("group,value\n,1\n", "nothing in line 2, column group"),
            ("group,seed,value\na,,1\n", "nothing in line 2, column seed"),
            ("group,value\na\n", "record with 1 field"),
            ("group,value\n\x1b[31ma,1\n", "\"\\u{1b}[31ma\" in line 2, column group"),
            ("group,value\n\"a\nb\",1\n", "\"a\\nb\" in line 2, column group"),
        ] {
            let message = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}
