//! Scalars of TensorBoard's event files, `events.out.tfevents.*`.
//!
//! ```text
//! file    = record*
//! record  = length (u64), masked CRC-32C of the length, data, masked CRC-32C of the data; little endian
//! data    = Event   { step = 2, summary = 5 Summary, session_log = 7 { status = 1 } }
//! Summary = { value = 1 { tag = 1, simple_value = 2 (f32), tensor = 8 TensorProto, metadata = 9 { plugin_data = 1 { plugin_name = 1 } } } }
//! ```
//!
//! A scalar is a `simple_value`, or a tensor without dimensions of the plugin `scalars` or of none. Histograms, images,
//! texts and all other plugins are left out. A record that is cut at the end of the file is that of a run which still
//! writes or was killed, and ends the file; a wrong checksum is damage.

use std::collections::HashSet;

use half::{bf16, f16};

use super::crc32c::masked;
use super::protobuf::{Fields, Wire, varint};
use crate::Malformed;

/// What an event file says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event<'a> {
    /// A scalar.
    Scalar {
        /// When it was measured.
        step: u64,
        /// Its name.
        tag: &'a str,
        /// Its value: an f32, unless it is in a tensor.
        value: f64,
    },
    /// A program began or resumed at a step: what an earlier one logged from there on does not count.
    Start {
        /// The step.
        step: u64,
    },
}

/// How a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Records that are whole.
    pub records: u64,
    /// Where the last record begins, if it is cut.
    pub cut_at: Option<usize>,
}

/// Hands on the scalars of a file in their order.
pub fn parse(bytes: &[u8], each: &mut dyn FnMut(Event)) -> Result<End, Malformed> {
    let mut end = End { records: 0, cut_at: None };
    let mut other_tags = HashSet::new();
    let mut at = 0;
    while at < bytes.len() {
        let place = || format!("in record {} (byte {at})", end.records + 1);
        let Some(data) = record(&bytes[at..]).map_err(|what| {
            Malformed::new(
                format!("a wrong checksum of the {what} {}", place()),
                "a TensorBoard event file, undamaged",
            )
        })?
        else {
            end.cut_at = Some(at);
            break;
        };
        event(data, &mut other_tags, each).map_err(|error| {
            Malformed::new(format!("{} {}", error.found, place()), error.expected)
        })?;
        at += data.len() + FRAME;
        end.records += 1;
    }
    Ok(end)
}

/// Bytes of a record that are not data.
const FRAME: usize = 16;

/// The data of the record at the beginning; `None` if it is cut, or what has another checksum.
fn record(bytes: &[u8]) -> Result<Option<&[u8]>, &'static str> {
    let Some((head, rest)) = bytes.split_first_chunk::<12>() else { return Ok(None) };
    let (length, sum) = head.split_at(8);
    if masked(length).to_le_bytes() != sum {
        return Err("length");
    }
    let length = u64::from_le_bytes(length.try_into().expect("eight bytes"));
    let split = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
    let Some((data, rest)) = split else { return Ok(None) };
    let Some(sum) = rest.first_chunk::<4>() else { return Ok(None) };
    if masked(data).to_le_bytes() != *sum { Err("data") } else { Ok(Some(data)) }
}

/// The record of this data.
pub fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let sums = [masked(&length).to_le_bytes(), masked(data).to_le_bytes()];
    [&length[..], &sums[0], data, &sums[1]].concat()
}

/// `other_tags` are the tags of other plugins: only the first value of a tag need name its plugin.
fn event<'a>(
    data: &'a [u8],
    other_tags: &mut HashSet<&'a str>,
    each: &mut dyn FnMut(Event),
) -> Result<(), Malformed> {
    let (mut step, mut summaries, mut starts) = (0, Vec::new(), false);
    let mut fields = Fields(data);
    while let Some(field) = fields.next()? {
        match field {
            (2, Wire::Varint(number)) => step = number,
            (5, Wire::Bytes(bytes)) => summaries.push(bytes),
            (7, Wire::Bytes(bytes)) => starts |= is_start(bytes)?,
            _ => {}
        }
    }
    let whole = |step: u64| {
        let step = step as i64;
        let refuse = |_| Malformed::new(format!("step {step}"), "steps from 0");
        u64::try_from(step).map_err(refuse)
    };
    if starts {
        each(Event::Start { step: whole(step)? });
    }
    for summary in summaries {
        let mut fields = Fields(summary);
        while let Some(field) = fields.next()? {
            let (1, Wire::Bytes(bytes)) = field else { continue };
            if let Some((tag, value)) = scalar(bytes, other_tags)? {
                each(Event::Scalar { step: whole(step)?, tag, value });
            }
        }
    }
    Ok(())
}

/// `SessionLog { status = 1 }` of which START is 1.
fn is_start(bytes: &[u8]) -> Result<bool, Malformed> {
    let (mut fields, mut status) = (Fields(bytes), 0);
    while let Some(field) = fields.next()? {
        if let (1, Wire::Varint(number)) = field {
            status = number;
        }
    }
    Ok(status == 1)
}

/// The tag and number of a `Summary.Value`, if it is a scalar.
fn scalar<'a>(
    bytes: &'a [u8],
    other_tags: &mut HashSet<&'a str>,
) -> Result<Option<(&'a str, f64)>, Malformed> {
    let (mut tag, mut simple, mut tensor, mut plugin) = (&b""[..], None, None, &b""[..]);
    let mut fields = Fields(bytes);
    while let Some(field) = fields.next()? {
        match field {
            (1, Wire::Bytes(bytes)) => tag = bytes,
            (2, Wire::Four(bytes)) => simple = Some(f64::from(f32::from_le_bytes(bytes))),
            (8, Wire::Bytes(bytes)) => tensor = Some(bytes),
            (9, Wire::Bytes(bytes)) => plugin = plugin_name(bytes)?,
            _ => {}
        }
    }
    let tag = std::str::from_utf8(tag)
        .map_err(|error| Malformed::new(format!("a tag that is no text ({error})"), "UTF-8"))?;
    if !["", "scalars"].contains(&String::from_utf8_lossy(plugin).as_ref()) {
        other_tags.insert(tag);
    }
    if other_tags.contains(tag) {
        return Ok(None);
    }
    let number = match (simple, tensor) {
        (Some(number), _) => Some(number),
        (None, Some(tensor)) => number_of(tensor)?,
        (None, None) => None,
    };
    Ok(number.map(|number| (tag, number)))
}

/// `SummaryMetadata { plugin_data = 1 { plugin_name = 1 } }`.
fn plugin_name(bytes: &[u8]) -> Result<&[u8], Malformed> {
    let mut name = &b""[..];
    let mut metadata = Fields(bytes);
    while let Some(field) = metadata.next()? {
        let (1, Wire::Bytes(bytes)) = field else { continue };
        let mut plugin = Fields(bytes);
        while let Some(field) = plugin.next()? {
            if let (1, Wire::Bytes(bytes)) = field {
                name = bytes;
            }
        }
    }
    Ok(name)
}

/// The number in a `TensorProto` without dimensions; `None` if it has some, or no numbers.
///
/// Numbers stand in `tensor_content` (4) as an array does in memory, or in a list of their type; a zero may be left out.
fn number_of(bytes: &[u8]) -> Result<Option<f64>, Malformed> {
    let (mut dtype, mut content, mut listed) = (0, &b""[..], None);
    let mut fields = Fields(bytes);
    while let Some(field) = fields.next()? {
        match field {
            (1, Wire::Varint(number)) => dtype = number,
            (2, Wire::Bytes(shape)) => {
                let mut dimensions = Fields(shape);
                while let Some((number, _)) = dimensions.next()? {
                    // A dimension, or an unknown number of them.
                    if number == 2 || number == 3 {
                        return Ok(None);
                    }
                }
            }
            (4, Wire::Bytes(bytes)) => content = bytes,
            (5 | 6 | 7 | 10 | 13 | 16 | 17, value) if value != Wire::Bytes(&[]) => {
                listed = Some(value);
            }
            _ => {}
        }
    }
    let Some(dtype) = Dtype::of(dtype) else { return Ok(None) };
    let number = match (content, listed) {
        ([], None) => Some(0.0),
        ([], Some(listed)) => dtype.listed(listed)?,
        (content, _) => dtype.in_memory(content),
    };
    let refuse = || Malformed::new("a scalar tensor of another size", "one number of its type");
    number.map(Some).ok_or_else(refuse)
}

/// Types of tensors that are read, with the bytes of an entry.
#[derive(Clone, Copy)]
enum Dtype {
    F32,
    F64,
    F16,
    Bf16,
    Signed(usize),
    Unsigned(usize),
}

impl Dtype {
    /// By TensorFlow's number.
    fn of(number: u64) -> Option<Self> {
        Some(match number {
            1 => Self::F32,
            2 => Self::F64,
            3 => Self::Signed(4),
            4 => Self::Unsigned(1),
            5 => Self::Signed(2),
            6 => Self::Signed(1),
            9 => Self::Signed(8),
            14 => Self::Bf16,
            17 => Self::Unsigned(2),
            19 => Self::F16,
            22 => Self::Unsigned(4),
            23 => Self::Unsigned(8),
            _ => return None,
        })
    }

    /// The number in the memory of an array.
    fn in_memory(self, bytes: &[u8]) -> Option<f64> {
        Some(match self {
            Self::F32 => f32::from_le_bytes(bytes.try_into().ok()?).into(),
            Self::F64 => f64::from_le_bytes(bytes.try_into().ok()?),
            Self::F16 => f16::from_le_bytes(bytes.try_into().ok()?).into(),
            Self::Bf16 => bf16::from_le_bytes(bytes.try_into().ok()?).into(),
            Self::Signed(width) | Self::Unsigned(width) if bytes.len() != width => return None,
            Self::Signed(width) => {
                // The sign is that of the highest byte.
                let sign = if bytes[width - 1] & 0x80 == 0 { 0 } else { 0xff };
                let mut whole = [sign; 8];
                whole[..width].copy_from_slice(bytes);
                i64::from_le_bytes(whole) as f64
            }
            Self::Unsigned(width) => {
                let mut whole = [0; 8];
                whole[..width].copy_from_slice(bytes);
                u64::from_le_bytes(whole) as f64
            }
        })
    }

    /// The number of a list of one: packed into bytes, or a field of its own.
    fn listed(self, value: Wire) -> Result<Option<f64>, Malformed> {
        let whole = match (self, value) {
            (Self::F32 | Self::F64, Wire::Bytes(bytes)) => return Ok(self.in_memory(bytes)),
            (Self::F32, Wire::Four(bytes)) => return Ok(self.in_memory(&bytes)),
            (Self::F64, Wire::Eight(bytes)) => return Ok(self.in_memory(&bytes)),
            (_, Wire::Varint(whole)) => whole,
            (_, Wire::Bytes(mut bytes)) => match varint(&mut bytes)? {
                whole if bytes.is_empty() => whole,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        Ok(match self {
            Self::F32 | Self::F64 => None,
            Self::F16 => Some(f16::from_bits(whole as u16).into()),
            Self::Bf16 => Some(bf16::from_bits(whole as u16).into()),
            Self::Signed(_) => Some(whole as i64 as f64),
            Self::Unsigned(_) => Some(whole as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use lastbit::rng::Stream;

    use super::*;

    /// A field of a message: a number, or bytes with their length.
    fn number(field: u8, value: u8) -> Vec<u8> {
        vec![field << 3, value]
    }

    fn bytes(field: u8, value: &[u8]) -> Vec<u8> {
        [&[field << 3 | 2, value.len() as u8][..], value].concat()
    }

    fn simple(tag: &str, value: f32) -> Vec<u8> {
        [bytes(1, tag.as_bytes()), vec![2 << 3 | 5], value.to_le_bytes().to_vec()].concat()
    }

    fn tensor(tag: &str, plugin: &str, fields: &[u8]) -> Vec<u8> {
        let plugin = bytes(9, &bytes(1, &bytes(1, plugin.as_bytes())));
        [bytes(1, tag.as_bytes()), bytes(8, fields), plugin].concat()
    }

    fn event(step: u8, values: &[Vec<u8>]) -> Vec<u8> {
        let summary: Vec<u8> = values.iter().flat_map(|value| bytes(1, value)).collect();
        let wall_time = [&[1 << 3 | 1][..], &1.5_f64.to_le_bytes()].concat();
        framed(&[wall_time, number(2, step), bytes(5, &summary)].concat())
    }

    type Entry = (u64, String, f64);

    fn read(file: &[u8]) -> Result<(Vec<Entry>, End), Malformed> {
        let mut found = Vec::new();
        let end = parse(file, &mut |event| match event {
            Event::Scalar { step, tag, value } => found.push((step, tag.to_owned(), value)),
            Event::Start { step } => found.push((step, "start".to_owned(), 0.0)),
        })?;
        Ok((found, end))
    }

    fn whole() -> [Vec<u8>; 4] {
        let version = framed(&bytes(3, b"brain.Event:2"));
        let start = framed(&[number(2, 7), bytes(7, &number(1, 1))].concat());
        let first = event(7, &[simple("loss", 0.1), simple("accuracy", 0.75)]);
        [version, start, first, event(8, &[simple("loss", f32::NAN)])]
    }

    #[test]
    fn a_file_made_by_the_definition_is_read() {
        let (found, end) = read(&whole().concat()).unwrap();
        assert_eq!(end, End { records: 4, cut_at: None });
        let entry = |step, tag: &str, value| (step, tag.to_owned(), value);
        let f32_nearest_to_a_tenth = f64::from(0.1_f32);
        assert_eq!(
            found[..3],
            [
                entry(7, "start", 0.0),
                entry(7, "loss", f32_nearest_to_a_tenth),
                entry(7, "accuracy", 0.75)
            ]
        );
        assert!(found[3].2.is_nan() && found.len() == 4);
    }

    #[test]
    fn scalar_tensors_of_all_types_are_read() {
        let content = |dtype: u8, content: &[u8]| {
            [number(1, dtype), bytes(2, &[]), bytes(4, content)].concat()
        };
        let minus = [0x80 | 0x7e, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        for (fields, expected) in [
            (content(1, &0.5_f32.to_le_bytes()), 0.5),
            (content(2, &0.1_f64.to_le_bytes()), 0.1),
            (content(3, &(-2_i32).to_le_bytes()), -2.0),
            (content(4, &[200]), 200.0),
            (content(5, &(-2_i16).to_le_bytes()), -2.0),
            (content(6, &[0xfe]), -2.0),
            (content(9, &(-2_i64).to_le_bytes()), -2.0),
            (content(14, &[0xc0, 0x3f]), 1.5),
            (content(17, &[0xff, 0xff]), 65535.0),
            (content(19, &[0, 0x3e]), 1.5),
            (content(22, &[0xff; 4]), 4_294_967_295.0),
            (content(23, &[3, 0, 0, 0, 0, 0, 0, 0]), 3.0),
            ([number(1, 1), bytes(5, &0.5_f32.to_le_bytes())].concat(), 0.5),
            ([number(1, 1), vec![5 << 3 | 5], 0.5_f32.to_le_bytes().to_vec()].concat(), 0.5),
            ([number(1, 2), bytes(6, &0.1_f64.to_le_bytes())].concat(), 0.1),
            ([number(1, 3), bytes(7, &minus)].concat(), -2.0),
            ([number(1, 3), number(7, 5)].concat(), 5.0),
            ([number(1, 9), bytes(10, &minus)].concat(), -2.0),
            (
                [number(1, 14), bytes(13, &[0xc0, 0x7f])].concat(),
                f64::from(bf16::from_bits(0x3fc0)),
            ),
            ([number(1, 1), bytes(2, &[])].concat(), 0.0),
        ] {
            for plugin in ["scalars", ""] {
                let file = event(3, &[tensor("x", plugin, &fields)]);
                assert_eq!(read(&file).unwrap().0, [(3, "x".to_owned(), expected)], "{fields:?}");
            }
        }
    }

    #[test]
    fn what_is_no_scalar_is_left_out() {
        let scalar = [number(1, 1), bytes(5, &0.5_f32.to_le_bytes())].concat();
        let vector = [scalar.clone(), bytes(2, &bytes(2, &number(1, 1)))].concat();
        let text = [number(1, 7), bytes(8, b"a text")].concat();
        let histogram = [bytes(1, b"weights"), bytes(5, &[])].concat();
        let bare = [bytes(1, b"h"), bytes(8, &scalar)].concat();
        let first =
            event(1, &[tensor("v", "scalars", &vector), tensor("t", "text", &text), histogram]);
        // The second value of a tag need not name its plugin.
        let rest = [event(1, &[tensor("h", "hparams", &scalar)]), event(2, &[bare])].concat();
        let (found, end) = read(&[first, rest].concat()).unwrap();
        assert_eq!((found.len(), end.records), (0, 3));
    }

    #[test]
    fn a_cut_file_is_read_up_to_its_last_whole_record_and_damage_is_refused() {
        let records = whole();
        let ends: Vec<usize> = (0..=4).map(|count| records[..count].concat().len()).collect();
        let file = records.concat();
        let (all, _) = read(&file).unwrap();
        for length in 0..file.len() {
            let (found, end) = read(&file[..length]).unwrap();
            let count = ends.iter().filter(|end| **end <= length).count() - 1;
            let cut_at = (length > ends[count]).then_some(ends[count]);
            assert_eq!(end, End { records: count as u64, cut_at }, "{length}");
            assert!(found.iter().zip(&all).all(|(a, b)| a.1 == b.1 && a.2 == b.2), "{length}");
        }
        for bit in 0..8 * file.len() {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let message = read(&damaged).unwrap_err().to_string();
            assert!(message.contains("a wrong checksum of the"), "{bit}: {message}");
        }
        let mut damaged = file;
        damaged[ends[1] + 12] ^= 1;
        let message = read(&damaged).unwrap_err().to_string();
        assert!(message.contains("the data in record 2 (byte 31)"), "{message}");
    }

    #[test]
    fn records_that_are_no_events_are_refused() {
        let negative = [&[2 << 3][..], &[0xff; 9], &[1]].concat();
        let negative = [negative, bytes(5, &bytes(1, &simple("x", 1.0)))].concat();
        let short = [number(1, 1), bytes(2, &[]), bytes(4, &[1, 2])].concat();
        let short = bytes(5, &bytes(1, &tensor("x", "", &short)));
        let no_text = bytes(5, &bytes(1, &bytes(1, &[0xff])));
        for (data, part) in [
            (&bytes(5, &[0x0a, 9])[..], "a field of 9 bytes of which 0 are left"),
            (&[0x0b], "wire type 3"),
            (&[0x10], "a whole number without an end"),
            (&[&[0x10][..], &[0xff; 11]].concat(), "a whole number without an end"),
            (&negative, "step -1"),
            (&short, "a scalar tensor of another size"),
            (&no_text, "a tag that is no text"),
        ] {
            let message = read(&framed(data)).unwrap_err().to_string();
            assert!(
                message.contains(part) && message.contains("in record 1 (byte 0)"),
                "{message}"
            );
        }
    }

    #[test]
    fn damage_behind_the_checksums_never_panics() {
        let scalar = [number(1, 2), bytes(2, &[]), bytes(6, &0.1_f64.to_le_bytes())].concat();
        let values = [simple("loss", 0.5), tensor("accuracy", "scalars", &scalar)];
        let summary: Vec<u8> = values.iter().flat_map(|value| bytes(1, value)).collect();
        let event = [number(2, 7), bytes(7, &number(1, 1)), bytes(5, &summary)].concat();
        let random = Stream::new(21, 0);
        let mut read_whole = 0;
        for counter in 0..20_000 {
            let mut data = event.clone();
            let changes = 1 + u64::from(random.block(16 * counter)[0] % 4);
            for change in 1..=changes {
                let [place, value, kind, _] = random.block(16 * counter + change);
                let at = place as usize % data.len();
                match kind % 3 {
                    0 => data[at] = value as u8,
                    1 => data[at] ^= 1 << (value % 8),
                    _ => data.truncate(at.max(1)),
                }
            }
            read_whole += u32::from(read(&framed(&data)).is_ok());
        }
        // Damage is reached, and not always refused: most bytes of a tag or a number may be any.
        assert!((1_000..19_000).contains(&read_whole), "{read_whole}");
    }
}
