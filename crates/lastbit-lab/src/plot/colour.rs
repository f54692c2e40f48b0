//! Colours: curves and shades that stay apart for colour-blind readers, and the grey scale of
//! fields.
//!
//! A shade of a heat map lies on a straight line in OKLab (Ottosson 2020), whose distances are those
//! the eye sees: equal steps of the number are equal steps of the colour. The line goes from a pale
//! yellow to a deep blue. Along it only lightness and the yellow-blue axis change, and neither is
//! what the red-green blind confuse.

/// Colours of curves, in order: Okabe and Ito's set without its yellow and black, which vanish on
/// a light or a dark page.
pub const CURVES: [[u8; 3]; 6] =
    [[0, 114, 178], [213, 94, 0], [0, 158, 115], [204, 121, 167], [230, 159, 0], [86, 180, 233]];

/// Colour of the curve number `k`: when all are used, they begin anew.
pub fn of_curve(k: usize) -> [u8; 3] {
    CURVES[k % CURVES.len()]
}

/// A colour as CSS has it.
pub fn css([r, g, b]: [u8; 3]) -> String {
    format!("rgb({r},{g},{b})")
}

/// A colour mixed with white, of which this share remains.
pub fn pale(colour: [u8; 3], share: f64) -> [u8; 3] {
    colour.map(|byte| (255.0 - share * (255.0 - f64::from(byte))).round() as u8)
}

/// Lightness, green-red and blue-yellow of the shades of the least and the greatest number.
const SHADES: [[f64; 3]; 2] = [[0.97, -0.03, 0.08], [0.38, -0.03, -0.14]];

/// The shade at a place from 0, least, to 1, greatest.
pub fn shade(place: f64) -> [u8; 3] {
    let [from, to] = SHADES;
    let [l, a, b] = [0, 1, 2].map(|k| from[k] + (to[k] - from[k]) * place);
    // Ottosson's matrices, from OKLab to the cones and on to red, green and blue light.
    let cube = |root: f64| root * root * root;
    let long = cube(l + 0.396_337_777_4 * a + 0.215_803_757_3 * b);
    let medium = cube(l - 0.105_561_345_8 * a - 0.063_854_172_8 * b);
    let short = cube(l - 0.089_484_177_5 * a - 1.291_485_548_0 * b);
    [
        4.076_741_662_1 * long - 3.307_711_591_3 * medium + 0.230_969_929_2 * short,
        -1.268_438_004_6 * long + 2.609_757_401_1 * medium - 0.341_319_396_5 * short,
        -0.004_196_086_3 * long - 0.703_418_614_7 * medium + 1.707_614_701_0 * short,
    ]
    .map(|light| (255.0 * encoded(light)).round() as u8)
}

/// The share of 255 that stands for an amount of light in sRGB.
fn encoded(light: f64) -> f64 {
    match light {
        light if light <= 0.003_130_8 => 12.92 * light.max(0.0),
        light => (1.055 * libm::pow(light, 1.0 / 2.4) - 0.055).min(1.0),
    }
}

/// Black or white, whichever reads better on this colour.
///
/// Their contrasts with a colour multiply to 21, so the better one is at least √21 = 4.58: more than
/// the 4.5 that WCAG asks for at level AA, on any colour.
pub fn text_on(background: [u8; 3]) -> [u8; 3] {
    let white = contrast([255; 3], background);
    if white > contrast([0; 3], background) { [255; 3] } else { [0; 3] }
}

/// Contrast of two colours after WCAG: from 1 to 21.
fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
    let [a, b] = [one, other].map(luminance);
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

fn luminance(colour: [u8; 3]) -> f64 {
    let [r, g, b] = colour.map(light);
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

/// Light of a byte of sRGB.
fn light(byte: u8) -> f64 {
    let share = f64::from(byte) / 255.0;
    if share <= 0.04045 { share / 12.92 } else { libm::pow((share + 0.055) / 1.055, 2.4) }
}

/// Grey between the ends of `range`; blue below, red above, magenta where it is no number.
pub fn of_value(value: f64, range: [f64; 2]) -> [u8; 3] {
    let [low, high] = range;
    if value.is_nan() {
        [255, 0, 255]
    } else if value < low {
        [40, 80, 200]
    } else if value > high {
        [200, 50, 40]
    } else {
        [(255.0 * (value - low) / (high - low)).round() as u8; 3]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The way back, by Ottosson's other two matrices.
    fn oklab(colour: [u8; 3]) -> [f64; 3] {
        let [r, g, b] = colour.map(light);
        let long = libm::cbrt(0.412_221_470_8 * r + 0.536_332_536_3 * g + 0.051_445_992_9 * b);
        let medium = libm::cbrt(0.211_903_498_2 * r + 0.680_699_545_1 * g + 0.107_396_956_6 * b);
        let short = libm::cbrt(0.088_302_461_9 * r + 0.281_718_837_6 * g + 0.629_978_700_5 * b);
        [
            0.210_454_255_3 * long + 0.793_617_785_0 * medium - 0.004_072_046_8 * short,
            1.977_998_495_1 * long - 2.428_592_205_0 * medium + 0.450_593_709_9 * short,
            0.025_904_037_1 * long + 0.782_771_766_2 * medium - 0.808_675_766_0 * short,
        ]
    }

    #[test]
    fn pale_colours_go_to_white() {
        let pales = [1.0, 0.5, 0.0].map(|share| pale([0, 255, 55], share));
        assert_eq!(pales, [[0, 255, 55], [128, 255, 155], [255; 3]]);
    }

    #[test]
    fn shades_darken_evenly_and_their_text_is_readable() {
        let shades: Vec<[u8; 3]> = (0..=100).map(|k| shade(f64::from(k) / 100.0)).collect();
        assert_eq!((shades[0], shades[100]), ([247, 251, 184], [0, 61, 140]));
        for pair in shades.windows(2) {
            assert!(luminance(pair[0]) > luminance(pair[1]), "{pair:?}");
        }
        for (k, colour) in shades.into_iter().enumerate() {
            let place = k as f64 / 100.0;
            let line = [0, 1, 2].map(|k| SHADES[0][k] + (SHADES[1][k] - SHADES[0][k]) * place);
            let seen = oklab(colour);
            let square = |k: usize| (line[k] - seen[k]) * (line[k] - seen[k]);
            let distance = (square(0) + square(1) + square(2)).sqrt();
            // Half a byte of one channel moves a colour by at most 0.0015 here, and there are three.
            assert!(distance < 0.0045, "{colour:?} is {distance} off the line");
            assert!(contrast(text_on(colour), colour) >= 4.5, "{colour:?}");
        }
        assert_eq!((text_on([255; 3]), text_on([0; 3])), ([0; 3], [255; 3]));
        assert_eq!(contrast([0; 3], [255; 3]), 21.0);
    }

    #[test]
    fn ends_middle_and_beyond() {
        let range = [-1.0, 1.0];
        assert_eq!(of_value(-1.0, range), [0; 3]);
        assert_eq!(of_value(0.0, range), [128; 3]);
        assert_eq!(of_value(1.0, range), [255; 3]);
        assert_ne!(of_value(-1.1, range), of_value(1.1, range));
        assert_eq!(of_value(f64::NAN, range), [255, 0, 255]);
    }
}
