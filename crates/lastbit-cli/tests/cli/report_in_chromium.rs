//! The report as a reader meets it: in a browser, without a network.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Folder, read_json, run};
use crate::{catalogue, chromium};

/// The report of every exhibit at its smallest scale.
fn smoke_report() -> PathBuf {
    catalogue::folder().join("report.html")
}

/// Link and status of each record, as the records say.
fn expected_rows(out: &Path) -> Vec<(String, &'static str)> {
    let folders = |path: &Path| {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let inner = folders(out).into_iter().flat_map(|id| folders(&id));
    // Beside the records lie the training runs they stand on.
    let records = inner.filter(|folder| folder.join("record.json").exists());
    let row = |folder: PathBuf| {
        let record = read_json(&folder.join("record.json"));
        let id = record["id"].as_str().unwrap();
        let name = folder.file_name().unwrap().display().to_string();
        let checks = record["checks"].as_array().unwrap();
        let cells = record["cells"].as_array().unwrap().len() as u64;
        let status = match () {
            () if record["planned"].as_u64() != Some(cells) => "unfinished",
            () if record["not_tested"].is_string() => "not-tested",
            () if checks.is_empty() => "no-claim",
            () if checks.iter().any(|check| check["outcome"] == "fails") => "fails",
            () if checks.iter().any(|check| check["outcome"] == "undecided") => "undecided",
            () => "holds",
        };
        (format!("href=\"#{id}--{name}\""), status)
    };
    records.map(row).collect()
}

#[test]
fn every_chart_is_drawn_nothing_is_loaded_and_no_error_is_told() {
    let Some(browser) = chromium::find() else { return };
    let page = smoke_report();
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
    let expected = expected_rows(catalogue::folder());
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
fn with_script(page: &Path, copy: PathBuf, script: &str) -> PathBuf {
    let report = fs::read_to_string(page).unwrap();
    let (before, after) = report.rsplit_once("</body>").unwrap();
    let script = format!(
        "<script>const timer = setInterval(() => {{ const root = document.documentElement;\
         if (root.dataset.ready) {{ clearInterval(timer); {script} }} }}, 100);</script></body>"
    );
    fs::write(&copy, format!("{before}{script}{after}")).unwrap();
    copy
}

#[test]
fn every_button_and_key_of_the_charts_works() {
    let Some(browser) = chromium::find() else { return };
    let (out, page) = (Folder::new(), smoke_report());
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
    let copy = with_script(&page, out.path().join("pressing.html"), script);
    let visit = chromium::visit(&browser, &copy, &[]);
    assert_eq!(visit.console, [""; 0]);
    let buttons = visit.dom.matches("<button type=\"button\"").count();
    assert!(buttons > 0 && visit.dom.contains(&format!("data-pressed=\"{}\"", 2 * buttons)));
    assert!(visit.dom.contains("data-keys=\"true\""), "keys do not zoom, move and return");
}

#[test]
fn on_a_phone_in_the_dark_nothing_sticks_out() {
    let Some(browser) = chromium::find() else { return };
    let (out, page) = (Folder::new(), smoke_report());
    // A window cannot be as narrow as a phone, a frame can; it tells its sizes when it is drawn.
    let telling = "parent.postMessage([root.scrollWidth, innerWidth,\
        getComputedStyle(document.body).backgroundColor].join(' '), '*');";
    with_script(&page, out.path().join("telling.html"), telling);
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

/// A record of trainings with many cells of many numbers, with a heat map and strips of six values.
fn trainings(out: &Path) -> PathBuf {
    let numbers: Value = (0..24)
        .map(|k| (format!("test_accuracy-k{k:02}"), json!(0.45 + 0.001 * f64::from(k))))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let cell = |seed: usize| {
        json!({"key": format!("learning-rate-0.1-batches-of-seed-{seed}"), "settings": {},
            "version": "0.1.0", "commit": "", "verdict": null, "hash": null, "numbers": numbers,
            "series": {}, "fields": {}, "files": {}})
    };
    let cells: Vec<Value> = (0..45).map(cell).collect();
    let entry = |seed: usize, k: usize| json!({"cell": cells[seed]["key"], "number": format!("test_accuracy-k{k:02}")});
    let row = |seed: usize| (0..6).map(|k| entry(seed, k)).collect::<Vec<Value>>();
    let map = json!({"id": "map", "title": "Accuracies", "caption": "", "kind": "heat-map",
        "label": "accuracy, %", "row_heading": "seed", "column_heading": "k",
        "rows": ["0", "1"], "columns": ["1", "3", "5", "7", "9", "11"],
        "entries": [row(0), row(1)], "factor": 100.0, "decimals": 2,
        "margins": {"of_rows": "STD over k", "of_columns": "STD over seeds"}});
    let strips = json!({"id": "strips", "title": "Spreads", "caption": "", "kind": "strips",
        "label": "accuracy minus its mean, percentage points", "factor": 100.0, "centred": true,
        "rows": [{"label": "ours", "values": row(0)},
            {"label": "the paper's", "values": [], "interval": [0.93, 0.94]}]});
    let page = json!({"title": "Trainings", "claim": "", "method": "", "reference": "",
        "differences": []});
    let record = json!({"format": 3, "id": "trainings", "settings_hash": "own", "page": page,
        "settings": {}, "planned": 45, "cells": cells, "checks": [], "figures": [map, strips], "files": {}});
    let folder = out.join("trainings/own");
    fs::create_dir_all(&folder).unwrap();
    lastbit_lab::sealed::write(&folder.join("record.json"), &record).unwrap();
    let ran = run(out, "report --out .");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    out.join("report.html")
}

/// What the script of a page wrote below the name `told`.
fn told(dom: &str) -> Value {
    let (_, rest) = dom.split_once("data-told=\"").expect("the script ran to its end");
    let (text, _) = rest.split_once('"').unwrap();
    serde_json::from_str(&text.replace("&quot;", "\"").replace("&amp;", "&")).unwrap()
}

#[test]
fn a_heat_map_is_a_table_and_strips_have_points() {
    let Some(browser) = chromium::find() else { return };
    let out = Folder::new();
    let page = trainings(out.path());
    let script = "const table = document.querySelector('.heat');\
        const plot = document.querySelector('.strips .plot');\
        const range = (axis) => JSON.stringify(plot._fullLayout[axis].range);\
        const whole = [range('xaxis'), range('yaxis')];\
        plot.dispatchEvent(new KeyboardEvent('keydown', { key: '+' }));\
        const near = [range('xaxis'), range('yaxis')];\
        plot.dispatchEvent(new KeyboardEvent('keydown', { key: '0' }));\
        const first = table.querySelector('tbody td');\
        recolour();\
        root.dataset.told = JSON.stringify({\
            caption: table.caption.textContent, rows: table.tBodies[0].rows.length,\
            text: first.textContent, colour: getComputedStyle(first).backgroundColor,\
            heads: table.querySelectorAll('tbody th[scope=row]').length,\
            fits: table.parentElement.scrollWidth <= table.parentElement.clientWidth,\
            points: plot.querySelectorAll('.points path.point').length,\
            bars: plot.querySelectorAll('.shapelayer path').length,\
            names: plot.querySelectorAll('.ytick text').length,\
            zooms: whole[0] !== near[0], rowsStay: whole[1] === near[1],\
            returns: whole[0] === range('xaxis') });";
    let copy = with_script(&page, out.path().join("looking.html"), script);
    let visit = chromium::visit(&browser, &copy, &["--window-size=1280,900"]);
    assert_eq!(visit.console, [""; 0]);
    // Six dots and two means; two bars, one of them with both ends.
    let expected = json!({"caption": "accuracy, %", "rows": 2, "text": "45.00",
        "colour": "rgb(247, 251, 184)", "heads": 2, "fits": true, "points": 8, "bars": 4,
        "names": 2, "zooms": true, "rowsStay": true, "returns": true});
    assert_eq!(told(&visit.dom), expected);
}

#[test]
fn a_wide_and_long_table_scrolls_within_its_box_and_keeps_its_names() {
    let Some(browser) = chromium::find() else { return };
    let out = Folder::new();
    let page = trainings(out.path());
    // A timer and not the next frame: time within the page may be over before one is painted.
    let telling = "const box = document.querySelector('.cells').parentElement;\
        const name = box.querySelector('tbody tr:nth-child(40) td');\
        const head = box.querySelector('th:nth-child(3)');\
        box.scrollTo(900, 700);\
        setTimeout(() => { const edge = box.getBoundingClientRect();\
            const near = (a, b) => Math.abs(a - b) <= 1.5;\
            parent.postMessage(JSON.stringify({\
                page: root.scrollWidth <= innerWidth, scrolled: box.scrollLeft > 0 && box.scrollTop > 0,\
                low: edge.height < 800,\
                name: near(name.getBoundingClientRect().left, edge.left),\
                narrow: name.getBoundingClientRect().width < edge.width / 2,\
                head: near(head.getBoundingClientRect().top, edge.top) }), '*'); }, 100);";
    with_script(&page, out.path().join("telling.html"), telling);
    for width in [1280, 390] {
        let frame = out.path().join("frame.html");
        let listening = format!(
            "<!doctype html><iframe src=\"telling.html\" width=\"{width}\" height=\"844\" \
             style=\"border: 0\"></iframe><script>onmessage = (event) => {{\
             document.documentElement.dataset.told = event.data; }};</script>"
        );
        fs::write(&frame, listening).unwrap();
        let visit = chromium::visit(&browser, &frame, &["--window-size=1400,900"]);
        assert_eq!(visit.console, [""; 0]);
        let expected = json!({"page": true, "scrolled": true, "low": true, "name": true,
            "narrow": true, "head": true});
        assert_eq!(told(&visit.dom), expected, "at {width} pixels");
    }
}

#[test]
fn a_page_that_loads_or_fails_is_found_out() {
    let Some(browser) = chromium::find() else { return };
    let folder = Folder::new();
    let page = folder.join("page.html");
    let image = "<!doctype html><img src=\"http://127.0.0.1:9/a.png\">";
    fs::write(&page, image).unwrap();
    let visit = chromium::visit(&browser, &page, &[]);
    assert_eq!(visit.requests, ["http://127.0.0.1:9/a.png"]);

    fs::write(&page, "<!doctype html><script>throw new Error(\"seen\")</script>").unwrap();
    let visit = chromium::visit(&browser, &page, &[]);
    assert!(visit.console.len() == 1 && visit.console[0].contains("seen"), "{:?}", visit.console);
    assert_eq!(visit.requests, [""; 0]);
}
