//! Linear layers as products with a matrix, over PyTorch's order of an image: channel, row, column.
//!
//! With integers and eight examples nothing is rounded, so that the order of sums does not matter.

use super::{Alone, error_gradient, integers};

#[test]
fn linear_layers_multiply_by_a_matrix_in_the_order_channel_row_column() {
    let (examples, image, outputs) = (8, [3, 4, 5], 21);
    let [height, width, channels] = image;
    let len = height * width * channels;
    let flat = |i: usize| {
        let (pixel, channel) = (i / channels, i % channels);
        channel * height * width + pixel
    };
    let mut alone = Alone::<f32>::new(examples, image, |net, x| net.linear(x, "fc", outputs, true));
    let x: Vec<f32> = integers(examples * len, 1);
    let theta: Vec<f32> = integers(outputs * len + outputs, 2);
    let targets: Vec<f32> = integers(examples * outputs, 3);

    let mut out = vec![0.0_f32; examples * outputs];
    for n in 0..examples {
        for o in 0..outputs {
            let products = (0..len).map(|i| theta[o * len + flat(i)] * x[n * len + i]);
            out[n * outputs + o] = theta[outputs * len + o] + products.sum::<f32>();
        }
    }
    assert_eq!(alone.outputs(&x, &theta), out);

    let d = error_gradient(&out, &targets, examples);
    let mut by_theta = vec![0.0_f32; theta.len()];
    let mut by_image = vec![0.0_f32; x.len()];
    for n in 0..examples {
        for o in 0..outputs {
            let d = d[n * outputs + o];
            by_theta[outputs * len + o] += d;
            for i in 0..len {
                by_theta[o * len + flat(i)] += d * x[n * len + i];
                by_image[n * len + i] += d * theta[o * len + flat(i)];
            }
        }
    }
    let gradient = alone.gradient(&x, &theta, &targets);
    assert_eq!(gradient.parameters, by_theta);
    assert_eq!(gradient.images, by_image);
}
