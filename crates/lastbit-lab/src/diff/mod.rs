//! How far apart two files of tensors are: tensor by tensor, and in all.
//!
//! Tensors are matched by name. Floats of different types are compared in `f64`, their ulps counted
//! on the grid of the coarser type; tensors of different shape, or of different types that are not
//! both floats, are listed and not compared. Tensors are measured in parallel and put together
//! in the order of the files: the result does not depend on the threads.
//!
//! Of two runs [`runs`] says where they first differ.

mod pairs;
mod paths;
pub mod runs;
mod table;

pub use paths::{PathDiff, of_paths};
pub use table::{Only, indices, is_comparable, json, numbers, tensors, verdict};

use std::collections::{BTreeMap, BTreeSet};

use lastbit::comparison::{Comparison, Digit, median};
use rayon::prelude::*;
use serde::Serialize;

use self::pairs::Compared;
use crate::tensors::{Dtype, RUNNING_STATISTICS, Tensor, TensorFile};

/// One side of a tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// Type of its values.
    pub dtype: Dtype,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Hash of its bits.
    pub hash: String,
}

/// How a tensor stands on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Type, shape and all bits are equal.
    Identical,
    /// They are not.
    Different,
    /// The shapes differ: not compared.
    OtherShape,
    /// The types differ and are not both floats: not compared.
    OtherType,
    /// The second file lacks it.
    OnlyInA,
    /// The first file lacks it.
    OnlyInB,
}

/// A tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// How it stands.
    pub status: Status,
    /// In the first file and in the second.
    pub sides: [Option<Side>; 2],
    /// Type on whose grid ulps are counted, where it was compared.
    pub ulps_of: Option<Dtype>,
    /// What was measured, where it was compared.
    pub comparison: Option<Comparison>,
}

/// Two files, compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// Tensors in the order of the first file, then those of the second alone.
    pub rows: Vec<Row>,
    /// All tensors that were compared, as if they were one.
    pub total: Comparison,
    /// The tensor with the largest difference.
    pub total_at: Option<String>,
    /// The first tensor with an entry that is not comparable: NaN or infinite on one side only, or not
    /// the same on both.
    pub not_comparable_at: Option<String>,
    /// Hash of the bits of each side's parameters in the order of the rows: of a trained network the
    /// hash that its metrics have.
    pub hashes: [String; 2],
    /// Metadata that differ: key, and what each side has.
    pub metadata: BTreeMap<String, [Option<String>; 2]>,
}

impl Diff {
    /// Compares the tensors of which `wanted` holds.
    pub fn of(a: &TensorFile, b: &TensorFile, wanted: impl Fn(&str) -> bool) -> Self {
        let in_b: BTreeMap<&str, &Tensor> =
            b.tensors.iter().map(|t| (t.name.as_str(), t)).collect();
        let in_a: BTreeSet<&str> = a.tensors.iter().map(|t| t.name.as_str()).collect();
        let of_a = a.tensors.iter().map(|t| (Some(t), in_b.get(t.name.as_str()).copied()));
        let of_b = b.tensors.iter().filter(|t| !in_a.contains(t.name.as_str()));
        let matched: Vec<Matched> =
            of_a.chain(of_b.map(|t| (None, Some(t)))).filter(|pair| wanted(name(pair))).collect();
        let rows: Vec<Row> = matched.par_iter().map(|pair| row(name(pair), *pair)).collect();
        let total = total(&rows, |digit, counts| count_in_all(&matched, digit, counts));
        let most = |row: &&Row| row.comparison.as_ref().map(|c| c.max_difference);
        let total_at = rows.iter().find(|row| most(row) == Some(total.max_difference));
        let not_comparable =
            |row: &&Row| row.comparison.as_ref().is_some_and(|c| c.not_comparable > 0);
        Self {
            not_comparable_at: rows.iter().find(not_comparable).map(|row| row.name.clone()),
            total_at: total_at.filter(|_| total.max_difference > 0.0).map(|row| row.name.clone()),
            hashes: [
                hash_of_parameters(matched.iter().filter_map(|pair| pair.0)),
                hash_of_parameters(matched.iter().filter_map(|pair| pair.1)),
            ],
            metadata: differing(&a.metadata, &b.metadata),
            rows,
            total,
        }
    }

    /// Tensors that are not identical.
    pub fn different(&self) -> usize {
        self.rows.iter().filter(|row| row.status != Status::Identical).count()
    }

    /// Orders the rows by a key, largest first; rows without one come last.
    pub fn sort_by_largest(&mut self, key: impl Fn(&Comparison) -> f64) {
        let key = |row: &Row| row.comparison.as_ref().map_or(f64::NEG_INFINITY, &key);
        // NaN is more than any number to total_cmp: what cannot be compared is shown first.
        self.rows.sort_by(|x, y| key(y).total_cmp(&key(x)));
    }
}

fn name<'a>(pair: &Matched<'a>) -> &'a str {
    pair.0.or(pair.1).map_or("", |tensor| &tensor.name)
}

/// A tensor in the first file and in the second; one of them is there.
type Matched<'a> = (Option<&'a Tensor>, Option<&'a Tensor>);

fn side(tensor: &Tensor) -> Side {
    let (dtype, shape) = (tensor.values.dtype(), tensor.shape.clone());
    Side { dtype, shape, hash: tensor.values.hash() }
}

/// The entries of both, if they can be compared.
fn comparable<'a>(pair: Matched<'a>) -> Option<(Dtype, Box<dyn Compared + 'a>)> {
    let (Some(a), Some(b)) = pair else { return None };
    if a.shape == b.shape { pairs::of(&a.values, &b.values) } else { None }
}

fn row(name: &str, pair: Matched) -> Row {
    let hashed = || [pair.0.map(side), pair.1.map(side)];
    let compared = || comparable(pair).map(|(dtype, pairs)| (dtype, pairs.compare())).unzip();
    let (sides, (ulps_of, comparison)) = rayon::join(hashed, compared);
    let status = match &sides {
        [Some(_), None] => Status::OnlyInA,
        [None, _] => Status::OnlyInB,
        [Some(a), Some(b)] if a.shape != b.shape => Status::OtherShape,
        [Some(a), Some(b)] if a == b => Status::Identical,
        _ if comparison.is_none() => Status::OtherType,
        _ => Status::Different,
    };
    Row { name: name.to_owned(), status, sides, ulps_of, comparison }
}

fn count_in_all(matched: &[Matched], digit: Digit, counts: &mut [u64]) {
    let none = || vec![0; Digit::VALUES];
    let of_some = matched.par_iter().fold(none, |mut counts, pair| {
        if let Some((_, pairs)) = comparable(*pair) {
            pairs.count_ulps(digit, &mut counts);
        }
        counts
    });
    // Sums of whole numbers: the order is of no consequence.
    let of_all = of_some.reduce(none, |mut one, two| {
        one.iter_mut().zip(two).for_each(|(sum, more)| *sum += more);
        one
    });
    counts.copy_from_slice(&of_all);
}

/// All comparisons as one.
fn total(rows: &[Row], count: impl Fn(Digit, &mut [u64])) -> Comparison {
    let all: Vec<&Comparison> = rows.iter().filter_map(|row| row.comparison.as_ref()).collect();
    let sum = |of: &dyn Fn(&Comparison) -> usize| all.iter().map(|c| of(c)).sum::<usize>();
    let norm = |of: &dyn Fn(&Comparison) -> f64| {
        all.iter().map(|c| of(c) * of(c)).fold(0.0, |sum, square| sum + square).sqrt()
    };
    // A mean over all entries is the mean of the means, weighted by their entries.
    let mean = |of: &dyn Fn(&Comparison) -> Option<f64>| {
        let means = all.iter().filter(|c| c.compared > 0 || c.entries == 0);
        let weighted = means.filter_map(|c| of(c).map(|mean| (mean, c.compared as f64)));
        let (sum, weights) =
            weighted.fold((0.0, 0.0), |(s, w), (mean, weight)| (s + mean * weight, w + weight));
        (weights > 0.0).then(|| sum / weights)
    };
    let (entries, compared) = (sum(&|c| c.entries), sum(&|c| c.compared));
    let max_ulps = all.iter().map(|c| c.max_ulps).max().unwrap_or(0);
    Comparison {
        entries,
        compared,
        equal_bits: sum(&|c| c.equal_bits),
        nan: [sum(&|c| c.nan[0]), sum(&|c| c.nan[1])],
        infinite: [sum(&|c| c.infinite[0]), sum(&|c| c.infinite[1])],
        not_comparable: sum(&|c| c.not_comparable),
        first_not_comparable: None,
        rel_l1: mean(&|c| Some(c.rel_l1)).unwrap_or(if entries == 0 { 0.0 } else { f64::NAN }),
        max_ulps,
        median_ulps: median(compared, max_ulps, count),
        max_difference: all.iter().map(|c| c.max_difference).fold(0.0, f64::max),
        max_difference_at: None,
        norms: [norm(&|c| c.norms[0]), norm(&|c| c.norms[1])],
        norm_of_difference: norm(&|c| c.norm_of_difference),
        agreeing_bits: mean(&|c| c.agreeing_bits),
    }
}

/// Whether a tensor is no parameter but a running statistic of batch norm, by its name.
fn is_statistic(name: &str) -> bool {
    RUNNING_STATISTICS.iter().any(|end| name.ends_with(end))
}

/// Hash of the bits of all parameters, as `lastbit::hash_of_bits` has it for one array.
fn hash_of_parameters<'a>(tensors: impl Iterator<Item = &'a Tensor>) -> String {
    let mut hasher = blake3::Hasher::new();
    for tensor in tensors.filter(|tensor| !is_statistic(&tensor.name)) {
        tensor.values.write(&mut hasher).expect("a hash takes any bytes");
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

fn differing(
    a: &BTreeMap<String, String>,
    b: &BTreeMap<String, String>,
) -> BTreeMap<String, [Option<String>; 2]> {
    let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let both = |key: &String| [a.get(key).cloned(), b.get(key).cloned()];
    keys.into_iter().map(|key| (key.clone(), both(key))).filter(|(_, [x, y])| x != y).collect()
}

#[cfg(test)]
mod tests;
