//! Which of many steps an envelope keeps.

use std::collections::BTreeSet;

/// Steps that are kept at equal distances.
const EVEN: usize = 128;

/// Places of the steps that are kept, of so many: the first and the last, 128 at equal distances, and further ones close
/// together at the beginning, each an eighth farther on than the last one. Up to 128 all are kept; of a million, 238.
///
/// At the beginning the spread of rounding grows from nothing, and a bug is found first.
pub fn thinned(count: usize) -> Vec<usize> {
    if count <= EVEN {
        return (0..count).collect();
    }
    let mut kept: BTreeSet<usize> = (0..EVEN).map(|i| i * (count - 1) / (EVEN - 1)).collect();
    let mut place = 0;
    while place < count {
        kept.insert(place);
        place += (place / 8).max(1);
    }
    kept.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::thinned;

    #[test]
    fn few_steps_stay_and_of_many_some_hundred_with_both_ends() {
        assert_eq!(thinned(0), [0; 0]);
        assert_eq!(thinned(3), [0, 1, 2]);
        assert_eq!(thinned(128).len(), 128);
        for count in [129, 500, 10_000, 1_000_000] {
            let kept = thinned(count);
            assert!(kept.len() <= 260, "{count}: {}", kept.len());
            assert_eq!(kept[..9], [0, 1, 2, 3, 4, 5, 6, 7, 8]);
            assert_eq!(*kept.last().unwrap(), count - 1);
            let gap = kept.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
            assert!(gap <= count / 127 + 1, "{count}: {gap}");
        }
    }
}
