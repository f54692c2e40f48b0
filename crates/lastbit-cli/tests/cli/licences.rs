//! What the program is built from may be passed on: every crate has a licence that is on our list.

use std::process::Command;

use serde_json::Value;

/// None of them asks for more than to keep its text.
const ALLOWED: [&str; 7] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// Whether a licence expression leaves a choice that is allowed. Of nested ones, `A OR (B AND C)`, it asks more than
/// it would have to.
fn is_allowed(expression: &str) -> bool {
    let is_known = |name: &str| ALLOWED.contains(&name.trim_matches([' ', '(', ')']));
    let alternatives = |part: &str| part.replace('/', " OR ").split(" OR ").any(is_known);
    expression.split(" AND ").all(alternatives)
}

#[test]
fn expressions_are_read() {
    for good in ["MIT", "MIT/Apache-2.0", "GPL-3.0 OR Zlib", "(MIT OR Apache-2.0) AND Unicode-3.0"]
    {
        assert!(is_allowed(good), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND (MPL-2.0 OR GPL-3.0)"] {
        assert!(!is_allowed(bad), "{bad}");
    }
}

#[test]
fn every_dependency_has_a_licence_of_the_list() {
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    // The crates of this platform are here already; those of others would have to be downloaded.
    let version = run("rustc", &["-vV"]);
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host");
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let arguments = ["metadata", "--format-version", "1", "--locked", "--offline"];
    let arguments = [&arguments[..], &["--filter-platform", host, "--manifest-path", manifest]];
    let metadata: Value = serde_json::from_str(&run(env!("CARGO"), &arguments.concat())).unwrap();
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 100, "{} packages", packages.len());
    let refused: Vec<String> = packages
        .iter()
        .filter(|package| !is_allowed(package["license"].as_str().unwrap_or_default()))
        .map(|package| format!("{}: {}", package["name"], package["license"]))
        .collect();
    assert!(refused.is_empty(), "not on the list of licences: {refused:#?}");
}
