//! Plain tables for a terminal.

/// Columns padded to their widest entry, two spaces apart; numbers to the right, where `-` stands
/// for one that is missing. An entry with a line break in it stays on its line.
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let in_one_line = |row: Vec<String>| row.iter().map(|text| text.replace('\n', "\\n")).collect();
    let mut all: Vec<Vec<String>> = vec![header.iter().map(|name| (*name).to_owned()).collect()];
    all.extend(rows.into_iter().map(in_one_line));
    let width = |j: usize| all.iter().map(|row| row[j].chars().count()).max().unwrap_or(0);
    let fits = |text: &str| text == "-" || text.parse::<f64>().is_ok();
    let is_number = |j: usize| all[1..].iter().all(|row| fits(&row[j]));
    let columns: Vec<(usize, bool)> = (0..header.len()).map(|j| (width(j), is_number(j))).collect();
    let line = |row: &Vec<String>| {
        let cell = |(text, (width, right)): (&String, &(usize, bool))| {
            if *right { format!("{text:>width$}") } else { format!("{text:<width$}") }
        };
        let cells: Vec<String> = row.iter().zip(&columns).map(cell).collect();
        cells.join("  ").trim_end().to_owned() + "\n"
    };
    all.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_to_the_left_and_numbers_to_the_right() {
        let rows =
            [["a", "1", "-"], ["long", "23.5", "7"]].map(|row| row.map(str::to_owned).to_vec());
        let expected = "name     x   y\na        1   -\nlong  23.5   7\n";
        assert_eq!(table(&["name", "x", " y"], rows), expected);
        assert_eq!(table(&["name"], [vec!["a\nb".to_owned()]]), "name\na\\nb\n");
    }
}
