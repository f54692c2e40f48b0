use lastbit::rng::Stream;
use lastbit::training::Fluctuation;

use super::*;
use crate::conv3x3_plan::MathMode;
use crate::tests::on_device::on_device;

#[test]
fn fluctuations_of_given_gradients_are_bit_identical_to_the_cpu() {
    fluctuations::<f32>();
    fluctuations::<f64>();
}

fn fluctuations<F: DeviceReal>() {
    let Some(mut device) = on_device(Device::new::<F>(MathMode::Fma)) else { return };
    // Around a tile's terms, and of several.
    for len in [1, 7, 8, 9, 1023, 1024, 1025, 5000] {
        // Of dead units all gradients are zero, of some two they cancel.
        let gradient = |seed: u64| -> Vec<F> {
            let (stream, sign) =
                (Stream::new(seed / 2, 0), if seed.is_multiple_of(2) { 1.0 } else { -1.0 });
            let number = |i: u64| match i % 5 {
                0 => 0.0,
                // A replica that has come to infinity.
                3 if seed == 153 => f64::INFINITY,
                4 if seed == 161 => f64::NAN,
                1 => sign * stream.normal(i),
                _ => Stream::new(seed, 1).normal(i),
            };
            (0..len as u64).map(|i| F::of(number(i))).collect()
        };
        let mut found = Fluctuations::new(&device, len, 2).unwrap();
        for start in [0, 10, 50, 60] {
            let mut expected = [Fluctuation::new(len), Fluctuation::new(len)];
            found.restart();
            for n in 0..4 {
                let both = [gradient(start + n), gradient(start + 100 + n)];
                expected.iter_mut().zip(&both).for_each(|(mean, own)| mean.add(own));
                let both = device.upload(&both.concat()).unwrap();
                found.add(&mut device, &both).unwrap();
            }
            let last = [gradient(start + 50), gradient(start + 60)];
            let on_device = device.upload(&last.concat()).unwrap();
            let found = found.against(&mut device, &on_device).unwrap();
            for (r, found) in found.iter().enumerate() {
                let expected = expected[r].against(&last[r]);
                let same = found.to_bits() == expected.to_bits();
                assert!(same || found.is_nan() && expected.is_nan(), "{len}: {found} {expected}");
            }
        }
    }
}
