//! Convolutions by definition.
//!
//! ```text
//! out[n, y, x, o] = bias[o] + Σ_{r, c, i} image[n, s y + r − before, s x + c − before, i] · weight[o, i, r, c]
//! ```
//!
//! with zeros outside the image, summed in the order row, column, channel; in a fully connected layer, whose kernel
//! covers the image, in the order channel, row, column, in which PyTorch keeps its weights.

use std::sync::Arc;

use proptest::prelude::*;

use super::{Alone, assert_same_bits, error_gradient, gamma, normal};
use crate::Real;
use crate::nn::{Batch, Builder, Engine, Loss, Node, Padding, Targets};
use crate::objective::{Objective, StochasticObjective};

#[derive(Debug, Clone, Copy)]
struct Case {
    examples: usize,
    image: [usize; 3],
    outputs: usize,
    kernel: [usize; 2],
    stride: usize,
    padding: Padding,
    bias: bool,
}

/// One pixel of an image, one of an output, and the place in the kernel where they meet.
#[derive(Debug, Clone, Copy)]
struct Meeting {
    image: usize,
    out: usize,
    row: usize,
    col: usize,
}

impl Case {
    fn out_size(&self) -> [usize; 2] {
        [0, 1].map(|d| match self.padding {
            Padding::Same => self.image[d].div_ceil(self.stride),
            Padding::Valid => (self.image[d] - self.kernel[d]) / self.stride + 1,
        })
    }

    /// A fully connected layer: there is one place for the kernel, with no zeros around.
    fn is_dense(&self) -> bool {
        let none_before = self.padding == Padding::Valid || self.kernel.iter().all(|&k| k <= 2);
        self.kernel == [self.image[0], self.image[1]] && none_before && self.out_size() == [1, 1]
    }

    fn out_len(&self) -> usize {
        let [rows, cols] = self.out_size();
        self.examples * rows * cols * self.outputs
    }

    fn image_len(&self) -> usize {
        self.examples * self.image.iter().product::<usize>()
    }

    fn weight_len(&self) -> usize {
        self.outputs * self.image[2] * self.kernel[0] * self.kernel[1]
    }

    fn bias_len(&self) -> usize {
        if self.bias { self.outputs } else { 0 }
    }

    /// Where `weight[output, input]` lies at a place of the kernel.
    fn weight_at(&self, output: usize, input: usize, meeting: Meeting) -> usize {
        let [rows, cols] = self.kernel;
        ((output * self.image[2] + input) * rows + meeting.row) * cols + meeting.col
    }

    /// All meetings of some examples in the order example, output row, output column, kernel row,
    /// kernel column.
    fn meetings(&self, examples: std::ops::Range<usize>) -> Vec<Meeting> {
        let ([height, width, _], [rows, cols]) = (self.image, self.out_size());
        let before = match self.padding {
            Padding::Same => self.kernel.map(|k| (k - 1) / 2),
            Padding::Valid => [0, 0],
        };
        let mut meetings = vec![];
        for n in examples {
            for y in 0..rows {
                for x in 0..cols {
                    for row in 0..self.kernel[0] {
                        for col in 0..self.kernel[1] {
                            let i = (y * self.stride + row).wrapping_sub(before[0]);
                            let j = (x * self.stride + col).wrapping_sub(before[1]);
                            if i < height && j < width {
                                let image = (n * height + i) * width + j;
                                let out = (n * rows + y) * cols + x;
                                meetings.push(Meeting { image, out, row, col });
                            }
                        }
                    }
                }
            }
        }
        meetings
    }

    fn layer(self) -> impl FnOnce(&mut Builder, Node) -> Node {
        move |net, x| {
            let Self { outputs, kernel, stride, padding, bias, .. } = self;
            net.conv(x, "conv", outputs, kernel, stride, padding, bias)
        }
    }

    fn forward<F: Real>(&self, x: &[F], weight: &[F], bias: &[F]) -> Vec<F> {
        let inputs = self.image[2];
        let mut out = vec![F::default(); self.out_len()];
        if self.bias {
            out.chunks_exact_mut(self.outputs).for_each(|out| out.copy_from_slice(bias));
        }
        let mut add = |meeting: Meeting, input: usize| {
            let x = x[meeting.image * inputs + input];
            for output in 0..self.outputs {
                let out = &mut out[meeting.out * self.outputs + output];
                *out = x.mul_add(weight[self.weight_at(output, input, meeting)], *out);
            }
        };
        let meetings = self.meetings(0..self.examples);
        if self.is_dense() {
            (0..inputs).for_each(|i| meetings.iter().for_each(|meeting| add(*meeting, i)));
        } else {
            meetings.iter().for_each(|meeting| (0..inputs).for_each(|i| add(*meeting, i)));
        }
        out
    }

    /// A chain over the pixels of each chunk, and the chunks one after the other; in a fully connected layer all images
    /// are one chunk.
    fn weight_gradient<F: Real>(&self, x: &[F], d: &[F]) -> Vec<F> {
        let inputs = self.image[2];
        let chunk = if self.is_dense() { self.examples } else { self.examples.div_ceil(16).max(4) };
        let mut total = vec![];
        for first in (0..self.examples).step_by(chunk) {
            let mut sums = vec![F::default(); self.weight_len()];
            for meeting in self.meetings(first..self.examples.min(first + chunk)) {
                for input in 0..inputs {
                    for output in 0..self.outputs {
                        let sum = &mut sums[self.weight_at(output, input, meeting)];
                        let d = d[meeting.out * self.outputs + output];
                        *sum = x[meeting.image * inputs + input].mul_add(d, *sum);
                    }
                }
            }
            if total.is_empty() {
                total = sums;
            } else {
                total.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
            }
        }
        total
    }

    /// Down each column of an image, along the row of sums, over the images in double precision.
    fn bias_gradient<F: Real>(&self, d: &[F]) -> Vec<F> {
        let [rows, cols] = self.out_size();
        let sum = |o: usize| {
            let mut total = 0.0;
            for n in 0..self.examples {
                let mut image = F::default();
                for x in 0..cols {
                    let mut column = F::default();
                    for y in 0..rows {
                        column += d[((n * rows + y) * cols + x) * self.outputs + o];
                    }
                    image += column;
                }
                total += image.to_f64();
            }
            F::of(total)
        };
        (0..self.bias_len()).map(sum).collect()
    }

    /// The gradient by the images, its terms' absolute sum, and their number.
    fn image_gradient<F: Real>(&self, weight: &[F], d: &[F]) -> Vec<(f64, f64, usize)> {
        let inputs = self.image[2];
        let mut out = vec![(0.0, 0.0, 0); self.image_len()];
        for meeting in self.meetings(0..self.examples) {
            for input in 0..inputs {
                let (sum, size, count) = &mut out[meeting.image * inputs + input];
                for output in 0..self.outputs {
                    let w = weight[self.weight_at(output, input, meeting)].to_f64();
                    let term = w * d[meeting.out * self.outputs + output].to_f64();
                    *sum += term;
                    *size += term.abs();
                    *count += 1;
                }
            }
        }
        out
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let small = (1..9_usize, 1..9_usize, 1..5_usize);
    let kernel = (1..6_usize, 1..6_usize);
    // 66 examples are thirteen chunks of five and one of one.
    let examples = prop_oneof![1..8_usize, Just(13), Just(66)];
    (examples, small, 1..20_usize, kernel, 1..4_usize, any::<bool>(), any::<bool>()).prop_map(
        |(examples, (height, width, channels), outputs, (rows, cols), stride, same, bias)| {
            // A kernel that sticks out must still fit.
            let fit = |size: usize, k: usize| if same { size } else { size.max(k) };
            Case {
                examples,
                image: [fit(height, rows), fit(width, cols), channels],
                outputs,
                kernel: [rows, cols],
                stride,
                padding: if same { Padding::Same } else { Padding::Valid },
                bias,
            }
        },
    )
}

/// Output, gradient of the weights and gradient of the biases have the bits of the definition.
fn check_forward_and_weights<F: Real>(case: Case) {
    let mut net = Builder::new(case.image);
    let input = net.input();
    case.layer()(&mut net, input);
    let mut engine = Engine::<F>::new(&Arc::new(net.build()), Loss::HalfMse);
    let x = normal(case.image_len(), 1);
    let theta = normal(case.weight_len() + case.bias_len(), 2);
    let (weight, bias) = theta.split_at(case.weight_len());
    let out = case.forward(&x, weight, bias);
    assert_same_bits(&format!("forward, {case:?}"), &engine.outputs(&theta, &x), &out);

    let targets = normal(out.len(), 3);
    let d = error_gradient(&out, &targets, case.examples);
    engine.set_batch(&Arc::new(Batch { inputs: x.clone(), targets: Targets::Reals(targets) }));
    let mut gradient = vec![F::default(); theta.len()];
    engine.gradient(&theta, &mut gradient);
    let (by_weight, by_bias) = gradient.split_at(weight.len());
    assert_same_bits(&format!("weights, {case:?}"), by_weight, &case.weight_gradient(&x, &d));
    assert_same_bits(&format!("biases, {case:?}"), by_bias, &case.bias_gradient(&d));
}

/// The gradient by the images is the transpose of the forward pass.
fn check_images<F: Real>(case: Case) {
    let case = Case { bias: false, ..case };
    let mut alone = Alone::<F>::new(case.examples, case.image, case.layer());
    let (x, weight) = (normal::<F>(case.image_len(), 4), normal::<F>(case.weight_len(), 5));
    let targets = normal::<F>(case.out_len(), 6);
    let out = alone.outputs(&x, &weight);
    let dx = alone.gradient(&x, &weight, &targets).images;
    let d = error_gradient(&out, &targets, case.examples);

    let (mut inner, mut size, mut most) = (0.0, 0.0, 0);
    for (i, (sum, terms, count)) in case.image_gradient(&weight, &d).into_iter().enumerate() {
        // A chain of `count` fused operations against a sum of as many rounded products.
        let bound = (gamma(count, F::UNIT_ROUNDOFF) + gamma(count + 1, f64::UNIT_ROUNDOFF)) * terms;
        let error = (dx[i].to_f64() - sum).abs();
        assert!(error <= bound, "{case:?}: {error:e} beyond {bound:e} at {i}");
        inner += x[i].to_f64() * dx[i].to_f64();
        size += x[i].to_f64().abs() * terms;
        most = most.max(count);
    }

    // ⟨conv(x), d⟩ = ⟨x, convᵀ(d)⟩. `size` is the sum of all |x||w||d|; each side has the rounding of
    // its longest chain and that of an inner product in double precision.
    let other: f64 = out.iter().zip(&d).map(|(out, d)| out.to_f64() * d.to_f64()).sum();
    let fan_in = case.image[2] * case.kernel[0] * case.kernel[1];
    let length = case.image_len() + case.out_len();
    let bound = (gamma(fan_in, F::UNIT_ROUNDOFF)
        + gamma(most, F::UNIT_ROUNDOFF)
        + gamma(length + 2, f64::UNIT_ROUNDOFF))
        * size;
    let error = (inner - other).abs();
    assert!(error <= bound, "{case:?}: {inner} and {other} differ by {error:e} beyond {bound:e}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..crate::fixed_seed() })]

    #[test]
    fn forward_and_weight_gradient_have_the_bits_of_the_definition(case in cases()) {
        check_forward_and_weights::<f32>(case);
        check_forward_and_weights::<f64>(case);
    }

    #[test]
    fn image_gradient_is_the_transpose(case in cases()) {
        // The images are parameters of every example: their number squared.
        let case = Case { examples: case.examples.min(13), ..case };
        check_images::<f32>(case);
        check_images::<f64>(case);
    }
}

/// A kernel as large as the image is a fully connected layer, but not where zeros around the image give
/// it other places to stand.
#[test]
fn kernels_as_large_as_the_image() {
    for (image, kernel, padding) in [
        ([2, 2, 3], [2, 2], Padding::Same),
        ([1, 2, 2], [1, 2], Padding::Same),
        ([2, 2, 3], [2, 2], Padding::Valid),
        ([4, 5, 3], [4, 5], Padding::Valid),
    ] {
        let case = Case { examples: 5, image, outputs: 4, kernel, stride: 1, padding, bias: true };
        check_forward_and_weights::<f32>(case);
        check_forward_and_weights::<f64>(case);
        check_images::<f32>(case);
        check_images::<f64>(case);
    }
}
