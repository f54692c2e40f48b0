//! Batches against their definitions, written plainly.

use super::*;
use crate::data::{Inputs, Targets as StoredTargets};
use proptest::prelude::*;

fn photographs(count: usize, [height, width, channels]: [usize; 3]) -> Arc<Dataset> {
    let stream = Stream::new(9, 0);
    let len = count * height * width * channels;
    Arc::new(Dataset {
        shape: [height, width, channels],
        inputs: Inputs::Bytes((0..len).map(|i| stream.below(i as u64, 256) as u8).collect()),
        targets: StoredTargets::Classes {
            count: 10,
            labels: (0..count as u32).map(|i| i % 10).collect(),
        },
    })
}

/// The same pixels as numbers.
fn as_reals(data: &Dataset) -> Arc<Dataset> {
    let Inputs::Bytes(bytes) = &data.inputs else { panic!("bytes expected") };
    let inputs = Inputs::Reals(bytes.iter().map(|byte| f64::from(*byte) / 255.0).collect());
    Arc::new(Dataset { inputs, ..data.clone() })
}

fn shuffled(size: usize, seed: u64, keep_last: bool) -> Selection {
    Selection { size, order: Order::Shuffled { seed }, keep_last }
}

proptest! {
    #![proptest_config(crate::fixed_seed())]

    #[test]
    fn an_epoch_shows_every_example_once_and_drops_only_the_remainder(
        count in 1_usize..60, size in 1_usize..60, seed: u64, keep_last: bool
    ) {
        prop_assume!(size <= count);
        let data = photographs(count, [1, 1, 1]);
        let selection = shuffled(size, seed, keep_last);
        let mut batches = Batches::<f32>::new(data, &Normalization::none(), selection, None);
        let steps = batches.steps_per_epoch();
        for epoch in 0..2 {
            let seen = (epoch * steps..(epoch + 1) * steps).map(|step| batches.examples(step));
            let mut seen: Vec<u32> = seen.flatten().collect();
            seen.sort_unstable();
            prop_assert!(seen.windows(2).all(|pair| pair[0] < pair[1]));
            let expected = if keep_last { count } else { count - count % size };
            prop_assert_eq!(seen.len(), expected);
        }
    }

    #[test]
    fn any_step_is_reached_directly_with_the_same_bits(step in 0_usize..100, seed: u64) {
        let data = photographs(23, [4, 5, 2]);
        let augmentation = Some(Augmentation { padding: 2, flip: true, seed: seed ^ 1 });
        let make = || Batches::<f32>::new(
            data.clone(), &Normalization::per_channel(&data), shuffled(5, seed, true), augmentation,
        );
        let mut walked = make();
        for earlier in 0..step {
            walked.batch(earlier);
        }
        prop_assert_eq!(walked.batch(step), make().batch(step));
        prop_assert_eq!(walked.batch_in(step, Some(3)), make().batch_in(step, Some(3)));
    }
}

#[test]
fn epochs_and_seeds_shuffle_differently() {
    let data = photographs(50, [1, 1, 1]);
    let order = |seed: u64, epoch: usize| {
        let none = Normalization::none();
        let mut batches = Batches::<f64>::new(data.clone(), &none, shuffled(50, seed, true), None);
        batches.examples(epoch)
    };
    assert_ne!(order(1, 0), order(1, 1));
    assert_ne!(order(1, 0), order(2, 0));
    assert_eq!(order(1, 7), order(1, 7));
}

#[test]
fn bytes_are_normalized_in_f64_and_rounded_once() {
    let data = photographs(6, [2, 3, 2]);
    let Inputs::Bytes(bytes) = &data.inputs else { unreachable!() };
    let len = data.input_len();
    for normalization in [
        Normalization::none(),
        Normalization::per_channel(&data),
        Normalization::per_pixel(&data),
        Normalization::given(vec![0.5, 0.3], vec![0.2, 0.7]),
    ] {
        let full = Selection::full(&data);
        let batch = Batches::<f32>::new(data.clone(), &normalization, full, None).batch(0);
        for (i, (value, byte)) in batch.inputs.iter().zip(bytes).enumerate() {
            let slot = i % len % normalization.mean().len();
            let (mean, std) = (normalization.mean()[slot], normalization.std()[slot]);
            let expected = ((f64::from(*byte) / 255.0 - mean) / std) as f32;
            assert_eq!(value.to_bits(), expected.to_bits());
        }
        let mut reals = Batches::<f32>::new(as_reals(&data), &normalization, full, None);
        assert_eq!(batch.inputs, reals.batch(0).inputs);
    }
}

#[test]
fn measured_statistics_centre_and_scale() {
    let data = photographs(40, [3, 3, 2]);
    for data in [data.clone(), as_reals(&data)] {
        for (normalization, slots) in
            [(Normalization::per_channel(&data), 2), (Normalization::per_pixel(&data), 18)]
        {
            let full = Selection::full(&data);
            let batch = Batches::<f64>::new(data.clone(), &normalization, full, None).batch(0);
            for slot in 0..slots {
                let values: Vec<f64> =
                    batch.inputs.iter().skip(slot).step_by(slots).copied().collect();
                let n = values.len() as f64;
                let mean = values.iter().sum::<f64>() / n;
                let square = values.iter().map(|x| x * x).sum::<f64>() / n;
                // Sums of n ≤ 360 numbers of size at most 2, each off by a few roundings.
                let bound = 10.0 * n * f64::EPSILON;
                assert!(mean.abs() < bound && (square - 1.0).abs() < bound, "{mean} {square}");
            }
        }
    }
}

#[test]
fn a_pixel_that_never_varies_is_centred_and_not_divided_by_zero() {
    let data = Dataset {
        shape: [1, 1, 2],
        inputs: Inputs::Bytes(vec![7, 0, 7, 255]),
        targets: StoredTargets::Classes { count: 2, labels: vec![0, 1] },
    };
    let normalization = Normalization::per_pixel(&data);
    assert_eq!(normalization.std(), [1.0, 0.5]);
    let full = Selection::full(&data);
    let batch = Batches::<f64>::new(Arc::new(data), &normalization, full, None).batch(0);
    assert_eq!(batch.inputs, [0.0, -1.0, 0.0, 1.0]);
}

#[test]
fn a_view_is_the_padded_image_cut_and_then_mirrored() {
    let [height, width] = [3, 4];
    let padding = 2;
    for down in -2..=2_isize {
        for right in -2..=2_isize {
            for mirrored in [false, true] {
                let view = augmentation::View { down, right, mirrored };
                // The padded image holds its own coordinates; black is None.
                let padded = |row: usize, column: usize| {
                    let inside = (padding..padding + height).contains(&row)
                        && (padding..padding + width).contains(&column);
                    inside.then(|| [row - padding, column - padding])
                };
                for row in 0..height {
                    for column in 0..width {
                        let cut = if mirrored { width - 1 - column } else { column };
                        let at = |place: usize, by: isize| (place + padding).strict_add_signed(by);
                        let expected = padded(at(row, down), at(cut, right));
                        assert_eq!(view.source([row, column], [height, width]), expected);
                    }
                }
            }
        }
    }
}

#[test]
fn augmentation_is_drawn_per_example_and_epoch_and_uses_every_shift() {
    let augmentation = Augmentation { padding: 4, flip: true, seed: 3 };
    let views: Vec<_> = (0..8100).map(|example| augmentation.view(2, example)).collect();
    let count = |of: &dyn Fn(&augmentation::View) -> bool| views.iter().filter(|v| of(v)).count();
    for shift in -4..=4 {
        // 8100/9 = 900 with a deviation of √(8100 · 8/81) = 28: four of them.
        assert!(count(&|view| view.down == shift).abs_diff(900) < 113);
        assert!(count(&|view| view.right == shift).abs_diff(900) < 113);
    }
    // 4050 with a deviation of 45.
    assert!(count(&|view| view.mirrored).abs_diff(4050) < 180);
    assert_ne!(views[..20].to_vec(), (0..20).map(|i| augmentation.view(3, i)).collect::<Vec<_>>());
    let still = Augmentation { padding: 0, flip: false, seed: 3 };
    let nothing = augmentation::View { down: 0, right: 0, mirrored: false };
    assert!((0..50).all(|example| still.view(1, example) == nothing));
}

#[test]
fn the_order_of_the_examples_does_not_change_their_augmentation() {
    let data = photographs(12, [4, 4, 3]);
    let make = |order: Order| {
        let selection = Selection { size: 12, order, keep_last: true };
        let augmentation = Some(Augmentation { padding: 1, flip: true, seed: 5 });
        Batches::<f32>::new(data.clone(), &Normalization::none(), selection, augmentation)
    };
    let (mut stored, mut mixed) = (make(Order::AsStored), make(Order::Shuffled { seed: 8 }));
    let len = data.input_len();
    for step in 0..3 {
        let (plain, other, order) = (stored.batch(step), mixed.batch(step), mixed.examples(step));
        for (place, example) in order.iter().enumerate() {
            let example = *example as usize;
            assert_eq!(other.inputs[place * len..][..len], plain.inputs[example * len..][..len]);
        }
    }
    assert_ne!(stored.batch(0), stored.batch(1), "another epoch shows another view");
}

#[test]
fn a_reordered_batch_holds_the_same_examples() {
    let data = photographs(30, [2, 2, 1]);
    let none = Normalization::none();
    let mut batches = Batches::<f32>::new(data, &none, shuffled(10, 1, false), None);
    let (plain, moved) = (batches.batch(4), batches.batch_in(4, Some(6)));
    assert_ne!(plain, moved);
    let sorted = |batch: &Batch<f32>| {
        let Targets::Classes(labels) = &batch.targets else { panic!("classes expected") };
        let examples = batch.inputs.chunks(4).zip(labels);
        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
        let mut all: Vec<_> = examples.map(|(x, label)| (bits(x), *label)).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(sorted(&plain), sorted(&moved));
    assert_ne!(moved, batches.batch_in(4, Some(7)));
}

#[test]
fn real_targets_travel_with_their_inputs() {
    let data = Arc::new(Dataset {
        shape: [1, 1, 1],
        inputs: Inputs::Reals((0..9).map(f64::from).collect()),
        targets: StoredTargets::Reals { width: 2, values: (0..18).map(f64::from).collect() },
    });
    let none = Normalization::none();
    let batch = Batches::<f64>::new(data, &none, shuffled(4, 2, true), None).batch(1);
    let Targets::Reals(targets) = &batch.targets else { panic!("reals expected") };
    for (x, pair) in batch.inputs.iter().zip(targets.chunks(2)) {
        assert_eq!(pair, [2.0 * x, 2.0 * x + 1.0]);
    }
}

#[test]
#[should_panic(expected = "batches of 4 from 3 examples")]
fn batches_larger_than_the_data_are_refused() {
    let data = photographs(3, [1, 1, 1]);
    Batches::<f32>::new(data, &Normalization::none(), shuffled(4, 0, true), None);
}

#[test]
fn a_number_that_never_varies_is_centred_only() {
    // The sum of forty times 0.1 is not 4.
    for count in [1, 10, 40, 1000] {
        let inputs = (0..count).flat_map(|i| [f64::from(i), 0.1]).collect();
        let data = Dataset {
            shape: [1, 1, 2],
            inputs: Inputs::Reals(inputs),
            targets: StoredTargets::Reals { width: 1, values: vec![0.0; count as usize] },
        };
        let measured = Normalization::per_channel(&data);
        assert_eq!((measured.mean()[1], measured.std()[1]), (0.1, 1.0), "{count} examples");
    }
}
