//! Examples that a kernel could not process are refused before one is launched.

use lastbit::activation::Activation;
use lastbit::batches::{Batches, Normalization, Order, Selection};
use lastbit::data::{Dataset, Inputs, Targets as Stored};
use lastbit::nn::zoo;

use super::super::*;
use crate::reference::error_stats::SharedStats;

/// Of a network with three outputs, on the host.
fn engine(loss: Loss) -> Engine<f32> {
    let network = Arc::new(zoo::mlp([1, 1, 2], &[], 3, Activation::Relu));
    let fma = MathMode::Fma;
    let device = || Ok(Device::host::<f32>(fma, &SharedStats::default()));
    Engine::on(device, &network, loss, NO_OPTIMIZER, fma, &[0], 4).expect("the host has no errors")
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
    let source = BatchSource::new(&engine.device, batches, &[]).unwrap();
    let lists = ExampleLists::new(&engine.device, 1, 4).unwrap();
    engine.form_batch(0, &source, &lists, 4).unwrap();
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
fn what_does_not_fit_is_refused() {
    use Loss::{CrossEntropy, HalfMse};
    let cases: [(&str, fn()); 7] = [
        ("class 3 of 3", || put(CrossEntropy, Targets::Classes(vec![0, 3]))),
        ("classes for the cross-entropy", || put(CrossEntropy, Targets::Reals(vec![0.5; 3]))),
        ("5 examples, room for 4", || put(HalfMse, Targets::Reals(vec![0.5; 15]))),
        ("class 4 of 3", || form(CrossEntropy, [1, 1, 2], classes(5))),
        ("classes for the cross-entropy", || form(CrossEntropy, [1, 1, 2], numbers(3))),
        ("targets of an example", || form(HalfMse, [1, 1, 2], numbers(2))),
        ("shape of an example", || form(CrossEntropy, [1, 2, 2], classes(3))),
    ];
    for (expected, case) in cases {
        let panic = std::panic::catch_unwind(case).expect_err(expected);
        let text = panic.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).expect("a message");
        assert!(text.contains(expected), "{text}, expected {expected}");
    }
}
