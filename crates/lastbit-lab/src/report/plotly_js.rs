//! plotly.js, small enough to travel in the page.

use std::io::Write;

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};

/// The source of plotly.js: gzip, then base64.
///
/// The page unpacks it on loading. As it is, it would be 4.6 MB, and 6.7 MB with the MathJax that
/// comes along and that no chart of ours needs.
pub fn packed() -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(source().as_bytes()).and_then(|()| encoder.finish());
    STANDARD.encode(written.expect("writing to memory does not fail"))
}

/// The first script that calls itself plotly.js.
fn source() -> String {
    let scripts = plotly::Plot::offline_js_sources();
    let bodies = scripts.split("</script>").filter_map(|script| script.split_once('>'));
    let mut bodies = bodies.map(|(_, body)| body);
    let found = bodies.find(|body| body.trim_start().starts_with("/**\n* plotly.js v"));
    found.expect("the plotly crate carries plotly.js").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn it_unpacks_to_plotly_alone() {
        let bytes = STANDARD.decode(packed()).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
        assert!(text.contains("plotly.js v3") && text.len() > 4_000_000);
        assert!(!text.contains("mathjax-newcm") && !text.contains("<script"));
    }
}
