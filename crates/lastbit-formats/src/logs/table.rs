//! A table of metrics, as loggers write it: a line of names, then a line for each measured step. Cells may be empty.
//!
//! A last line without its end is that of a file which still grows, or of a writer that was killed. It is left out, since
//! its last number may have lost digits.

use super::{LONGEST_NAME, Value};
use crate::Malformed;
use crate::csv::line_of;

const EXPECTED: &str =
    "a table with a line of names and as many entries, separated by commas, in each line below it";

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// The names of the columns, in their order.
    pub names: Vec<String>,
    /// How many rows there are.
    pub count: u64,
    /// The last line has no end and was left out.
    pub is_cut: bool,
}

/// Hands on the entries of each row with the line they stand in and their names; empty cells are left out, and so is a
/// column without a name, such as the index that pandas writes.
pub fn rows(bytes: &[u8], each: &mut dyn FnMut(u64, &str, Value)) -> Result<Rows, Malformed> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let is_cut = !bytes[whole..].trim_ascii().is_empty();
    let mut reader =
        ::csv::ReaderBuilder::new().trim(::csv::Trim::All).from_reader(&bytes[..whole]);
    let refuse = |error: ::csv::Error| Malformed::new(error, EXPECTED);
    let header = reader.headers().map_err(refuse)?.clone();
    let names: Vec<String> = header.iter().map(str::to_owned).collect();
    check(&names, is_cut)?;
    let (mut record, mut count) = (::csv::StringRecord::new(), 0);
    while reader.read_record(&mut record).map_err(refuse)? {
        count += 1;
        let line = record.position().map_or(0, |start| line_of(start, bytes));
        for (name, cell) in names.iter().zip(&record) {
            if !name.is_empty() && !cell.is_empty() {
                each(line, name, cell.parse().map_or(Value::Text(cell), Value::Number));
            }
        }
    }
    Ok(Rows { names, count, is_cut })
}

/// Whether a line holds names.
fn check(names: &[String], is_cut: bool) -> Result<(), Malformed> {
    if names.iter().all(String::is_empty) {
        let found = if is_cut { "one line without an end" } else { "an empty file" };
        return Err(Malformed::new(found, EXPECTED));
    }
    if let Some(number) = names.iter().find(|name| name.parse::<f64>().is_ok()) {
        return Err(Malformed::new(format!("the number {number} in its first line"), EXPECTED));
    }
    if let Some(name) = names.iter().find(|name| name.len() > LONGEST_NAME) {
        let found = format!("a name of {} bytes", name.len());
        return Err(Malformed::new(found, format!("names of at most {LONGEST_NAME}")));
    }
    let mut sorted: Vec<&String> = names.iter().filter(|name| !name.is_empty()).collect();
    sorted.sort();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Malformed::new(
            format!("two columns called {:?}", pair[0]),
            "a name of its own for each column",
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Entry = (u64, String, Option<f64>);

    fn read(text: &str) -> Result<(Rows, Vec<Entry>), Malformed> {
        let mut found = Vec::new();
        let read = rows(text.as_bytes(), &mut |line, name, value| {
            let number = if let Value::Number(number) = value { Some(number) } else { None };
            found.push((line, name.to_owned(), number));
        })?;
        Ok((read, found))
    }

    #[test]
    fn empty_cells_and_unnamed_columns_are_left_out() {
        let (rows, found) =
            read(",step,loss,note\r\n0,10,0.5,\r\n1,20,,late\r\n2,30,nan,\r\n").unwrap();
        assert_eq!((rows.count, rows.is_cut), (3, false));
        let entry = |line, name: &str, value| (line, name.to_owned(), value);
        let expected = [
            entry(2, "step", Some(10.0)),
            entry(2, "loss", Some(0.5)),
            entry(3, "step", Some(20.0)),
            entry(3, "note", None),
            entry(4, "step", Some(30.0)),
        ];
        assert_eq!(found[..5], expected);
        assert!(found[5].2.is_some_and(f64::is_nan));
    }

    #[test]
    fn a_line_without_its_end_is_left_out() {
        let text = "step,loss\n1,0.25\n2,0.125\n";
        for length in "step,loss\n".len()..text.len() {
            let (rows, found) = read(&text[..length]).unwrap();
            let whole = text[..length].matches('\n').count() - 1;
            assert_eq!(found.len(), 2 * whole, "{length}");
            assert_eq!(rows.is_cut, !text[..length].ends_with('\n'), "{length}");
        }
    }

    #[test]
    fn every_fault_is_named() {
        for (text, part) in [
            ("", "an empty file"),
            ("step,loss", "one line without an end"),
            ("step,loss\n1\n", "line: 2"),
            ("1,2\n3,4\n", "the number 1 in its first line"),
            ("loss,step,loss\n1,2,3\n", "two columns called \"loss\""),
        ] {
            let message = read(text).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
