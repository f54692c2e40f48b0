#![no_main]

use lastbit_formats::idx;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = idx::parse(bytes);
});
