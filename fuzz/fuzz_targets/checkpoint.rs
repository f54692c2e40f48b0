#![no_main]

use std::sync::LazyLock;

use lastbit_lab::train::Opened;
use libfuzzer_sys::fuzz_target;

static FILE: LazyLock<std::path::PathBuf> = LazyLock::new(|| {
    let folder = if cfg!(target_os = "linux") { "/dev/shm".into() } else { std::env::temp_dir() };
    folder.join(format!("fuzzed-{}.safetensors", std::process::id()))
});

fuzz_target!(|bytes: &[u8]| {
    std::fs::write(&*FILE, bytes).expect("room for a file");
    let _ = Opened::read(&FILE);
});
