#![no_main]

use lastbit_formats::png;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = png::parse(bytes);
});
