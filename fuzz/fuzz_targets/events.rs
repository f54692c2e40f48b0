#![no_main]

use lastbit_formats::logs::events::{framed, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = parse(bytes, &mut |_| ());
    // Behind checksums that are right.
    let _ = parse(&framed(bytes), &mut |_| ());
});
