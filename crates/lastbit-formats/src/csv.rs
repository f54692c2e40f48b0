//! Tables of numbers separated by commas.
//!
//! A first line of which no entry is a number names the columns. Numbers are read to the nearest
//! `f64`, so that shortest digits come back as the bits they were printed from.

use crate::Malformed;

const EXPECTED: &str = "a table of numbers separated by commas, with or without a header line";

/// Reads the columns with their names.
pub fn parse(bytes: &[u8]) -> Result<Vec<(String, Vec<f64>)>, Malformed> {
    let mut reader =
        csv::ReaderBuilder::new().has_headers(false).trim(csv::Trim::All).from_reader(bytes);
    let mut columns: Vec<(String, Vec<f64>)> = Vec::new();
    for (row, line) in reader.records().enumerate() {
        let line = line.map_err(|error| Malformed::new(error, EXPECTED))?;
        let numbers: Vec<Result<f64, _>> = line.iter().map(str::parse).collect();
        if row == 0 {
            let is_header = numbers.iter().all(Result::is_err);
            let name = |j: usize| {
                if is_header { line[j].to_owned() } else { format!("column {}", j + 1) }
            };
            columns = (0..line.len()).map(|j| (name(j), Vec::new())).collect();
            if is_header {
                continue;
            }
        }
        for (j, number) in numbers.into_iter().enumerate() {
            let value = number.map_err(|_| {
                Malformed::new(format!("\"{}\" in line {}", &line[j], row + 1), EXPECTED)
            })?;
            columns[j].1.push(value);
        }
    }
    if columns.is_empty() {
        return Err(Malformed::new("an empty file", EXPECTED));
    }
    Ok(columns)
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
    fn digits_come_back_as_the_bits_they_were_printed_from() {
        let values = [0.1, 1.0 / 3.0, f64::MIN_POSITIVE, 5e-324, 1.7976931348623157e308, -0.0];
        let text: String = values.iter().map(|value| format!("{value:?}\n")).collect();
        let back = &parse(text.as_bytes()).unwrap()[0].1;
        assert!(values.iter().zip(back).all(|(a, b)| a.to_bits() == b.to_bits()));
    }

    #[test]
    fn every_fault_names_its_place() {
        for (text, part) in [
            ("1\ntwo\n", "\"two\" in line 2"),
            ("1,2\n3\n", "found record with 1 field"),
            ("", "an empty file"),
        ] {
            let message = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
