//! The loops over rows apply an activation as [`Activation::at`] does, number by number.

use super::{assert_same_bits, normal};
use crate::Real;
use crate::activation::Activation;
use crate::nn::geometry::Placement;
use crate::nn::norm::Coefficients;
use crate::nn::read::{Reading, Stored, read, read_both};
use crate::nn::{Builder, Network};

const ACTIVATIONS: [Activation; 5] = [
    Activation::Swish { beta: 1.0 },
    Activation::Swish { beta: 2.7 },
    Activation::Relu,
    Activation::Tanh,
    Activation::Sigmoid,
];

/// 37 numbers to a row: neither a multiple of a register nor of a channel.
const SHAPE: [usize; 3] = [5, 37, 1];

fn network(activation: Activation) -> Network {
    let mut net = Builder::new(SHAPE);
    let input = net.input();
    let x = net.subsample(input, 1, 1);
    net.activation(x, activation);
    net.build()
}

/// Ordinary numbers, and those at which something changes.
fn arguments<F: Real>(count: usize) -> Vec<F> {
    let special = [
        0.0, -0.0, 1e-4, -1e-4, 0.99e-4, 1e-30, 1e-42, 30.0, -30.0, 88.0, -88.0, 710.0, -710.0,
        1e30, -1e30,
    ];
    let mut all: Vec<F> = normal(count, 1);
    all.iter_mut().for_each(|x| *x = *x * F::of(3.0));
    all.iter_mut().zip([f64::INFINITY, f64::NEG_INFINITY, f64::NAN]).for_each(|(x, special)| {
        *x = F::of(special);
    });
    all.iter_mut().skip(3).step_by(2).zip(special).for_each(|(x, special)| *x = F::of(special));
    all
}

fn check<F: Real>(activation: Activation) {
    let network = network(activation);
    let layer = &network.layers[1];
    // Three images of a padded copy of which the first row and some numbers of each row are left.
    let place = Placement { image: 260, start: 45, stride: 43, rows: 5, cols: 37, is_padded: true };
    let count = 3 * layer.len();
    let z: Vec<F> = arguments(count);
    let [z_dot, u, u_dot]: [Vec<F>; 3] = [2, 3, 4].map(|seed| normal(count, seed));
    let stored = Stored { z: &z, z_dot: &z_dot, u: &u, u_dot: &u_dot };
    let curved = activation != Activation::Relu;
    let norm = &Coefficients::new(layer);
    let dirt = F::of(-7.0);
    for reading in [Reading::Value, Reading::ValueDot, Reading::Gradient, Reading::GradientDot] {
        let mut out = vec![dirt; 3 * place.image];
        read(reading, layer, norm, stored, place, &mut out);
        let mut twin = vec![dirt; 3 * place.image];
        for image in 0..3 {
            for y in 0..5 {
                for x in 0..37 {
                    let i = (image * 5 + y) * 37 + x;
                    let [value, slope, curvature] = activation.at(z[i]);
                    let at = image * place.image + place.start + y * place.stride + x;
                    twin[at] = match reading {
                        Reading::Value => value,
                        Reading::ValueDot => slope * z_dot[i],
                        Reading::Gradient => slope * u[i],
                        Reading::GradientDot if curved => {
                            slope.mul_add(u_dot[i], curvature * u[i] * z_dot[i])
                        }
                        Reading::GradientDot => slope * u_dot[i],
                    };
                }
            }
        }
        let what = format!("{activation:?}, {reading:?}, {}", F::NAME);
        assert_same_bits(&what, &plain(&out), &plain(&twin));
        // The same beside its derivative, or beside what it is the derivative of.
        let mut outs = [out.clone(), out];
        outs.iter_mut().for_each(|out| out.fill(dirt));
        read_both(reading, layer, norm, stored, place, outs.each_mut().map(|out| &mut out[..]));
        let is_dot = matches!(reading, Reading::ValueDot | Reading::GradientDot);
        assert_same_bits(&what, &plain(&outs[usize::from(is_dot)]), &plain(&twin));
    }
}

/// A NaN has many bits, of which the sign is nobody's concern.
fn plain<F: Real>(values: &[F]) -> Vec<F> {
    let is_nan = |x: &F| x.partial_cmp(x).is_none();
    values.iter().map(|x| if is_nan(x) { F::of(f64::NAN) } else { *x }).collect()
}

#[test]
fn rows_are_read_as_single_numbers_are() {
    for activation in ACTIVATIONS {
        check::<f32>(activation);
        check::<f64>(activation);
    }
}
