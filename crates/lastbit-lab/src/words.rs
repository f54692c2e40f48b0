//! Sentences.

/// A clause with a capital first letter.
pub fn capitalized(clause: &str) -> String {
    let mut letters = clause.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}
