//! Pooling, means, sums and the plain shortcut by definition, forward and transposed.
//!
//! Each is written as the list of input numbers that an output number looks at. The transpose of a
//! sum gathers, for each input, the outputs that look at it, in their order.

use super::{Alone, assert_same_bits, error_gradient, integers, normal};
use crate::Real;
use crate::nn::op::{apply, apply_transposed};
use crate::nn::{Builder, Node};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// The first of the largest.
    Max,
    /// The sum, times `1/count`.
    Mean,
}

/// Which numbers of an image each output number looks at.
struct Windows {
    kind: Kind,
    windows: Vec<Vec<usize>>,
    len: usize,
}

impl Windows {
    fn squares(kind: Kind, [height, width, channels]: [usize; 3], size: usize, s: usize) -> Self {
        let mut windows = vec![];
        for y in 0..=(height - size) / s {
            for x in 0..=(width - size) / s {
                for channel in 0..channels {
                    let at = |i: usize, j: usize| ((y * s + i) * width + x * s + j) * channels;
                    let square = (0..size * size).map(|p| at(p / size, p % size) + channel);
                    windows.push(square.collect());
                }
            }
        }
        Self { kind, windows, len: height * width * channels }
    }

    fn global([height, width, channels]: [usize; 3]) -> Self {
        let pixels = |channel| (0..height * width).map(|p| p * channels + channel).collect();
        let windows = (0..channels).map(pixels).collect();
        Self { kind: Kind::Mean, windows, len: height * width * channels }
    }

    fn everything([height, width, channels]: [usize; 3]) -> Self {
        let len = height * width * channels;
        Self { kind: Kind::Mean, windows: vec![(0..len).collect()], len }
    }

    /// Every `s`-th pixel, zero channels around: an empty window is zero.
    fn subsample([height, width, channels]: [usize; 3], s: usize, outputs: usize) -> Self {
        let before = (outputs - channels) / 2;
        let mut windows = vec![];
        for y in (0..height).step_by(s) {
            for x in (0..width).step_by(s) {
                for o in 0..outputs {
                    let channel = o.checked_sub(before).filter(|&channel| channel < channels);
                    let at = |channel| (y * width + x) * channels + channel;
                    windows.push(channel.map(at).into_iter().collect());
                }
            }
        }
        Self { kind: Kind::Mean, windows, len: height * width * channels }
    }

    /// What an output takes of `x` where maxima are looked for in `select`.
    fn weight<F: Real>(&self, window: &[usize], select: &[F]) -> Vec<(usize, F)> {
        match self.kind {
            Kind::Mean => {
                let share = F::of(1.0 / window.len() as f64);
                window.iter().map(|&at| (at, share)).collect()
            }
            Kind::Max => {
                let first =
                    |best: usize, at: usize| if select[at] > select[best] { at } else { best };
                vec![(window.iter().copied().reduce(first).expect("not empty"), F::of(1.0))]
            }
        }
    }

    /// The sum before the factor, which all terms share.
    fn forward<F: Real>(&self, select: &[F], x: &[F]) -> Vec<F> {
        let each = x.chunks_exact(self.len).zip(select.chunks_exact(self.len));
        let image = |(x, select): (&[F], &[F])| -> Vec<F> {
            let of = |window: &Vec<usize>| {
                let terms = self.weight(window, select);
                let Some(&(_, share)) = terms.first() else { return F::default() };
                terms.into_iter().fold(F::default(), |sum, (at, _)| sum + x[at]) * share
            };
            self.windows.iter().map(of).collect()
        };
        each.flat_map(image).collect()
    }

    fn transposed<F: Real>(&self, select: &[F], d: &[F]) -> Vec<F> {
        let each = d.chunks_exact(self.windows.len()).zip(select.chunks_exact(self.len));
        let image = |(d, select): (&[F], &[F])| -> Vec<F> {
            let terms: Vec<_> = self.windows.iter().map(|w| self.weight(w, select)).collect();
            let gather = |i: usize| {
                let mut sum = F::default();
                for (d, terms) in d.iter().zip(&terms) {
                    for (_, share) in terms.iter().filter(|(at, _)| *at == i) {
                        sum += *d * *share;
                    }
                }
                sum
            };
            (0..self.len).map(gather).collect()
        };
        each.flat_map(image).collect()
    }
}

/// Output, gradient and Hessian-vector product have the bits of the definition.
fn check<F: Real>(
    what: &str,
    image: [usize; 3],
    windows: &Windows,
    layer: impl FnOnce(&mut Builder, Node) -> Node,
) {
    let examples = 5;
    let what = |part: &str| format!("{what} of {image:?}, {}, {part}", F::NAME);
    let mut alone = Alone::<F>::new(examples, image, layer);
    // Many equal numbers in a window.
    let x: Vec<F> = integers(examples * windows.len, 1);
    let x_dot: Vec<F> = normal(x.len(), 2);
    let out = windows.forward(&x, &x);
    assert_same_bits(&what("output"), &alone.outputs(&x, &[]), &out);

    let targets = normal(out.len(), 3);
    let d = error_gradient(&out, &targets, examples);
    let gradient = alone.gradient(&x, &[], &targets).images;
    assert_same_bits(&what("gradient"), &gradient, &windows.transposed(&x, &d));

    let out_dot = windows.forward(&x, &x_dot);
    let d_dot = error_gradient(&out_dot, &vec![F::default(); out.len()], examples);
    let product = alone.product(&x, &[], &targets, &x_dot).images;
    assert_same_bits(&what("product"), &product, &windows.transposed(&x, &d_dot));
}

fn check_all<F: Real>() {
    for image in [[4, 4, 3], [7, 5, 2], [3, 8, 1]] {
        for (size, s) in [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3)] {
            let max = Windows::squares(Kind::Max, image, size, s);
            check::<F>("maxima", image, &max, |net, x| net.max_pool(x, size, s));
            let mean = Windows::squares(Kind::Mean, image, size, s);
            check::<F>("means", image, &mean, |net, x| net.average_pool(x, size, s));
        }
        let global = Windows::global(image);
        check::<F>("global means", image, &global, Builder::global_average);
        check::<F>("mean", image, &Windows::everything(image), Builder::mean);
        for (s, more) in [(1, 0), (1, 4), (2, 0), (2, 6), (3, 2)] {
            let outputs = image[2] + more;
            let plain = Windows::subsample(image, s, outputs);
            check::<F>("shortcut", image, &plain, |net, x| net.subsample(x, s, outputs));
        }
    }
}

#[test]
fn pools_and_shortcuts_have_the_bits_of_the_definition() {
    check_all::<f32>();
    check_all::<f64>();
}

#[test]
fn sums_add_values_and_hand_on_gradients() {
    let (examples, image) = (5, [3, 4, 2]);
    let mut alone = Alone::<f32>::new(examples, image, |net, x| {
        let copy = net.subsample(x, 1, 2);
        let twice = net.add(x, copy);
        net.add(twice, x)
    });
    let x: Vec<f32> = normal(examples * 24, 1);
    let out: Vec<f32> = x.iter().map(|x| (x + x) + x).collect();
    assert_same_bits("sum", &alone.outputs(&x, &[]), &out);
    let targets = normal(out.len(), 2);
    let d = error_gradient(&out, &targets, examples);
    // The last layer hands on first: to the inner sum and to x, then the inner one to x and its copy.
    let thrice: Vec<f32> = d.iter().map(|d| (d + d) + d).collect();
    assert_same_bits("gradient", &alone.gradient(&x, &[], &targets).images, &thrice);
}

/// One image through the only layer of a network.
fn pooled(x: &[f64], layer: impl FnOnce(&mut Builder, Node) -> Node) -> (Vec<f64>, Vec<f64>) {
    let mut net = Builder::new([2, 2, 1]);
    let input = net.input();
    layer(&mut net, input);
    let network = net.build();
    let (from, to) = (&network.layers[0], &network.layers[1]);
    let (mut out, mut dx) = (vec![0.5; to.len()], vec![0.5; 4]);
    apply(&to.op, from, to, x, x, &mut out);
    apply_transposed(&to.op, from, to, x, &vec![1.0; to.len()], &mut dx);
    (out, dx)
}

#[test]
fn of_equal_maxima_the_first_counts() {
    let max = |x: [f64; 4]| pooled(&x, |net, x| net.max_pool(x, 2, 2));
    assert_eq!(max([1.0, 3.0, 3.0, 3.0]), (vec![3.0], vec![0.0, 1.0, 0.0, 0.0]));
    assert_eq!(max([2.0; 4]), (vec![2.0], vec![1.0, 0.0, 0.0, 0.0]));
    assert_eq!(max([-0.0, 0.0, 0.0, -0.0]).1, [1.0, 0.0, 0.0, 0.0]);
    let lowest = f64::NEG_INFINITY;
    assert_eq!(max([lowest; 4]), (vec![lowest], vec![1.0, 0.0, 0.0, 0.0]));
}

#[test]
fn not_a_number_stays_visible() {
    let nan = f64::NAN;
    for (x, place) in [
        ([nan, 1.0, f64::INFINITY, 2.0], 0),
        ([1.0, f64::INFINITY, nan, 2.0], 2),
        ([1.0, nan, nan, 2.0], 1),
        ([1.0, 0.0, 0.0, nan], 3),
    ] {
        let (out, dx) = pooled(&x, |net, x| net.max_pool(x, 2, 2));
        assert!(out[0].is_nan(), "{x:?}");
        assert_eq!(dx.iter().position(|&d| d == 1.0), Some(place), "{x:?}");
        assert!(pooled(&x, |net, x| net.average_pool(x, 2, 2)).0[0].is_nan(), "{x:?}");
        assert!(pooled(&x, Builder::global_average).0[0].is_nan(), "{x:?}");
        assert!(pooled(&x, Builder::mean).0[0].is_nan(), "{x:?}");
        let kept = pooled(&x, |net, x| net.subsample(x, 1, 3)).0;
        assert!(kept[3 * place + 1].is_nan(), "{x:?}");
    }
}
