//! Files by others that travel within the program, each compressed with gzip.

/// plotly.js, which draws the charts of a report: 1.4 MB instead of 4.6.
pub static PLOTLY_JS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plotly.min.js.gz"));

/// The font of figures: DejaVu Sans, regular and bold.
pub static FONTS: [&[u8]; 2] = [
    include_bytes!(concat!(env!("OUT_DIR"), "/DejaVuSans.ttf.gz")),
    include_bytes!(concat!(env!("OUT_DIR"), "/DejaVuSans-Bold.ttf.gz")),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn unpacked(bytes: &[u8]) -> Vec<u8> {
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(bytes).read_to_end(&mut unpacked).unwrap();
        unpacked
    }

    #[test]
    fn the_script_is_plotly_alone() {
        let text = String::from_utf8(unpacked(PLOTLY_JS)).unwrap();
        assert!(text.contains("plotly.js v3") && text.len() > 4_000_000);
        assert!(!text.contains("mathjax-newcm") && !text.contains("<script"));
    }

    #[test]
    fn the_fonts_are_fonts() {
        for font in FONTS {
            assert!(unpacked(font).starts_with(&[0, 1, 0, 0]), "the beginning of TrueType");
        }
    }
}
