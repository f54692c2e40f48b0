//! No damage to a file of results goes unnoticed.
//!
//! One file at a time is damaged at random, with a fixed seed: a bit or a digit flipped, a range zeroed, truncated,
//! emptied, deleted, exchanged with another, garbage appended, a line doubled. `LASTBIT_ATTACK_DAMAGES=2000` makes as
//! many instead of a hundred. Lock files are left out: they hold nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use lastbit::rng::Stream;
use lastbit_lab::progress::Silent;
use lastbit_lab::sealed;
use lastbit_lab::verify::verify;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{assert_same, copy_folder, reproducible_files, run};

const CONFIG: &str = r#"
    data = { name = "mnist01", limit = 48, test-limit = 24 }
    network = { kind = "mlp", hidden = [3] }
    optimizer = { name = "sgd", dt = 0.1 }
    training = { epochs = 2, batch = 12 }
    sharpness = { every = 4, density = true }
    replicas = { k = [1, 3] }
"#;
const EDGE: &str = "edge edge.toml --steps 64 --tolerance 0.5 --property stable --out all";
const EDGE_CONFIG: &str = r#"
    data = { name = "mnist01", normalization = "none", limit = 16 }
    network = { kind = "cnn", channels = [1], bias = false, pooling = "none", head = "mean" }
    loss = { name = "binary-cross-entropy" }
    optimizer = { name = "sgd", dt = 64, alpha = 5e-4 }
    training = { steps = 64, batch = "full", precision = "f64" }
"#;
const COMMANDS: [&str; 5] = [
    "run fig-beltrami-2d --scale smoke --out all",
    EDGE,
    "noise noise.toml --sources last-bit,batch --n 3 --out all",
    "run fig-heat --scale smoke --out all",
    "train config.toml --out all/training",
];

/// A folder with an exhibit, one with images, an edge search, a noise study and a training.
static WHOLE: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("config.toml"), CONFIG).unwrap();
    fs::write(path.join("noise.toml"), CONFIG.replace("replicas", "# replicas")).unwrap();
    fs::write(path.join("edge.toml"), EDGE_CONFIG).unwrap();
    for command in COMMANDS {
        let ran = run(path, command);
        assert!([0, 1].contains(&ran.code), "{command}: {}{}", ran.stdout, ran.stderr);
    }
    folder
});

/// Damages to make.
fn count() -> usize {
    std::env::var("LASTBIT_ATTACK_DAMAGES").map_or(100, |n| n.parse().unwrap())
}

/// A copy of it.
fn copy() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_folder(WHOLE.path(), folder.path());
    folder
}

/// All files of results below a folder, in the order of their paths.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_none_or(|end| end != "lock") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Numbers drawn one after the other.
struct Draws(u64);

impl Draws {
    fn below(&mut self, n: usize) -> usize {
        self.0 += 1;
        Stream::new(19, 0).below(self.0, n.max(1) as u64) as usize
    }
}

/// What a file holds after a damage; nothing if it is gone.
fn damaged(bytes: &[u8], other: &[u8], draws: &mut Draws) -> (&'static str, Option<Vec<u8>>) {
    let at = draws.below(bytes.len());
    let mut changed = bytes.to_vec();
    let kind = draws.below(9);
    let is_digit = |i: &usize| bytes[*i].is_ascii_digit();
    match kind {
        0 if !bytes.is_empty() => changed[at] ^= 1 << draws.below(8),
        1 => {
            let digits: Vec<usize> = (0..bytes.len()).filter(is_digit).collect();
            if let Some(place) = digits.get(draws.below(digits.len())) {
                changed[*place] = b'0' + (changed[*place] - b'0' + 1 + draws.below(9) as u8) % 10;
            }
        }
        2 => {
            let end = (at + 1 + draws.below(64)).min(bytes.len());
            changed[at..end].fill(0);
        }
        3 => changed.truncate(at),
        4 => changed.clear(),
        5 => return ("deleted", None),
        6 => changed = other.to_vec(),
        7 => changed.extend((0..=draws.below(64)).map(|_| draws.below(256) as u8)),
        _ => {
            let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
            let line = draws.below(lines.len());
            let doubled = lines.iter().enumerate();
            changed = doubled.flat_map(|(i, own)| own.repeat(1 + usize::from(i == line))).collect();
        }
    }
    let kinds =
        ["bit", "digit", "zeros", "truncated", "emptied", "", "exchanged", "garbage", "line"];
    (kinds[kind], Some(changed))
}

#[test]
fn no_damage_goes_unnoticed() {
    let folder = copy();
    let all = folder.path().join("all");
    let verified = verify(&all, &Silent).unwrap();
    assert!(verified.damaged.is_empty() && verified.notes.is_empty(), "{verified:?}");
    let files = files(&all);
    let (mut draws, mut unnoticed, mut noticed) = (Draws(0), Vec::new(), 0);
    while noticed + unnoticed.len() < count() {
        let pick = |draws: &mut Draws| files[draws.below(files.len())].clone();
        let (path, other) = (pick(&mut draws), pick(&mut draws));
        let [before, before_other] = [&path, &other].map(|path| fs::read(path).unwrap());
        let (kind, after) = damaged(&before, &before_other, &mut draws);
        match &after {
            Some(after) if *after == before => continue,
            Some(after) => fs::write(&path, after).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        if kind == "exchanged" {
            fs::write(&other, &before).unwrap();
        }
        match verify(&all, &Silent) {
            Ok(verified) if verified.damaged.is_empty() => {
                unnoticed.push(format!("{kind}: {}", path.display()));
            }
            // It names the file, or one that vouches for it.
            _ => noticed += 1,
        }
        fs::write(&path, &before).unwrap();
        fs::write(&other, &before_other).unwrap();
    }
    println!("{noticed} damages to {} files noticed, {} not", files.len(), unnoticed.len());
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
    assert!(verify(&all, &Silent).unwrap().damaged.is_empty());
}

/// The command that reads or writes a file, by its place.
fn command_of(path: &Path) -> &'static str {
    match path.iter().next().unwrap().to_str().unwrap() {
        "fig-beltrami-2d" => COMMANDS[0],
        "edge" => EDGE,
        "fig-heat" => COMMANDS[3],
        "training" => "train --out all/training --resume",
        _ => COMMANDS[2],
    }
}

#[test]
fn what_is_damaged_is_computed_again_or_refused_by_name() {
    let whole = WHOLE.path().join("all");
    let files = files(&whole);
    let mut draws = Draws(1 << 32);
    for _ in 0..count() / 10 {
        let folder = copy();
        let all = folder.path().join("all");
        let name = files[draws.below(files.len())].strip_prefix(&whole).unwrap();
        let path = all.join(name);
        let (kind, after) = damaged(&fs::read(&path).unwrap(), b"other", &mut draws);
        match after {
            Some(after) => fs::write(&path, after).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let what = format!("{} {kind}", name.display());
        // A report shows the record as damaged, or never reads the file: figures, cells, runs.
        let report = run(folder.path(), "report --out all");
        let named = report.stdout.contains(name.to_str().unwrap());
        assert!(
            named == (report.code == 1) && report.code < 2,
            "{what}: {}{}",
            report.stdout,
            report.stderr
        );
        fs::remove_file(all.join("report.html")).unwrap();
        let command = command_of(name);
        let ran = run(folder.path(), command);
        if ran.code == 2 {
            assert!(ran.stderr.contains(name.to_str().unwrap()), "{what}: {}", ran.stderr);
            continue;
        }
        // Runs are not read where the cells made of them are whole, and earlier checkpoints by nobody. The last
        // checkpoint is computed again from the one before.
        let is_mended = fs::read(&path).ok() == fs::read(whole.join(name)).ok();
        if !is_mended && (name.starts_with("runs") || name.starts_with("training/checkpoints")) {
            let found = verify(&all, &Silent).unwrap().damaged;
            assert!(found.iter().any(|found| found.path == path), "{what}: {found:?}");
            fs::copy(whole.join(name), &path).unwrap();
        }
        assert_same(&reproducible_files(&whole), &reproducible_files(&all), &what);
        assert!(verify(&all, &Silent).unwrap().damaged.is_empty(), "{what}: {}", ran.stderr);
    }
}

/// Changes a sealed file and seals it again.
fn edit(path: &Path, change: impl Fn(&mut Value)) {
    let mut data: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    data.as_object_mut().unwrap().remove("blake3");
    change(&mut data);
    sealed::write(path, &data).unwrap();
}

#[test]
fn a_name_in_a_record_cannot_lead_out_of_its_folder() {
    let folder = copy();
    let all = folder.path().join("all");
    fs::write(folder.path().join("secret.csv"), "x\n1\n").unwrap();
    let record = all.join("fig-heat/smoke/record.json");
    let cell =
        fs::read_dir(all.join("fig-heat/smoke/cells")).unwrap().flatten().next().unwrap().path();
    let before = [&record, &cell].map(|path| fs::read(path).unwrap());
    let away = "../../../../secret.csv";
    edit(&record, |record| record["cells"][0]["key"] = json!(away));
    let report = run(folder.path(), "report --out all");
    for part in ["record.json", "\"key\"", away] {
        assert!(report.code == 1 && report.stdout.contains(part), "{part}: {}", report.stdout);
    }
    // The record is put together again, without the name.
    assert_eq!(run(folder.path(), COMMANDS[3]).code, 0);
    assert_eq!(fs::read(&record).unwrap(), before[0]);
    edit(&record, |record| {
        for (_, file) in record["cells"][0]["series"].as_object_mut().unwrap() {
            *file = json!(away);
        }
    });
    edit(&cell, |kept| kept["cell"]["key"] = json!(away));
    let ran = run(folder.path(), COMMANDS[3]);
    assert!(ran.code == 0 && ran.stderr.contains(away), "{}", ran.stderr);
    assert_eq!([&record, &cell].map(|path| fs::read(path).unwrap()), before);
    assert_eq!(fs::read(folder.path().join("secret.csv")).unwrap(), b"x\n1\n");
}

#[test]
#[cfg(unix)]
fn a_link_that_leads_out_of_a_record_is_not_followed() {
    let folder = copy();
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let curves = files(&folder.path().join("all/fig-heat/smoke/series"));
    for curve in &curves {
        // The same bytes: what is refused is the place.
        let target = elsewhere.join(curve.file_name().unwrap());
        fs::rename(curve, &target).unwrap();
        std::os::unix::fs::symlink(target, curve).unwrap();
    }
    let report = run(folder.path(), "report --out all");
    assert!(report.code == 1 && report.stdout.contains("outside"), "{}", report.stdout);
    let verified = run(folder.path(), "verify all");
    assert!(verified.code == 1 && verified.stdout.contains("outside"), "{}", verified.stdout);
    assert_eq!(run(folder.path(), COMMANDS[3]).code, 0);
    assert!(curves.iter().all(|curve| !curve.is_symlink()));
    assert_eq!(run(folder.path(), "verify all").code, 0);
}

#[test]
fn the_command_names_damage_and_what_mends_it_and_nothing_to_check_is_wrong_input() {
    let folder = copy();
    let ran = run(folder.path(), "verify all");
    assert!(ran.code == 0 && ran.stdout.ends_with("all whole.\n"), "{}", ran.stdout);
    let path = folder.path().join("all/fig-heat/smoke/settings.toml");
    fs::write(&path, "").unwrap();
    let ran = run(folder.path(), "verify --out all");
    let mend = "`lastbit run fig-heat --scale smoke --out all`";
    assert_eq!(ran.code, 1);
    assert!(ran.stdout.contains("settings.toml") && ran.stdout.contains(mend), "{}", ran.stdout);
    let json = crate::support::json(folder.path(), "verify all");
    assert_eq!(json["damaged"].as_array().unwrap().len(), 1);
    assert_eq!(json["damaged"][0]["mend"], mend);
    assert_eq!(run(folder.path(), COMMANDS[3]).code, 0);
    assert_eq!(run(folder.path(), "verify all").code, 0);
    fs::create_dir(folder.path().join("empty")).unwrap();
    for place in ["empty", "nowhere"] {
        let ran = run(folder.path(), &format!("verify {place}"));
        assert!(ran.code == 2 && ran.stderr.contains(place), "{}", ran.stderr);
    }
}
