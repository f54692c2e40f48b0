use lastbit::rng::Stream;

use super::*;
use crate::conv3x3_plan::MathMode;

/// Lengths around those of a block, a chunk, a tile and a tree's levels, in words of 4 and of 8 bytes.
const LENGTHS: [usize; 36] = [
    1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 127, 128, 129, 255, 256, 257, 384, 385, 511, 512, 513, 640,
    1023, 1024, 1025, 1279, 1281, 2047, 2048, 2049, 3000, 4097, 8191, 20_011, 65_537, 100_003,
];

/// Numbers of every size, among them all that are not ordinary.
fn numbers<F: DeviceReal>(len: usize, seed: u64) -> Vec<F> {
    let stream = Stream::new(seed, 0);
    let least = F::default().flip_last_bit();
    let mut special = vec![least, -least, -F::of(f64::NAN)];
    let others = [
        0.0,
        -0.0,
        f64::MIN_POSITIVE,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e-40,
        1e-310,
        3e38,
        -3e38,
        1.5e308,
        -1.7e308,
    ];
    special.extend(others.map(F::of));
    let number = |i: u64| match stream.below(2 * i, 9) {
        0 => special[stream.below(2 * i + 1, special.len() as u64) as usize],
        1 => F::of(libm::exp2(stream.normal(i) * 40.0)),
        _ => F::of(stream.normal(i)),
    };
    (0..len as u64).map(number).collect()
}

/// A replica like the first in some numbers, a few bits away in others, anywhere in the rest.
fn near<F: DeviceReal>(first: &[F], seed: u64) -> Vec<F> {
    let (stream, others) = (Stream::new(seed, 1), numbers::<F>(first.len(), seed));
    let number = |(i, x): (usize, &F)| match stream.below(i as u64, 8) {
        0 | 1 => *x,
        2 => others[i],
        3 => x.flip_last_bit(),
        4 => -*x,
        n => *x + *x * F::of(libm::exp2(-7.3 * n as f64)),
    };
    first.iter().enumerate().map(number).collect()
}

/// Finite numbers only, so that no NaN hides what differs.
fn ordinary<F: DeviceReal>(values: &[F]) -> Vec<F> {
    let is_small = |x: &F| x.is_finite() && x.abs() < F::of(1e15);
    values.iter().map(|x| if is_small(x) { *x } else { F::of(0.3) }).collect()
}

/// All parameters in tensors of growing length, with an empty one.
fn tensors(len: usize) -> Vec<Range<usize>> {
    let mut ends = vec![0, 0];
    while ends[ends.len() - 1] < len {
        let end = ends[ends.len() - 1];
        ends.push(len.min(end + end / 3 + 1));
    }
    ends.windows(2).map(|ends| ends[0]..ends[1]).collect()
}

fn bits(found: &Compared) -> (Vec<u64>, u64, String) {
    let Distance { rel_l1, rel_l1_of, agreeing_bits, agreeing_bits_of, max_ulps, distance } =
        found.distance.clone();
    let numbers = [vec![rel_l1, agreeing_bits, distance], rel_l1_of, agreeing_bits_of].concat();
    // One NaN is as good as another.
    let bits = |x: &f64| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() };
    (numbers.iter().map(bits).collect(), max_ulps, found.hash.clone())
}

fn compare<F: DeviceReal>() {
    let mut device = Device::new::<F>(MathMode::Fma).unwrap();
    let mut with_numbers = 0;
    for (len, is_ordinary) in LENGTHS.into_iter().flat_map(|len| [(len, true), (len, false)]) {
        let first = numbers::<F>(len, len as u64);
        let first = if is_ordinary { ordinary(&first) } else { first };
        let mut replicas = vec![first.clone(), first.clone()];
        for seed in 0..3 {
            let other = near(&first, 1000 + seed);
            replicas.push(if is_ordinary { ordinary(&other) } else { other });
        }
        replicas.push(vec![F::default(); len]);
        let mut theta = device.zeros(replicas.len() * len).unwrap();
        device.write(&mut theta, 0, &replicas.concat()).unwrap();
        let tensors = tensors(len);
        let count = replicas.len();
        let mut comparison = Comparison::new::<F>(&device, len, tensors.clone(), count).unwrap();
        // Twice, because nothing may remain of the first time.
        for _ in 0..2 {
            let found = comparison.measure(&mut device, &theta).unwrap();
            assert_eq!(found.len(), count);
            for (r, (found, replica)) in found.iter().zip(&replicas).enumerate() {
                let expected = Compared::of(&first, replica, &tensors);
                assert_eq!(bits(found), bits(&expected), "{} {len}, replica {r}", F::NAME);
                with_numbers += usize::from(!expected.distance.distance.is_nan());
            }
        }
    }
    // All ordinary ones but for zeros beside zeros have a distance.
    assert!(with_numbers >= 2 * 5 * LENGTHS.len(), "{with_numbers}");
    println!("{}: {} lengths, {with_numbers} distances that are numbers", F::NAME, LENGTHS.len());
}

#[test]
#[ignore = "needs a CUDA device"]
fn comparisons_are_bit_identical_to_the_cpu() {
    compare::<f32>();
    compare::<f64>();
}
