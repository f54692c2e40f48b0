//! A row of metrics as a JSON object, such as `{"step": 10, "loss": 0.5, "eval": {"accuracy": 0.9}}`.
//!
//! ```text
//! {"eval": {"accuracy": 0.9}}     eval/accuracy = 0.9
//! {"sharpness": [3.5, 1.2]}       sharpness/0 = 3.5, sharpness/1 = 1.2
//! NaN, Infinity, -Infinity        as Python's `json` writes them; no JSON
//! "NaN", "inf", "-inf"            as lastbit writes them, and so "nan", "Infinity" and "-Infinity"
//! true, false, null               left out
//! ```

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};

use super::{LONGEST_NAME, Value};
use crate::Malformed;

/// Hands on the entries of an object in their order.
pub fn row(bytes: &[u8], each: &mut dyn FnMut(&str, Value)) -> Result<(), Malformed> {
    const EXPECTED: &str = "an object of metrics such as {\"step\": 10, \"loss\": 0.5}";
    let text = standard(bytes);
    if text.trim_ascii_start().first() != Some(&b'{') {
        return Err(Malformed::new(beginning(bytes), EXPECTED));
    }
    let mut json = serde_json::Deserializer::from_slice(&text);
    let entries = Entries { name: &mut String::new(), each };
    entries
        .deserialize(&mut json)
        .and_then(|()| json.end())
        .map_err(|error| Malformed::new(error, EXPECTED))
}

/// The first characters, for a message.
fn beginning(bytes: &[u8]) -> String {
    const SHOWN: usize = 40;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * SHOWN)]);
    format!("{:?}", text.chars().take(SHOWN).collect::<String>())
}

/// JSON in which the numbers that Python writes and JSON lacks are strings.
pub fn standard(bytes: &[u8]) -> Cow<'_, [u8]> {
    const WORDS: [(&[u8], &[u8]); 3] =
        [(b"NaN", b"\"NaN\""), (b"-Infinity", b"\"-inf\""), (b"Infinity", b"\"inf\"")];
    let mut standard = Vec::new();
    let (mut copied, mut at, mut in_string) = (0, 0, false);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => in_string = !in_string,
            // What follows is part of the string, also if it is a quote.
            b'\\' if in_string => at += 1,
            b'N' | b'I' | b'-' if !in_string => {
                let rest = &bytes[at..];
                if let Some((word, string)) = WORDS.iter().find(|(word, _)| rest.starts_with(word))
                {
                    standard.extend_from_slice(&bytes[copied..at]);
                    standard.extend_from_slice(string);
                    at += word.len();
                    copied = at;
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    if copied == 0 {
        return Cow::Borrowed(bytes);
    }
    standard.extend_from_slice(&bytes[copied..]);
    Cow::Owned(standard)
}

/// The entries of a value with the name of the value: `name` for a number, `name/KEY` of an object.
pub(super) struct Entries<'a> {
    pub name: &'a mut String,
    pub each: &'a mut dyn FnMut(&str, Value),
}

impl Entries<'_> {
    /// Does something with a longer name.
    fn below<T, E: Error>(
        &mut self,
        key: &str,
        then: impl FnOnce(Entries) -> Result<T, E>,
    ) -> Result<T, E> {
        let length = self.name.len();
        if length > 0 {
            self.name.push('/');
        }
        self.name.push_str(key);
        if self.name.len() > LONGEST_NAME {
            return Err(E::custom(format!("a name of more than {LONGEST_NAME} bytes")));
        }
        let done = then(Entries { name: self.name, each: self.each });
        self.name.truncate(length);
        done
    }
}

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("metrics")
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        (self.each)(self.name, Value::Number(value));
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        (self.each)(self.name, Value::Number(value as f64));
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        (self.each)(self.name, Value::Number(value as f64));
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        let value = match text {
            "NaN" | "nan" => Value::Number(f64::NAN),
            "inf" | "Infinity" => Value::Number(f64::INFINITY),
            "-inf" | "-Infinity" => Value::Number(f64::NEG_INFINITY),
            _ => Value::Text(text),
        };
        (self.each)(self.name, value);
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Key>()? {
            self.below(&key.0, |entries| map.next_value_seed(entries))?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        for index in 0_usize.. {
            let next = self.below(&index.to_string(), |entries| list.next_element_seed(entries))?;
            if next.is_none() {
                break;
            }
        }
        Ok(())
    }
}

/// A key; borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Vec<(String, f64)> {
        let mut found = Vec::new();
        let mut each = |name: &str, value: Value| {
            if let Value::Number(number) = value {
                found.push((name.to_owned(), number));
            }
        };
        row(text.as_bytes(), &mut each).unwrap();
        found
    }

    #[test]
    fn nested_names_are_joined() {
        let found =
            numbers(r#"{"step": 3, "eval": {"acc": 0.5, "top": [1, 2.5]}, "on": true, "x": null}"#);
        let expected = [("step", 3.0), ("eval/acc", 0.5), ("eval/top/0", 1.0), ("eval/top/1", 2.5)];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn numbers_that_json_lacks_are_read_and_strings_are_left_alone() {
        let found =
            numbers(r#"{"a": NaN, "b": [-Infinity, Infinity], "c": "-inf", "NaN \" NaN": -1}"#);
        assert!(found[0].1.is_nan());
        let rest = [("b/0", -f64::INFINITY), ("b/1", f64::INFINITY), ("c", -f64::INFINITY)];
        assert_eq!(found[1..4], rest.map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(found[4], ("NaN \" NaN".to_owned(), -1.0));
    }

    #[test]
    fn digits_come_back_as_the_bits_they_were_printed_from() {
        for value in [0.1, 1.0 / 3.0, 5e-324, f64::MAX, -0.0] {
            let found = numbers(&format!("{{\"x\": {value:?}}}"));
            assert_eq!(found[0].1.to_bits(), f64::to_bits(value));
        }
    }

    #[test]
    fn what_is_no_row_is_refused() {
        let deep = format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200));
        let long = format!("{{\"{}\": 1}}", "a".repeat(513));
        for (text, part) in [
            ("", "\"\""),
            ("[1]", "\"[1]\""),
            ("{\"a\": 1} {", "trailing characters"),
            ("{\"a\": 1", "EOF"),
            ("{\"a\": Nan}", "expected value"),
            (&deep, "recursion limit"),
            (&long, "more than 512 bytes"),
        ] {
            let message = row(text.as_bytes(), &mut |_, _| ()).unwrap_err().to_string();
            assert!(message.contains(part) && message.contains("object"), "{message}");
        }
    }
}
