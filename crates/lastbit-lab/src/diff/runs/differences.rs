//! What is said of tensors that differ: of each, and of all parameters.

use super::{Distance, TensorDifference};
use crate::diff::{Diff, Row};
use crate::number::Number;

/// A tensor that differs, of unknown values.
pub fn unknown_values(name: &str, rel_l1: Option<f64>) -> TensorDifference {
    TensorDifference {
        name: name.to_owned(),
        rel_l1: rel_l1.map(Number),
        max_ulps: None,
        entries_different: None,
        entries: None,
        not_comparable: None,
    }
}

/// A tensor that differs, by its comparison.
pub fn difference(row: &Row) -> TensorDifference {
    let Some(found) = &row.comparison else { return unknown_values(&row.name, None) };
    TensorDifference {
        name: row.name.clone(),
        rel_l1: Some(Number(found.rel_l1)),
        max_ulps: (found.not_comparable == 0).then_some(found.max_ulps),
        entries_different: Some(found.entries - found.equal_bits),
        entries: Some(found.entries),
        not_comparable: Some(found.not_comparable),
    }
}

/// How far all parameters are apart.
pub fn distance(parameters: &Diff) -> Distance {
    let total = &parameters.total;
    let is_comparable = total.not_comparable == 0;
    let relative = match total.norm_of_difference {
        _ if !is_comparable => f64::NAN,
        0.0 => 0.0,
        apart => apart / total.norms[0],
    };
    Distance {
        rel_l1: Number(total.rel_l1),
        relative: Number(relative),
        max_ulps: is_comparable.then_some(total.max_ulps),
    }
}
