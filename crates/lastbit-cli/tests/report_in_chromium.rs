//! The report as a reader meets it: in a browser, without a network.

mod chromium;
mod support;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

/// Runs every exhibit at its smallest scale and makes the report.
fn smoke_report() -> (TempDir, PathBuf) {
    let out = tempfile::tempdir().unwrap();
    for arguments in ["run all --scale smoke --out .", "report --out ."] {
        let ran = support::run(out.path(), arguments);
        // Exit code 1 says that a check fails, which the table shall show like any other status.
        assert!(matches!(ran.code, 0 | 1), "{arguments}: {}", ran.stderr);
    }
    let page = out.path().join("report.html");
    (out, page)
}

/// Link and status of each record, as the records say.
fn expected_rows(out: &Path) -> Vec<(String, &'static str)> {
    let folders = |path: &Path| {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let variants = folders(out).into_iter().flat_map(|id| folders(&id));
    let records = variants.map(|folder| {
        let text = fs::read_to_string(folder.join("record.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()
    });
    let row = |record: Value| {
        let [id, variant] = ["id", "variant"].map(|key| record[key].as_str().unwrap().to_owned());
        let checks = record["checks"].as_array().unwrap();
        let cells = record["cells"].as_array().unwrap().len() as u64;
        let status = match () {
            () if record["planned"].as_u64() != Some(cells) => "unfinished",
            () if checks.is_empty() => "unchecked",
            () if checks.iter().all(|check| check["holds"] == true) => "holds",
            () => "fails",
        };
        (format!("href=\"#{id}--{variant}\""), status)
    };
    records.map(row).collect()
}

#[test]
fn every_chart_is_drawn_nothing_is_loaded_and_no_error_is_told() {
    let Some(browser) = chromium::find() else { return };
    let (out, page) = smoke_report();
    let visit = chromium::visit(&browser, &page, &[]);
    assert_eq!(visit.console, [""; 0]);
    assert_eq!(visit.requests, [""; 0]);

    let charts: Vec<&str> = visit.dom.split("<div class=\"chart\">").skip(1).collect();
    assert!(!charts.is_empty(), "the report has no chart");
    assert!(visit.dom.contains("data-ready=\"true\""));
    assert!(visit.dom.contains(&format!("data-charts-drawn=\"{}\"", charts.len())));
    for (k, chart) in charts.iter().enumerate() {
        assert!(chart.contains("class=\"main-svg\""), "chart {k} is not drawn");
    }

    let (_, table) = visit.dom.split_once("<table class=\"exhibits\">").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    let rows: Vec<&str> = table.split("<tr>").skip(2).collect();
    let expected = expected_rows(out.path());
    assert_eq!(rows.len(), expected.len(), "rows of the table and records");
    for (link, status) in expected {
        let row = rows.iter().find(|row| row.contains(&link)).unwrap();
        assert!(
            row.contains(&format!("class=\"badge {status}\"")),
            "{link} is not {status}: {row}"
        );
    }
}

/// A copy of the report with one more script, which runs when all charts are drawn.
fn with_script(page: &Path, name: &str, script: &str) -> PathBuf {
    let report = fs::read_to_string(page).unwrap();
    let (before, after) = report.rsplit_once("</body>").unwrap();
    let script = format!(
        "<script>const timer = setInterval(() => {{ const root = document.documentElement;\
         if (root.dataset.ready) {{ clearInterval(timer); {script} }} }}, 100);</script></body>"
    );
    let copy = page.with_file_name(name);
    fs::write(&copy, format!("{before}{script}{after}")).unwrap();
    copy
}

#[test]
fn every_button_and_key_of_the_charts_works() {
    let Some(browser) = chromium::find() else { return };
    let (_out, page) = smoke_report();
    // Twice, so that every curve is hidden and shown again and every axis is back as it was.
    let script = "(async () => { let pressed = 0;\
        for (const button of [0, 1].flatMap(() => [...document.querySelectorAll('.legend button')])) {\
            const before = button.getAttribute('aria-pressed'); button.click();\
            pressed += before !== button.getAttribute('aria-pressed'); }\
        const plot = document.querySelector('.plot');\
        const range = () => JSON.stringify(plot._fullLayout.xaxis.range);\
        const press = (key) => { plot.dispatchEvent(new KeyboardEvent('keydown', { key })); };\
        const [whole, near, moved, again] = ['0', '+', 'ArrowLeft', '0'].map((key) => {\
            press(key); return range(); });\
        const keys = whole !== near && near !== moved && whole === again;\
        recolour(); await new Promise((done) => setTimeout(done, 1000));\
        Object.assign(root.dataset, { pressed, keys }); })();";
    let copy = with_script(&page, "pressing.html", script);
    let visit = chromium::visit(&browser, &copy, &[]);
    assert_eq!(visit.console, [""; 0]);
    let buttons = visit.dom.matches("<button type=\"button\"").count();
    assert!(buttons > 0 && visit.dom.contains(&format!("data-pressed=\"{}\"", 2 * buttons)));
    assert!(visit.dom.contains("data-keys=\"true\""), "keys do not zoom, move and return");
}

#[test]
fn on_a_phone_in_the_dark_nothing_sticks_out() {
    let Some(browser) = chromium::find() else { return };
    let (out, page) = smoke_report();
    // A window cannot be as narrow as a phone, a frame can; it tells its sizes when it is drawn.
    let telling = "parent.postMessage([root.scrollWidth, innerWidth,\
        getComputedStyle(document.body).backgroundColor].join(' '), '*');";
    with_script(&page, "telling.html", telling);
    let frame = out.path().join("frame.html");
    let listening = "<!doctype html><iframe src=\"telling.html\" width=\"390\" height=\"844\" \
        style=\"border: 0\"></iframe><p id=\"told\"></p><script>onmessage = (event) => {\
        document.getElementById(\"told\").textContent = event.data; };</script>";
    fs::write(&frame, listening).unwrap();

    let dark = "--blink-settings=preferredColorScheme=0";
    let visit = chromium::visit(&browser, &frame, &[dark]);
    assert_eq!(visit.console, [""; 0]);
    let (_, told) = visit.dom.split_once("<p id=\"told\">").unwrap();
    let (told, _) = told.split_once("</p>").unwrap();
    let mut words = told.splitn(3, ' ');
    let [content, window] = [(); 2].map(|()| words.next().unwrap().parse::<u32>().unwrap());
    assert_eq!(window, 390);
    assert!(content <= window, "the content is {content} pixels wide, the phone {window}");
    assert_eq!(words.next(), Some("rgb(20, 23, 27)"), "the page is not dark");
}

#[test]
fn a_page_that_loads_or_fails_is_found_out() {
    let Some(browser) = chromium::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let image = "<!doctype html><img src=\"http://127.0.0.1:9/a.png\">";
    fs::write(&page, image).unwrap();
    let visit = chromium::visit(&browser, &page, &[]);
    assert_eq!(visit.requests, ["http://127.0.0.1:9/a.png"]);

    fs::write(&page, "<!doctype html><script>throw new Error(\"seen\")</script>").unwrap();
    let visit = chromium::visit(&browser, &page, &[]);
    assert!(visit.console.len() == 1 && visit.console[0].contains("seen"), "{:?}", visit.console);
    assert_eq!(visit.requests, [""; 0]);
}
