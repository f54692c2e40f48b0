use lastbit::activation::Activation;
use lastbit::batches::{Normalization, Order, Selection};
use lastbit::hash_of_bits;
use lastbit::nn::{Loss, Targets as Shown, zoo};
use lastbit::rng::Stream;

use super::*;
use crate::conv3x3_plan::MathMode;
use crate::engine::{Engine, NO_OPTIMIZER};

/// Examples of this shape: bytes or numbers, with classes or with three numbers each.
fn data(shape: [usize; 3], has_bytes: bool, has_classes: bool) -> Arc<Dataset> {
    let (count, stream) = (50, Stream::new(3, 0));
    let len = count * shape.iter().product::<usize>();
    let byte = |i: usize| stream.below(i as u64, 256) as u8;
    let number = |i: usize| stream.normal(i as u64);
    Arc::new(Dataset {
        shape,
        inputs: if has_bytes {
            Inputs::Bytes((0..len).map(byte).collect())
        } else {
            Inputs::Reals((0..len).map(number).collect())
        },
        targets: if has_classes {
            Targets::Classes { count: 3, labels: (0..count as u32).map(|i| i % 3).collect() }
        } else {
            Targets::Reals { width: 3, values: (0..3 * count).map(number).collect() }
        },
    })
}

#[test]
#[ignore = "needs a CUDA device"]
fn batches_are_bit_identical_to_the_cpu() {
    formed::<f32>();
    formed::<f64>();
}

fn formed<F: DeviceReal>() {
    let crops = Augmentation { padding: 2, flip: true, seed: 1 << 40 | 7 };
    let still = Augmentation { padding: 0, flip: true, ..crops };
    for (shape, augmentation, has_bytes, has_classes) in [
        ([9, 7, 3], Some(crops), true, true),
        ([9, 7, 3], Some(crops), false, true),
        ([32, 32, 1], Some(still), true, false),
        ([1, 1, 300], None, false, false),
        ([8, 8, 3], None, true, true),
    ] {
        let data = data(shape, has_bytes, has_classes);
        let normalizations = [
            Normalization::none(),
            Normalization::per_channel(&data),
            Normalization::per_pixel(&data),
        ];
        let network = Arc::new(zoo::mlp(shape, &[], 3, Activation::Relu));
        let (loss, fma) = (Loss::HalfMse, MathMode::Fma);
        let engine = Engine::<F>::new(&network, loss, NO_OPTIMIZER, fma, &[0, 1], 20);
        let mut engine = engine.unwrap();
        for normalization in normalizations {
            let order = Order::Shuffled { seed: 5 };
            let selection = Selection { size: 20, order, keep_last: true };
            let batches = Batches::new(data.clone(), &normalization, selection, augmentation);
            let mut source = BatchSource::new(&engine.device, batches, &[]).unwrap();
            let mut lists = ExampleLists::new(&engine.device, 2, 20).unwrap();
            // In their order and in another, whole batches and the rest of the second epoch.
            for (step, order) in [(0, None), (4, None), (5, Some(3))] {
                let expected = source.batches.batch_in(step, order);
                let chosen = source.batches.chosen(step, order);
                let examples = chosen.examples.len();
                lists.write(&engine.device, 1, &chosen).unwrap();
                engine.form_batch(1, &source, &lists, examples).unwrap();
                let len = expected.inputs.len();
                let first = 20 * data.input_len();
                let inputs = engine.device.read(&engine.inputs, first, len).unwrap();
                let what = format!("{shape:?}, {augmentation:?}, {step}, {order:?}");
                assert_eq!(hash_of_bits(&inputs), hash_of_bits(&expected.inputs), "{what}");
                match &expected.targets {
                    Shown::Classes(classes) => {
                        let found = engine.device.read(&engine.classes, 20, examples).unwrap();
                        assert!(found.iter().map(|c| *c as u32).eq(classes.iter().copied()));
                    }
                    Shown::Reals(values) => {
                        let found = engine.device.read(&engine.reals, 60, 3 * examples).unwrap();
                        assert_eq!(hash_of_bits(&found), hash_of_bits(values), "{what}");
                    }
                }
            }
        }
    }
}
