//! Which pixel meets which in a convolution, its transpose and its weight gradient.
//!
//! Forward, an output pixel `(y, x)` reads the padded input from row `y·s` and column `x·s`. Backward,
//! an input pixel receives from output pixels only through kernel rows of its own residue:
//!
//! ```text
//! dx[i] = Σ_m d[q − m] · w[a + s m],      i + before = s q + a,   0 ≤ a < s,   0 ≤ m < M_a = ⌈(k − a)/s⌉
//! ```
//!
//! in each direction. So the transpose is `s²` convolutions of stride one with the kernel's flipped
//! residue classes, none of which multiplies by a zero that the stride put there.

use super::kernel::{Pixel, Runs};
use super::network::{Conv, Layer};
use super::winograd::CHANNELS;

/// Bytes of input that are worth keeping in the second-level cache while the weights pass.
const GROUP_BYTES: usize = 384 * 1024;
/// Output pixels enough to pay for passing through the weights.
const GROUP_PIXELS: usize = 64;
/// Pairs of channels from which on threads share the weights of a convolution by patches, and no longer the images: its
/// transformed kernels take a mebibyte in `f32`.
const SHARED: usize = 128 * 128;
/// Bytes of a page and of a line of the cache. Images that lie whole pages apart share few lines.
const PAGE: usize = 4096;
const LINE: usize = 64;

/// Where the rows of an image go in a padded copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placement {
    /// Numbers of a padded image.
    pub image: usize,
    /// Offset of the first number.
    pub start: usize,
    /// From one row to the next.
    pub stride: usize,
    /// Rows and numbers per row that are used.
    pub rows: usize,
    pub cols: usize,
    /// Whether there are zeros around them that somebody reads.
    pub is_padded: bool,
}

impl Placement {
    /// Without any padding.
    pub fn dense(layer: &Layer) -> Self {
        let row = layer.row();
        let (image, rows) = (layer.len(), layer.shape[0]);
        Self { image, start: 0, stride: row, rows, cols: row, is_padded: false }
    }
}

/// One residue class of the transposed convolution.
#[derive(Debug, Clone)]
pub(super) struct Class {
    /// First kernel row and column, and how many, `stride` apart.
    pub first: [usize; 2],
    pub taps: [usize; 2],
    pub pixels: Vec<Pixel>,
    pub runs: Runs,
}

/// A convolution over groups of images.
#[derive(Debug, Clone)]
pub(super) struct Geometry {
    /// Images that are computed together.
    pub group: usize,
    /// Input pixels of the padded copy → output pixels.
    pub forward: Vec<Pixel>,
    pub runs: Runs,
    pub input: Placement,
    /// The output's gradient in its padded copy, and how the classes read it.
    pub output: Placement,
    pub classes: Vec<Class>,
    /// Padded input pixels → pixels of the padded gradient.
    pub outer: Vec<Pixel>,
    pub input_channels: usize,
    pub output_channels: usize,
    /// From one row of the output, and of the input, to the next, both without padding.
    pub output_row: usize,
    pub input_row: usize,
    pub input_rows: usize,
    /// Where the convolution is computed by patches instead of pixels.
    pub tiles: Option<Tiles>,
    /// Whether threads share the weights and no longer the images.
    pub shares_weights: bool,
}

/// The upper left pixels of 2×2 patches of outputs, paired as the pixels are.
#[derive(Debug, Clone)]
pub(super) struct Tiles {
    pub forward: Vec<Pixel>,
    pub transposed: Vec<Pixel>,
    pub outer: Vec<Pixel>,
}

impl Geometry {
    /// For groups of at most `chunk` images or, where threads share the weights, `examples`.
    pub fn new<F>(conv: &Conv, from: &Layer, to: &Layer, chunk: usize, examples: usize) -> Self {
        let [height, width, channels] = from.shape;
        let [rows, cols, outputs] = to.shape;
        let s = conv.stride;
        let padded = [(rows - 1) * s + conv.kernel[0], (cols - 1) * s + conv.kernel[1]];
        let stride = padded[1] * channels;
        let apart = padded[0] * stride * size_of::<F>();
        let used = [0, 1].map(|d| from.shape[d].min(padded[d] - conv.before[d]));
        let input = Placement {
            image: padded[0] * stride
                + if apart.is_multiple_of(PAGE) { LINE / size_of::<F>() } else { 0 },
            start: conv.before[0] * stride + conv.before[1] * channels,
            stride,
            rows: used[0],
            cols: used[1] * channels,
            is_padded: used != padded,
        };
        // Whether patches are used must not depend on the machine: their channels suit any register.
        let even = [rows, cols, height, width].iter().all(|n| n % 2 == 0);
        let in_patches = conv.kernel == [3, 3]
            && s == 1
            && even
            && channels % CHANNELS == 0
            && outputs % CHANNELS == 0;
        let shares_weights = in_patches && channels * outputs >= SHARED;
        let pixels = if in_patches { 4 * GROUP_PIXELS } else { GROUP_PIXELS };
        let in_cache = GROUP_BYTES / (input.image * size_of::<F>());
        let limit = if shares_weights { examples } else { chunk.min(in_cache) };
        let group = pixels.div_ceil(rows * cols).min(limit).max(1);

        // The gradient's padded copy has room for the widest class on each side.
        let axis = |d: usize, size: usize, out: usize| Axis::new(conv, d, size, out);
        let (vertical, horizontal) = (axis(0, height, rows), axis(1, width, cols));
        let d_stride = (horizontal.before + cols + horizontal.after) * outputs;
        let output = Placement {
            image: (vertical.before + rows + vertical.after) * d_stride,
            start: vertical.before * d_stride + horizontal.before * outputs,
            stride: d_stride,
            rows,
            cols: cols * outputs,
            is_padded: [&vertical, &horizontal].iter().any(|axis| axis.before + axis.after > 0),
        };
        let images = |pixels: &dyn Fn(usize) -> Vec<Pixel>| (0..group).flat_map(pixels).collect();
        let each_output = |make: &dyn Fn(usize, usize) -> Pixel| {
            (0..rows * cols).map(|p| make(p / cols, p % cols)).collect::<Vec<_>>()
        };
        let from_at = |image: usize, y: usize, x: usize| {
            image * input.image + y * s * stride + x * s * channels
        };
        let forward: Vec<Pixel> = images(&|image| {
            each_output(&|y, x| Pixel {
                from: from_at(image, y, x),
                to: image * to.len() + (y * cols + x) * outputs,
            })
        });
        let outer: Vec<Pixel> = images(&|image| {
            each_output(&|y, x| Pixel {
                from: from_at(image, y, x),
                to: image * output.image + output.start + y * d_stride + x * outputs,
            })
        });
        let classes: Vec<Class> = (0..s * s)
            .map(|class| {
                let (v, h) = (&vertical.residues[class / s], &horizontal.residues[class % s]);
                let pixels = (0..group)
                    .flat_map(|image| {
                        v.pixels.iter().flat_map(move |&(i, y)| {
                            h.pixels.iter().map(move |&(j, x)| Pixel {
                                from: image * output.image + y * d_stride + x * outputs,
                                to: image * from.len() + (i * width + j) * channels,
                            })
                        })
                    })
                    .collect();
                let runs = Runs { count: v.taps, stride: d_stride, len: h.taps * outputs };
                Class { first: [v.first, h.first], taps: [v.taps, h.taps], pixels, runs }
            })
            .collect();
        let runs = Runs { count: conv.kernel[0], stride, len: conv.kernel[1] * channels };
        let tiles = in_patches.then(|| {
            let each_second = |pixels: &[Pixel], rows: usize, cols: usize| {
                let is_even = |n: usize| n.is_multiple_of(2);
                let corner = |p: &usize| is_even(p / cols % rows) && is_even(p % cols);
                (0..pixels.len()).filter(corner).map(|p| pixels[p]).collect::<Vec<_>>()
            };
            Tiles {
                forward: each_second(&forward, rows, cols),
                transposed: each_second(&classes[0].pixels, height, width),
                outer: each_second(&outer, rows, cols),
            }
        });
        Self {
            group,
            forward,
            runs,
            input,
            output,
            classes,
            outer,
            input_channels: channels,
            output_channels: outputs,
            output_row: to.row(),
            input_row: from.row(),
            input_rows: height,
            tiles,
            shares_weights,
        }
    }

    /// Pixels of the first `images` images of a list that has `group` images.
    pub fn part<'a>(&self, pixels: &'a [Pixel], images: usize) -> &'a [Pixel] {
        &pixels[..pixels.len() / self.group * images]
    }
}

/// The residue classes along one direction.
struct Axis {
    before: usize,
    after: usize,
    residues: Vec<Residue>,
}

struct Residue {
    first: usize,
    taps: usize,
    /// Input positions with the padded output position at which their taps begin.
    pixels: Vec<(usize, usize)>,
}

impl Axis {
    fn new(conv: &Conv, direction: usize, size: usize, out: usize) -> Self {
        let (k, s, pad) = (conv.kernel[direction], conv.stride, conv.before[direction]);
        let taps = |a: usize| k.saturating_sub(a).div_ceil(s);
        let positions = |a: usize| (0..size).filter(move |i| (i + pad) % s == a);
        let quotient = |i: usize| (i + pad) / s;
        let used =
            || (0..s).filter(|&a| taps(a) > 0).flat_map(|a| positions(a).map(move |i| (a, i)));
        // Taps reach from q − M + 1 to q.
        let before = used().map(|(a, i)| (taps(a) - 1).saturating_sub(quotient(i))).max();
        let after = used().map(|(_, i)| (quotient(i) + 1).saturating_sub(out)).max();
        let before = before.unwrap_or(0);
        let residues = (0..s)
            .map(|a| Residue {
                first: a,
                taps: taps(a),
                pixels: if taps(a) == 0 {
                    vec![]
                } else {
                    positions(a).map(|i| (i, before + quotient(i) + 1 - taps(a))).collect()
                },
            })
            .collect();
        Self { before, after: after.unwrap_or(0), residues }
    }
}
