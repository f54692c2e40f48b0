//! The values of a tensor, in the types that networks are kept in.

use std::io::{self, Read, Write};

use half::{bf16, f16};
use safetensors::Dtype;

use super::Fault;

/// Values of one type.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "named after their types")]
pub enum Values {
    F64(Vec<f64>),
    F32(Vec<f32>),
    F16(Vec<f16>),
    BF16(Vec<bf16>),
    I64(Vec<i64>),
    I32(Vec<i32>),
    I16(Vec<i16>),
    I8(Vec<i8>),
    U64(Vec<u64>),
    U32(Vec<u32>),
    U16(Vec<u16>),
    U8(Vec<u8>),
    Bool(Vec<bool>),
}

/// Bytes converted at a time; a multiple of every size.
const PART: usize = 1 << 20;

impl Values {
    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::F64(v) => v.len(),
            Self::F32(v) => v.len(),
            Self::F16(v) => v.len(),
            Self::BF16(v) => v.len(),
            Self::I64(v) => v.len(),
            Self::I32(v) => v.len(),
            Self::I16(v) => v.len(),
            Self::I8(v) => v.len(),
            Self::U64(v) => v.len(),
            Self::U32(v) => v.len(),
            Self::U16(v) => v.len(),
            Self::U8(v) => v.len(),
            Self::Bool(v) => v.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their type.
    pub fn dtype(&self) -> Dtype {
        match self {
            Self::F64(_) => Dtype::F64,
            Self::F32(_) => Dtype::F32,
            Self::F16(_) => Dtype::F16,
            Self::BF16(_) => Dtype::BF16,
            Self::I64(_) => Dtype::I64,
            Self::I32(_) => Dtype::I32,
            Self::I16(_) => Dtype::I16,
            Self::I8(_) => Dtype::I8,
            Self::U64(_) => Dtype::U64,
            Self::U32(_) => Dtype::U32,
            Self::U16(_) => Dtype::U16,
            Self::U8(_) => Dtype::U8,
            Self::Bool(_) => Dtype::BOOL,
        }
    }

    /// Reads `count` values. There must be as many bytes, or memory is reserved in vain.
    pub fn read(dtype: Dtype, count: usize, bytes: &mut impl Read) -> Result<Self, Fault> {
        Ok(match dtype {
            Dtype::F64 => Self::F64(decode(count, bytes, f64::from_le_bytes)?),
            Dtype::F32 => Self::F32(decode(count, bytes, f32::from_le_bytes)?),
            Dtype::F16 => Self::F16(decode(count, bytes, f16::from_le_bytes)?),
            Dtype::BF16 => Self::BF16(decode(count, bytes, bf16::from_le_bytes)?),
            Dtype::I64 => Self::I64(decode(count, bytes, i64::from_le_bytes)?),
            Dtype::I32 => Self::I32(decode(count, bytes, i32::from_le_bytes)?),
            Dtype::I16 => Self::I16(decode(count, bytes, i16::from_le_bytes)?),
            Dtype::I8 => Self::I8(decode(count, bytes, i8::from_le_bytes)?),
            Dtype::U64 => Self::U64(decode(count, bytes, u64::from_le_bytes)?),
            Dtype::U32 => Self::U32(decode(count, bytes, u32::from_le_bytes)?),
            Dtype::U16 => Self::U16(decode(count, bytes, u16::from_le_bytes)?),
            Dtype::U8 => Self::U8(decode(count, bytes, u8::from_le_bytes)?),
            Dtype::BOOL => {
                let bytes = decode(count, bytes, u8::from_le_bytes)?;
                if let Some(other) = bytes.iter().find(|byte| **byte > 1) {
                    return Err(Fault::wrong(format!("the byte {other}"), "0 or 1 for a BOOL"));
                }
                Self::Bool(bytes.into_iter().map(|byte| byte == 1).collect())
            }
            other => {
                let expected = "F64, F32, F16, BF16, whole numbers or BOOL; convert it to F32";
                return Err(Fault::wrong(format!("the type {other}"), expected));
            }
        })
    }

    /// Writes their bytes, little end first.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        match self {
            Self::F64(v) => encode(v, out, f64::to_le_bytes),
            Self::F32(v) => encode(v, out, f32::to_le_bytes),
            Self::F16(v) => encode(v, out, f16::to_le_bytes),
            Self::BF16(v) => encode(v, out, bf16::to_le_bytes),
            Self::I64(v) => encode(v, out, i64::to_le_bytes),
            Self::I32(v) => encode(v, out, i32::to_le_bytes),
            Self::I16(v) => encode(v, out, i16::to_le_bytes),
            Self::I8(v) => encode(v, out, i8::to_le_bytes),
            Self::U64(v) => encode(v, out, u64::to_le_bytes),
            Self::U32(v) => encode(v, out, u32::to_le_bytes),
            Self::U16(v) => encode(v, out, u16::to_le_bytes),
            Self::U8(v) => encode(v, out, u8::to_le_bytes),
            Self::Bool(v) => encode(v, out, |value| [u8::from(value)]),
        }
    }

    /// Hash of their bits, as `lastbit::hash_of_bits` has it for `f32` and `f64`.
    pub fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        self.write(&mut hasher).expect("a hash takes any bytes");
        hasher.finalize().to_hex()[..32].to_owned()
    }
}

fn decode<T, const SIZE: usize>(
    count: usize,
    bytes: &mut impl Read,
    value: impl Fn([u8; SIZE]) -> T,
) -> io::Result<Vec<T>> {
    let mut values = Vec::with_capacity(count);
    let mut buffer = vec![0; PART.min(count * SIZE)];
    while values.len() < count {
        let part = &mut buffer[..PART.min((count - values.len()) * SIZE)];
        bytes.read_exact(part)?;
        values.extend(part.as_chunks().0.iter().map(|bytes| value(*bytes)));
    }
    Ok(values)
}

fn encode<T: Copy, const SIZE: usize>(
    values: &[T],
    mut out: impl Write,
    bytes: impl Fn(T) -> [u8; SIZE],
) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(PART.min(values.len() * SIZE));
    for part in values.chunks(PART / SIZE) {
        buffer.clear();
        part.iter().for_each(|value| buffer.extend_from_slice(&bytes(*value)));
        out.write_all(&buffer)?;
    }
    Ok(())
}
