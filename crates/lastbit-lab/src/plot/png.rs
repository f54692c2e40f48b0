//! PNG files in memory.

use lastbit_formats::Malformed;
use lastbit_formats::png::Picture;

use super::colour;
use crate::series::Field;

/// A field as it is: one pixel a value, coloured by [`colour::of_value`].
pub fn of_field(field: &Field, range: [f64; 2]) -> Result<Vec<u8>, Malformed> {
    let colours: Vec<[u8; 3]> =
        field.values.iter().map(|value| colour::of_value(*value, range)).collect();
    // Most fields stay within their range; without colours the file is a third of the size.
    if colours.iter().all(|[r, g, b]| r == g && g == b) {
        let pixels = colours.iter().map(|colour| colour[0]).collect();
        Picture { shape: [field.height, field.width, 1], pixels }.to_png()
    } else {
        let pixels = colours.into_flattened();
        Picture { shape: [field.height, field.width, 3], pixels }.to_png()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lastbit_formats::png::parse;

    #[test]
    fn a_field_reads_back_as_its_colours() {
        for values in [vec![0.0, 0.5, 1.0, 0.25], vec![-1.0, 2.0, f64::NAN, f64::INFINITY]] {
            let field = Field { height: 1, width: 4, values };
            let file = of_field(&field, [0.0, 1.0]).unwrap();
            let Picture { shape: [height, width, channels], pixels } = parse(&file).unwrap();
            assert_eq!([height, width], [1, 4]);
            for (pixel, value) in pixels.chunks(channels).zip(&field.values) {
                let colour = colour::of_value(*value, [0.0, 1.0]);
                assert_eq!(pixel, if channels == 1 { &colour[..1] } else { &colour });
            }
        }
    }
}
