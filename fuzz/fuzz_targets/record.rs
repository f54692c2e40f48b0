#![no_main]

use lastbit_lab::record::{Cell, Record};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(record) = serde_json::from_slice::<Record>(bytes) {
        let _ = (record.status(), record.folder_name(), record.is_complete(), record.count_of_checks());
        let text = serde_json::to_string(&record).expect("plain data");
        let again: Record = serde_json::from_str(&text).expect("our own record");
        assert_eq!(serde_json::to_string(&again).expect("plain data"), text);
    }
    let _ = serde_json::from_slice::<Cell>(bytes);
});
