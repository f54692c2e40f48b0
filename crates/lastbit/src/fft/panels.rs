//! How the columns of a transform lie in memory.

/// Columns that travel together, a cache line of numbers: a panel of 256 rows takes 32 KiB, and as
/// much again to work in.
pub(super) const PANEL: usize = 8;

/// Panels of `PANEL` complex columns, one after the other, each by rows; real and imaginary parts
/// apart. What stands in columns that fill up the last panel is never looked at.
#[derive(Debug, Clone)]
pub(super) struct Panels {
    /// Numbers in a panel, and panels.
    len: usize,
    pub(super) count: usize,
    re: Aligned,
    im: Aligned,
}

/// Real and imaginary parts of one panel.
pub(super) type Panel<'a> = (&'a [f64], &'a [f64]);
pub(super) type PanelMut<'a> = (&'a mut [f64], &'a mut [f64]);

impl Panels {
    pub(super) fn zeros(rows: usize, columns: usize) -> Self {
        let (len, count) = (rows * PANEL, columns.div_ceil(PANEL));
        let zeros = || Aligned::zeros(len * count);
        Self { len, count, re: zeros(), im: zeros() }
    }

    pub(super) fn panel(&self, index: usize) -> Panel<'_> {
        let start = index * self.len;
        (&self.re.get()[start..][..self.len], &self.im.get()[start..][..self.len])
    }

    pub(super) fn panel_mut(&mut self, index: usize) -> PanelMut<'_> {
        let start = index * self.len;
        (&mut self.re.get_mut()[start..][..self.len], &mut self.im.get_mut()[start..][..self.len])
    }
}

/// Numbers from the start of a cache line on: rows of a panel are as long as one, and a vector
/// that straddles two takes twice as long to load.
#[derive(Debug, Clone)]
struct Aligned {
    start: usize,
    numbers: Vec<f64>,
}

impl Aligned {
    fn zeros(len: usize) -> Self {
        let numbers = vec![0.0; len + PANEL];
        // A clone may lie otherwise; it is then slower and no less right.
        let start = numbers.as_ptr().align_offset(64).min(PANEL);
        Self { start, numbers }
    }

    fn get(&self) -> &[f64] {
        &self.numbers[self.start..]
    }

    fn get_mut(&mut self) -> &mut [f64] {
        &mut self.numbers[self.start..]
    }
}
