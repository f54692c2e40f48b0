//! Photographs as differences from a guess: half the way to compressing them, without loss.
//!
//! ```text
//! d = green, red − green, blue − green          (grey: d = grey)
//! guess of d at (row, column) from its neighbours w, n, nw to the left, above, and both:
//!   min(w, n) if nw >= max(w, n);  max(w, n) if nw <= min(w, n);  w + n − nw otherwise
//! stored: (d − guess) mod 256, plane after plane
//! ```
//!
//! The guess is the median edge detector of LOCO-I: Weinberger, Seroussi and Sapiro, *The LOCO-I
//! lossless image compression algorithm*, IEEE Transactions on Image Processing 9 (2000).

/// Differences of one image.
pub fn differences(pixels: &[u8], shape: [usize; 3]) -> Vec<u8> {
    let [height, width, channels] = shape;
    let mut stored = Vec::with_capacity(pixels.len());
    for channel in order(channels) {
        let d: Vec<i16> = (0..height * width)
            .map(|i| i16::from(pixels[i * channels + channel]) - shift(pixels, i, channel, shape))
            .collect();
        stored.extend((0..d.len()).map(|i| (d[i] - guess(&d, i, width)) as u8));
    }
    stored
}

/// The image of these differences.
pub fn pixels(stored: &[u8], shape: [usize; 3]) -> Vec<u8> {
    let [height, width, channels] = shape;
    let size = height * width;
    let mut pixels = vec![0; stored.len()];
    for (channel, stored) in order(channels).into_iter().zip(stored.chunks_exact(size)) {
        let mut d: Vec<i16> = Vec::with_capacity(size);
        for (i, difference) in stored.iter().enumerate() {
            let shift = shift(&pixels, i, channel, shape);
            // Modulo 256 the pixel is determined; the difference then is too.
            let pixel = (i16::from(*difference) + guess(&d, i, width) + shift) as u8;
            d.push(i16::from(pixel) - shift);
            pixels[i * channels + channel] = pixel;
        }
    }
    pixels
}

/// Green first, as the other colours are relative to it.
fn order(channels: usize) -> Vec<usize> {
    if channels == 3 { vec![1, 0, 2] } else { (0..channels).collect() }
}

/// What a channel is relative to: green for red and blue, nothing otherwise.
fn shift(pixels: &[u8], i: usize, channel: usize, [_, _, channels]: [usize; 3]) -> i16 {
    if channels == 3 && channel != 1 { i16::from(pixels[i * channels + 1]) } else { 0 }
}

fn guess(d: &[i16], i: usize, width: usize) -> i16 {
    match (i / width, i % width) {
        (0, 0) => 0,
        (0, _) => d[i - 1],
        (_, 0) => d[i - width],
        _ => {
            let (w, n, nw) = (d[i - 1], d[i - width], d[i - width - 1]);
            let (low, high) = (w.min(n), w.max(n));
            // One formula for the three cases.
            (w + n - nw).clamp(low, high)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(crate::fixed_seed())]

        #[test]
        fn nothing_is_lost(bytes in prop::collection::vec(any::<u8>(), 60), colour in any::<bool>()) {
            let shape = if colour { [4, 5, 3] } else { [6, 10, 1] };
            prop_assert_eq!(pixels(&differences(&bytes, shape), shape), bytes);
        }
    }

    #[test]
    fn a_grey_ramp_is_nothing_but_its_slope() {
        let ramp: Vec<u8> = (0..4).flat_map(|y| (0..5).map(move |x| 3 * x + 7 * y)).collect();
        let colours: Vec<u8> = ramp.iter().flat_map(|x| [*x; 3]).collect();
        let stored = differences(&colours, [4, 5, 3]);
        assert!(stored[20..].iter().all(|difference| *difference == 0));
        assert!(stored[..20].iter().all(|difference| [0, 3, 7].contains(difference)));
    }
}
