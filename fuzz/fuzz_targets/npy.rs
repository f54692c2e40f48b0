#![no_main]

use lastbit_formats::npy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = npy::parse(bytes);
});
