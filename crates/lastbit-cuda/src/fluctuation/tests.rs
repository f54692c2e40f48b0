use lastbit::rng::Stream;
use lastbit::training::Fluctuation;

use super::*;
use crate::fast::Precision;

#[test]
fn fluctuations_of_given_gradients_have_the_bits_of_the_cpu() {
    fluctuations::<f32>();
    fluctuations::<f64>();
}

fn fluctuations<F: DeviceReal>() {
    let mut device = match Device::new::<F>(Precision::Plain) {
        Ok(device) => device,
        Err(Error::NoDriver) => return println!("skipped: no CUDA device here"),
        Err(other) => panic!("{other}"),
    };
    // Around a tile's terms, and of several.
    for len in [1, 7, 8, 9, 1023, 1024, 1025, 5000] {
        // Of dead units all gradients are zero, of some two they cancel.
        let gradient = |seed: u64| -> Vec<F> {
            let (stream, sign) =
                (Stream::new(seed / 2, 0), if seed.is_multiple_of(2) { 1.0 } else { -1.0 });
            let number = |i: u64| match i % 5 {
                0 => 0.0,
                1 => sign * stream.normal(i),
                _ => Stream::new(seed, 1).normal(i),
            };
            (0..len as u64).map(|i| F::of(number(i))).collect()
        };
        let mut found = Fluctuations::new(&device, len, 2).unwrap();
        for start in [0, 10] {
            let mut expected = [Fluctuation::new(len), Fluctuation::new(len)];
            found.restart();
            for n in 0..4 {
                let both = [gradient(start + n), gradient(start + 100 + n)];
                expected.iter_mut().zip(&both).for_each(|(mean, own)| mean.add(own));
                let both = device.with(&both.concat()).unwrap();
                found.add(&mut device, &both).unwrap();
            }
            let last = [gradient(start + 50), gradient(start + 60)];
            let on_device = device.with(&last.concat()).unwrap();
            let found = found.against(&mut device, &on_device).unwrap();
            for (r, found) in found.iter().enumerate() {
                let expected = expected[r].against(&last[r]);
                assert_eq!(found.to_bits(), expected.to_bits(), "{len}: {found} {expected}");
            }
        }
    }
}
