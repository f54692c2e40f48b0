//! A contact sheet: the first images of each class, a row a class.

use lastbit::data::{Dataset, Inputs, Targets};
use lastbit_formats::png::Picture;

const COLUMNS: usize = 20;
/// With more classes than this, the first images in their order are shown instead.
const ROWS: usize = 20;
const GAP: usize = 2;

/// A sheet of images; nothing for vectors and for images that are neither grey nor in colour.
pub fn contact_sheet(set: &Dataset) -> Option<Picture> {
    let [height, width, channels] = set.shape;
    if height < 2 || width < 2 || ![1, 3].contains(&channels) {
        return None;
    }
    let rows = rows(set);
    let columns = rows.iter().map(Vec::len).max()?;
    let size = [columns * (width + GAP) + GAP, rows.len() * (height + GAP) + GAP];
    let mut sheet = vec![255; 3 * size[0] * size[1]];
    let byte = bytes(set);
    for (row, examples) in rows.iter().enumerate() {
        for (column, example) in examples.iter().enumerate() {
            let (top, left) = (GAP + row * (height + GAP), GAP + column * (width + GAP));
            for (pixel, place) in (0..height * width).zip(example * set.input_len() / channels..) {
                let (y, x) = (top + pixel / width, left + pixel % width);
                for colour in 0..3 {
                    let channel = if channels == 3 { colour } else { 0 };
                    sheet[3 * (y * size[0] + x) + colour] = byte(place * channels + channel);
                }
            }
        }
    }
    Some(Picture { shape: [size[1], size[0], 3], pixels: sheet })
}

/// Which examples are in which row.
fn rows(set: &Dataset) -> Vec<Vec<usize>> {
    match &set.targets {
        Targets::Classes { count, labels } if *count <= ROWS => {
            let of = |class: usize| {
                let ours = (0..labels.len()).filter(move |i| labels[*i] as usize == class);
                ours.take(COLUMNS).collect()
            };
            (0..*count).map(of).filter(|row: &Vec<usize>| !row.is_empty()).collect()
        }
        _ => {
            let first: Vec<usize> = (0..set.len().min(ROWS * COLUMNS)).collect();
            first.chunks(COLUMNS).map(<[usize]>::to_vec).collect()
        }
    }
}

/// The values as bytes; real ones from the smallest to the largest.
fn bytes(set: &Dataset) -> Box<dyn Fn(usize) -> u8 + '_> {
    match &set.inputs {
        Inputs::Bytes(bytes) => Box::new(|i| bytes[i]),
        Inputs::Reals(values) => {
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let range = (high - low).max(f64::MIN_POSITIVE);
            Box::new(move |i| (255.0 * ((values[i] - low) / range)) as u8)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_a_class_with_white_between() {
        let set = Dataset {
            shape: [2, 3, 1],
            inputs: Inputs::Bytes((0..18).collect()),
            targets: Targets::Classes { count: 2, labels: vec![1, 0, 1] },
        };
        let Picture { shape: [height, width, _], pixels } = contact_sheet(&set).unwrap();
        assert_eq!([width, height], [2 * 5 + 2, 2 * 4 + 2]);
        let pixel = |x: usize, y: usize| pixels[3 * (y * width + x)..][..3].to_vec();
        assert_eq!(pixel(0, 0), [255; 3]);
        assert_eq!(pixel(2, 2), [6; 3], "the only image of class 0 is the second");
        assert_eq!(pixel(4, 7), [5; 3], "last pixel of the first image");
        assert_eq!(pixel(9, 7), [17; 3], "last pixel of the third image");
    }

    #[test]
    fn vectors_have_no_sheet_and_real_images_fill_the_range() {
        let reals = |shape: [usize; 3]| Dataset {
            shape,
            inputs: Inputs::Reals(vec![-1.0, 0.0, 0.5, 1.0]),
            targets: Targets::Reals { width: 1, values: vec![0.0] },
        };
        assert_eq!(contact_sheet(&reals([1, 1, 4])), None);
        let sheet = contact_sheet(&reals([2, 2, 1])).unwrap();
        assert_eq!(sheet.shape, [6, 6, 3]);
        assert_eq!(sheet.pixels[3 * (2 * 6 + 2)], 0);
        assert_eq!(sheet.pixels[3 * (3 * 6 + 3)], 255);
    }
}
