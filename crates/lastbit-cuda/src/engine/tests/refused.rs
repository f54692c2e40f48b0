//! Examples that a kernel could not take are refused before one is launched.

use lastbit::activation::Activation;
use lastbit::batches::{Batches, Normalization, Order, Selection};
use lastbit::data::{Dataset, Inputs, Targets as Stored};
use lastbit::nn::zoo;

use super::super::*;
use crate::twin::findings::Asked;

/// Of a network with three outputs, on the host.
fn engine(loss: Loss) -> Engine<f32> {
    let network = Arc::new(zoo::mlp([1, 1, 2], &[], 3, Activation::Relu));
    let optimizer = Optimizer { method: Method::Sgd, alpha: 0.0 };
    let plain = Precision::Plain;
    let device = || Ok(Device::host::<f32>(plain, &Asked::default()));
    Engine::on(device, &network, loss, optimizer, plain, &[0], 4).expect("the host has no errors")
}

fn put(loss: Loss, targets: Targets<f32>) {
    let examples = targets.len(3);
    engine(loss).set_batch(0, &Batch { inputs: vec![0.5; 2 * examples], targets }).unwrap();
}

/// A batch of four examples of a data set with these targets.
fn form(loss: Loss, shape: [usize; 3], targets: Stored) {
    let mut engine = engine(loss);
    let inputs = Inputs::Reals(vec![0.5; 4 * shape.iter().product::<usize>()]);
    let data = Arc::new(Dataset { shape, inputs, targets });
    let selection = Selection { size: 4, order: Order::AsStored, keep_last: true };
    let batches = Batches::new(data, &Normalization::none(), selection, None);
    let source = Source::new(&engine.device, batches, &[]).unwrap();
    let listed = Listed::new(&engine.device, 1, 4).unwrap();
    engine.form_batch(0, &source, &listed, 4).unwrap();
}

fn classes(count: usize) -> Stored {
    Stored::Classes { count, labels: vec![0; 4] }
}

fn numbers(width: usize) -> Stored {
    Stored::Reals { width, values: vec![0.5; 4 * width] }
}

#[test]
fn what_fits_is_taken() {
    put(Loss::CrossEntropy, Targets::Classes(vec![0, 2, 1, 2]));
    put(Loss::HalfMse, Targets::Reals(vec![0.5; 12]));
}

#[test]
#[should_panic(expected = "class 3 of 3")]
fn classes_without_an_output() {
    put(Loss::CrossEntropy, Targets::Classes(vec![0, 3]));
}

#[test]
#[should_panic(expected = "classes for the cross-entropy")]
fn numbers_for_the_cross_entropy() {
    put(Loss::CrossEntropy, Targets::Reals(vec![0.5; 3]));
}

#[test]
#[should_panic(expected = "5 examples, room for 4")]
fn more_examples_than_there_is_room_for() {
    put(Loss::HalfMse, Targets::Reals(vec![0.5; 15]));
}

#[test]
#[should_panic(expected = "class 4 of 3")]
fn a_data_set_of_more_classes_than_outputs() {
    form(Loss::CrossEntropy, [1, 1, 2], classes(5));
}

#[test]
#[should_panic(expected = "classes for the cross-entropy")]
fn a_data_set_of_numbers_for_the_cross_entropy() {
    form(Loss::CrossEntropy, [1, 1, 2], numbers(3));
}

#[test]
#[should_panic(expected = "targets of an example")]
fn a_data_set_of_other_numbers_than_outputs() {
    form(Loss::HalfMse, [1, 1, 2], numbers(2));
}

#[test]
#[should_panic(expected = "shape of an example")]
fn a_data_set_of_another_shape() {
    form(Loss::CrossEntropy, [1, 2, 2], classes(3));
}
