//! Tables of numbers separated by commas.
//!
//! A first line of which no entry is a number names the columns. Numbers are read to the nearest
//! `f64`, so that shortest digits come back as the bits they were printed from.

use crate::Malformed;

const EXPECTED: &str = "a table of numbers separated by commas, with or without a header line";

/// A table by columns.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// The columns with their names.
    pub columns: Vec<(String, Vec<f64>)>,
    /// The line of the file that each row stands in, from 1.
    pub lines: Vec<u64>,
}

impl Table {
    /// Where an entry stands, in words.
    pub fn place(&self, row: usize, column: usize) -> String {
        place(self.lines[row], &self.columns[column].0)
    }
}

/// The line that a record stands in: its start is noted before the empty lines above it.
pub(crate) fn line_of(start: &csv::Position, bytes: &[u8]) -> u64 {
    let rest = bytes.get(start.byte() as usize..).unwrap_or_default();
    let ends = rest.iter().take_while(|byte| matches!(byte, b'\n' | b'\r'));
    start.line() + ends.filter(|byte| **byte == b'\n').count() as u64
}

fn place(line: u64, column: &str) -> String {
    // Columns without names are numbered: "column 2".
    let column = column.strip_prefix(UNNAMED).unwrap_or(column);
    format!("line {line}, {UNNAMED}{column}")
}

/// What the names of columns without a header begin with.
const UNNAMED: &str = "column ";

/// Reads the columns with their names.
pub fn parse(bytes: &[u8]) -> Result<Vec<(String, Vec<f64>)>, Malformed> {
    Ok(table(bytes)?.columns)
}

/// Reads the columns with their names, and where they stand in the file.
pub fn table(bytes: &[u8]) -> Result<Table, Malformed> {
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).trim(csv::Trim::All).from_reader(bytes);
    let mut table = Table::default();
    for (row, record) in reader.records().enumerate() {
        let record = record.map_err(|error| Malformed::new(error, EXPECTED))?;
        let line = record.position().map_or(0, |start| line_of(start, bytes));
        let numbers: Vec<Result<f64, _>> = record.iter().map(str::parse).collect();
        if row == 0 {
            let is_header = numbers.iter().all(Result::is_err);
            if let Some(name) = record.iter().find(|name| name.contains(char::is_control)) {
                let found = format!("{name:?} as the name of a column");
                return Err(Malformed::new(found, "names without control characters"));
            }
            let name = |j: usize| {
                if is_header { record[j].to_owned() } else { format!("{UNNAMED}{}", j + 1) }
            };
            table.columns = (0..record.len()).map(|j| (name(j), Vec::new())).collect();
            if is_header {
                continue;
            }
        }
        table.lines.push(line);
        for (j, number) in numbers.into_iter().enumerate() {
            let (name, values) = &mut table.columns[j];
            let value = number.map_err(|_| {
                Malformed::new(format!("\"{}\" in {}", &record[j], place(line, name)), EXPECTED)
            })?;
            values.push(value);
        }
    }
    if table.columns.is_empty() {
        return Err(Malformed::new("an empty file", EXPECTED));
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_and_without_header() {
        for text in ["u\n0.5\n-1e-3\n", "0.5\n-1e-3\n", " 0.5 \n -0.001\n"] {
            assert_eq!(parse(text.as_bytes()).unwrap()[0].1, [0.5, -1e-3], "{text:?}");
        }
        let table = parse(b"x,y\n1,2\n3,4\n").unwrap();
        assert_eq!(table, [("x".into(), vec![1.0, 3.0]), ("y".into(), vec![2.0, 4.0])]);
    }

    #[test]
    fn entries_know_where_they_stand() {
        for text in ["x,y\n1,2\n\n3,4\n", "x,y\r\n1,2\r\n\r\n3,4\r\n"] {
            let named = table(text.as_bytes()).unwrap();
            assert_eq!(named.lines, [2, 4], "{text:?}");
            assert_eq!(named.place(1, 1), "line 4, column y");
        }
        assert_eq!(table(b"1,2\n").unwrap().place(0, 1), "line 1, column 2");
    }

    #[test]
    fn digits_come_back_as_the_bits_they_were_printed_from() {
        let values = [0.1, 1.0 / 3.0, f64::MIN_POSITIVE, 5e-324, 1.7976931348623157e308, -0.0];
        let text: String = values.iter().map(|value| format!("{value:?}\n")).collect();
        let back = &parse(text.as_bytes()).unwrap()[0].1;
        assert!(values.iter().zip(back).all(|(a, b)| a.to_bits() == b.to_bits()));
    }

    #[test]
    fn every_fault_names_its_place() {
        for (text, part) in [
            ("1\ntwo\n", "\"two\" in line 2, column 1"),
            ("x,y\n1,2\n\n3,two\n", "\"two\" in line 4, column y"),
            ("1,2\n3\n", "found record with 1 field"),
            ("", "an empty file"),
            ("x,\"y\x1b[2J\"\n1,2\n", "\"y\\u{1b}[2J\" as the name of a column"),
        ] {
            let message = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
