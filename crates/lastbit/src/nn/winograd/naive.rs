//! The fast convolution against the one by definition: exact on small integers, within a derived
//! bound on others, the same bits at every register width.

use pulp::{Scalar, Simd};

use super::multiply::Multiply;
use super::outer::Outer;
use super::patches::Gather;
use super::*;
use crate::Real;
use crate::nn::kernel::{Pixel, Start};
use crate::nn::naive::{assert_same_bits, integers, normal};
use crate::nn::products::STRIP;
use crate::simd::width;

/// `G g Gᵀ` of one kernel: columns first, sums from left to right.
fn transform(g: [f64; 9]) -> [f64; PATCH] {
    let spread = |g: [f64; 3]| [g[0], (g[0] + g[1] + g[2]) / 2.0, (g[0] - g[1] + g[2]) / 2.0, g[2]];
    let columns = [0, 1, 2].map(|c| spread([g[c], g[3 + c], g[6 + c]]));
    let row = |r: usize| spread([columns[0][r], columns[1][r], columns[2][r]]);
    std::array::from_fn(|n| row(n / 4)[n % 4])
}

/// `Gᵀ m G`.
fn transform_back(m: [f64; PATCH]) -> [f64; 9] {
    let collect = |m: [f64; 4]| {
        let (sum, difference) = ((m[1] + m[2]) / 2.0, (m[1] - m[2]) / 2.0);
        [m[0] + sum, difference, sum + m[3]]
    };
    let columns = [0, 1, 2, 3].map(|c| collect([m[c], m[4 + c], m[8 + c], m[12 + c]]));
    let row = |r: usize| collect([columns[0][r], columns[1][r], columns[2][r], columns[3][r]]);
    std::array::from_fn(|n| row(n / 3)[n % 3])
}

/// An image of `rows`×`cols` outputs, its padded input and its kernels.
struct Case<F> {
    rows: usize,
    cols: usize,
    from: Grid,
    to: Grid,
    x: Vec<F>,
    /// `[out][in][row][column]`.
    kernels: Vec<F>,
    d: Vec<F>,
}

impl<F: Real> Case<F> {
    fn new(
        [rows, cols, inputs, outputs]: [usize; 4],
        numbers: impl Fn(usize, u64) -> Vec<F>,
    ) -> Self {
        Self {
            rows,
            cols,
            from: Grid { stride: (cols + 2) * inputs, channels: inputs },
            to: Grid { stride: cols * outputs, channels: outputs },
            x: numbers((rows + 2) * (cols + 2) * inputs, 1),
            kernels: numbers(9 * inputs * outputs, 2),
            d: numbers(rows * cols * outputs, 3),
        }
    }

    fn tiles(&self) -> Vec<Pixel> {
        let across = self.cols / 2;
        (0..self.rows / 2 * across)
            .map(|tile| {
                let (y, x) = (2 * (tile / across), 2 * (tile % across));
                let at = |grid: Grid| y * grid.stride + x * grid.channels;
                Pixel { from: at(self.from), to: at(self.to) }
            })
            .collect()
    }

    fn kernel(&self, output: usize, input: usize) -> [f64; 9] {
        let at = 9 * (output * self.from.channels + input);
        std::array::from_fn(|tap| self.kernels[at + tap].to_f64())
    }

    /// Transformed kernels in panels of a width.
    fn panels(&self, width: usize) -> Vec<F> {
        let (inputs, outputs) = (self.from.channels, self.to.channels);
        let mut values = vec![F::default(); PATCH * inputs * outputs];
        for output in 0..outputs {
            for input in 0..inputs {
                let transformed = transform(self.kernel(output, input));
                for (number, value) in transformed.into_iter().enumerate() {
                    let row = output / width * PATCH * inputs + number * inputs + input;
                    values[row * width + output % width] = F::of(value);
                }
            }
        }
        values
    }

    fn gather<'a, S: Simd>(
        &self,
        simd: S,
        transform: Transform,
        room: usize,
        values: &'a mut Vec<F>,
    ) -> Patches<'a, F> {
        let (x, grid) = match transform {
            Transform::Input => (&self.x[..], self.from),
            Transform::Output => (&self.d[..], self.to),
        };
        let tiles = &self.tiles()[..];
        values.resize(Patches::<F>::len_of(grid.channels, room), F::of(f64::NAN));
        simd.vectorize(Gather { transform, x, grid, tiles, room, values });
        Patches::of(values, grid.channels, tiles.len(), room)
    }

    /// `terms` times the convolution.
    fn convolve_at<S: Simd>(&self, simd: S, terms: usize, start: Start<F>, out: &mut [F]) {
        let tiles = &self.tiles()[..];
        let room = tiles.len().next_multiple_of(STRIP) + STRIP;
        let (mut values, panels, mut sums) = (vec![], self.panels(F::lanes::<S>()), vec![]);
        let patches = self.gather(simd, Transform::Input, room, &mut values);
        let terms = &vec![(patches, &panels[..]); terms][..];
        simd.vectorize(Multiply { terms, tiles, start, out, to: self.to, sums: &mut sums });
    }

    /// The gradient by the kernels, `[out][in][row][column]`, all tiles `times` times.
    fn outer_at<S: Simd>(&self, simd: S, times: usize) -> Vec<F> {
        let (inputs, outputs) = (self.from.channels, self.to.channels);
        let room = self.tiles().len().next_multiple_of(STRIP);
        let (mut x, mut d) = (vec![], vec![]);
        let x = self.gather(simd, Transform::Input, room, &mut x);
        let d = self.gather(simd, Transform::Output, room, &mut d);
        let parts = &vec![Summed { x, d }; times][..];
        let mut out = vec![F::default(); 9 * inputs * outputs];
        for first in (0..outputs).step_by(OUTPUTS) {
            let mut sums = vec![F::default(); PATCH * OUTPUTS * inputs];
            simd.vectorize(Outer { parts, first, g: &mut sums });
            for (output, out) in
                out.chunks_exact_mut(9 * inputs).skip(first).take(OUTPUTS).enumerate()
            {
                for (input, out) in out.as_chunks_mut::<9>().0.iter_mut().enumerate() {
                    let output = output % OUTPUTS;
                    let patch = std::array::from_fn(|n| {
                        sums[(n * OUTPUTS + output) * inputs + input].to_f64()
                    });
                    *out = transform_back(patch).map(F::of);
                }
            }
        }
        out
    }

    /// The pixel under tap `tap` of output `(y, x)`, channel `input`.
    fn under(&self, y: usize, x: usize, tap: usize, input: usize) -> f64 {
        let Grid { stride, channels } = self.from;
        self.x[(y + tap / 3) * stride + (x + tap % 3) * channels + input].to_f64()
    }

    fn by_definition(&self) -> Vec<f64> {
        let mut out = vec![];
        for y in 0..self.rows {
            for x in 0..self.cols {
                for output in 0..self.to.channels {
                    let mut sum = 0.0;
                    for input in 0..self.from.channels {
                        let kernel = self.kernel(output, input);
                        for (tap, weight) in kernel.into_iter().enumerate() {
                            sum += weight * self.under(y, x, tap, input);
                        }
                    }
                    out.push(sum);
                }
            }
        }
        out
    }

    fn kernel_gradient_by_definition(&self) -> Vec<f64> {
        let mut out = vec![];
        for output in 0..self.to.channels {
            for input in 0..self.from.channels {
                for tap in 0..9 {
                    let mut sum = 0.0;
                    for y in 0..self.rows {
                        for x in 0..self.cols {
                            let at = y * self.to.stride + x * self.to.channels + output;
                            sum += self.d[at].to_f64() * self.under(y, x, tap, input);
                        }
                    }
                    out.push(sum);
                }
            }
        }
        out
    }
}

const SIZES: [[usize; 4]; 4] = [[2, 2, 16, 16], [6, 4, 32, 16], [8, 8, 16, 48], [4, 10, 48, 32]];

#[test]
fn exact_on_small_integers() {
    fn check<F: Real>() {
        for size in SIZES {
            let case = Case::<F>::new(size, integers);
            let mut out = vec![F::of(f64::NAN); case.d.len()];
            case.convolve_at(Scalar, 1, Start::Zero, &mut out);
            // Quarters of integers below 2^20: every number on the way is representable.
            let ours: Vec<f64> = out.iter().map(|x| x.to_f64()).collect();
            assert_eq!(ours, case.by_definition(), "{size:?}");
            let ours: Vec<f64> = case.outer_at(Scalar, 1).iter().map(|x| x.to_f64()).collect();
            assert_eq!(ours, case.kernel_gradient_by_definition(), "{size:?}");
        }
    }
    check::<f32>();
    check::<f64>();
}

#[test]
fn within_the_bound_on_other_numbers() {
    for size in SIZES {
        let case = Case::<f32>::new(size, normal);
        let mut out = vec![0.0; case.d.len()];
        case.convolve_at(Scalar, 1, Start::Zero, &mut out);
        let largest =
            |values: &[f32]| values.iter().fold(0.0, |m: f64, x| m.max(f64::from(x.abs())));
        // A transformed pixel is a sum of at most 4 pixels, a transformed kernel a mean of at most
        // 9/4 weights, an output a sum of at most 9 products: at most 81 products of the largest
        // numbers per channel. Each went through 1 + 2 + channels + 4 roundings.
        let channels = case.from.channels as f64;
        let magnitude = 81.0 * channels * largest(&case.x) * largest(&case.kernels);
        let bound = (channels + 7.0) * f32::UNIT_ROUNDOFF * magnitude;
        let worst = out.iter().zip(case.by_definition());
        let worst = worst.map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
        assert!(worst <= bound, "{size:?}: {worst:e} of {bound:e}");
        // The bound is for the worst case; rounding errors cancel, and a direct sum of as many
        // products would be off by about as much as we ask here.
        let usual = 16.0 * (9.0 * channels).sqrt() * f32::UNIT_ROUNDOFF;
        let root = (9.0 * channels).sqrt() * largest(&case.x) * largest(&case.kernels);
        assert!(worst <= usual * root, "{size:?}: {worst:e} of {:e}", usual * root);
    }
}

#[test]
fn the_same_bits_at_every_width_and_start() {
    fn check_at<F: Real, S: Simd>(
        what: &str,
        simd: S,
        size: [usize; 4],
        start: Start<F>,
        terms: usize,
    ) {
        let case = Case::<F>::new(size, normal);
        let before: Vec<F> = normal(case.d.len(), 5);
        let (mut out, mut reference) = (before.clone(), before);
        case.convolve_at(simd, terms, start, &mut out);
        case.convolve_at(Scalar, terms, start, &mut reference);
        assert_same_bits(&format!("{what}, {size:?}, {terms} terms"), &out, &reference);
        assert_same_bits(what, &case.outer_at(simd, terms), &case.outer_at(Scalar, terms));
    }
    fn check<F: Real>() {
        for size in SIZES {
            let bias = normal(size[3], 4);
            for start in [Start::Zero, Start::Bias(&bias), Start::Out] {
                for terms in [1, 2] {
                    #[cfg(target_arch = "x86_64")]
                    if let Some(simd) = pulp::x86::V3::try_new() {
                        check_at::<F, _>("AVX2", simd, size, start, terms);
                    }
                    #[cfg(target_arch = "x86_64")]
                    if let Some(simd) = pulp::x86::V4::try_new() {
                        check_at::<F, _>("AVX-512", simd, size, start, terms);
                    }
                }
            }
        }
    }
    check::<f32>();
    check::<f64>();
}

#[test]
fn kernels_are_transformed_and_back() {
    fn check<F: Real>() {
        let (inputs, outputs) = (16 + 32, 32);
        let case = Case::<F>::new([2, 2, inputs, outputs], normal);
        let mut values = vec![F::default(); PATCH * inputs * outputs];
        pack(&case.kernels, inputs, [9 * inputs, 9], false, &mut values);
        assert_same_bits("kernels", &values, &case.panels(width::<F>()));
        // From outputs to inputs, flipped.
        let mut adjoint = Case::<F>::new([2, 2, outputs, inputs], normal);
        for output in 0..outputs {
            for input in 0..inputs {
                let from = 9 * (output * inputs + input);
                let to = 9 * (input * outputs + output);
                let mut kernel = case.kernels[from..from + 9].to_vec();
                kernel.reverse();
                adjoint.kernels[to..to + 9].copy_from_slice(&kernel);
            }
        }
        pack(&case.kernels, outputs, [9, 9 * inputs], true, &mut values);
        assert_same_bits("adjoint", &values, &adjoint.panels(width::<F>()));

        let sums: Vec<F> = normal(PATCH * inputs, 7);
        let mut out = vec![F::default(); 9 * inputs];
        unpack(std::array::from_fn(|n| &sums[n * inputs..(n + 1) * inputs]), &mut out);
        let back: Vec<F> = (0..inputs)
            .flat_map(|i| transform_back(std::array::from_fn(|n| sums[n * inputs + i].to_f64())))
            .map(F::of)
            .collect();
        assert_same_bits("gradient", &out, &back);
    }
    check::<f32>();
    check::<f64>();
}

#[test]
fn the_kernels_transforms_are_adjoint() {
    let (g, m) = (integers::<f64>(9, 1), integers::<f64>(16, 2));
    let forward = transform(std::array::from_fn(|i| g[i]));
    let back = transform_back(std::array::from_fn(|i| m[i]));
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    assert_eq!(dot(&forward, &m), dot(&g, &back));
}
