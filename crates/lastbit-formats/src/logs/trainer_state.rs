//! `trainer_state.json` of Hugging Face's trainers: `{"global_step": 100, "log_history": [{"step": 10, "loss": 0.5}, ...], ...}`.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Value;
use super::json::{Entries, standard};
use crate::Malformed;

const EXPECTED: &str = "a trainer_state.json of Hugging Face's Trainer with its log_history";

/// Hands on the entries of `log_history` with the number of their row, from 1; returns `global_step`.
pub fn parse(bytes: &[u8], each: &mut dyn FnMut(u64, &str, Value)) -> Result<u64, Malformed> {
    let text = standard(bytes);
    let mut json = serde_json::Deserializer::from_slice(&text);
    let read = json.deserialize_map(State { each });
    let (step, has_history) = read
        .and_then(|read| json.end().map(|()| read))
        .map_err(|error| Malformed::new(error, EXPECTED))?;
    match step {
        Some(step) if has_history => Ok(step),
        Some(_) => Err(Malformed::new("no log_history", EXPECTED)),
        None => Err(Malformed::new("no global_step", EXPECTED)),
    }
}

/// The object: `global_step`, if it is there, and whether `log_history` is.
struct State<'a> {
    each: &'a mut dyn FnMut(u64, &str, Value),
}

impl<'de> Visitor<'de> for State<'_> {
    type Value = (Option<u64>, bool);

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut step, mut has_history) = (None, false);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "global_step" => step = Some(map.next_value()?),
                "log_history" => {
                    map.next_value_seed(History { each: self.each })?;
                    has_history = true;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok((step, has_history))
    }
}

struct History<'a> {
    each: &'a mut dyn FnMut(u64, &str, Value),
}

impl<'de> DeserializeSeed<'de> for History<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for History<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut name = String::new();
        for number in 1.. {
            let mut each = |name: &str, value: Value| (self.each)(number, name, value);
            let entries = Entries { name: &mut name, each: &mut each };
            if list.next_element_seed(entries)?.is_none() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_is_read() {
        let text = br#"{"best_metric": null, "log_history": [{"epoch": 0.5, "loss": NaN, "step": 1},
            {"eval_loss": 2.5, "step": 1}], "global_step": 1, "stateful_callbacks": {"a": [1, {}]}}"#;
        let mut found = Vec::new();
        let step = parse(text, &mut |row, name, value| {
            let Value::Number(number) = value else { panic!("{value:?}") };
            found.push((row, name.to_owned(), number.to_string()));
        });
        assert_eq!(step, Ok(1));
        let entry = |row, name: &str, number: &str| (row, name.to_owned(), number.to_owned());
        assert_eq!(
            found,
            [
                entry(1, "epoch", "0.5"),
                entry(1, "loss", "NaN"),
                entry(1, "step", "1"),
                entry(2, "eval_loss", "2.5"),
                entry(2, "step", "1"),
            ]
        );
    }

    #[test]
    fn every_fault_is_named() {
        for (text, part) in [
            ("", "EOF"),
            ("[]", "expected an object"),
            ("{\"global_step\": 1}", "no log_history"),
            ("{\"log_history\": []}", "no global_step"),
            ("{\"log_history\": {}, \"global_step\": 1}", "expected a list of objects"),
            ("{\"log_history\": [{\"step\": 1", "EOF"),
            ("{\"log_history\": [], \"global_step\": -1}", "-1"),
            ("{\"log_history\": [], \"global_step\": 1} {", "trailing"),
        ] {
            let message = parse(text.as_bytes(), &mut |_, _, _| ()).unwrap_err().to_string();
            assert!(message.contains(part) && message.contains("trainer_state.json"), "{message}");
        }
    }
}
