#![no_main]

use lastbit_formats::archive;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = archive::tar_files(bytes);
});
