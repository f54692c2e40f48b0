//! Pairs of files with known answers, and of any values against a plain loop.

use super::*;

use half::{bf16, f16};
use lastbit::Real;
use lastbit::divergence::{max_ulps, rel_l1};
use lastbit::rng::Stream;
use proptest::prelude::*;

use crate::tensors::Values;

fn tensor(name: &str, shape: &[usize], values: Values) -> Tensor {
    Tensor { name: name.to_owned(), shape: shape.to_vec(), values }
}

fn file(tensors: Vec<Tensor>) -> TensorFile {
    TensorFile { tensors, ..TensorFile::default() }
}

fn one(a: Values, b: Values) -> Row {
    let side = |values: Values| file(vec![tensor("x", &[values.len()], values)]);
    Diff::of(&side(a), &side(b), |_| true).rows.remove(0)
}

#[test]
fn tensors_are_matched_by_name_and_each_has_its_status() {
    let f = |values: &[f32]| Values::F32(values.to_vec());
    let a = file(vec![
        tensor("same", &[2], f(&[1.0, f32::NAN])),
        tensor("other", &[2], f(&[1.0, 2.0])),
        tensor("gone", &[1], f(&[1.0])),
        tensor("turned", &[2, 1], f(&[1.0, 2.0])),
        tensor("retyped", &[1], f(&[1.0])),
        tensor("zeros", &[1], f(&[0.0])),
    ]);
    let b = file(vec![
        tensor("new", &[1], f(&[1.0])),
        tensor("other", &[2], f(&[1.0, 2.0_f32.next_up()])),
        tensor("retyped", &[1], Values::I32(vec![1])),
        tensor("same", &[2], f(&[1.0, f32::NAN])),
        tensor("turned", &[1, 2], f(&[1.0, 2.0])),
        tensor("zeros", &[1], f(&[-0.0])),
    ]);
    let diff = Diff::of(&a, &b, |_| true);
    let found: Vec<(&str, Status)> =
        diff.rows.iter().map(|row| (row.name.as_str(), row.status)).collect();
    let expected = [
        ("same", Status::Identical),
        ("other", Status::Different),
        ("gone", Status::OnlyInA),
        ("turned", Status::OtherShape),
        ("retyped", Status::OtherType),
        ("zeros", Status::Different),
        ("new", Status::OnlyInB),
    ];
    assert_eq!(found, expected);
    assert_eq!(diff.different(), 6);
    assert_eq!((diff.total.entries, diff.total.compared, diff.total.equal_bits), (5, 4, 3));
    assert_eq!(diff.total_at.as_deref(), Some("other"));
    // Zeros of different sign are no distance apart, yet their bits differ.
    let zeros = diff.rows[5].comparison.as_ref().unwrap();
    assert_eq!((zeros.rel_l1, zeros.max_ulps, zeros.equal_bits), (0.0, 0, 0));
    let none = Diff::of(&a, &b, |name| name == "same");
    assert_eq!((none.rows.len(), none.different()), (1, 0));
    assert_eq!(none.hashes[0], none.hashes[1]);
    assert_ne!(diff.hashes[0], diff.hashes[1]);
}

#[test]
fn files_of_another_order_have_the_same_hash() {
    let tensors =
        vec![tensor("a", &[1], Values::U8(vec![1])), tensor("b", &[1], Values::F64(vec![0.5]))];
    let mut turned = tensors.clone();
    turned.reverse();
    let diff = Diff::of(&file(tensors), &file(turned), |_| true);
    assert_eq!((diff.different(), diff.hashes[0] == diff.hashes[1]), (0, true));
}

#[test]
fn steps_of_every_type() {
    let half = |x: f64| (f16::from_f64(x), bf16::from_f64(x));
    let cases = [
        (Values::F64(vec![1.0]), Values::F64(vec![1.0_f64.next_up().next_up()]), 2, Some(51.0)),
        (Values::F32(vec![-1.0]), Values::F32(vec![(-1.0_f32).next_down()]), 1, Some(23.0)),
        (
            Values::F16(vec![half(1.0).0]),
            Values::F16(vec![half(1.0 + 1.0 / 1024.0).0]),
            1,
            Some(10.0),
        ),
        (
            Values::BF16(vec![half(1.0).1]),
            Values::BF16(vec![half(1.0 + 1.0 / 64.0).1]),
            2,
            Some(6.0),
        ),
        // The smallest numbers on both sides of zero.
        (
            Values::F16(vec![f16::from_bits(1)]),
            Values::F16(vec![f16::from_bits(0x8001)]),
            2,
            Some(0.0),
        ),
        (Values::I64(vec![i64::MIN]), Values::I64(vec![i64::MAX]), u64::MAX, None),
        (Values::I32(vec![-3]), Values::I32(vec![4]), 7, None),
        (Values::I16(vec![-3]), Values::I16(vec![4]), 7, None),
        (Values::I8(vec![-128]), Values::I8(vec![127]), 255, None),
        (Values::U64(vec![0]), Values::U64(vec![u64::MAX]), u64::MAX, None),
        (Values::U32(vec![9]), Values::U32(vec![4]), 5, None),
        (Values::U16(vec![9]), Values::U16(vec![4]), 5, None),
        (Values::U8(vec![9]), Values::U8(vec![4]), 5, None),
        (Values::Bool(vec![true]), Values::Bool(vec![false]), 1, None),
    ];
    for (a, b, ulps, bits) in cases {
        let dtype = a.dtype();
        let row = one(a.clone(), b);
        let found = row.comparison.unwrap();
        assert_eq!((row.status, row.ulps_of), (Status::Different, Some(dtype)));
        assert_eq!((found.max_ulps, found.median_ulps), (ulps, ulps), "{dtype}");
        assert_eq!(found.agreeing_bits.is_some(), bits.is_some(), "{dtype}");
        if let (Some(found), Some(bits)) = (found.agreeing_bits, bits) {
            // Relative to the larger number, 2^-n of 1 is up to 2^-6 (BF16) larger in bits.
            assert!((bits..bits + 0.03).contains(&found), "{dtype}: {found}");
        }
        assert_eq!(one(a.clone(), a).status, Status::Identical);
    }
}

#[test]
fn floats_of_two_types_are_compared_on_the_coarser_grid() {
    let exact = [1.5_f32, -0.25, 3e-39];
    let wide: Vec<f64> = exact.iter().map(|x| f64::from(*x)).collect();
    let row = one(Values::F32(exact.to_vec()), Values::F64(wide.clone()));
    let found = row.comparison.unwrap();
    assert_eq!((row.status, row.ulps_of), (Status::Different, Some(Dtype::F32)));
    assert_eq!((found.rel_l1, found.max_ulps, found.equal_bits), (0.0, 0, 3));
    assert_eq!(found.agreeing_bits, Some(24.0));
    // A third in F64, and the same rounded to F32, F16 and BF16: on the coarser grid the same.
    let third = 1.0 / 3.0;
    for (coarse, precision) in [
        (Values::F32(vec![third as f32]), 24.0),
        (Values::F16(vec![f16::from_f64(third)]), 11.0),
        (Values::BF16(vec![bf16::from_f64(third)]), 8.0),
    ] {
        let dtype = coarse.dtype();
        for (a, b) in
            [(Values::F64(vec![third]), coarse.clone()), (coarse, Values::F64(vec![third]))]
        {
            let row = one(a, b);
            let found = row.comparison.unwrap();
            assert_eq!((row.ulps_of, found.max_ulps), (Some(dtype), 0));
            // Rounding to nearest keeps all bits but a half of the last.
            assert_eq!(found.agreeing_bits, Some(precision));
            assert!(found.rel_l1 > 0.0 && found.equal_bits == 0);
        }
    }
    assert_eq!(one(Values::F32(vec![1.0]), Values::I64(vec![1])).status, Status::OtherType);
    assert_eq!(one(Values::I32(vec![1]), Values::I64(vec![1])).status, Status::OtherType);
}

#[test]
fn metadata_that_differ_are_no_difference_of_tensors() {
    let mut a = file(vec![tensor("x", &[], Values::U8(vec![1]))]);
    let b = a.clone();
    a.metadata.insert("step".into(), "7".into());
    let diff = Diff::of(&a, &b, |_| true);
    assert_eq!(diff.different(), 0);
    assert_eq!(diff.metadata["step"], [Some("7".to_owned()), None]);
}

#[test]
fn rows_are_sorted_by_what_is_asked_and_what_has_no_number_comes_last() {
    let values = |x: f32| Values::F32(vec![x]);
    let names = ["near", "gone", "far"];
    let a = file(names.map(|name| tensor(name, &[1], values(1.0))).to_vec());
    let b = file(vec![tensor("near", &[1], values(1.1)), tensor("far", &[1], values(9.0))]);
    let mut diff = Diff::of(&a, &b, |_| true);
    diff.sort_by_largest(|c| c.rel_l1);
    let found: Vec<&str> = diff.rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(found, ["far", "near", "gone"]);
}

/// Two files of tensors of all sizes, some values apart.
fn two_files(sizes: &[usize]) -> [TensorFile; 2] {
    let stream = Stream::new(5, 0);
    [0, 1].map(|side| {
        let mut counter = 0;
        let tensors = sizes.iter().enumerate().map(|(k, size)| {
            let values = (0..*size).map(|_| {
                counter += 1;
                let near = stream.normal(counter) as f32;
                let apart = stream.block(counter)[3] % 3 * side;
                f32::from_bits(near.to_bits() ^ (apart * (stream.block(counter)[2] >> 20)))
            });
            tensor(&format!("layer{k}"), &[*size], Values::F32(values.collect()))
        });
        file(tensors.collect())
    })
}

#[test]
fn all_tensors_together_are_as_one_array() {
    let sizes = [3, 1000, 0, 17, 4096, 1];
    let [a, b] = two_files(&sizes);
    let diff = Diff::of(&a, &b, |_| true);
    let joined = |file: &TensorFile| {
        let values = file.tensors.iter().flat_map(|tensor| match &tensor.values {
            Values::F32(values) => values.clone(),
            other => panic!("{other:?}"),
        });
        values.collect::<Vec<f32>>()
    };
    let (x, y) = (joined(&a), joined(&b));
    let whole = one(Values::F32(x.clone()), Values::F32(y.clone())).comparison.unwrap();
    assert_eq!(whole.rel_l1.to_bits(), rel_l1(&x, &y).to_bits());
    assert_eq!(whole.max_ulps, max_ulps(&x, &y));
    let mut ulps: Vec<u64> = x.iter().zip(&y).map(|(a, b)| a.rank().abs_diff(b.rank())).collect();
    ulps.sort_unstable();
    assert_eq!(whole.median_ulps, ulps[ulps.len().div_ceil(2) - 1]);
    assert!(whole.median_ulps > 0 && whole.equal_bits > 1000, "{whole:?}");
    let total = &diff.total;
    assert_eq!(
        (total.entries, total.equal_bits, total.max_ulps, total.median_ulps, total.max_difference),
        (whole.entries, whole.equal_bits, whole.max_ulps, whole.median_ulps, whole.max_difference)
    );
    // Sums of 5117 terms of one sign in two orders: relative error below 5117 u each.
    let close = |one: f64, two: f64| (one / two - 1.0).abs() < 2.0 * 5117.0 * f64::EPSILON;
    assert!(close(total.rel_l1, whole.rel_l1));
    assert!(close(total.norms[0], whole.norms[0]));
    assert!(close(total.norm_of_difference, whole.norm_of_difference));
    assert!(close(total.agreeing_bits.unwrap(), whole.agreeing_bits.unwrap()));
}

#[test]
fn the_result_is_the_same_for_any_number_of_threads() {
    let [a, b] = two_files(&[5, 70_000, 1, 2, 3000, 800, 12, 9, 40_000]);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| Diff::of(&a, &b, |_| true))
    };
    let one = with(1);
    assert!(one.different() > 4);
    for threads in [2, 3, 7] {
        assert_eq!(with(threads), one, "{threads} threads");
    }
}

proptest! {
    #![proptest_config(crate::fixed_seed())]

    #[test]
    fn swapping_the_files_swaps_the_sides_and_nothing_else(
        pairs in prop::collection::vec((prop::num::f32::ANY, prop::num::f32::ANY), 0..40)
    ) {
        let (x, y): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
        let there = one(Values::F32(x.clone()), Values::F32(y.clone()));
        let back = one(Values::F32(y), Values::F32(x));
        prop_assert_eq!(there.status, back.status);
        let (there, mut back) = (there.comparison.unwrap(), back.comparison.unwrap());
        back.norms.reverse();
        back.nan.reverse();
        back.infinite.reverse();
        // Debug text: NaN is not equal to itself.
        prop_assert_eq!(format!("{there:?}"), format!("{back:?}"));
    }

    #[test]
    fn half_floats_are_as_far_apart_as_their_bits(a: u16, b: u16) {
        let place = |x: f64| (i32::from(f16::from_f64(x).to_bits() & 0x7FFF), x.is_sign_negative());
        let (x, y) = (f16::from_bits(a), f16::from_bits(b));
        prop_assume!(x.is_finite() && y.is_finite());
        let signed = |x: f16| {
            let (steps, negative) = place(x.into());
            if negative { -steps } else { steps }
        };
        let found = one(Values::F16(vec![x]), Values::F16(vec![y])).comparison.unwrap();
        prop_assert_eq!(found.max_ulps, u64::from(signed(x).abs_diff(signed(y))));
        // The order of places is the order of numbers.
        prop_assert_eq!(signed(x) < signed(y), x < y);
    }
}
