//! Distance of each replica from the first, and the hash of its parameters, computed on the device:
//! bit-identical to [`Compared::of`] on the CPU.
//!
//! ```text
//! a row of results:  four sums of all parameters, two of each tensor   (compare.cu)
//!                    the largest distance in ulps
//!                    the hash, two words                               (hash.cu)
//! ```
//!
//! The device computes the sums; the few operations on a whole sum are done here. All replicas together
//! take three launches and one read.

use std::ops::Range;

use lastbit::training::{Compared, Distance};

use crate::device::{Device, DeviceReal, Grid, Memory};
use crate::error::Error;
use crate::kernel_args::{CompareArgs, HashArgs, ORDERED_SUM_THREADS};

/// Sums of all parameters: terms of RelL1, agreeing bits, squared differences, squares.
const OF_ALL: usize = 4;
/// Words of 32 bits of a BLAKE3 chunk, and of a node of the hash tree.
const WORDS_OF_CHUNK: usize = 256;
const WORDS_OF_NODE: usize = 8;

/// Device memory for comparisons, beside the parameters.
#[derive(Debug)]
pub(crate) struct Comparison {
    parameters: usize,
    tensors: Vec<Range<usize>>,
    replicas: usize,
    /// Begin and end of all parameters and of each tensor.
    ranges: Memory<u64>,
    /// Nodes of the hashes' trees.
    nodes: Memory<i32>,
    /// A row for each replica.
    results: Memory<u64>,
}

impl Comparison {
    /// For replicas with so many parameters each.
    pub fn new<F: DeviceReal>(
        device: &Device,
        parameters: usize,
        tensors: Vec<Range<usize>>,
        replicas: usize,
    ) -> Result<Self, Error> {
        let all = 0..parameters;
        let ends: Vec<u64> = std::iter::once(&all)
            .chain(&tensors)
            .flat_map(|range| [range.start as u64, range.end as u64])
            .collect();
        let (chunks, row) = (chunks::<F>(parameters), sums(&tensors) + 3);
        Ok(Self {
            parameters,
            tensors,
            replicas,
            ranges: device.upload(&ends)?,
            nodes: device.zeros(replicas * chunks * WORDS_OF_NODE)?,
            results: device.zeros(replicas * row)?,
        })
    }

    /// Each replica of `theta` compared with the first.
    pub fn measure<F: DeviceReal>(
        &mut self,
        device: &mut Device,
        theta: &Memory<F>,
    ) -> Result<Vec<Compared>, Error> {
        let (sums, chunks) = (sums(&self.tensors), chunks::<F>(self.parameters));
        let row = sums + 3;
        let args = CompareArgs {
            theta: theta.address(),
            ranges: self.ranges.address(),
            results: self.results.address(),
            parameters: self.parameters as u64,
            row: row as u64,
        };
        device.launch(
            "compare_sums",
            Grid::blocks([sums, self.replicas, 1], ORDERED_SUM_THREADS),
            &args,
        )?;
        let args = HashArgs {
            words: theta.address(),
            nodes: self.nodes.address(),
            hashes: self.results.address() + ((sums + 1) * size_of::<u64>()) as u64,
            count: words::<F>(self.parameters) as u64,
            chunks: chunks as u64,
            row: row as u64,
        };
        let grid = Grid::blocks([chunks.div_ceil(64), self.replicas, 1], 64);
        device.launch("hash_chunks", grid, &args)?;
        device.launch("hash_tree", Grid::blocks([self.replicas, 1, 1], 256), &args)?;
        let results = device.read(&self.results, 0, self.replicas * row)?;
        let norm = f64::from_bits(results[3]).sqrt();
        Ok(results.chunks_exact(row).map(|row| self.compared(row, norm)).collect())
    }

    /// The comparison from a row of results, with a first replica of this norm.
    fn compared(&self, row: &[u64], norm: f64) -> Compared {
        let (sums, others) = row.split_at(sums(&self.tensors));
        let sum = |i: usize| f64::from_bits(sums[i]);
        // As in `lastbit::divergence` and `lastbit::comparison`.
        let rel_l1 = |i: usize, len: usize| match len {
            0 => 0.0,
            _ => 2.0 * sum(i) / len as f64,
        };
        let bits = |i: usize, len: usize| sum(i) / len as f64;
        let each = || self.tensors.iter().map(Range::len).enumerate();
        let distance = Distance {
            rel_l1: rel_l1(0, self.parameters),
            rel_l1_of: each().map(|(t, len)| rel_l1(OF_ALL + 2 * t, len)).collect(),
            agreeing_bits: bits(1, self.parameters),
            agreeing_bits_of: each().map(|(t, len)| bits(OF_ALL + 2 * t + 1, len)).collect(),
            max_ulps: others[0],
            distance: sum(2).sqrt() / norm,
        };
        let bytes = others[1..].iter().flat_map(|word| word.to_le_bytes());
        Compared { distance, hash: bytes.map(|byte| format!("{byte:02x}")).collect() }
    }
}

fn sums(tensors: &[Range<usize>]) -> usize {
    OF_ALL + 2 * tensors.len()
}

/// Words of 32 bits of so many numbers.
fn words<F>(numbers: usize) -> usize {
    numbers * size_of::<F>() / size_of::<u32>()
}

/// Chunks of BLAKE3 of so many numbers.
fn chunks<F>(numbers: usize) -> usize {
    words::<F>(numbers).div_ceil(WORDS_OF_CHUNK).max(1)
}

#[cfg(test)]
mod tests;
