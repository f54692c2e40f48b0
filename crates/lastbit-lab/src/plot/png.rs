//! PNG files in memory.

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder, ImageResult};

use super::colour;
use crate::series::Field;

/// A field as it is: one pixel a value, coloured by [`colour::of_value`].
pub fn of_field(field: &Field, range: [f64; 2]) -> ImageResult<Vec<u8>> {
    let colours: Vec<[u8; 3]> =
        field.values.iter().map(|value| colour::of_value(*value, range)).collect();
    let size = [field.width, field.height];
    // Most fields stay within their range; without colours the file is a third of the size.
    if colours.iter().all(|[r, g, b]| r == g && g == b) {
        let grey: Vec<u8> = colours.iter().map(|colour| colour[0]).collect();
        encode(&grey, size, ExtendedColorType::L8)
    } else {
        encode(colours.as_flattened(), size, ExtendedColorType::Rgb8)
    }
}

/// An image of red, green and blue bytes, row by row.
pub fn of_rgb(bytes: &[u8], size: [usize; 2]) -> ImageResult<Vec<u8>> {
    encode(bytes, size, ExtendedColorType::Rgb8)
}

fn encode(
    bytes: &[u8],
    [width, height]: [usize; 2],
    kind: ExtendedColorType,
) -> ImageResult<Vec<u8>> {
    let mut file = Vec::new();
    PngEncoder::new_with_quality(&mut file, CompressionType::Best, FilterType::Adaptive)
        .write_image(bytes, width as u32, height as u32, kind)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_reads_back_as_its_colours() {
        for values in [vec![0.0, 0.5, 1.0, 0.25], vec![-1.0, 2.0, f64::NAN, f64::INFINITY]] {
            let field = Field { height: 1, width: 4, values };
            let file = of_field(&field, [0.0, 1.0]).unwrap();
            let image = image::load_from_memory(&file).unwrap().into_rgb8();
            assert_eq!(image.dimensions(), (4, 1));
            for (pixel, value) in image.pixels().zip(&field.values) {
                assert_eq!(pixel.0, colour::of_value(*value, [0.0, 1.0]));
            }
        }
    }
}
