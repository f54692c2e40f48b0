#![no_main]

use lastbit_formats::csv;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = csv::parse(bytes);
});
