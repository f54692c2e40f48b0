#![no_main]

use lastbit_formats::tensors;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(file) = tensors::parse(bytes, bytes.len() as u64) {
        // What was read can be written, and reads back as the same bytes.
        let (mut once, mut twice) = (Vec::new(), Vec::new());
        tensors::write(&file, &mut once).expect("memory takes any bytes");
        let again = tensors::parse(&once[..], once.len() as u64).expect("our own file");
        tensors::write(&again, &mut twice).expect("memory takes any bytes");
        assert_eq!(once, twice);
    }
});
