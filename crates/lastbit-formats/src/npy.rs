//! NumPy arrays of numbers, read and written.
//!
//! ```text
//! "\x93NUMPY", version (1.0, 2.0 or 3.0), length of the header, header, values
//! header = {'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }
//! ```

use crate::{Malformed, product, shape_text};

const EXPECTED: &str = "a NumPy array of floats or integers";
const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Values begin at a multiple of this many bytes.
const ALIGNMENT: usize = 64;

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
    let (text, body) = split(bytes)?;
    let header = Header::parse(text)?;
    let refuse_type = || Malformed::new(format!("an array of type '{}'", header.descr), EXPECTED);
    let (order, kind, width) = header.number_type().ok_or_else(refuse_type)?;
    let shape = header.shape;
    if product(&shape).and_then(|n| n.checked_mul(width)) != Some(body.len()) {
        let found = format!("{} bytes of values", body.len());
        let says = format!("an array of shape {}", shape_text(&shape));
        return Err(Malformed::new(found, format!("as many as its header says, {says}")));
    }
    let values = match (kind, width) {
        ('u', 1) => Values::Bytes(body.to_vec()),
        _ => Values::Reals(reals(body, kind, width, order == '>').ok_or_else(refuse_type)?),
    };
    if !header.fortran_order || shape.len() < 2 {
        return Ok(Array { shape, values });
    }
    let values = match values {
        Values::Bytes(bytes) => Values::Bytes(last_index_fastest(&shape, &bytes)),
        Values::Reals(reals) => Values::Reals(last_index_fastest(&shape, &reals)),
    };
    Ok(Array { shape, values })
}

/// The text of the header, and the bytes of the values.
fn split(bytes: &[u8]) -> Result<(&str, &[u8]), Malformed> {
    let refuse = |found: &str| Malformed::new(found, EXPECTED);
    let (size, rest) = match bytes.strip_prefix(MAGIC) {
        Some([1, _, a, b, rest @ ..]) => (usize::from(u16::from_le_bytes([*a, *b])), rest),
        Some([2 | 3, _, a, b, c, d, rest @ ..]) => {
            (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest)
        }
        _ => return Err(refuse("a file that does not begin as a NumPy array does")),
    };
    let parts = rest.split_at_checked(size);
    let (text, body) = parts.ok_or_else(|| refuse("a file that ends within its header"))?;
    let text = str::from_utf8(text).map_err(|_| refuse("a header that is not text"))?;
    Ok((text, body))
}

/// What a header says, without its quotes.
struct Header<'a> {
    descr: &'a str,
    fortran_order: bool,
    shape: Vec<usize>,
}

impl<'a> Header<'a> {
    /// Reads the dictionary with its three keys, in any order.
    fn parse(text: &'a str) -> Result<Self, Malformed> {
        let refuse = |found: String| Malformed::new(found, EXPECTED);
        let misread = |rest: &str| {
            let place: String = rest.trim().chars().take(20).collect();
            refuse(format!("a header with \"{place}\" in it"))
        };
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        let mut rest = after(text, "{").ok_or_else(|| misread(text))?;
        let end = loop {
            if let Some(end) = after(rest, "}") {
                break end;
            }
            let (key, value) = quoted(rest).ok_or_else(|| misread(rest))?;
            let value = after(value, ":").ok_or_else(|| misread(value))?;
            let end = match key {
                "descr" => quoted(value).map(|(text, end)| {
                    descr = Some(text);
                    end
                }),
                "fortran_order" => {
                    let end = after(value, "True");
                    fortran_order = Some(end.is_some());
                    end.or_else(|| after(value, "False"))
                }
                "shape" => sizes(value).map(|(sizes, end)| {
                    shape = Some(sizes);
                    end
                }),
                _ => return Err(refuse(format!("a header with the key '{key}'"))),
            };
            let end = end.ok_or_else(|| misread(value))?;
            let next = after(end, ",").or_else(|| after(end, "}").map(|_| end));
            rest = next.ok_or_else(|| misread(end))?;
        };
        if !end.trim().is_empty() {
            return Err(misread(end));
        }
        let missing = |key: &str| refuse(format!("a header without the key '{key}'"));
        Ok(Self {
            descr: descr.ok_or_else(|| missing("descr"))?,
            fortran_order: fortran_order.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }

    /// Order of bytes, kind and width of a number such as `<f8`.
    fn number_type(&self) -> Option<(char, char, usize)> {
        let mut characters = self.descr.chars();
        let (order, kind) = (characters.next()?, characters.next()?);
        let width = number(characters.as_str()).filter(|(_, end)| end.is_empty())?.0;
        (matches!(order, '<' | '>') || order == '|' && width == 1).then_some((order, kind, width))
    }
}

/// What follows a token and the spaces before it.
fn after<'a>(text: &'a str, token: &str) -> Option<&'a str> {
    text.trim_start().strip_prefix(token)
}

/// A text in quotes, and what follows it.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = if after(text, "'").is_some() { "'" } else { "\"" };
    after(text, quote)?.split_once(quote)
}

/// A tuple of sizes, and what follows it.
fn sizes(text: &str) -> Option<(Vec<usize>, &str)> {
    let (mut sizes, mut rest) = (Vec::new(), after(text, "(")?);
    loop {
        if let Some(end) = after(rest, ")") {
            return Some((sizes, end));
        }
        let (size, end) = number(rest.trim_start())?;
        sizes.push(size);
        rest = after(end, ",").or_else(|| after(end, ")").map(|_| end))?;
    }
}

/// A number in digits, and what follows it.
fn number(text: &str) -> Option<(usize, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

fn reals(body: &[u8], kind: char, width: usize, swap: bool) -> Option<Vec<f64>> {
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
        ('f', 8) => words(body, swap, f64::from_le_bytes),
        ('f', 4) => words(body, swap, |b| f64::from(f32::from_le_bytes(b))),
        ('u', 2) => words(body, swap, |b| f64::from(u16::from_le_bytes(b))),
        ('u', 4) => words(body, swap, |b| f64::from(u32::from_le_bytes(b))),
        ('u', 8) => words(body, swap, |b| u64::from_le_bytes(b) as f64),
        ('i', 1) => words(body, swap, |b| f64::from(i8::from_le_bytes(b))),
        ('i', 2) => words(body, swap, |b| f64::from(i16::from_le_bytes(b))),
        ('i', 4) => words(body, swap, |b| f64::from(i32::from_le_bytes(b))),
        ('i', 8) => words(body, swap, |b| i64::from_le_bytes(b) as f64),
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

/// A number that [`write()`] writes.
pub trait Number: Copy {
    /// Its type as numpy names it.
    const DESCR: &'static str;

    /// Appends its bytes, the lowest first.
    fn put(self, bytes: &mut Vec<u8>);
}

impl Number for u8 {
    const DESCR: &'static str = "|u1";

    fn put(self, bytes: &mut Vec<u8>) {
        bytes.push(self);
    }
}

impl Number for i64 {
    const DESCR: &'static str = "<i8";

    fn put(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }
}

impl Number for f64 {
    const DESCR: &'static str = "<f8";

    fn put(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }
}

/// A file of version 1.0.
///
/// # Panics
///
/// If the shape does not hold as many values as there are, or has thousands of axes.
pub fn write<T: Number>(shape: &[usize], values: &[T]) -> Vec<u8> {
    assert_eq!(product(shape), Some(values.len()), "shape {}", shape_text(shape));
    let sizes: String = shape.iter().map(|n| format!("{n}, ")).collect();
    let descr = T::DESCR;
    let dictionary =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}");
    // Before the header stand the magic bytes, two of the version and two of its length.
    let before = MAGIC.len() + 4;
    let size = (before + dictionary.len() + 1).next_multiple_of(ALIGNMENT) - before;
    let length = u16::try_from(size).expect("a shape of some axes");
    let mut bytes = [&MAGIC[..], &[1, 0], &length.to_le_bytes()].concat();
    bytes.extend(format!("{dictionary:<width$}\n", width = size - 1).bytes());
    bytes.reserve(size_of_val(values));
    values.iter().for_each(|value| value.put(&mut bytes));
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
            (file(&nested, &[]), "\"[[[[[[[[[[[[[[[[[[[[\" in it"),
            (plain("<f8", "False", huge, &[]), "0 bytes of values"),
            (
                plain("<f8", "False", "(0xffffffffffffffff, 2)", &[]),
                "\"(0xffffffffffffffff,\" in it",
            ),
            (plain("<f8", "False", "(99999999999999999999,)", &[]), "\"(9999"),
            (plain("<f8", "False", "(2 3)", &[0; 48]), "\"(2 3), }\" in it"),
            (plain("|f8", "False", "(1,)", &[0; 8]), "'|f8'"),
            (plain("<f8", "no", "(1,)", &[0; 8]), "\"no, 'shape'"),
            (file("{'descr': '<f8', 'other': 3}", &[]), "the key 'other'"),
            (file("{'descr': [('x', '<f8')], }", &[]), "\"[('x', '<f8')], }\" in it"),
            (file("{'descr': '<f8' 'shape': (1,)}", &[]), "\"'shape': (1,)}\" in it"),
            (file("{} and more", &[]), "\"and more\" in it"),
            (file("{'descr': '<f8'", &[]), "a header with \"\" in it"),
            (b"\x93NUMPY\x01\x00\x01\x00\xff".to_vec(), "not text"),
            (plain("<f8", "False", "(2,)", &[0; 15]), "15 bytes of values"),
            (plain("<f8", "False", "(2,)", &[0; 17]), "17 bytes of values"),
            (plain("<c16", "False", "(1,)", &[0; 16]), "'<c16'"),
            (plain("<f2", "False", "(1,)", &[0; 2]), "'<f2'"),
            (plain("|O", "False", "(1,)", &[0; 2]), "'|O'"),
            (file("{'descr': '<f8'}", &[]), "without the key 'fortran_order'"),
        ];
        for (bytes, part) in cases {
            let message = parse(&bytes).unwrap_err().to_string();
            assert!(message.contains(part), "\"{part}\" is missing in: {message}");
        }
        assert_eq!(parse(&plain("<f8", "False", "(0, 3)", &[])).unwrap().shape, [0, 3]);
    }
}
