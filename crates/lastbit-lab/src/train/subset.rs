//! A part of a data set, and a border around its images.

use lastbit::data::{Dataset, Inputs, Targets};

/// The first `limit` examples of the given classes, which become 0, 1, … in the order given.
pub fn subset(data: Dataset, classes: Option<&[u32]>, limit: Option<usize>) -> Dataset {
    if classes.is_none() && limit.is_none() {
        return data;
    }
    let renamed = |label: u32| match classes {
        Some(classes) => classes.iter().position(|class| *class == label).map(|i| i as u32),
        None => Some(label),
    };
    let wanted = |example: &usize| match &data.targets {
        Targets::Classes { labels, .. } => renamed(labels[*example]).is_some(),
        Targets::Reals { .. } => true,
    };
    let chosen: Vec<usize> =
        (0..data.len()).filter(wanted).take(limit.unwrap_or(usize::MAX)).collect();
    let len = data.input_len();
    let inputs = match &data.inputs {
        Inputs::Bytes(bytes) => Inputs::Bytes(rows(bytes, len, &chosen)),
        Inputs::Reals(values) => Inputs::Reals(rows(values, len, &chosen)),
    };
    let targets = match &data.targets {
        Targets::Classes { count, labels } => Targets::Classes {
            count: classes.map_or(*count, <[u32]>::len),
            labels: chosen.iter().filter_map(|i| renamed(labels[*i])).collect(),
        },
        Targets::Reals { width, values } => {
            Targets::Reals { width: *width, values: rows(values, *width, &chosen) }
        }
    };
    Dataset { shape: data.shape, inputs, targets }
}

/// The images with `border` pixels of zeros on each side.
pub fn with_border(data: Dataset, border: usize) -> Dataset {
    if border == 0 {
        return data;
    }
    let [height, width, channels] = data.shape;
    let shape = [height + 2 * border, width + 2 * border, channels];
    let inputs = match &data.inputs {
        Inputs::Bytes(bytes) => Inputs::Bytes(framed(bytes, data.shape, border)),
        Inputs::Reals(values) => Inputs::Reals(framed(values, data.shape, border)),
    };
    Dataset { shape, inputs, targets: data.targets }
}

fn framed<T: Copy + Default>(values: &[T], shape: [usize; 3], border: usize) -> Vec<T> {
    let [height, width, channels] = shape;
    let (row, wide) = (width * channels, (width + 2 * border) * channels);
    let mut framed = Vec::with_capacity(values.len() / height * (height + 2 * border) / row * wide);
    for image in values.chunks_exact(height * row) {
        framed.extend(vec![T::default(); border * wide]);
        for line in image.chunks_exact(row) {
            framed.extend(vec![T::default(); border * channels]);
            framed.extend_from_slice(line);
            framed.extend(vec![T::default(); border * channels]);
        }
        framed.extend(vec![T::default(); border * wide]);
    }
    framed
}

fn rows<T: Copy>(values: &[T], len: usize, chosen: &[usize]) -> Vec<T> {
    chosen.iter().flat_map(|i| &values[i * len..(i + 1) * len]).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_renamed_and_the_first_are_taken() {
        let data = Dataset {
            shape: [1, 1, 2],
            inputs: Inputs::Bytes((0..10).collect()),
            targets: Targets::Classes { count: 4, labels: vec![3, 0, 1, 3, 0] },
        };
        let part = subset(data.clone(), Some(&[3, 0]), Some(3));
        assert_eq!(part.inputs, Inputs::Bytes(vec![0, 1, 2, 3, 6, 7]));
        assert_eq!(part.targets, Targets::Classes { count: 2, labels: vec![0, 1, 0] });
        assert_eq!(subset(data.clone(), None, None), data);
        assert_eq!(subset(data, None, Some(9)).len(), 5);
    }

    #[test]
    fn a_border_goes_around_every_image() {
        let data = Dataset {
            shape: [1, 2, 1],
            inputs: Inputs::Bytes(vec![1, 2, 3, 4]),
            targets: Targets::Classes { count: 2, labels: vec![0, 1] },
        };
        let framed = with_border(data, 1);
        let image = |a, b| [0, 0, 0, 0, 0, a, b, 0, 0, 0, 0, 0];
        assert_eq!(framed.shape, [3, 4, 1]);
        assert_eq!(framed.inputs, Inputs::Bytes([image(1, 2), image(3, 4)].concat()));
    }
}
