//! Work in parallel over parts whose number depends on the problem alone, never on the threads.

use std::mem::take;
use std::sync::Mutex;

use rayon::prelude::*;

/// Below this many numbers a second thread costs more than it brings.
const WORTHWHILE: usize = 1 << 14;

/// Calls `work` with each chunk of `size` numbers and its index.
pub(super) fn chunks<T: Send>(
    values: &mut [T],
    size: usize,
    work: impl Fn(usize, &mut [T]) + Sync,
) {
    if values.len() <= size.max(WORTHWHILE) {
        values.chunks_mut(size.max(1)).enumerate().for_each(|(i, chunk)| work(i, chunk));
    } else {
        values.par_chunks_mut(size).enumerate().for_each(|(i, chunk)| work(i, chunk));
    }
}

/// Cuts `P` slices into equally many chunks, each slice by its own size, and calls `work` with the
/// chunks of each index. A slice of size 0 gives empty chunks.
pub(super) fn zipped<T: Send, const P: usize>(
    parts: [(&mut [T], usize); P],
    work: impl Fn(usize, [&mut [T]; P]) + Sync,
) {
    let count = |(values, size): &(&mut [T], usize)| values.len().div_ceil((*size).max(1));
    let chunks = parts.iter().map(count).max().unwrap_or(0);
    let mut rest = parts;
    let mut tasks = Vec::with_capacity(chunks);
    for index in 0..chunks {
        let task = rest.each_mut().map(|(values, size)| {
            let size = values.len().min(*size);
            let (chunk, others) = take(values).split_at_mut(size);
            *values = others;
            chunk
        });
        tasks.push((index, task));
    }
    if chunks == 1 {
        tasks.into_iter().for_each(|(index, task)| work(index, task));
    } else {
        tasks.into_par_iter().for_each(|(index, task)| work(index, task));
    }
}

/// Work space that threads take and give back, so that a step allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Pool<T> {
    free: Mutex<Vec<T>>,
}

impl<T: Default> Pool<T> {
    /// Lends a work space; what it holds is left from earlier work.
    pub fn lend<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let taken = self.free.lock().expect("no thread panics here").pop();
        let mut space = taken.unwrap_or_default();
        let result = work(&mut space);
        self.free.lock().expect("no thread panics here").push(space);
        result
    }
}

/// A clone starts without work space of its own.
impl<T> Clone for Pool<T> {
    fn clone(&self) -> Self {
        Self { free: Mutex::new(Vec::new()) }
    }
}
