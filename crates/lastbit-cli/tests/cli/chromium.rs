//! A headless Chromium that opens a page and tells what it saw.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use serde_json::Value;

/// What a visit to a page left.
pub struct Visit {
    /// The document after all scripts ran.
    pub dom: String,
    /// Each line on the page's console: uncaught errors and refused loads are among them.
    pub console: Vec<String>,
    /// Each address outside the machine's files that the page asked for.
    pub requests: Vec<String>,
}

/// The browser, if there is one. Without it a test passes, unless `LASTBIT_REQUIRE_CHROMIUM=1`.
///
/// # Panics
///
/// If it is required and not there.
pub fn find() -> Option<PathBuf> {
    if let Some(given) = env::var_os("LASTBIT_CHROMIUM") {
        return Some(PathBuf::from(given));
    }
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let folders: Vec<PathBuf> =
        env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    let found = names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let found = found.into_iter().find(|path| path.is_file());
    let required = env::var("LASTBIT_REQUIRE_CHROMIUM").is_ok_and(|value| value == "1");
    assert!(found.is_some() || !required, "found no Chromium, expected one of {names:?} on PATH");
    if found.is_none() {
        println!("skipped: no Chromium on PATH; name one with LASTBIT_CHROMIUM");
    }
    found
}

/// Opens a page and waits until its scripts are done.
///
/// # Panics
///
/// If the browser fails.
pub fn visit(browser: &Path, page: &Path, more: &[&str]) -> Visit {
    let profile = tempfile::tempdir().unwrap();
    let net_log = profile.path().join("net.json");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        // Names resolve to nothing, so that not even a request that we detect arrives anywhere.
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .args(["--enable-logging=stderr", "--dump-dom"])
        // Time within the page, which is skipped when nothing happens: no test waits for it.
        .arg("--virtual-time-budget=120000")
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--log-net-log={}", net_log.display()))
        .args(more)
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", browser.display());
    let console = errors.lines().filter(|line| line.contains(":CONSOLE")).map(str::to_owned);
    Visit {
        dom: String::from_utf8_lossy(&output.stdout).into_owned(),
        console: console.collect(),
        requests: requests(&fs::read_to_string(net_log).unwrap()),
    }
}

/// Addresses that pages asked for. The browser has errands of its own, which have no origin.
fn requests(net_log: &str) -> Vec<String> {
    let log: Value = serde_json::from_str(net_log).unwrap();
    let start = &log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"];
    assert!(start.is_number(), "the log of the network has another format");
    let events = log["events"].as_array().unwrap().iter().filter(|event| &event["type"] == start);
    let by_pages = events.filter(|event| event["params"]["initiator"] != "not an origin");
    let urls = by_pages.filter_map(|event| event["params"]["url"].as_str());
    let leaving = urls.filter(|url| ["http", "ws", "ftp"].iter().any(|kind| url.starts_with(kind)));
    leaving.map(str::to_owned).collect()
}
