//! Settings from JSON, each under its name; those that are left out have their default.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::error::Error;

/// Settings from an object of JSON. An error names the key, as the flag of the command.
pub fn from_json<T: Default + Serialize + DeserializeOwned>(text: &str) -> Result<T, Error> {
    let given: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| Error::setting("settings", text, error))?;
    let mut all = json!(T::default());
    let mut settings = T::default();
    for (key, value) in given {
        let Some(place) = all.get_mut(&key) else {
            let keys: Vec<&String> = all.as_object().into_iter().flat_map(Map::keys).collect();
            let keys = keys.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            return Err(Error::setting(&key, "an unknown setting", format!("one of {keys}")));
        };
        *place = value.clone();
        settings = T::deserialize(&all).map_err(|error| refused(&key, &value, &error))?;
    }
    Ok(settings)
}

/// The words of the parser, as those of other messages.
fn refused(key: &str, value: &Value, error: &serde_json::Error) -> Error {
    let found = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let message = error.to_string();
    let expected = match message.rsplit_once("expected ").map_or(&message[..], |(_, end)| end) {
        "f64" => "a number".to_owned(),
        "u64" | "usize" => "a whole number from 0 on".to_owned(),
        other => other.replace(['`', '"'], ""),
    };
    Error::setting(&format!("--{key}"), found, expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pde::{BeltramiSettings, HeatSettings, KernelSettings};
    use crate::settings::Size;

    #[test]
    fn settings_that_are_left_out_have_their_default() {
        assert_eq!(from_json::<HeatSettings>("{}").unwrap(), HeatSettings::default());
        let found: BeltramiSettings = from_json(r#"{"size": "3x4", "dt": 1, "seed": 7}"#).unwrap();
        let size = Size { height: 3, width: 4 };
        let expected =
            BeltramiSettings { size, dt: Some(1.0), seed: 7, ..BeltramiSettings::default() };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_wrong_value_is_refused_by_its_name() {
        for (text, message) in [
            (r#"{"dt": "nan"}"#, "--dt: found nan, expected a number"),
            (r#"{"dt": null}"#, "--dt: found null, expected a number"),
            (r#"{"steps": -1}"#, "--steps: found -1, expected a whole number from 0 on"),
            (r#"{"steps": 2.5}"#, "--steps: found 2.5, expected a whole number from 0 on"),
            (r#"{"kernel": "3y3"}"#, "--kernel: found 3y3, expected rows x columns, such as 64x48"),
            (r#"{"pooling": "max"}"#, "--pooling: found max, expected sum or mean"),
            (r#"{"no-window": 1}"#, "--no-window: found 1, expected a boolean"),
        ] {
            let found = from_json::<KernelSettings>(text).unwrap_err().to_string();
            assert_eq!(found, message, "{text}");
        }
        let found = from_json::<HeatSettings>(r#"{"width": 1}"#).unwrap_err().to_string();
        assert!(
            found.starts_with("width: found an unknown setting, expected one of dt, dx, kappa")
        );
    }
}
