//! Takes the files out of the crates that carry them, so that these are compiled for this script alone
//! and the program holds compressed bytes.

use std::io::Write;
use std::path::Path;
use std::{env, fs};

use flate2::{Compression, write::GzEncoder};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let folder = env::var_os("OUT_DIR").expect("cargo says where");
    let scripts = plotly::Plot::offline_js_sources();
    for (name, bytes) in [
        ("plotly.min.js", plotly_js(&scripts).as_bytes()),
        ("DejaVuSans.ttf", dejavu::sans::regular()),
        ("DejaVuSans-Bold.ttf", dejavu::sans::bold()),
    ] {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let packed = encoder.write_all(bytes).and_then(|()| encoder.finish());
        let packed = packed.expect("writing to memory does not fail");
        let path = Path::new(&folder).join(format!("{name}.gz"));
        fs::write(&path, packed).expect("cargo's folder can be written");
    }
}

/// The first script that calls itself plotly.js; the others are MathJax, which no chart of ours needs.
fn plotly_js(scripts: &str) -> &str {
    let bodies = scripts.split("</script>").filter_map(|script| script.split_once('>'));
    let mut bodies = bodies.map(|(_, body)| body);
    let found = bodies.find(|body| body.trim_start().starts_with("/**\n* plotly.js v"));
    found.expect("the plotly crate carries plotly.js")
}
