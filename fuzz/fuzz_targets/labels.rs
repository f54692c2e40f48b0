#![no_main]

use lastbit_formats::labels;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = labels::parse(bytes);
});
