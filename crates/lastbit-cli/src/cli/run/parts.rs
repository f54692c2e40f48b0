//! `--cells A..B/N`: some of the cells of a plan, for one of several processes.
//!
//! ```text
//! cell i of C belongs to part ⌊i N / C⌋ of N
//! parts A to B − 1 are the cells ⌈A C / N⌉ to ⌈B C / N⌉ − 1
//! ```
//!
//! With `N = C` the parts are the cells. Where several exhibits are run, their cells are numbered
//! one exhibit after the other.

use std::ops::Range;
use std::str::FromStr;

/// Parts `first` up to but not including `end`, of `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    first: u32,
    end: u32,
    count: u32,
}

impl FromStr for Parts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = || {
            format!(
                "found \"{text}\", expected A..B/N with whole numbers A <= B <= N and N >= 1: of N \
                 equal parts those from A up to but not including B, such as 0..1/4, 1..4/4"
            )
        };
        let (range, count) = text.split_once('/').ok_or_else(refuse)?;
        let (first, end) = range.split_once("..").ok_or_else(refuse)?;
        let number = |digits: &str| digits.parse::<u32>().map_err(|_| refuse());
        let parts = Self { first: number(first)?, end: number(end)?, count: number(count)? };
        let fits = parts.first <= parts.end && parts.end <= parts.count && parts.count > 0;
        if fits { Ok(parts) } else { Err(refuse()) }
    }
}

impl std::fmt::Display for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{}..{}/{}", self.first, self.end, self.count)
    }
}

impl Parts {
    /// Whether there is no part, and so nothing to compute.
    pub fn is_empty(self) -> bool {
        self.first == self.end
    }

    /// The cells of these parts in a plan of so many.
    fn of_cells(self, cells: usize) -> Range<usize> {
        let begin = |part: u32| {
            (u128::from(part) * cells as u128).div_ceil(u128::from(self.count)) as usize
        };
        begin(self.first)..begin(self.end)
    }

    /// The cells of these parts in each of several plans, numbered one after the other.
    pub fn of_plans(self, cells: &[usize]) -> Vec<Range<usize>> {
        let all = self.of_cells(cells.iter().sum());
        let mut before = 0;
        let within = |count: &usize| {
            let place = |cell: usize| cell.clamp(before, before + count) - before;
            let part = place(all.start)..place(all.end);
            before += count;
            part
        };
        cells.iter().map(within).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn same_cases_at_every_run() -> ProptestConfig {
        let rng_seed = proptest::test_runner::RngSeed::Fixed(1);
        ProptestConfig { rng_seed, failure_persistence: None, ..Default::default() }
    }

    proptest! {
        #![proptest_config(same_cases_at_every_run())]

        #[test]
        fn a_cell_belongs_to_the_part_that_the_definition_says(
            cells in 0_usize..200, count in 1_u32..300, first in 0_u32..300, length in 0_u32..300
        ) {
            let (first, end) = (first.min(count), (first + length).min(count));
            let parts = Parts { first, end, count };
            let part = |i: usize| (i * count as usize / cells) as u32;
            let expected: Vec<usize> =
                (0..cells).filter(|i| (first..end).contains(&part(*i))).collect();
            prop_assert_eq!(parts.of_cells(cells).collect::<Vec<_>>(), expected);
        }

        #[test]
        fn single_parts_of_several_plans_hold_every_cell_once(
            plans in prop::collection::vec(0_usize..20, 1..6), count in 1_u32..40
        ) {
            let mut seen: Vec<Vec<usize>> = plans.iter().map(|cells| vec![0; *cells]).collect();
            for first in 0..count {
                let parts = Parts { first, end: first + 1, count };
                for (plan, part) in seen.iter_mut().zip(parts.of_plans(&plans)) {
                    plan[part].iter_mut().for_each(|times| *times += 1);
                }
            }
            prop_assert!(seen.iter().flatten().all(|times| *times == 1));
        }
    }

    #[test]
    fn as_many_parts_as_cells_are_the_cells() {
        let parts: Parts = "3..5/6".parse().unwrap();
        assert_eq!(parts.of_cells(6), 3..5);
        assert_eq!(parts.of_plans(&[4, 2]), [3..4, 0..1]);
        assert_eq!(parts.to_string(), "3..5/6");
    }

    #[test]
    fn what_is_no_part_is_refused() {
        for text in ["3..2/6", "0..7/6", "0..0/0", "x", "1/6", "1..2", "-1..2/6", "1..2/6/7", ""] {
            let message = text.parse::<Parts>().unwrap_err();
            assert!(message.contains("A..B/N") && message.contains(text), "{message}");
        }
    }
}
