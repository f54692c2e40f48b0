//! Data sets in device memory.
//!
//! A data set is put there once, as it is stored (CIFAR-10: 153 MB); which examples a batch has is
//! said by a short list. The crop and mirror image of an example are drawn where the batch is formed,
//! from the counter-based generator, so that a batch has the bits of the CPU's (`batch.cu`).

use std::sync::Arc;

use lastbit::batches::{Augmentation, Batches, Chosen};
use lastbit::data::{Dataset, Inputs, Targets};

use crate::device::{Device, DeviceReal, Memory};
use crate::error::Error;
use crate::jobs::BatchJob;

/// A data set in device memory; what it does not have is empty.
#[derive(Debug)]
struct Stored<F> {
    data: Arc<Dataset>,
    bytes: Memory<u8>,
    numbers: Memory<f64>,
    labels: Memory<i32>,
    values: Memory<F>,
}

impl<F: DeviceReal> Stored<F> {
    fn new(device: &Device, data: &Arc<Dataset>) -> Result<Self, Error> {
        let (bytes, numbers) = match &data.inputs {
            Inputs::Bytes(bytes) => (&bytes[..], &[][..]),
            Inputs::Reals(numbers) => (&[][..], &numbers[..]),
        };
        let (labels, values) = match &data.targets {
            Targets::Classes { labels, .. } => {
                (labels.iter().map(|label| *label as i32).collect(), Vec::new())
            }
            Targets::Reals { values, .. } => {
                (Vec::new(), values.iter().map(|value| F::of(*value)).collect())
            }
        };
        Ok(Self {
            data: data.clone(),
            bytes: device.with(bytes)?,
            numbers: device.with(numbers)?,
            labels: device.with(&labels)?,
            values: device.with(&values)?,
        })
    }
}

/// Batches that are formed on a device.
#[derive(Debug)]
pub struct Source<F> {
    /// The same for the CPU.
    pub batches: Batches<F>,
    stored: Arc<Stored<F>>,
    table: Memory<F>,
    mean: Memory<f64>,
    deviation: Memory<f64>,
}

impl<F: DeviceReal> Source<F> {
    /// Batches of a data set, which is put onto the device unless one of `others` has it there.
    pub fn new(device: &Device, batches: Batches<F>, others: &[Self]) -> Result<Self, Error> {
        let same = |other: &&Self| Arc::ptr_eq(&other.stored.data, batches.data());
        let stored = match others.iter().find(same) {
            Some(other) => other.stored.clone(),
            None => Arc::new(Stored::new(device, batches.data())?),
        };
        Ok(Self {
            table: device.with(batches.of_bytes().as_flattened())?,
            mean: device.with(batches.normalization().mean())?,
            deviation: device.with(batches.normalization().std())?,
            stored,
            batches,
        })
    }

    /// Whether `batches` show the same numbers for the same examples and epochs.
    pub fn shows(&self, batches: &Batches<F>) -> bool {
        Arc::ptr_eq(self.batches.data(), batches.data())
            && self.batches.normalization() == batches.normalization()
            && self.batches.augmentation() == batches.augmentation()
    }

    /// Height, width and channels of its examples.
    pub fn shape(&self) -> [usize; 3] {
        self.stored.data.shape
    }

    /// Numbers that belong to an example; none where that is a class.
    pub fn targets(&self) -> Option<usize> {
        match self.stored.data.targets {
            Targets::Classes { .. } => None,
            Targets::Reals { width, .. } => Some(width),
        }
    }

    /// The last class that an example may have; none where numbers belong to it.
    pub fn last_class(&self) -> Option<usize> {
        match self.stored.data.targets {
            Targets::Classes { count, .. } => Some(count.saturating_sub(1)),
            Targets::Reals { .. } => None,
        }
    }

    /// How a batch of listed examples is formed; the caller says where it goes.
    pub fn job(&self, listed: &Listed, list: usize) -> BatchJob {
        let Stored { data, bytes, numbers, labels, values } = &*self.stored;
        let [height, width, channels] = data.shape.map(|n| n as i32);
        let varied = self.batches.augmentation();
        let has_bytes = matches!(data.inputs, Inputs::Bytes(_));
        BatchJob {
            bytes: if has_bytes { bytes.address() } else { 0 },
            numbers: numbers.address(),
            table: self.table.address(),
            mean: self.mean.address(),
            deviation: self.deviation.address(),
            labels: if self.targets().is_none() { labels.address() } else { 0 },
            values: values.address(),
            chosen: listed.chosen.address() + (list * listed.capacity * size_of::<i32>()) as u64,
            stream: listed.streams.address() + (list * size_of::<u64>()) as u64,
            inputs: 0,
            classes: 0,
            reals: 0,
            seed: varied.map_or(0, |varied| varied.seed),
            height,
            width,
            channels,
            places: self.batches.normalization().mean().len() as i32,
            padding: varied.map_or(0, |varied| varied.padding as i32),
            flip: i32::from(varied.is_some_and(|varied| varied.flip)),
            targets: self.targets().unwrap_or(0) as i32,
            unused: 0,
        }
    }
}

/// Lists of the examples of batches that are to be formed.
#[derive(Debug)]
pub struct Listed {
    chosen: Memory<i32>,
    streams: Memory<u64>,
    capacity: usize,
}

impl Listed {
    /// Room for lists of up to `capacity` examples.
    pub fn new(device: &Device, lists: usize, capacity: usize) -> Result<Self, Error> {
        Ok(Self {
            chosen: device.zeros(lists * capacity)?,
            streams: device.zeros(lists)?,
            capacity,
        })
    }

    /// Writes a list.
    ///
    /// # Panics
    ///
    /// If it is longer than there is room for.
    pub fn write(&mut self, device: &Device, list: usize, chosen: &Chosen) -> Result<(), Error> {
        let (count, room) = (chosen.examples.len(), self.capacity);
        assert!(count <= room, "{count} examples, room for {room}");
        let examples: Vec<i32> = chosen.examples.iter().map(|example| *example as i32).collect();
        device.write(&mut self.chosen, list * self.capacity, &examples)?;
        device.write(&mut self.streams, list, &[Augmentation::stream(chosen.epoch)])
    }
}

#[cfg(test)]
mod tests;
