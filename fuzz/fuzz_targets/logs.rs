#![no_main]

use lastbit_formats::logs::{json, table, trainer_state};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = json::row(bytes, &mut |_, _| ());
    let _ = table::rows(bytes, &mut |_, _, _| ());
    let _ = trainer_state::parse(bytes, &mut |_, _, _| ());
});
