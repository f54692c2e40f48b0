//! The commands, as a user meets them.

use std::fs;

use crate::catalogue;
use crate::support::{Folder, read_json};

#[test]
fn every_command_has_help_with_examples_or_says_what_it_does() {
    let folder = Folder::new();
    for command in [
        "",
        "run",
        "check",
        "pde heat",
        "pde beltrami",
        "pde scheme",
        "bounds scheme",
        "completions",
    ] {
        let text = folder.done(&format!("{command} --help"));
        assert!(text.contains("Example"), "{command}: {text}");
    }
    for command in ["demo", "list", "report"] {
        assert!(folder.run(&format!("{command} --help")).stdout.len() > 100);
    }
    assert!(folder.run("bounds kernel --help").stdout.contains("[default: 0.001]"));
}

#[test]
fn help_reads_as_it_was_last_reviewed() {
    let folder = Folder::new();
    // A terminal of unknown width is taken to be 100 columns wide.
    insta::assert_snapshot!("help", folder.run("--help").stdout);
    insta::assert_snapshot!("list", folder.run("list").stdout);
    insta::assert_snapshot!("page", folder.run("list fig-heat").stdout);
}

#[test]
fn an_exhibit_named_twice_is_run_once() {
    let folder = Folder::new();
    let records = folder.json("run fig-heat fig-heat --scale smoke")["records"].clone();
    assert_eq!(records.as_array().unwrap().len(), 1, "{records}");
}

#[test]
fn verdicts_of_the_heat_equation() {
    let folder = Folder::new();
    for (dt, expected) in [("0.4", "stable"), ("0.501", "stable"), ("0.8", "diverged")] {
        let value = folder.json(&format!("pde heat --dt {dt}"));
        // On 31 nodes with held ends the edge is at 0.50137, not at 0.5.
        assert_eq!(value["verdict"]["kind"], expected, "dt = {dt}");
        assert_eq!(value["settings"]["dt"], dt.parse::<f64>().unwrap());
        assert!(value["series"]["energy"].as_array().unwrap().len() > 10);
    }
}

#[test]
fn verdicts_of_the_beltrami_equation_in_both_dimensions() {
    let folder = Folder::new();
    for dimensions in ["--points 100", "--dimensions 2 --size 16x20"] {
        for (settings, expected) in [
            ("--overdrive 0.9", "stable"),
            ("--overdrive 10", "restrained"),
            ("--overdrive 100", "restrained"),
            ("--overdrive 1000", "diverged"),
            ("--overdrive 1000 --lambda 0.05", "restrained"),
        ] {
            let value = folder.json(&format!("pde beltrami {dimensions} {settings}"));
            assert_eq!(value["verdict"]["kind"], expected, "{dimensions} {settings}");
        }
    }
}

#[test]
fn bounds_of_the_textbook() {
    let folder = Folder::new();
    for (scheme, kind, dt) in [
        ("heat", "up-to", 0.5),
        ("heat-2d", "up-to", 0.25),
        ("advection-upwind", "up-to", 1.0),
        ("advection-lax-wendroff", "up-to", 1.0),
        ("wave-leap-frog", "up-to", 1.0),
        ("advection-ftcs", "never", 0.0),
        ("nesterov --z 2 --mu 0.9", "up-to", (4.0_f64 / 2.8 / 2.0).sqrt()),
    ] {
        let value = folder.json(&format!("bounds scheme {scheme}"));
        assert_eq!(value["stable_dt"]["kind"], kind, "{scheme}");
        let found = value["stable_dt"]["dt"].as_f64().unwrap();
        // Edges are located to 1e-12 in the coefficients.
        assert!((found - dt).abs() <= 1e-11 * dt, "{scheme}: {found} against {dt}");
    }
    assert_eq!(folder.json("bounds scheme heat-crank-nicolson")["stable_dt"]["kind"], "always");
}

#[test]
fn a_scheme_of_ones_own_is_analysed_and_run() {
    let folder = Folder::new();
    let scheme = "dimensions = 1\nterm = [\n\
        {level = 0, offset = [-1], coefficient = [0, 1]},\n\
        {level = 0, offset = [0], coefficient = [1, -2]},\n\
        {level = 0, offset = [1], coefficient = [0, 1]}]\n";
    folder.write("scheme.toml", scheme);
    let bounds = folder.json("bounds scheme --file scheme.toml");
    let edge = bounds["stable_dt"]["dt"].as_f64().unwrap();
    assert!((edge - 0.5).abs() < 1e-11);
    for (dt, expected) in [("0.49", "stable"), ("0.51", "diverged")] {
        let value = folder.json(&format!("pde scheme --file scheme.toml --dt {dt}"));
        assert_eq!(value["verdict"]["kind"], expected);
    }
}

#[test]
fn a_file_and_flags_with_the_same_settings_give_the_same_record() {
    let folder = Folder::new();
    folder.write("heat.toml", "dt = 0.3\nends = \"neumann\"\nsteps = 300\n");
    let from_file = folder.json("pde heat --config heat.toml");
    let from_flags = folder.json("pde heat --dt 0.3 --ends neumann --steps 300");
    assert_eq!(from_file, from_flags);
    let overridden = folder.json("pde heat --config heat.toml --dt 0.2");
    assert_eq!(overridden["settings"]["dt"], 0.2);
    assert_eq!(overridden["settings"]["ends"], "neumann");
    // The settings written beside the results bring the same run back.
    let beside =
        |run: &serde_json::Value| format!("{}/settings.toml", run["folder"].as_str().unwrap());
    assert_eq!(folder.json(&format!("pde heat --config {}", beside(&from_file))), from_file);
    let beltrami = folder.json("pde beltrami --overdrive 3 --steps 100 --points 20");
    let again = folder.json(&format!("pde beltrami --config {}", beside(&beltrami)));
    assert_eq!(again, beltrami);
    // A flag for the overdrive wins over the step of the file.
    let other = folder.json(&format!("pde beltrami --overdrive 5 --config {}", beside(&beltrami)));
    assert_ne!(other["settings"]["dt"], beltrami["settings"]["dt"]);
}

#[test]
fn symmetry_and_rest_do_not_hide_an_instability() {
    let folder = Folder::new();
    folder.write("flat.csv", "0.5\n".repeat(20));
    for (command, expected) in [
        ("pde heat --dt 0.501 --points 32 --ends periodic", "diverged"),
        ("pde heat --dt 0.8 --height 0", "diverged"),
        ("pde heat --dt 0.8 --ends neumann --initial flat.csv", "diverged"),
        ("pde beltrami --signal flat.csv --overdrive 0.9", "stable"),
        ("pde beltrami --signal flat.csv --overdrive 10", "restrained"),
        ("pde beltrami --signal flat.csv --overdrive 1000", "diverged"),
        ("pde beltrami --lambda 0 --overdrive 1e9 --steps 500", "restrained"),
        ("pde heat --dt 0.8 --steps 1", "diverged"),
        ("pde beltrami --overdrive 1000 --steps 2", "diverged"),
    ] {
        assert_eq!(folder.json(command)["verdict"]["kind"], expected, "{command}");
    }
}

#[test]
fn bounds_edges_and_runs_of_a_one_layer_network() {
    let folder = Folder::new();
    let small = "--size 32x32 --kernel 8x8";
    let bounds = folder.json(&format!("bounds kernel {small} --pooling sum --a -0.5 --dt 1e-4"));
    // One mode: (w (n - w + 1))^2 = 40000 on the window, n^4 without; times 1/4.
    let found = |keys: [&str; 2]| bounds[keys[0]][keys[1]].as_f64().unwrap();
    assert!((found(["windowed", "eig_max"]) / 40_000.0 - 1.0).abs() < 1e-12);
    assert!((found(["windowed", "alpha_min"]) / 10_000.0 - 1.0).abs() < 1e-12);
    assert!((bounds["alpha_min"].as_f64().unwrap() / 262_144.0 - 1.0).abs() < 1e-12);
    assert_eq!(bounds["empty"], true);
    assert_eq!(bounds["windowed"]["empty"], false);
    for key in ["alpha_max", "alpha_max_exact"] {
        assert!(found(["nesterov", key]) > 1e8);
    }
    let linear = format!("{small} --equation linear --pooling sum --dt 1e-4");
    let edge = folder.json(&format!("edge kernel {linear} --over alpha-min"));
    assert!(edge["off_by"].as_f64().unwrap().abs() < 0.01, "{edge:#}");
    let edge = folder.json(&format!("edge kernel {small} --tolerance 1e-3"));
    assert!(edge["off_by"].as_f64().unwrap().abs() < 1e-3, "{edge:#}");
    let run = folder.json(&format!("pde kernel {small} --dt 0.01 --steps 200"));
    assert_eq!(run["verdict"]["kind"], "stable");
    for key in ["loss", "lambda_max", "rel_l1"] {
        assert!(run[key].is_number() && run["series"][key].as_array().unwrap().len() > 10, "{key}");
    }
    // k and 2k round alike, whatever k.
    let twin = |k: &str| folder.json(&format!("pde kernel {small} --dt 0.09 --steps 200 --k {k}"));
    assert_eq!(twin("3")["series"]["rel_l1"], twin("6")["series"]["rel_l1"]);
    assert!(twin("4")["series"]["rel_l1"].as_array().unwrap().iter().all(|x| *x == 0.0));
}

#[test]
fn own_data_is_read_from_every_format() {
    let folder = Folder::new();
    folder.write("u.csv", "u\n0\n1\n0.5\n0.25\n0\n");
    let value = folder.json("pde heat --initial u.csv --dt 0.3 --steps 50 --times 0");
    assert_eq!(value["series"]["profiles"]["t = 0"], serde_json::json!([0.0, 1.0, 0.5, 0.25, 0.0]));

    // A field of one run is data for another, and a picture is data too.
    let image = folder.json("pde beltrami --dimensions 2 --size 6x5 --steps 20 --snapshots 0");
    let field = image["fields"]["step-0"].as_str().unwrap();
    let again = folder.json(&format!("pde beltrami --signal {field} --steps 20 --snapshots 0"));
    assert_eq!(again["hash"], image["hash"]);
    // Of few pixels: a run of two steps is too short to judge, and is continued.
    let picture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/photo.png");
    let seen = folder.json(&format!("pde beltrami --signal {picture} --steps 2"));
    assert_eq!(seen["settings"]["dimensions"], 2);
}

#[test]
fn an_expected_verdict_that_fails_is_exit_code_one() {
    let folder = Folder::new();
    folder.done("pde heat --dt 0.4 --expect stable");
    let ran = folder.run("pde heat --dt 0.8 --expect stable");
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("Expected stable"));
}

#[test]
fn an_exhibit_at_smoke_scale_holds_by_checks_or_says_why_it_is_not_tested() {
    let records = catalogue::records();
    assert!(records.len() >= 13);
    let mut figures = 0;
    for record in records {
        let (checks, why) = (record["checks"].as_array().unwrap(), record["not_tested"].as_str());
        match record["status"].as_str().unwrap() {
            "holds" => assert!(!checks.is_empty() && why.is_none(), "{record:#}"),
            "not-tested" => assert!(checks.is_empty() && why.is_some(), "{record:#}"),
            other => panic!("{other}: {record:#}"),
        }
        let folder = catalogue::folder().join(record["folder"].as_str().unwrap());
        let written = read_json(&folder.join("record.json"));
        let planned = written["figures"].as_array().unwrap().len();
        for kind in ["svg", "png"] {
            let drawn = fs::read_dir(folder.join("figures")).unwrap().flatten();
            let count = drawn.filter(|e| e.path().extension().is_some_and(|x| x == kind)).count();
            assert_eq!(count, planned, "{kind} of {}", folder.display());
        }
        figures += planned;
    }
    assert!(figures > 25, "{figures} figures");
    let report = catalogue::report();
    assert_eq!(report["records"].as_array().unwrap().len(), records.len());
    let page = catalogue::folder().join(report["report"].as_str().unwrap());
    let html = fs::read_to_string(page).unwrap();
    assert!(records.iter().all(|record| html.contains(record["id"].as_str().unwrap())));
}

/// Exhibits whose runs are too short for their claim never have the badge of one that holds.
#[test]
fn what_is_too_short_for_its_claim_is_not_tested_everywhere_it_is_shown() {
    let of = |records: &serde_json::Value, id: &str| {
        let records = records.as_array().unwrap();
        records.iter().find(|record| record["id"] == id).unwrap().clone()
    };
    let page = catalogue::folder().join(catalogue::report()["report"].as_str().unwrap());
    let html = fs::read_to_string(page).unwrap();
    for id in ["fig-divergence-lr", "tab-architectures", "ext-butterfly", "ext-significant-bits"] {
        let reported = of(&catalogue::report()["records"], id);
        let run = of(&catalogue::records().to_vec().into(), id);
        assert_eq!(
            (&run["status"], &reported["status"]),
            (&"not-tested".into(), &"not-tested".into())
        );
        assert_eq!(run["not_tested"], reported["not_tested"]);
        let folder = catalogue::folder().join(run["folder"].as_str().unwrap());
        let text = fs::read_to_string(folder.join("record.json")).unwrap();
        let why = run["not_tested"].as_str().unwrap();
        assert!(text.contains(&format!("\"not_tested\": \"{why}\"")), "{text}");
        let (_, row) = html.split_once(&format!("href=\"#{id}--smoke\"")).unwrap();
        let row = row.split("</tr>").next().unwrap();
        assert!(row.contains("badge not-tested\">not tested at this scale<"), "{row}");
        assert!(!row.contains("badge holds") && row.contains(why), "{row}");
    }
    let folder = Folder::new();
    catalogue::copy(&["fig-divergence-lr"], folder.path());
    let text = folder.done("run fig-divergence-lr --scale smoke --cells 0..0/1 --out .");
    let told = "fig-divergence-lr (smoke) not tested at this scale: the runs have 4 and 16 steps";
    assert!(text.starts_with(told), "{text}");
}

#[test]
fn demo_shows_the_effect() {
    let folder = Folder::new();
    let value = folder.json("demo");
    assert_eq!(value["holds"], true);
    let kinds: Vec<&str> = value["twins"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["verdict"]["kind"].as_str().unwrap())
        .collect();
    assert!(kinds.contains(&"stable") && kinds.contains(&"restrained"));
    assert!(folder.join(value["report"].as_str().unwrap()).exists());
    let ran = folder.run("demo");
    assert!(ran.stdout.contains("restrained") && ran.stdout.contains("report.html"));
}

#[test]
fn completions_for_every_shell() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let ran = folder.run(&format!("completions {shell}"));
        assert!(ran.code == 0 && ran.stdout.contains("lastbit"), "{shell}");
    }
}
