//! Files of every kind, damaged ones above all.

use super::*;

use half::{bf16, f16};
use lastbit::rng::Stream;
use proptest::prelude::*;
use safetensors::SafeTensors;

fn tensor(name: &str, shape: &[usize], values: Values) -> Tensor {
    Tensor { name: name.to_owned(), shape: shape.to_vec(), values }
}

/// One tensor of each type, in the order of a written file.
fn sample() -> TensorFile {
    let half = |x: f64| (f16::from_f64(x), bf16::from_f64(x));
    TensorFile {
        metadata: [("step", "7"), ("format", "pt")].map(|(k, v)| (k.into(), v.into())).into(),
        tensors: vec![
            tensor("double", &[2, 2], Values::F64(vec![0.1, -0.0, f64::INFINITY, 1e-310])),
            tensor("i64", &[], Values::I64(vec![i64::MIN])),
            tensor("u64", &[1], Values::U64(vec![u64::MAX])),
            tensor("a.weight", &[3, 1], Values::F32(vec![1.5, -2.0, f32::MIN_POSITIVE])),
            tensor("none", &[0, 5], Values::F32(vec![])),
            tensor("i32", &[2], Values::I32(vec![-1, i32::MAX])),
            tensor("u32", &[1], Values::U32(vec![u32::MAX])),
            tensor("half", &[2], Values::F16(vec![half(0.1).0, half(-65504.0).0])),
            tensor("brain", &[2], Values::BF16(vec![half(0.1).1, half(1e38).1])),
            tensor("i16", &[1], Values::I16(vec![-2])),
            tensor("u16", &[1], Values::U16(vec![65535])),
            tensor("i8", &[2], Values::I8(vec![-128, 127])),
            tensor("u8", &[1], Values::U8(vec![255])),
            tensor("mask \"ü\"\n", &[3], Values::Bool(vec![true, false, true])),
        ],
    }
}

fn bytes_of(file: &TensorFile) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(file, &mut bytes).unwrap();
    bytes
}

fn parsed(bytes: &[u8]) -> Result<TensorFile, Fault> {
    parse(bytes, bytes.len() as u64)
}

/// A file of this header and so many bytes after it.
fn with_header(header: &str, length: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(vec![2; length]);
    bytes
}

#[test]
fn every_type_reads_back_as_it_was_written() {
    let bytes = bytes_of(&sample());
    assert_eq!(parsed(&bytes).unwrap(), sample());
    assert_eq!(bytes_of(&sample()), bytes, "the same tensors give the same bytes");
    // The crate agrees about every byte.
    let theirs = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(theirs.len(), sample().tensors.len());
    for Tensor { name, shape, values } in &sample().tensors {
        let view = theirs.tensor(name).unwrap();
        let mut own = Vec::new();
        values.write(&mut own).unwrap();
        assert_eq!(
            (view.dtype(), view.shape(), view.data()),
            (values.dtype(), &shape[..], &own[..])
        );
        assert_eq!(view.data().as_ptr() as usize % (values.dtype().bitsize() / 8), 0, "aligned");
    }
}

#[test]
fn files_of_the_crate_are_read() {
    let data: Vec<u8> = [1.0_f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let view = safetensors::tensor::TensorView::new(Dtype::F32, vec![2, 1], &data).unwrap();
    let bytes = safetensors::serialize([("w", view)], None).unwrap();
    let expected = tensor("w", &[2, 1], Values::F32(vec![1.0, 2.0]));
    assert_eq!(parsed(&bytes).unwrap().tensors, [expected]);
}

#[test]
fn hashes_are_those_of_the_bits() {
    let x: Vec<f64> = (0..300_000).map(|i| Stream::new(1, 0).normal(i)).collect();
    assert_eq!(Values::F64(x.clone()).hash(), lastbit::hash_of_bits(&x));
    let y: Vec<f32> = x.iter().map(|x| *x as f32).collect();
    assert_eq!(Values::F32(y.clone()).hash(), lastbit::hash_of_bits(&y));
    // More than one part, and not a whole number of them.
    let file = TensorFile { tensors: vec![tensor("x", &[300_000], Values::F64(x))], ..sample() };
    assert_eq!(parsed(&bytes_of(&file)).unwrap(), file);
}

#[test]
fn larger_entries_come_first_and_equal_ones_keep_their_order() {
    let mut shuffled = sample();
    shuffled.tensors.rotate_left(7);
    let read = parsed(&bytes_of(&shuffled)).unwrap();
    let sizes: Vec<usize> = read.tensors.iter().map(|t| t.values.dtype().bitsize()).collect();
    assert!(sizes.is_sorted_by(|a, b| a >= b));
    let names: Vec<&str> = read.tensors.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names[..3], ["double", "i64", "u64"]);
}

#[test]
fn every_fault_is_named() {
    let entry = |dtype: &str, shape: &str, offsets: &str| {
        format!("\"w\":{{\"dtype\":{dtype:?},\"shape\":{shape},\"data_offsets\":{offsets}}}")
    };
    let f32s = |offsets: &str| format!("{{{}}}", entry("F32", "[2]", offsets));
    let typed = |dtype: &str, shape: &str, end: usize| {
        format!("{{{}}}", entry(dtype, shape, &format!("[0,{end}]")))
    };
    let twice = format!("{{{0},{0}}}", entry("F32", "[2]", "[0,8]"));
    let cases = [
        (vec![], "0 bytes", "a safetensors file"),
        (b"PK\x03\x04 a zip archive".to_vec(), "a PyTorch pickle", "save_file"),
        (b"\x80\x04\x95 a pickle".to_vec(), "a PyTorch pickle", "save_file"),
        (b"\x80\x06\x95 no pickle".to_vec(), "a header of", "complete"),
        (with_header("{\"w\":", 0), "EOF", "dtype, shape and data_offsets"),
        (with_header("[1]", 0), "an object of tensors", "safetensors"),
        (with_header("{\"w\":3}", 0), "\"w\": invalid type", "dtype"),
        (with_header("\u{7f}", 0), "cannot be used", "safetensors"),
        (with_header(&f32s("[0,8]"), 7), "7 bytes after the header", "8, as the header says"),
        (with_header(&f32s("[0,8]"), 9), "9 bytes after the header", "8, as the header says"),
        (with_header(&f32s("[0,7]"), 7), "tensor \"w\" in 7 bytes", "F32 of shape [2]"),
        (with_header(&f32s("[4,12]"), 12), "tensor \"w\" at bytes 4 to 12", "from 0"),
        (with_header(&f32s("[8,0]"), 8), "tensor \"w\" at bytes 8 to 0", "from 0"),
        (with_header(&f32s("[0,-8]"), 8), "\"w\": invalid value", "dtype"),
        (with_header(&twice, 8), "\"w\": the name occurs twice", "safetensors"),
        (with_header(&typed("F128", "[1]", 16), 16), "\"w\": unknown variant `F128`", "dtype"),
        (with_header(&typed("C64", "[1]", 8), 8), "the type C64 in tensor \"w\"", "convert"),
        (with_header(&typed("BOOL", "[1]", 1), 1), "the byte 2 in tensor \"w\"", "0 or 1"),
        (
            with_header(&typed("F64", "[4294967296,4294967296]", 8), 8),
            "tensor \"w\" in 8 bytes",
            "F64 of shape [4294967296, 4294967296]",
        ),
        (with_header("{\"__metadata__\":{\"step\":7}}", 0), "__metadata__", "safetensors"),
    ];
    for (bytes, in_found, in_expected) in cases {
        match parsed(&bytes) {
            Err(Fault::Wrong(Malformed { found, expected })) => {
                assert!(found.contains(in_found), "{found} lacks {in_found}");
                assert!(expected.contains(in_expected), "{expected} lacks {in_expected}");
            }
            other => panic!("{in_found}: {other:?}"),
        }
    }
}

#[test]
fn a_file_that_shrinks_while_it_is_read_is_unreadable() {
    let bytes = bytes_of(&sample());
    let cut = &bytes[..bytes.len() - 1];
    assert!(matches!(parse(cut, bytes.len() as u64), Err(Fault::Unreadable(_))));
}

/// A file of two small tensors.
fn small() -> Vec<u8> {
    bytes_of(&TensorFile {
        metadata: [("k".to_owned(), "v".to_owned())].into(),
        tensors: vec![
            tensor("w", &[2], Values::F32(vec![1.0, -2.5])),
            tensor("n", &[1, 2], Values::Bool(vec![true, false])),
        ],
    })
}

#[test]
fn every_truncation_is_refused() {
    let bytes = small();
    for end in 0..bytes.len() {
        assert!(matches!(parsed(&bytes[..end]), Err(Fault::Wrong { .. })), "{end} bytes");
    }
}

#[test]
fn what_is_read_of_damaged_files_is_what_the_crate_reads() {
    let whole = small();
    let stream = Stream::new(20, 0);
    let mut accepted = 0;
    for case in 0..20_000_u64 {
        let mut bytes = whole.clone();
        let [kind, at, value, times] = stream.block(case);
        for turn in 0..=times % 3 {
            let at = (at.wrapping_add(turn.wrapping_mul(2_654_435_761))) as usize % bytes.len();
            match kind.wrapping_add(turn) % 4 {
                0 => bytes[at] = value as u8,
                1 => bytes[at] ^= 1 << (value % 8),
                2 => bytes.insert(at, value as u8),
                _ => drop(bytes.remove(at)),
            }
        }
        let theirs = SafeTensors::deserialize(&bytes);
        let Ok(file) = parsed(&bytes) else { continue };
        accepted += 1;
        // We are stricter, never laxer.
        let theirs = theirs.unwrap_or_else(|error| panic!("case {case}: {error}"));
        assert_eq!(theirs.len(), file.tensors.len());
        for Tensor { name, shape, values } in &file.tensors {
            let view = theirs.tensor(name).unwrap();
            let mut own = Vec::new();
            values.write(&mut own).unwrap();
            assert_eq!((view.shape(), view.data()), (&shape[..], &own[..]), "case {case}");
        }
    }
    // A third of the cases has a single edit, half of these change a byte in place, and about 14 of
    // the 170 bytes may change (values, letters of names and metadata): about 270.
    assert!(accepted > 100, "{accepted} of 20000 only");
}

proptest! {
    #![proptest_config(crate::fixed_seed())]

    #[test]
    fn any_tensors_read_back(
        tensors in prop::collection::btree_map(
            "[^\0]{0,6}",
            prop_oneof![
                prop::collection::vec(any::<i64>(), 0..9).prop_map(Values::I64),
                prop::collection::vec(any::<f32>(), 0..9).prop_map(Values::F32),
                prop::collection::vec(any::<u8>(), 0..9).prop_map(Values::U8),
            ],
            0..5,
        ),
        metadata in prop::collection::btree_map(".{0,5}", ".{0,5}", 0..4),
    ) {
        let tensors = tensors.into_iter().map(|(name, v)| tensor(&name, &[1, v.len()], v));
        let mut file = TensorFile { metadata, tensors: tensors.collect() };
        let read = parsed(&bytes_of(&file)).unwrap();
        file.tensors.sort_by_key(|t| std::cmp::Reverse(t.values.dtype().bitsize()));
        prop_assert_eq!(read, file);
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parsed(&bytes);
        let mut header = b"\x20\0\0\0\0\0\0\0".to_vec();
        header.extend(&bytes);
        let _ = parsed(&header);
    }
}
