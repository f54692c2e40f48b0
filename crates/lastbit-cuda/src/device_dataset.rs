//! Data sets in device memory.
//!
//! A data set is uploaded once, as it is stored (CIFAR-10: 153 MB); a short list says which examples a
//! batch has. The kernel that forms a batch draws crops and flips from the same counter-based generator
//! as the CPU, so that batches are bit-identical (`batch.cu`).

use std::sync::Arc;

use lastbit::batches::{Augmentation, Batches, Chosen};
use lastbit::data::{Dataset, Inputs, Targets};

use crate::device::{Device, DeviceReal, Memory};
use crate::error::Error;
use crate::kernel_args::BatchArgs;

/// A data set in device memory; of bytes and numbers, and of labels and values, one is empty.
#[derive(Debug)]
struct DeviceDataset<F> {
    data: Arc<Dataset>,
    bytes: Memory<u8>,
    numbers: Memory<f64>,
    labels: Memory<i32>,
    values: Memory<F>,
}

impl<F: DeviceReal> DeviceDataset<F> {
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
            bytes: device.upload(bytes)?,
            numbers: device.upload(numbers)?,
            labels: device.upload(&labels)?,
            values: device.upload(&values)?,
        })
    }
}

/// Batches that are formed on a device.
#[derive(Debug)]
pub struct BatchSource<F> {
    /// The same on the CPU.
    pub batches: Batches<F>,
    dataset: Arc<DeviceDataset<F>>,
    table: Memory<F>,
    mean: Memory<f64>,
    deviation: Memory<f64>,
}

impl<F: DeviceReal> BatchSource<F> {
    /// Batches of a data set, which is uploaded unless one of `others` has done so.
    pub fn new(device: &Device, batches: Batches<F>, others: &[Self]) -> Result<Self, Error> {
        let same = |other: &&Self| Arc::ptr_eq(&other.dataset.data, batches.data());
        let dataset = match others.iter().find(same) {
            Some(other) => other.dataset.clone(),
            None => Arc::new(DeviceDataset::new(device, batches.data())?),
        };
        Ok(Self {
            table: device.upload(batches.of_bytes().as_flattened())?,
            mean: device.upload(batches.normalization().mean())?,
            deviation: device.upload(batches.normalization().std())?,
            dataset,
            batches,
        })
    }

    /// Whether `batches` have the same numbers for the same examples and epochs.
    pub fn has_same_numbers(&self, batches: &Batches<F>) -> bool {
        Arc::ptr_eq(self.batches.data(), batches.data())
            && self.batches.normalization() == batches.normalization()
            && self.batches.augmentation() == batches.augmentation()
    }

    /// Height, width and channels of its examples.
    pub fn shape(&self) -> [usize; 3] {
        self.dataset.data.shape
    }

    /// Number of an example's targets; `None` where the target is a class.
    pub fn targets(&self) -> Option<usize> {
        match self.dataset.data.targets {
            Targets::Classes { .. } => None,
            Targets::Reals { width, .. } => Some(width),
        }
    }

    /// The last class that an example may have; `None` where targets are numbers.
    pub fn last_class(&self) -> Option<usize> {
        match self.dataset.data.targets {
            Targets::Classes { count, .. } => Some(count.saturating_sub(1)),
            Targets::Reals { .. } => None,
        }
    }

    /// Forms a batch of a list's examples; the caller fills in the destination.
    pub fn args(&self, lists: &ExampleLists, list: usize) -> BatchArgs {
        let DeviceDataset { data, bytes, numbers, labels, values } = &*self.dataset;
        let [height, width, channels] = data.shape.map(|n| n as i32);
        let varied = self.batches.augmentation();
        let has_bytes = matches!(data.inputs, Inputs::Bytes(_));
        BatchArgs {
            bytes: if has_bytes { bytes.address() } else { 0 },
            numbers: numbers.address(),
            table: self.table.address(),
            mean: self.mean.address(),
            deviation: self.deviation.address(),
            labels: if self.targets().is_none() { labels.address() } else { 0 },
            values: values.address(),
            chosen: lists.chosen.address() + (list * lists.capacity * size_of::<i32>()) as u64,
            stream: lists.streams.address() + (list * size_of::<u64>()) as u64,
            seed: varied.map_or(0, |varied| varied.seed),
            height,
            width,
            channels,
            positions: self.batches.normalization().mean().len() as i32,
            padding: varied.map_or(0, |varied| varied.padding as i32),
            flip: i32::from(varied.is_some_and(|varied| varied.flip)),
            targets: self.targets().unwrap_or(0) as i32,
            ..BatchArgs::default()
        }
    }
}

/// Lists of the examples of batches to form.
#[derive(Debug)]
pub struct ExampleLists {
    chosen: Memory<i32>,
    streams: Memory<u64>,
    capacity: usize,
}

impl ExampleLists {
    /// Memory for lists of up to `capacity` examples.
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
    /// If it is longer than the capacity.
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
