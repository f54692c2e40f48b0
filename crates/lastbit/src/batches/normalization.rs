//! From stored numbers to inputs: `(x − mean)/std`, in `f64`, rounded once.
//!
//! A byte means `byte/255`. Mean and deviation belong to a channel or to every pixel of every
//! channel by itself; bytes go through a table of 256 values for each of these.

use super::augmentation::View;
use crate::Real;
use crate::data::{Dataset, Inputs};

/// Mean and standard deviation to normalize by.
#[derive(Debug, Clone, PartialEq)]
pub struct Normalization {
    /// One number for all, one per channel, or one per number of an input.
    mean: Vec<f64>,
    /// As many.
    std: Vec<f64>,
}

impl Normalization {
    /// Numbers as they are, pixels within `[0, 1]`.
    pub fn none() -> Self {
        Self::given(vec![0.0], vec![1.0])
    }

    /// Means and deviations known beforehand: one of each for all, for each channel, or for each
    /// number of an input.
    ///
    /// # Panics
    ///
    /// If their numbers differ, or a deviation is not positive.
    pub fn given(mean: Vec<f64>, std: Vec<f64>) -> Self {
        assert_eq!(mean.len(), std.len(), "means and deviations");
        assert!(std.iter().all(|std| *std > 0.0), "deviations {std:?}, need positive ones");
        Self { mean, std }
    }

    /// The statistics of each channel over all examples and pixels.
    pub fn per_channel(data: &Dataset) -> Self {
        Self::measured(data, data.shape[2])
    }

    /// The statistics of each pixel of each channel over all examples.
    pub fn per_pixel(data: &Dataset) -> Self {
        Self::measured(data, data.input_len())
    }

    /// Mean and standard deviation (of the population) of each of `slots` places, which follow each
    /// other again and again in the data. A place that never varies is centred only.
    fn measured(data: &Dataset, slots: usize) -> Self {
        let (mean, std): (Vec<f64>, Vec<f64>) = match &data.inputs {
            Inputs::Bytes(bytes) => of_bytes(bytes, slots).into_iter().unzip(),
            Inputs::Reals(values) => of_reals(values, slots).into_iter().unzip(),
        };
        Self { mean, std: std.into_iter().map(|std| if std > 0.0 { std } else { 1.0 }).collect() }
    }

    /// The means, in the order of the slots.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The deviations, in the order of the slots.
    pub fn std(&self) -> &[f64] {
        &self.std
    }

    pub(super) fn table<F: Real>(&self, data: &Dataset) -> Table<F> {
        let (slots, len) = (self.mean.len(), data.input_len());
        assert!(
            [1, data.shape[2], len].contains(&slots),
            "{slots} means for inputs of shape {:?}",
            data.shape
        );
        let of_byte = |slot: usize, byte: u8| {
            F::of((f64::from(byte) / 255.0 - self.mean[slot]) / self.std[slot])
        };
        let bytes = match &data.inputs {
            Inputs::Bytes(_) => (0..slots)
                .map(|slot| std::array::from_fn(|byte| of_byte(slot, byte as u8)))
                .collect(),
            Inputs::Reals(_) => Vec::new(),
        };
        Table { of: self.clone(), bytes }
    }
}

/// Sums of bytes and of their squares are whole numbers: nothing is rounded before the last
/// division and root.
fn of_bytes(bytes: &[u8], slots: usize) -> Vec<(f64, f64)> {
    let mut sums = vec![(0_u64, 0_u64); slots];
    for chunk in bytes.chunks_exact(slots) {
        for ((sum, squares), byte) in sums.iter_mut().zip(chunk) {
            *sum += u64::from(*byte);
            *squares += u64::from(*byte) * u64::from(*byte);
        }
    }
    let count = (bytes.len() / slots) as u64;
    let scale = 255.0 * count as f64;
    let statistics = |(sum, squares): (u64, u64)| {
        let spread = u128::from(count) * u128::from(squares) - u128::from(sum) * u128::from(sum);
        (sum as f64 / scale, (spread as f64).sqrt() / scale)
    };
    sums.into_iter().map(statistics).collect()
}

fn of_reals(values: &[f64], slots: usize) -> Vec<(f64, f64)> {
    let count = (values.len() / slots) as f64;
    let mean_of = |term: &dyn Fn(usize, f64) -> f64| {
        let mut sums = vec![0.0; slots];
        for chunk in values.chunks_exact(slots) {
            for (slot, value) in chunk.iter().enumerate() {
                sums[slot] += term(slot, *value);
            }
        }
        sums.into_iter().map(|sum| sum / count).collect::<Vec<f64>>()
    };
    let mut mean = mean_of(&|_, value| value);
    // The mean of equal numbers is that number, whatever their sum was rounded to: otherwise the
    // rounding would pass for a deviation, and other inputs be divided by it.
    for (slot, mean) in mean.iter_mut().enumerate() {
        if values.iter().skip(slot).step_by(slots).all(|value| *value == values[slot]) {
            *mean = values[slot];
        }
    }
    let variance = mean_of(&|slot, value| (value - mean[slot]) * (value - mean[slot]));
    mean.iter().copied().zip(variance.into_iter().map(f64::sqrt)).collect()
}

/// A normalization ready for use in one precision.
#[derive(Debug, Clone)]
pub(super) struct Table<F> {
    pub of: Normalization,
    /// For data in bytes: per slot the 256 results.
    pub bytes: Vec<[F; 256]>,
}

impl<F: Real> Table<F> {
    /// Writes one example, as seen through `view`. The padding around an image is black before it
    /// is normalized; means and deviations of pixels belong to the place where a pixel is shown.
    pub fn write(&self, data: &Dataset, example: usize, view: Option<View>, out: &mut [F]) {
        let (slots, from) = (self.of.mean.len(), example * data.input_len());
        let Some(view) = view else {
            for (i, value) in out.iter_mut().enumerate() {
                *value = self.value(&data.inputs, Some(from + i), i % slots);
            }
            return;
        };
        let [height, width, channels] = data.shape;
        for (pixel, values) in out.chunks_exact_mut(channels).enumerate() {
            let source = view.source([pixel / width, pixel % width], [height, width]);
            for (channel, value) in values.iter_mut().enumerate() {
                let place =
                    source.map(|[row, column]| from + (row * width + column) * channels + channel);
                *value = self.value(&data.inputs, place, (pixel * channels + channel) % slots);
            }
        }
    }

    /// The stored number at `place`, or 0 where there is none.
    #[inline(always)]
    fn value(&self, inputs: &Inputs, place: Option<usize>, slot: usize) -> F {
        match inputs {
            Inputs::Bytes(bytes) => {
                self.bytes[slot][usize::from(place.map_or(0, |place| bytes[place]))]
            }
            Inputs::Reals(values) => {
                let value = place.map_or(0.0, |place| values[place]);
                F::of((value - self.of.mean[slot]) / self.of.std[slot])
            }
        }
    }
}
