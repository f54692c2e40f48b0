//! Some of very many steps: those of which tensors are compared, and those that are shown.

use super::{Evidence, StepRow};

/// Rows that are listed of steps of which no tensors were compared.
const MOST_LISTED: usize = 50;

/// Takes up to so many steps at even distances out of a list, the first and the last among them.
pub fn take_evenly(steps: &mut Vec<u64>, most: usize) -> Vec<u64> {
    let places = evenly(steps.len(), most);
    let taken = places.iter().map(|place| steps[*place]).collect();
    let mut place = 0..;
    steps.retain(|_| places.binary_search(&place.next().expect("it has no end")).is_err());
    taken
}

/// Up to so many places of a list, at even distances, the first and the last among them.
fn evenly(count: usize, most: usize) -> Vec<usize> {
    if count <= most {
        return (0..count).collect();
    }
    (0..most).map(|k| k * (count - 1) / (most - 1)).collect()
}

/// The rows that are shown: of very many some.
pub fn listed(rows: Vec<StepRow>, first_different: u64) -> Vec<StepRow> {
    let after = rows.partition_point(|row| row.step < first_different);
    let mut kept = vec![false; rows.len()];
    let around = [0, after.saturating_sub(1), after, rows.len() - 1];
    around.into_iter().filter(|i| *i < rows.len()).for_each(|i| kept[i] = true);
    let later = evenly(rows.len() - after, MOST_LISTED).into_iter().map(|i| after + i);
    later.for_each(|i| kept[i] = true);
    let chosen = rows.into_iter().zip(kept);
    chosen.filter(|(row, kept)| *kept || row.by == Evidence::Values).map(|(row, _)| row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_even_and_have_both_ends() {
        assert_eq!(evenly(3, 25), [0, 1, 2]);
        let places = evenly(1000, 25);
        assert_eq!((places.len(), places[0], places[24]), (25, 0, 999));
        let mut steps: Vec<u64> = (0..100).collect();
        let taken = take_evenly(&mut steps, 3);
        assert_eq!((taken, steps.len()), (vec![0, 49, 99], 97));
        assert!(!steps.contains(&49) && steps.contains(&50));
    }
}
