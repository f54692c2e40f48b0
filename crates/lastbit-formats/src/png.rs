//! PNG images, read and written.

use std::io::Cursor;

use png::{BitDepth, ColorType, Decoder, DecodingError, Encoder, Limits, Transformations};

use crate::{MOST_INFLATION, Malformed};

/// Weights of red, green and blue in the luminance of sRGB's primaries (Rec. 709, white D65).
const LUMINANCE: [f32; 3] = [0.212_647_84, 0.715_179_2, 0.072_173_04];

/// An image of bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Height, width and channels: 1 for grey, 3 for red, green and blue.
    pub shape: [usize; 3],
    /// Row, column, channel.
    pub pixels: Vec<u8>,
}

impl Picture {
    /// The image as a file.
    ///
    /// # Errors
    ///
    /// If it has no pixels, not as many as its shape says, or other channels than grey or colours.
    pub fn to_png(&self) -> Result<Vec<u8>, Malformed> {
        let refuse = |error| Malformed::new(error, "an image that a PNG file can hold");
        let [height, width, channels] = self.shape;
        let colour = match channels {
            1 => ColorType::Grayscale,
            3 => ColorType::Rgb,
            _ => return Err(Malformed::new(format!("{channels} channels"), "1 or 3")),
        };
        let mut file = Vec::new();
        let mut encoder = Encoder::new(&mut file, width as u32, height as u32);
        encoder.set_color(colour);
        encoder.set_compression(png::Compression::High);
        encoder.set_filter(png::Filter::Adaptive);
        let mut writer = encoder.write_header().map_err(refuse)?;
        writer.write_image_data(&self.pixels).map_err(refuse)?;
        writer.finish().map_err(refuse)?;
        Ok(file)
    }
}

/// Reads an image of 8 bits per channel. An alpha channel must be opaque everywhere: there is no one
/// way to blend it.
pub fn parse(bytes: &[u8]) -> Result<Picture, Malformed> {
    let Decoded { shape: [height, width, channels], depth, samples } = decode(bytes)?;
    if depth == BitDepth::Sixteen {
        return Err(Malformed::new("16 bits per channel", "8 bits per channel"));
    }
    if channels % 2 == 1 {
        return Ok(Picture { shape: [height, width, channels], pixels: samples });
    }
    let pixels = samples.chunks_exact(channels);
    if !pixels.clone().all(|pixel| pixel[channels - 1] == u8::MAX) {
        return Err(Malformed::new("an image that is transparent in places", "an opaque image"));
    }
    let pixels = pixels.flat_map(|pixel| &pixel[..channels - 1]).copied().collect();
    Ok(Picture { shape: [height, width, channels - 1], pixels })
}

/// Reads any image as grey: height and width, and values from 0 to 1 in steps of 1/65535. Colours are
/// turned into their luminance as they are coded, and an alpha channel is passed over.
pub fn parse_grey(bytes: &[u8]) -> Result<([usize; 2], Vec<f64>), Malformed> {
    let Decoded { shape: [height, width, channels], depth, samples } = decode(bytes)?;
    let (samples, most): (Vec<u16>, u16) = match depth {
        BitDepth::Sixteen => {
            let (pairs, _) = samples.as_chunks();
            (pairs.iter().map(|pair| u16::from_be_bytes(*pair)).collect(), u16::MAX)
        }
        _ => (samples.into_iter().map(u16::from).collect(), u16::from(u8::MAX)),
    };
    let scale = 1.0 / f32::from(most);
    let grey = |pixel: &[u16]| match pixel {
        [red, green, blue, ..] => {
            let shares = [red, green, blue].map(|sample| f32::from(*sample) * scale);
            let terms = shares.iter().zip(LUMINANCE).map(|(share, weight)| share * weight);
            (terms.fold(0.0, |sum, term| sum + term) * f32::from(u16::MAX)).round() as u16
        }
        _ => pixel[0] * (u16::MAX / most),
    };
    let values = samples.chunks_exact(channels).map(|pixel| f64::from(grey(pixel)) / 65535.0);
    Ok(([height, width], values.collect()))
}

/// Samples of 8 bits, or of 16 bits with the high byte first; palettes and fewer bits are expanded.
struct Decoded {
    /// Height, width and channels, alpha among them.
    shape: [usize; 3],
    depth: BitDepth,
    samples: Vec<u8>,
}

fn decode(bytes: &[u8]) -> Result<Decoded, Malformed> {
    let refuse = |error: DecodingError| Malformed::new(error, "a PNG image");
    // What is decompressed, and as much again for the decoder's own buffers.
    let limit = bytes.len().saturating_mul(2 * MOST_INFLATION);
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), Limits { bytes: limit });
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(refuse)?;
    // The decoder takes for granted that entries are whole and as many as an index can reach.
    if let Some(palette) = &reader.info().palette
        && (!palette.len().is_multiple_of(3) || palette.len() > 3 * 256)
    {
        let found = format!("a palette of {} bytes", palette.len());
        return Err(Malformed::new(
            found,
            "a PNG image: three bytes for each of up to 256 colours",
        ));
    }
    let size = reader.output_buffer_size().filter(|size| *size <= limit);
    let mut samples = vec![0; size.ok_or_else(|| refuse(DecodingError::LimitsExceeded))?];
    let frame = reader.next_frame(&mut samples).map_err(refuse)?;
    let shape = [frame.height as usize, frame.width as usize, frame.color_type.samples()];
    Ok(Decoded { shape, depth: frame.bit_depth, samples })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(colour: ColorType, depth: BitDepth, samples: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = Encoder::new(&mut file, 3, 2);
        encoder.set_color(colour);
        encoder.set_depth(depth);
        encoder.set_palette(&[0, 0, 0, 255, 0, 0, 10, 20, 30, 255, 255, 255][..]);
        encoder.write_header().unwrap().write_image_data(samples).unwrap();
        file
    }

    fn bytes(count: u8) -> Vec<u8> {
        (0..count).collect()
    }

    #[test]
    fn grey_and_colour_come_back_as_they_were() {
        for channels in [1, 3] {
            let picture = Picture { shape: [2, 3, channels], pixels: bytes(6 * channels as u8) };
            assert_eq!(parse(&picture.to_png().unwrap()), Ok(picture));
        }
    }

    #[test]
    fn palettes_few_bits_and_an_opaque_alpha_are_expanded() {
        let palette = file(ColorType::Indexed, BitDepth::Two, &[0b0001_1000, 0b1100_0100]);
        let pixels = vec![0, 0, 0, 255, 0, 0, 10, 20, 30, 255, 255, 255, 0, 0, 0, 255, 0, 0];
        assert_eq!(parse(&palette), Ok(Picture { shape: [2, 3, 3], pixels }));
        let bits = file(ColorType::Grayscale, BitDepth::One, &[0b0100_0000, 0b1010_0000]);
        let pixels = vec![0, 255, 0, 255, 0, 255];
        assert_eq!(parse(&bits), Ok(Picture { shape: [2, 3, 1], pixels }));
        let grey: Vec<u8> = bytes(6).iter().flat_map(|grey| [*grey, 255]).collect();
        let opaque = file(ColorType::GrayscaleAlpha, BitDepth::Eight, &grey);
        assert_eq!(parse(&opaque), Ok(Picture { shape: [2, 3, 1], pixels: bytes(6) }));
    }

    #[test]
    fn what_has_no_one_meaning_is_refused() {
        let clear = file(ColorType::Rgba, BitDepth::Eight, &[0; 24]);
        assert!(parse(&clear).unwrap_err().to_string().contains("transparent"));
        let deep = file(ColorType::Grayscale, BitDepth::Sixteen, &[0; 12]);
        assert!(parse(&deep).unwrap_err().to_string().contains("8 bits per channel"));
        for shape in [[0, 3, 1], [2, 3, 1], [1, 1, 2]] {
            assert!(Picture { shape, pixels: vec![0; 2] }.to_png().is_err(), "{shape:?}");
        }
    }

    #[test]
    fn every_kind_of_image_is_read_as_grey() {
        let values = |file: &[u8]| {
            let (size, values) = parse_grey(file).unwrap();
            assert_eq!(size, [2, 3]);
            values.iter().map(|value| (value * 65535.0).round() as u32).collect::<Vec<_>>()
        };
        let grey = file(ColorType::Grayscale, BitDepth::Eight, &[0, 1, 2, 3, 254, 255]);
        assert_eq!(values(&grey), [0, 257, 514, 771, 65278, 65535]);
        let deep = [0, 0, 0, 1, 1, 0, 0x12, 0x34, 0xff, 0xfe, 0xff, 0xff];
        let deep = file(ColorType::Grayscale, BitDepth::Sixteen, &deep);
        assert_eq!(values(&deep), [0, 1, 256, 0x1234, 65534, 65535]);
        // Red, green and blue count 0.2126, 0.7152 and 0.0722.
        let colours = [255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255, 9, 9, 9, 0, 0, 0];
        let colours = file(ColorType::Rgb, BitDepth::Eight, &colours);
        assert_eq!(values(&colours), [13936, 46869, 4730, 65535, 2313, 0]);
        let clear: Vec<u8> = (0..6).flat_map(|grey| [grey; 4]).collect();
        let clear = file(ColorType::Rgba, BitDepth::Eight, &clear);
        assert_eq!(values(&clear), [0, 257, 514, 771, 1028, 1285]);
    }

    /// The palette of [`file`] replaced by this many bytes.
    fn with_palette_of(bytes: usize) -> Vec<u8> {
        let file = file(ColorType::Indexed, BitDepth::Two, &[0b0001_1000, 0b1100_0100]);
        let at = file.windows(4).position(|name| name == b"PLTE").unwrap();
        let chunk = [b"PLTE", &vec![7; bytes][..]].concat();
        let mut crc = flate2::Crc::new();
        crc.update(&chunk);
        let length = (bytes as u32).to_be_bytes();
        let rest = &file[at + 4 + 12 + 4..];
        [&file[..at - 4], &length, &chunk, &crc.sum().to_be_bytes(), rest].concat()
    }

    #[test]
    fn a_palette_of_parts_of_colours_or_too_many_is_refused() {
        assert_eq!(parse(&with_palette_of(12)).unwrap().pixels, [7; 18]);
        for bytes in [1, 13, 14, 769, 771] {
            assert!(parse(&with_palette_of(bytes)).is_err(), "{bytes} bytes");
            assert!(parse_grey(&with_palette_of(bytes)).is_err(), "{bytes} bytes");
        }
    }

    #[test]
    fn a_size_that_the_bytes_cannot_hold_is_refused() {
        let mut lying = file(ColorType::Grayscale, BitDepth::Eight, &bytes(6));
        // Width and height, and the checksum of the header that holds them.
        lying[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
        let mut crc = flate2::Crc::new();
        crc.update(&lying[12..29]);
        lying[29..33].copy_from_slice(&crc.sum().to_be_bytes());
        let message = parse(&lying).unwrap_err().to_string();
        assert!(message.contains("imit"), "{message}");
    }
}
