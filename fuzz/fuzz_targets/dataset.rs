#![no_main]

use lastbit_lab::data::store::Description;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(description) = serde_json::from_slice::<Description>(bytes) {
        let text = serde_json::to_string(&description).expect("plain data");
        assert_eq!(serde_json::from_str::<Description>(&text).expect("our own"), description);
    }
});
