//! Numbers of golden files.

use serde_json::Value;

pub fn golden(text: &str) -> Value {
    serde_json::from_str(text).expect("golden file is JSON")
}

pub fn items(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is not an array"))
}

pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

pub fn numbers(value: &Value) -> Vec<f64> {
    items(value).iter().map(number).collect()
}

pub fn count(value: &Value) -> usize {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a count")) as usize
}
