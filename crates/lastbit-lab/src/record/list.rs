//! The cells of a record, in the order of the plan; one is found by its key without a search through all of them.

use std::ops::Index;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Cell;

/// Finished cells. Cells are shared, so that a record can be put together again and again without copying them.
#[derive(Debug, Clone, Default)]
pub struct Cells {
    list: Vec<Arc<Cell>>,
    /// Places in the list in the order of the keys, sorted when the first cell is looked for.
    by_key: OnceLock<Vec<usize>>,
}

impl Cells {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Cell> {
        self.list.iter().map(Arc::as_ref)
    }

    /// The first cell of this key.
    pub fn get(&self, key: &str) -> Option<&Cell> {
        let key_at = |place: &usize| &*self.list[*place].key;
        let by_key = self.by_key.get_or_init(|| {
            let mut places: Vec<usize> = (0..self.list.len()).collect();
            places.sort_by(|a, b| key_at(a).cmp(key_at(b)));
            places
        });
        let first = by_key.partition_point(|place| key_at(place) < key);
        by_key.get(first).filter(|place| key_at(place) == key).map(|place| &*self.list[*place])
    }

    /// Appends one.
    pub fn push(&mut self, cell: impl Into<Arc<Cell>>) {
        self.by_key.take();
        self.list.push(cell.into());
    }

    /// Keeps those for which this is true.
    pub fn retain(&mut self, mut keeps: impl FnMut(&Cell) -> bool) {
        self.by_key.take();
        self.list.retain(|cell| keeps(cell));
    }
}

impl PartialEq for Cells {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

impl Index<usize> for Cells {
    type Output = Cell;

    fn index(&self, place: usize) -> &Cell {
        &self.list[place]
    }
}

impl FromIterator<Cell> for Cells {
    fn from_iter<I: IntoIterator<Item = Cell>>(cells: I) -> Self {
        Self { list: cells.into_iter().map(Arc::new).collect(), by_key: OnceLock::new() }
    }
}

impl Serialize for Cells {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Cells {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// Shared as soon as it is read: a long list of whole cells is never there beside the shared ones.
        struct Shared(Arc<Cell>);

        impl<'de> Deserialize<'de> for Shared {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Cell::deserialize(deserializer).map(|cell| Self(Arc::new(cell)))
            }
        }
        let list = Vec::<Shared>::deserialize(deserializer)?;
        Ok(Self { list: list.into_iter().map(|cell| cell.0).collect(), by_key: OnceLock::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lastbit::verdict::VerdictKind;

    fn cell(key: &str, value: f64) -> Cell {
        let mut cell = crate::sample::cell(key, VerdictKind::Stable);
        cell.numbers.insert("value".to_owned(), crate::number::Number(value));
        cell
    }

    #[test]
    fn a_cell_is_found_by_its_key_also_after_changes_and_the_first_of_two() {
        let value = |cells: &Cells, key: &str| Some(cells.get(key)?.numbers["value"].0);
        let mut cells: Cells = ["c", "a", "b"].map(|key| cell(key, 0.0)).into_iter().collect();
        assert_eq!(
            ["a", "b", "c", "d", ""].map(|key| cells.get(key).is_some()),
            [true, true, true, false, false]
        );
        cells.push(cell("d", 1.0));
        cells.push(cell("a", 2.0));
        assert_eq!((value(&cells, "d"), value(&cells, "a")), (Some(1.0), Some(0.0)));
        cells.retain(|cell| cell.numbers["value"].0 > 0.0);
        assert_eq!((value(&cells, "c"), value(&cells, "a")), (None, Some(2.0)));
        assert_eq!(cells.iter().map(|cell| &*cell.key).collect::<Vec<_>>(), ["d", "a"]);
        assert_eq!(Cells::default().get("a"), None);
    }
}
