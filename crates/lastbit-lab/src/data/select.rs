//! Parts of data sets.

use lastbit::data::{Dataset, Inputs, Targets};
use lastbit::rng::Stream;

/// Stream of random numbers that decides which examples are held back for testing.
const SHARE_STREAM: u64 = 0x7368_6172_6500_0000;

/// The examples at these places, in this order.
pub fn select(set: &Dataset, places: &[usize]) -> Dataset {
    let inputs = match &set.inputs {
        Inputs::Bytes(bytes) => Inputs::Bytes(gather(bytes, set.input_len(), places)),
        Inputs::Reals(values) => Inputs::Reals(gather(values, set.input_len(), places)),
    };
    let targets = match &set.targets {
        Targets::Classes { count, labels } => {
            Targets::Classes { count: *count, labels: gather(labels, 1, places) }
        }
        Targets::Reals { width, values } => {
            Targets::Reals { width: *width, values: gather(values, *width, places) }
        }
    };
    Dataset { shape: set.shape, inputs, targets }
}

fn gather<T: Copy>(values: &[T], width: usize, places: &[usize]) -> Vec<T> {
    places.iter().flat_map(|place| &values[place * width..][..width]).copied().collect()
}

/// Training and test set out of one: `held_back` examples drawn by `seed`, each part in the order
/// of the whole.
pub fn share(set: &Dataset, held_back: usize, seed: u64) -> (Dataset, Dataset) {
    let random = Stream::new(seed, SHARE_STREAM);
    let mut drawn: Vec<usize> = (0..set.len()).collect();
    drawn.sort_by_key(|place| (random.block(*place as u64), *place));
    let (test, train) = drawn.split_at_mut(held_back);
    test.sort_unstable();
    train.sort_unstable();
    (select(set, train), select(set, test))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize) -> Dataset {
        let values: Vec<f64> = (0..n).map(|i| i as f64).collect();
        Dataset {
            shape: [1, 1, 2],
            inputs: Inputs::Reals(values.iter().flat_map(|x| [*x, -x]).collect()),
            targets: Targets::Reals { width: 1, values },
        }
    }

    #[test]
    fn inputs_stay_with_their_targets() {
        let part = select(&numbers(5), &[3, 0]);
        assert_eq!(part.inputs, Inputs::Reals(vec![3.0, -3.0, 0.0, -0.0]));
        assert_eq!(part.targets, Targets::Reals { width: 1, values: vec![3.0, 0.0] });
    }

    #[test]
    fn every_example_is_in_one_part_and_the_seed_decides_which() {
        let values = |set: &Dataset| match &set.targets {
            Targets::Reals { values, .. } => values.clone(),
            Targets::Classes { .. } => unreachable!(),
        };
        let (train, test) = share(&numbers(100), 20, 0);
        assert_eq!((train.len(), test.len()), (80, 20));
        let mut all = [values(&train), values(&test)].concat();
        assert!(values(&train).is_sorted() && values(&test).is_sorted());
        all.sort_by(f64::total_cmp);
        assert_eq!(all, values(&numbers(100)));
        assert_eq!(share(&numbers(100), 20, 0).1, test);
        assert_ne!(share(&numbers(100), 20, 1).1, test);
    }
}
