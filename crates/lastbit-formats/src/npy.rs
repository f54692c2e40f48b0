//! NumPy arrays of numbers, read and written.
//!
//! Headers are read by `npyz`, after a look at them: it reserves as much memory as a header claims
//! to need, descends into nested brackets without a limit and multiplies the sizes unchecked.

use npyz::{Endianness, NpyHeader, Order, TypeChar, WriterBuilder};

use crate::{Malformed, product, shape_text};

const EXPECTED: &str = "a NumPy array of floats or integers";

/// An array of numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Its sizes.
    pub shape: Vec<usize>,
    /// Its values, the last index fastest.
    pub values: Values,
}

/// The numbers of an array.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Unsigned bytes.
    Bytes(Vec<u8>),
    /// Anything else; integers beyond 2^53 are rounded.
    Reals(Vec<f64>),
}

impl Values {
    /// All as `f64`.
    pub fn into_reals(self) -> Vec<f64> {
        match self {
            Self::Bytes(bytes) => bytes.into_iter().map(f64::from).collect(),
            Self::Reals(reals) => reals,
        }
    }
}

/// Reads an array in either order of its axes.
pub fn parse(bytes: &[u8]) -> Result<Array, Malformed> {
    look_at_header(bytes)?;
    let mut body = bytes;
    let header = NpyHeader::from_reader(&mut body).map_err(|e| Malformed::new(e, EXPECTED))?;
    let sizes = header.shape().iter().map(|n| usize::try_from(*n));
    let shape: Option<Vec<usize>> = sizes.collect::<Result<_, _>>().ok();
    let dtype = header.dtype();
    let refuse_type = || {
        let found = format!("an array of type {}", dtype.descr());
        Malformed::new(found, EXPECTED)
    };
    let npyz::DType::Plain(kind) = &dtype else { return Err(refuse_type()) };
    let width = kind.num_bytes().ok_or_else(refuse_type)?;
    let shape = shape
        .filter(|s| product(s).and_then(|n| n.checked_mul(width)) == Some(body.len()))
        .ok_or_else(|| {
            let found = format!("{} bytes of values", body.len());
            let sizes: Vec<String> = header.shape().iter().map(ToString::to_string).collect();
            let says = format!("an array of shape ({})", sizes.join(", "));
            Malformed::new(found, format!("as many as its header says, {says}"))
        })?;
    let values = match (kind.type_char(), width) {
        (TypeChar::Uint, 1) => Values::Bytes(body.to_vec()),
        (type_char, width) => {
            let swap = kind.endianness() == Endianness::Big;
            Values::Reals(reals(body, type_char, width, swap).ok_or_else(refuse_type)?)
        }
    };
    if header.order() == Order::C || shape.len() < 2 {
        return Ok(Array { shape, values });
    }
    let values = match values {
        Values::Bytes(bytes) => Values::Bytes(last_index_fastest(&shape, &bytes)),
        Values::Reals(reals) => Values::Reals(last_index_fastest(&shape, &reals)),
    };
    Ok(Array { shape, values })
}

/// Refuses headers that `npyz` must not see.
fn look_at_header(bytes: &[u8]) -> Result<(), Malformed> {
    let refuse = |found: &str| Err(Malformed::new(found, EXPECTED));
    let (size, start) = match bytes {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => {
            (usize::from(u16::from_le_bytes([*a, *b])), 10)
        }
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _, a, b, c, d, ..] => {
            (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 12)
        }
        _ => return refuse("a file that does not begin as a NumPy array does"),
    };
    let end = size.checked_add(start).filter(|end| *end <= bytes.len());
    let Some(end) = end else { return refuse("a file that ends within its header") };
    let text = &bytes[start..end];
    let mut depth = 0_usize;
    for byte in text {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        // A dictionary that holds a shape, or a list of fields with shapes.
        if depth > 4 {
            return refuse("a header of nested brackets");
        }
    }
    let mut total = 1_u64;
    for run in text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_') {
        // Hexadecimal digits or digits in groups would not be counted; numpy writes neither.
        if run.first().is_some_and(u8::is_ascii_digit) {
            let number = str::from_utf8(run).ok().and_then(|text| text.parse::<u64>().ok());
            total = match number.and_then(|number| total.checked_mul(number.max(1))) {
                Some(total) => total,
                None => return refuse("a header of numbers too large for a file"),
            };
        }
    }
    Ok(())
}

fn reals(body: &[u8], kind: TypeChar, width: usize, swap: bool) -> Option<Vec<f64>> {
    /// Words of `N` bytes, the lowest first.
    fn words<const N: usize>(body: &[u8], swap: bool, of: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        let (words, _) = body.as_chunks::<N>();
        let in_order = words.iter().map(|word| {
            let mut word = *word;
            if swap {
                word.reverse();
            }
            of(word)
        });
        in_order.collect()
    }
    Some(match (kind, width) {
        (TypeChar::Float, 8) => words(body, swap, f64::from_le_bytes),
        (TypeChar::Float, 4) => words(body, swap, |b| f64::from(f32::from_le_bytes(b))),
        (TypeChar::Uint, 2) => words(body, swap, |b| f64::from(u16::from_le_bytes(b))),
        (TypeChar::Uint, 4) => words(body, swap, |b| f64::from(u32::from_le_bytes(b))),
        (TypeChar::Uint, 8) => words(body, swap, |b| u64::from_le_bytes(b) as f64),
        (TypeChar::Int, 1) => words(body, swap, |b| f64::from(i8::from_le_bytes(b))),
        (TypeChar::Int, 2) => words(body, swap, |b| f64::from(i16::from_le_bytes(b))),
        (TypeChar::Int, 4) => words(body, swap, |b| f64::from(i32::from_le_bytes(b))),
        (TypeChar::Int, 8) => words(body, swap, |b| i64::from_le_bytes(b) as f64),
        _ => return None,
    })
}

/// From first index fastest.
fn last_index_fastest<T: Copy>(shape: &[usize], values: &[T]) -> Vec<T> {
    let place = |mut k: usize| {
        let (mut place, mut stride) = (0, values.len());
        for size in shape.iter().rev() {
            stride /= size;
            place += k % size * stride;
            k /= size;
        }
        values[place]
    };
    (0..values.len()).map(place).collect()
}

/// A file as numpy writes it.
///
/// # Panics
///
/// If the shape does not hold as many values as there are.
pub fn write<T: npyz::AutoSerialize + Copy>(shape: &[usize], values: &[T]) -> Vec<u8> {
    assert_eq!(product(shape), Some(values.len()), "shape {}", shape_text(shape));
    let shape: Vec<u64> = shape.iter().map(|n| *n as u64).collect();
    let mut bytes = Vec::new();
    let mut writer = npyz::WriteOptions::new()
        .default_dtype()
        .shape(&shape)
        .writer(&mut bytes)
        .begin_nd()
        .expect("writing to memory does not fail");
    writer.extend(values.iter().copied()).expect("writing to memory does not fail");
    writer.finish().expect("as many values as the shape says");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file as numpy writes it, with any header.
    fn file(header: &str, body: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(body);
        bytes
    }

    fn plain(dtype: &str, fortran: &str, shape: &str, body: &[u8]) -> Vec<u8> {
        let header =
            format!("{{'descr': '{dtype}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
        file(&header, body)
    }

    #[test]
    fn what_is_written_reads_back() {
        let bytes = parse(&write(&[2, 3], &[1_u8, 2, 3, 4, 5, 6])).unwrap();
        assert_eq!(bytes.shape, [2, 3]);
        assert_eq!(bytes.values, Values::Bytes(vec![1, 2, 3, 4, 5, 6]));
        let values = [0.1, -0.0, f64::MAX, 5e-324];
        let Values::Reals(reals) = parse(&write(&[4], &values)).unwrap().values else { panic!() };
        assert!(values.iter().zip(&reals).all(|(a, b)| a.to_bits() == b.to_bits()));
        let longs = parse(&write(&[2], &[-3_i64, 1 << 40])).unwrap();
        assert_eq!(longs.values.into_reals(), [-3.0, (1_u64 << 40) as f64]);
    }

    #[test]
    fn either_order_of_axes_and_of_bytes() {
        // numpy.asfortranarray(numpy.arange(24).reshape(2, 3, 4)).
        let by_first: Vec<u8> = (0..24).map(|k| k % 2 * 12 + k / 2 % 3 * 4 + k / 6).collect();
        let array = parse(&plain("|u1", "True", "(2, 3, 4)", &by_first)).unwrap();
        assert_eq!(array.values, Values::Bytes((0..24).collect()));
        for (dtype, body) in [("<i2", [1, 2, 0xff, 0xff]), (">i2", [2, 1, 0xff, 0xff])] {
            let array = parse(&plain(dtype, "False", "(2,)", &body)).unwrap();
            assert_eq!(array.values, Values::Reals(vec![513.0, -1.0]), "{dtype}");
        }
    }

    #[test]
    fn every_fault_says_what_is_there() {
        let nested = format!("{{'descr': {}'<f8'", "[".repeat(30_000));
        let huge = "(4294967296, 4294967296, 4294967296)";
        let cases = [
            (b"not an array".to_vec(), "does not begin"),
            (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{".to_vec(), "ends within its header"),
            (file(&nested, &[]), "nested brackets"),
            (plain("<f8", "False", huge, &[]), "too large"),
            (plain("<f8", "False", "(0xffffffffffffffff, 2)", &[]), "too large"),
            (plain("<f8", "False", "(2,)", &[0; 15]), "15 bytes of values"),
            (plain("<f8", "False", "(2,)", &[0; 17]), "17 bytes of values"),
            (plain("<c16", "False", "(1,)", &[0; 16]), "'<c16'"),
            (plain("<f2", "False", "(1,)", &[0; 2]), "'<f2'"),
            (plain("|O", "False", "(1,)", &[0; 2]), "'|O'"),
            (file("{'descr': '<f8'}", &[]), "missing key"),
        ];
        for (bytes, part) in cases {
            let message = parse(&bytes).unwrap_err().to_string();
            assert!(message.contains(part), "\"{part}\" is missing in: {message}");
        }
        assert_eq!(parse(&plain("<f8", "False", "(0, 3)", &[])).unwrap().shape, [0, 3]);
    }
}
