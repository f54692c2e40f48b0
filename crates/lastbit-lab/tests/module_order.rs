//! Dependencies point upwards: a module uses only modules that stand above it in the list of its crate.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Modules of `lastbit`, each above those that may use it.
const LASTBIT: &[&str] = &[
    "named",
    "simd",
    "exp",
    "log2",
    "real",
    "rng",
    "reduce",
    "signal",
    "curve",
    "fft",
    "correlate",
    "activation",
    "regimes",
    "dynamics",
    "growth",
    "verdict",
    "divergence",
    "comparison",
    "objective",
    "data",
    "krylov",
    "pde",
    "nn",
    "spectrum",
    "search",
    "optim",
    "batches",
    "training",
    "attribution",
    "theory",
    "statistics",
    "curvature",
];

/// Modules of `lastbit-lab`.
const LAB: &[&str] = &[
    "origin",
    "nearest",
    "words",
    "progress",
    "error",
    "relative_path",
    "number",
    "series",
    "files",
    "sealed",
    "damage",
    "lock",
    "memory",
    "input",
    "tensors",
    "data",
    "figure",
    "record",
    "plot",
    "simulate",
    "validate",
    "train",
    "probe",
    "logged",
    "export",
    "plan",
    "runner",
    "settings",
    "bounds",
    "pde",
    "edge",
    "noise",
    "diff",
    "envelope",
    "perturbed_runs",
    "experiments",
    "report",
    "verify",
];

/// For tests only: may use everything.
const TEST_SUPPORT: &[&str] = &["sample"];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    found
}

/// The code of a source file without comments and without the tests at its end.
fn code(text: &str) -> String {
    let tests = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let lines = text[..tests].lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Names of modules that follow `crate::` in a text.
fn used(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for after in code.split("crate::").skip(1) {
        let list = match after.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or("").split(',').collect(),
            None => vec![after],
        };
        for item in list {
            let is_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
            found.insert(item.trim_start().chars().take_while(is_name).collect());
        }
    }
    found
}

/// What is wrong with the modules below `src`, given their order.
fn violations(src: &Path, order: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for path in sources(src) {
        let below = path.strip_prefix(src).unwrap();
        let first = below.components().next().unwrap().as_os_str().to_string_lossy();
        let module = first.trim_end_matches(".rs").to_owned();
        let is_test = below.with_extension("").components().any(|part| part.as_os_str() == "tests");
        if module == "lib" || is_test || TEST_SUPPORT.contains(&module.as_str()) {
            continue;
        }
        let Some(place) = order.iter().position(|name| *name == module) else {
            found.push(format!("{}: module {module} is not in the list", below.display()));
            continue;
        };
        for other in used(&code(&fs::read_to_string(&path).unwrap())) {
            if order[place + 1..].contains(&other.as_str()) {
                let path = below.display();
                found.push(format!("{path}: {module} uses {other}, which stands below it"));
            }
        }
    }
    found
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

#[test]
fn modules_use_only_those_above_them() {
    for (name, order) in [("lastbit", LASTBIT), ("lastbit-lab", LAB)] {
        let wrong = violations(&crates().join(name).join("src"), order);
        assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
    }
}

#[test]
fn a_cycle_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("series.rs", "use crate::error::Error;");
    write("error.rs", "// crate::series is only named here\n");
    assert_eq!(violations(folder.path(), LAB), [""; 0]);
    write("error.rs", "use crate::{number, series::Series};");
    let wrong = violations(folder.path(), LAB);
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong[0].contains("error uses number") && wrong[1].contains("error uses series"));
    write("other.rs", "");
    assert!(violations(folder.path(), LAB).iter().any(|wrong| wrong.contains("not in the list")));
}
