//! PNG images of 8 bits per channel.

use std::io::Cursor;

use image::{ColorType, DynamicImage, ImageFormat, ImageReader};

use crate::{MOST_INFLATION, Malformed};

/// An image of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Height, width and channels: 1 for grey, 3 for red, green and blue.
    pub shape: [usize; 3],
    /// Row, column, channel.
    pub pixels: Vec<u8>,
}

/// Reads an image. An alpha channel must be opaque everywhere: there is no one way to blend it.
pub fn parse(bytes: &[u8]) -> Result<Picture, Malformed> {
    let refuse = |error: image::ImageError| Malformed::new(error, "a PNG image");
    let mut reader = ImageReader::with_format(Cursor::new(bytes), ImageFormat::Png);
    let mut limits = image::Limits::no_limits();
    // What is decompressed, and as much again for the decoder's own buffers and the conversion.
    limits.max_alloc = Some(2 * MOST_INFLATION as u64 * bytes.len() as u64);
    reader.limits(limits);
    let picture = reader.decode().map_err(refuse)?;
    let (height, width) = (picture.height() as usize, picture.width() as usize);
    let kind = picture.color();
    let is_opaque = match &picture {
        DynamicImage::ImageLumaA8(picture) => picture.pixels().all(|pixel| pixel.0[1] == 255),
        DynamicImage::ImageRgba8(picture) => picture.pixels().all(|pixel| pixel.0[3] == 255),
        _ => true,
    };
    if !is_opaque {
        return Err(Malformed::new("an image that is transparent in places", "an opaque image"));
    }
    match kind {
        ColorType::L8 | ColorType::La8 => {
            Ok(Picture { shape: [height, width, 1], pixels: picture.into_luma8().into_raw() })
        }
        ColorType::Rgb8 | ColorType::Rgba8 => {
            Ok(Picture { shape: [height, width, 3], pixels: picture.into_rgb8().into_raw() })
        }
        other => Err(Malformed::new(format!("pixels of type {other:?}"), "8 bits per channel")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(picture: &DynamicImage) -> Vec<u8> {
        let mut file = Cursor::new(Vec::new());
        picture.write_to(&mut file, ImageFormat::Png).unwrap();
        file.into_inner()
    }

    #[test]
    fn grey_and_colour_come_back_as_they_were() {
        for (kind, channels) in [(ColorType::L8, 1), (ColorType::Rgb8, 3)] {
            let bytes: Vec<u8> = (0..6 * channels as u8).collect();
            let picture = match kind {
                ColorType::L8 => image::GrayImage::from_raw(3, 2, bytes.clone()).unwrap().into(),
                _ => DynamicImage::from(image::RgbImage::from_raw(3, 2, bytes.clone()).unwrap()),
            };
            let back = parse(&file(&picture)).unwrap();
            assert_eq!(back, Picture { shape: [2, 3, channels], pixels: bytes });
        }
    }

    #[test]
    fn what_has_no_one_meaning_is_refused() {
        let clear = DynamicImage::new_rgba8(2, 2);
        assert!(parse(&file(&clear)).unwrap_err().to_string().contains("transparent"));
        let deep = DynamicImage::new_luma16(2, 2);
        assert!(parse(&file(&deep)).unwrap_err().to_string().contains("8 bits per channel"));
    }

    #[test]
    fn a_size_that_the_bytes_cannot_hold_is_refused() {
        let mut lying = file(&DynamicImage::new_luma8(2, 2));
        // Width and height, and the checksum of the header that holds them.
        lying[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
        let mut crc = flate2::Crc::new();
        crc.update(&lying[12..29]);
        lying[29..33].copy_from_slice(&crc.sum().to_be_bytes());
        let message = parse(&lying).unwrap_err().to_string();
        assert!(message.contains("imit"), "{message}");
    }
}
