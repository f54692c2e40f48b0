#![no_main]

use lastbit_lab::train::MetricsRow;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(row) = serde_json::from_slice::<MetricsRow>(bytes) {
        let text = serde_json::to_string(&row).expect("plain data");
        let again: MetricsRow = serde_json::from_str(&text).expect("our own row");
        assert_eq!(serde_json::to_string(&again).expect("plain data"), text);
    }
});
