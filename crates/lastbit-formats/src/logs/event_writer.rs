//! Writes TensorBoard's event files, whose records [`events`](super::events) describes.
//!
//! ```text
//! Event     { wall_time = 1, step = 2, file_version = 3, summary = 5 { value = 1 Value }, session_log = 7 { status = 1 } }
//! Value     { tag = 1, simple_value = 2 (f32), histogram = 5, tensor = 8, metadata = 9 { plugin_data = 1 { plugin_name = 1 } } }
//! histogram { min = 1, max = 2, num = 3, sum = 4, sum_squares = 5, bucket_limit = 6, bucket = 7 }
//! tensor    { dtype = 1 (7 for texts), shape = 2, string_val = 8 }
//! ```

use std::io::{self, Write};

use super::events::framed;
use super::protobuf::Message;

/// The type of texts in tensors.
const TEXT: u64 = 7;
/// The status of a session that starts.
const START: u64 = 1;

/// An event file that is being written.
#[derive(Debug)]
pub struct EventWriter<W> {
    out: W,
    /// The time of the next events, in seconds since 1970.
    pub wall_time: f64,
}

/// Parts of the real line and how much lies in each: `(limits[i - 1], limits[i]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Where the first part begins.
    pub least: f64,
    /// Where each part ends, increasing.
    pub limits: Vec<f64>,
    /// How much is in it.
    pub amounts: Vec<f64>,
}

impl<W: Write> EventWriter<W> {
    /// Begins a file.
    pub fn new(mut out: W, wall_time: f64) -> io::Result<Self> {
        let version = Message::default().double(1, wall_time).bytes(3, b"brain.Event:2");
        out.write_all(&framed(&version.0))?;
        Ok(Self { out, wall_time })
    }

    /// A program begins or resumes: what was logged before at this step and later does not count.
    pub fn start(&mut self, step: u64) -> io::Result<()> {
        let started = Message::default().number(1, START);
        let event =
            Message::default().double(1, self.wall_time).number(2, step).bytes(7, &started.0);
        self.out.write_all(&framed(&event.0))
    }

    /// The values of metrics at a step.
    pub fn scalars(&mut self, step: u64, values: &[(&str, f64)]) -> io::Result<()> {
        let value = |(tag, value): &(&str, f64)| {
            Message::default().bytes(1, tag.as_bytes()).float(2, *value as f32)
        };
        self.summary(step, values.iter().map(value))
    }

    /// A distribution at a step.
    pub fn histogram(&mut self, step: u64, tag: &str, histogram: &Histogram) -> io::Result<()> {
        let Histogram { least, limits, amounts } = histogram;
        let starts = [*least].into_iter().chain(limits.iter().copied());
        let middles = starts.zip(limits).map(|(from, to)| 0.5 * (from + to));
        let (mut sum, mut squares) = (0.0, 0.0);
        for (middle, amount) in middles.zip(amounts) {
            sum += amount * middle;
            squares += amount * middle * middle;
        }
        let message = Message::default()
            .double(1, *least)
            .double(2, limits.last().copied().unwrap_or(*least))
            .double(3, amounts.iter().sum())
            .double(4, sum)
            .double(5, squares)
            .doubles(6, limits)
            .doubles(7, amounts);
        let value = Message::default().bytes(1, tag.as_bytes()).bytes(5, &message.0);
        self.summary(step, [value])
    }

    /// A text in Markdown.
    pub fn text(&mut self, tag: &str, text: &str) -> io::Result<()> {
        let tensor = Message::default().number(1, TEXT).bytes(2, &[]).bytes(8, text.as_bytes());
        let plugin = Message::default().bytes(1, b"text");
        let metadata = Message::default().bytes(1, &plugin.0);
        let value = Message::default().bytes(1, tag.as_bytes()).bytes(8, &tensor.0);
        self.summary(0, [value.bytes(9, &metadata.0)])
    }

    /// Ends the file.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn summary(&mut self, step: u64, values: impl IntoIterator<Item = Message>) -> io::Result<()> {
        let values = values.into_iter();
        let summary = values.fold(Message::default(), |all, value| all.bytes(1, &value.0));
        let event =
            Message::default().double(1, self.wall_time).number(2, step).bytes(5, &summary.0);
        self.out.write_all(&framed(&event.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::events::{Event, parse};

    #[test]
    fn scalars_read_back_and_other_events_are_none() {
        let mut bytes = Vec::new();
        let mut file = EventWriter::new(&mut bytes, 1.5).unwrap();
        file.scalars(0, &[("loss", 0.1), ("eval/accuracy", 0.75)]).unwrap();
        file.text("settings", "lr = 0.1").unwrap();
        let histogram =
            Histogram { least: -1.0, limits: vec![0.0, 2.0], amounts: vec![0.25, 0.75] };
        file.histogram(300, "density", &histogram).unwrap();
        file.start(7).unwrap();
        file.scalars(1 << 40, &[("loss", f64::NAN)]).unwrap();
        let (mut found, mut starts) = (Vec::new(), Vec::new());
        let end = parse(&bytes, &mut |event| match event {
            Event::Scalar { step, tag, value } => found.push((step, tag.to_owned(), value)),
            Event::Start { step } => starts.push(step),
        });
        assert_eq!((end.unwrap().records, starts), (6, vec![7]));
        let entry = |step, tag: &str, value: f32| (step, tag.to_owned(), f64::from(value));
        assert_eq!(found[..2], [entry(0, "loss", 0.1), entry(0, "eval/accuracy", 0.75)]);
        assert!(found.len() == 3 && found[2].0 == 1 << 40 && found[2].2.is_nan());
    }
}
