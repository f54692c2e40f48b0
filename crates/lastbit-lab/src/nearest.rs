//! Names that are near to a misspelt one.

/// "did you mean a or b?": the known names nearest to `word`, if any is near.
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const MOST: usize = 3;
    let word = word.to_lowercase();
    let far = word.chars().count() / 3 + 1;
    let mut near: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|name| match edit_distance(&word, name) {
            distance if distance <= far => Some((distance, name)),
            _ if word.len() > 2 && name.contains(&word) => Some((far, name)),
            _ => None,
        })
        .collect();
    let least = near.iter().map(|(distance, _)| *distance).min()?;
    near.retain(|(distance, _)| *distance == least);
    let names: Vec<&str> = near.into_iter().map(|(_, name)| name).take(MOST).collect();
    Some(format!("did you mean {}?", names.join(" or ")))
}

/// Fewest insertions, deletions, replacements and swaps of neighbours between two words (optimal
/// string alignment).
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    // rows[i][j]: between the first i letters of a and the first j of b.
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits_and_swaps() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "ab", 2),
            ("haet", "heat", 1),
            ("kitten", "sitting", 3),
            ("é", "e", 1),
        ] {
            assert_eq!(edit_distance(a, b), expected, "{a} {b}");
            assert_eq!(edit_distance(b, a), expected, "{b} {a}");
        }
    }

    #[test]
    fn the_nearest_names_are_suggested_and_far_ones_are_not() {
        let known = ["fig-heat", "fig-depth", "tab-relu", "tab-adam"];
        assert_eq!(suggestion("fig-haet", known).unwrap(), "did you mean fig-heat?");
        assert_eq!(suggestion("FIG-HEAT", known).unwrap(), "did you mean fig-heat?");
        assert_eq!(suggestion("relu", known).unwrap(), "did you mean tab-relu?");
        assert_eq!(suggestion("something", known), None);
    }
}
