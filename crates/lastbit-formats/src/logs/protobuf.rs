//! The fields of a message in the wire format of protocol buffers.
//!
//! ```text
//! message = (key, value)*      key = field number * 8 + wire type, as a varint
//! wire type 0: varint    1: 8 bytes    2: length as a varint, then bytes    5: 4 bytes
//! ```

use crate::Malformed;

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Wire<'a> {
    /// A whole number.
    Varint(u64),
    /// Eight bytes.
    Eight([u8; 8]),
    /// A text, a message or a list of packed numbers.
    Bytes(&'a [u8]),
    /// Four bytes.
    Four([u8; 4]),
}

/// The fields of a message that are not read yet.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// The next field: its number and value.
    pub fn next(&mut self) -> Result<Option<(u64, Wire<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = varint(&mut self.0)?;
        let value = match key & 7 {
            0 => Wire::Varint(varint(&mut self.0)?),
            1 => Wire::Eight(self.array()?),
            2 => {
                let length = varint(&mut self.0)?;
                Wire::Bytes(self.take(usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            5 => Wire::Four(self.array()?),
            other => return Err(broken(format!("a field of wire type {other}"))),
        };
        Ok(Some((key >> 3, value)))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let Some((bytes, rest)) = self.0.split_at_checked(length) else {
            return Err(broken(format!(
                "a field of {length} bytes of which {} are left",
                self.0.len()
            )));
        };
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let bytes = self.take(N)?;
        Ok(bytes.try_into().expect("as many bytes as were taken"))
    }
}

/// A whole number of seven bits a byte, the lowest first.
pub fn varint(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let mut number = 0_u64;
    for (place, byte) in bytes.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            *bytes = &bytes[place + 1..];
            return Ok(number);
        }
    }
    Err(broken("a whole number without an end".to_owned()))
}

/// A message that is being written.
#[derive(Debug, Clone, Default)]
pub struct Message(pub Vec<u8>);

impl Message {
    /// Adds a whole number.
    pub fn number(self, field: u64, value: u64) -> Self {
        self.varint(field << 3).varint(value)
    }

    /// Adds a float of eight bytes.
    pub fn double(self, field: u64, value: f64) -> Self {
        let mut message = self.varint(field << 3 | 1);
        message.0.extend(value.to_le_bytes());
        message
    }

    /// Adds a float of four bytes.
    pub fn float(self, field: u64, value: f32) -> Self {
        let mut message = self.varint(field << 3 | 5);
        message.0.extend(value.to_le_bytes());
        message
    }

    /// Adds a text or a message.
    pub fn bytes(self, field: u64, value: &[u8]) -> Self {
        let mut message = self.varint(field << 3 | 2).varint(value.len() as u64);
        message.0.extend(value);
        message
    }

    /// Adds a list of packed floats.
    pub fn doubles(self, field: u64, values: &[f64]) -> Self {
        let packed: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.bytes(field, &packed)
    }

    fn varint(mut self, mut number: u64) -> Self {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
        self
    }
}

fn broken(found: String) -> Malformed {
    Malformed::new(found, "a message of protocol buffers")
}
