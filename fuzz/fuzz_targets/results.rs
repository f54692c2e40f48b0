#![no_main]

use lastbit_formats::results;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = results::parse(bytes);
});
