#![no_main]

use lastbit_formats::cifar;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = cifar::parse(bytes, cifar::Kind::Ten);
});
