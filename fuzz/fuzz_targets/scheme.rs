#![no_main]

use lastbit::pde::scheme::{Scheme, Term};
use libfuzzer_sys::fuzz_target;
use serde::Deserialize;

/// As `lastbit bounds scheme --file` has it, which is no library.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SchemeFile {
    dimensions: usize,
    term: Vec<TermFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TermFile {
    level: i32,
    offset: Vec<i32>,
    coefficient: Vec<f64>,
}

fuzz_target!(|text: &str| {
    if let Ok(file) = toml::from_str::<SchemeFile>(text) {
        let term = |t: TermFile| Term { level: t.level, offset: t.offset, coefficient: t.coefficient };
        let _ = Scheme::new(file.dimensions, file.term.into_iter().map(term).collect());
    }
});
