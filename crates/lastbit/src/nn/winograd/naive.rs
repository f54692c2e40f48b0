//! The fast convolution against the one by definition: exact on small integers, within a derived
//! bound on others, the same bits at every register width.

use pulp::{Scalar, Simd};

use super::*;
use crate::nn::naive::{assert_same_bits, integers, normal};

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
    fn panels(&self, width: usize) -> Panels<F> {
        let (inputs, cols) = (self.from.channels, self.to.channels);
        let rows = PATCH * inputs;
        let mut values = vec![F::default(); rows * cols];
        for output in 0..cols {
            for input in 0..inputs {
                let transformed = transform_kernel(self.kernel(output, input));
                for (number, value) in transformed.into_iter().enumerate() {
                    let row = number * inputs + input;
                    values[(output / width * rows + row) * width + output % width] = F::of(value);
                }
            }
        }
        Panels { values, rows, cols, width }
    }

    fn convolve_at<S: Simd>(&self, simd: S, start: Start<F>, out: &mut [F]) {
        let mut patches = Patches::default();
        let width = F::lanes::<S>();
        patches.prepare(STRIP * apart(self.from.channels), STRIP * PATCH * width);
        let (x, from, to, tiles, w) =
            (&self.x[..], self.from, self.to, &self.tiles()[..], &self.panels(width));
        let patches = &mut patches;
        simd.vectorize(Convolve { x, from, tiles, w, start, out, to, patches });
    }

    /// The gradient by the kernels, `[out][in][row][column]`.
    fn outer_at<S: Simd>(&self, simd: S) -> Vec<F> {
        let (inputs, outputs, width) = (self.from.channels, self.to.channels, F::lanes::<S>());
        let mut patches = Patches::default();
        patches.prepare(BAND * apart(inputs), BAND * apart(outputs));
        let mut w = vec![F::default(); PATCH * inputs * outputs];
        let (x, d, from, to, tiles) =
            (&self.x[..], &self.d[..], self.from, self.to, &self.tiles()[..]);
        simd.vectorize(Outer { x, from, d, to, tiles, w: &mut w, patches: &mut patches });
        let patch = |output: usize, input: usize| {
            let rows = PATCH * inputs;
            std::array::from_fn(|number| {
                let row = number * inputs + input;
                w[(output / width * rows + row) * width + output % width].to_f64()
            })
        };
        (0..outputs * inputs)
            .flat_map(|at| transform_kernel_back(patch(at / inputs, at % inputs)))
            .map(F::of)
            .collect()
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
            case.convolve_at(Scalar, Start::Zero, &mut out);
            // Quarters of integers below 2^20: every number on the way is representable.
            let ours: Vec<f64> = out.iter().map(|x| x.to_f64()).collect();
            assert_eq!(ours, case.by_definition(), "{size:?}");
            let ours: Vec<f64> = case.outer_at(Scalar).iter().map(|x| x.to_f64()).collect();
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
        case.convolve_at(Scalar, Start::Zero, &mut out);
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
    fn check<F: Real>() {
        for size in SIZES {
            let case = Case::<F>::new(size, normal);
            let bias = normal(case.to.channels, 4);
            let before: Vec<F> = normal(case.d.len(), 5);
            for start in [Start::Zero, Start::Bias(&bias), Start::Out] {
                let mut twin = before.clone();
                case.convolve_at(Scalar, start, &mut twin);
                let mut out = before.clone();
                let (tiles, mut patches) = (case.tiles(), Patches::default());
                let w = &case.panels(width::<F>());
                convolve(&case.x, case.from, &tiles, w, start, &mut out, case.to, &mut patches);
                assert_same_bits(&format!("{size:?}, {start:?}"), &out, &twin);
                #[cfg(target_arch = "x86_64")]
                if let Some(avx2) = pulp::x86::V3::try_new() {
                    let mut out = before.clone();
                    case.convolve_at(avx2, start, &mut out);
                    assert_same_bits("AVX2", &out, &twin);
                    assert_same_bits("AVX2", &case.outer_at(avx2), &case.outer_at(Scalar));
                }
                #[cfg(target_arch = "x86_64")]
                if let Some(avx512) = pulp::x86::V4::try_new() {
                    assert_same_bits("AVX-512", &case.outer_at(avx512), &case.outer_at(Scalar));
                }
            }
        }
    }
    check::<f32>();
    check::<f64>();
}

#[test]
fn the_kernels_transforms_are_adjoint() {
    let (g, m) = (integers::<f64>(9, 1), integers::<f64>(16, 2));
    let forward = transform_kernel(std::array::from_fn(|i| g[i]));
    let back = transform_kernel_back(std::array::from_fn(|i| m[i]));
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    assert_eq!(dot(&forward, &m), dot(&g, &back));
}
