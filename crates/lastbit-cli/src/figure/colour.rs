//! Colours: curves that stay apart for colour-blind readers, and the grey scale of fields.

/// Colours of curves, in order: Okabe and Ito's set without its yellow and black, which vanish on
/// a light or a dark page.
pub const CURVES: [[u8; 3]; 6] =
    [[0, 114, 178], [213, 94, 0], [0, 158, 115], [204, 121, 167], [230, 159, 0], [86, 180, 233]];

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
