#![no_main]

use std::path::Path;

use lastbit_lab::train::ConfigFile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let parse = |text: &str| ConfigFile::parse(text, Path::new("config.toml"), &[]);
    if let Ok(found) = parse(text) {
        // What a run writes down reads back as the same settings.
        let again = parse(&found.to_toml()).expect("our own file");
        assert_eq!(found.to_toml(), again.to_toml());
    }
});
