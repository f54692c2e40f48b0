//! Rows of a long run, of which a bounded number is kept.
//!
//! All are kept while there are fewer than 8,192 (the longest run of the catalogue has 4,001). Beyond that, rows are grouped by
//! 2, 4, 8, … in the order in which they came, and of each group stay the first row and those with the least and the largest
//! key: a spike is not lost. The last row stays too. What is kept depends on the rows alone, not on when a run was resumed.

/// Rows at which groups become larger.
const MOST: usize = 8192;

/// Rows and their keys.
#[derive(Debug, Clone)]
pub struct Thinned<T> {
    /// Rows in a group.
    group: usize,
    seen: usize,
    kept: Vec<Kept<T>>,
}

/// A row.
#[derive(Debug, Clone)]
struct Kept<T> {
    /// Rows before it.
    place: usize,
    key: f64,
    row: T,
}

impl<T> Default for Thinned<T> {
    fn default() -> Self {
        Self { group: 1, seen: 0, kept: Vec::new() }
    }
}

impl<T> Thinned<T> {
    /// Adds a row. Rows with the key NaN have no extremes.
    pub fn push(&mut self, key: f64, row: T) {
        self.kept.push(Kept { place: self.seen, key, row });
        self.seen += 1;
        if self.kept.len() == MOST {
            // Those since the last time were all kept.
            self.thin();
            while self.kept.len() > MOST / 2 {
                self.group *= 2;
                self.thin();
            }
        }
    }

    /// Rows that were added.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// A row by how many were before it, if it was kept.
    pub fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        let found = self.kept.binary_search_by_key(&place, |kept| kept.place).ok()?;
        Some(&mut self.kept[found].row)
    }

    /// All rows, or what is kept of them, in order.
    pub fn rows(mut self) -> Vec<T> {
        self.thin();
        self.kept.into_iter().map(|kept| kept.row).collect()
    }

    /// All rows so far, or of very many what is kept of them until now.
    pub fn kept(&self) -> impl Iterator<Item = &T> {
        self.kept.iter().map(|kept| &kept.row)
    }

    /// All rows so far, or of very many the first of each group: evenly spread, without regard to keys.
    pub fn evenly(&self) -> impl Iterator<Item = &T> {
        let first = |kept: &&Kept<T>| kept.place.is_multiple_of(self.group);
        self.kept.iter().filter(first).map(|kept| &kept.row)
    }

    fn thin(&mut self) {
        let last = self.seen.wrapping_sub(1);
        let mut stays = vec![false; self.kept.len()];
        let mut begin = 0;
        while begin < self.kept.len() {
            let number = self.kept[begin].place / self.group;
            let own =
                self.kept[begin..].iter().take_while(|kept| kept.place / self.group == number);
            let keys: Vec<f64> = own.map(|kept| kept.key).collect();
            let most = |sign: f64| {
                let of = |i: &usize| sign * keys[*i];
                let ordered = (0..keys.len()).filter(|i| !keys[*i].is_nan());
                ordered.reduce(|most, i| if of(&i) > of(&most) { i } else { most })
            };
            for i in [Some(0), most(1.0), most(-1.0)].into_iter().flatten() {
                stays[begin + i] = true;
            }
            begin += keys.len();
        }
        let mut stays = stays.into_iter();
        self.kept.retain(|kept| stays.next() == Some(true) || kept.place == last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thinned(keys: &[f64]) -> Vec<usize> {
        let mut all = Thinned::default();
        for (i, key) in keys.iter().enumerate() {
            all.push(*key, i);
        }
        assert_eq!(all.seen(), keys.len());
        all.rows()
    }

    #[test]
    fn short_runs_are_kept_in_full() {
        let keys: Vec<f64> = (0..MOST - 1).map(|i| i as f64).collect();
        assert_eq!(thinned(&keys), (0..MOST - 1).collect::<Vec<_>>());
        assert!(thinned(&[]).is_empty());
        assert_eq!(thinned(&[f64::NAN]), [0]);
    }

    #[test]
    fn long_runs_keep_their_extremes_and_their_end_and_are_bounded() {
        for rows in [MOST, 50_000, 300_001] {
            // A wave with one spike, one dip and numbers that are none.
            let key = |i: usize| match i {
                12_345 => 9.0,
                7_001 => -9.0,
                i if i.is_multiple_of(7) => f64::NAN,
                i => libm::sin(i as f64),
            };
            let keys: Vec<f64> = (0..rows).map(key).collect();
            let kept = thinned(&keys);
            assert!(kept.len() < MOST && kept.len() > MOST / 8, "{rows}: {}", kept.len());
            assert!(kept.is_sorted() && kept[0] == 0 && *kept.last().unwrap() == rows - 1);
            assert!(kept.contains(&7_001));
            assert_eq!(kept.contains(&12_345), rows > 12_345);
        }
    }

    #[test]
    fn an_even_selection_is_even() {
        let mut all = Thinned::default();
        (0..100_000).for_each(|i| all.push(f64::NAN, i));
        let kept: Vec<usize> = all.evenly().copied().collect();
        assert!(kept.len() > MOST / 4 - 1 && kept.len() <= MOST, "{}", kept.len());
        assert!(kept.iter().enumerate().all(|(i, place)| *place == i * all.group));
    }

    #[test]
    fn of_each_group_stay_the_first_the_least_and_the_largest() {
        let key = |i: usize| ((i * 7919) % 1009) as f64;
        let keys: Vec<f64> = (0..40_000).map(key).collect();
        let mut all = Thinned::default();
        keys.iter().enumerate().for_each(|(i, key)| all.push(*key, i));
        let group = all.group;
        let mut expected = vec![keys.len() - 1];
        for begin in (0..keys.len()).step_by(group) {
            let own = begin..(begin + group).min(keys.len());
            let by_key = |a: &usize, b: &usize| keys[*a].total_cmp(&keys[*b]);
            expected.push(begin);
            // The first of equal keys: `max_by` would take the last.
            expected.extend(own.clone().rev().max_by(by_key));
            expected.extend(own.min_by(by_key));
        }
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(all.rows(), expected);
    }
}
