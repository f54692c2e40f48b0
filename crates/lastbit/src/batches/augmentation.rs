//! Random crops and mirror images, as usual for small photographs: the image is surrounded by
//! `padding` black pixels, a window of its own size is cut out of that at random, and every second
//! one is mirrored.

use super::AUGMENTATION;
use crate::rng::Stream;

/// How examples are varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Augmentation {
    /// Black pixels around the image before the crop; 0 leaves the image where it is.
    pub padding: usize,
    /// Whether left and right change places, half of the time.
    pub flip: bool,
    /// Which variations.
    pub seed: u64,
}

/// What of an example is seen in one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct View {
    /// Rows by which the window lies below the image.
    pub down: isize,
    /// Columns by which the window lies to the right of the image.
    pub right: isize,
    /// Whether the window is mirrored.
    pub mirrored: bool,
}

impl Augmentation {
    /// The stream of an epoch's draws.
    pub fn stream(epoch: usize) -> u64 {
        AUGMENTATION + epoch as u64
    }

    /// The view of an example `i`: three draws, at the counters `3i`, `3i + 1` and `3i + 2`.
    pub(super) fn view(&self, epoch: usize, example: u32) -> View {
        let stream = Stream::new(self.seed, Self::stream(epoch));
        let draw = |which: u64, bound: u64| stream.below(3 * u64::from(example) + which, bound);
        let places = 2 * self.padding as u64 + 1;
        let shift = |which: u64| draw(which, places) as isize - self.padding as isize;
        View { down: shift(0), right: shift(1), mirrored: self.flip && draw(2, 2) == 1 }
    }
}

impl View {
    /// Where the pixel shown at `(row, column)` lies in an image of this size; `None` in the
    /// padding.
    pub fn source(
        &self,
        [row, column]: [usize; 2],
        [height, width]: [usize; 2],
    ) -> Option<[usize; 2]> {
        let column = if self.mirrored { width - 1 - column } else { column };
        let row = row.checked_add_signed(self.down).filter(|row| *row < height)?;
        let column = column.checked_add_signed(self.right).filter(|column| *column < width)?;
        Some([row, column])
    }
}
