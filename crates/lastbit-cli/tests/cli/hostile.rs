//! Names and files that were made to do harm: they are shown without their commands to the terminal, become no markup,
//! and are not read without end. Damage to what the program has written itself is refused.

use std::fs;
use std::path::Path;

use crate::support::{finish, lastbit, run};
use lastbit::rng::Stream;
use lastbit_formats::png::Picture;
use lastbit_lab::data::store::Description;
use lastbit_lab::record::Record;
use lastbit_lab::train::{ConfigFile, MetricsRow, Opened};

/// Clears the screen, and writes what follows in red.
const COMMAND: &str = "\x1b[2J\u{9b}31m";
/// The same as a terminal may show it.
const SHOWN: &str = "\\u001b[2J\\u009b31m";

fn is_harmless(text: &str) -> bool {
    text.chars().all(|c| !c.is_control() || c == '\n')
}

#[test]
fn a_name_cannot_command_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let called = |arguments: &[&str]| {
        let ran = finish(lastbit(folder.path()).args(arguments).output().unwrap());
        assert!(is_harmless(&ran.stdout) && is_harmless(&ran.stderr), "{ran:?}");
        ran
    };
    // Of a file.
    let missing = format!("{COMMAND}.csv");
    let ran = called(&["noise", "--from", &missing]);
    assert!(
        ran.code == 2 && ran.stderr.contains(&format!("{SHOWN}.csv: cannot be read")),
        "{ran:?}"
    );
    let ran = called(&["noise", "--from", &missing, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(json["error"].as_str().unwrap().starts_with(&missing), "{json}");
    // Of a group and of a column.
    for (name, text) in [
        ("groups.csv", format!("group,value\n{COMMAND},1\nb,2\n")),
        ("columns.csv", format!("x,{COMMAND}\n1,2\n3,4\n")),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let ran = called(&["noise", "--from", "groups.csv"]);
    assert!(ran.code == 2 && ran.stderr.contains("in line 2, column group"), "{ran:?}");
    let ran =
        called(&["data", "import", "columns.csv", "--target", "x", "--name", "a", "--data", "d"]);
    assert!(ran.code == 2 && ran.stderr.contains("as the name of a column"), "{ran:?}");
    // Of a class, which is that of a folder.
    for (class, grey) in [(COMMAND, 1), ("plain", 2)] {
        let class = folder.path().join("images").join(class);
        fs::create_dir_all(&class).unwrap();
        for name in ["1.png", "2.png", "3.png"] {
            let picture = Picture { shape: [2, 2, 1], pixels: vec![grey; 4] };
            fs::write(class.join(name), picture.to_png().unwrap()).unwrap();
        }
    }
    let ran = called(&["data", "import", "images", "--name", "a", "--data", "d", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(json["dataset"]["targets"]["classes"], serde_json::json!([COMMAND, "plain"]));
}

#[test]
fn a_name_cannot_become_markup_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let group = "<script>alert(1)</script><img src=x onerror=alert(2)>";
    let runs: String = (0..8).map(|i| format!("{group},{i}.5\nb\"&,{i}\n")).collect();
    fs::write(folder.path().join("r.csv"), format!("group,value\n{runs}")).unwrap();
    let ran = run(folder.path(), "noise --from r.csv --out out");
    assert!(ran.code < 2, "{ran:?}");
    let ran = run(folder.path(), "report --out out");
    assert_eq!(ran.code, 0, "{ran:?}");
    let page = fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(!page.contains("<script>alert(1)") && !page.contains("<img src=x"));
}

#[test]
#[cfg(target_os = "linux")]
fn nothing_is_read_without_end() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("weights.toml", &config("network = {kind = 'mlp', hidden = [4], weights = '/dev/zero'}"));
    link("/dev/zero", &folder.path().join("zero.csv"));
    link("/dev/zero", &folder.path().join("zero.npy"));
    for (arguments, part) in [
        ("train /dev/zero --out o", "more than 1048576 bytes"),
        ("train /dev/urandom --out o", "/dev/urandom: cannot be read"),
        ("edge /dev/zero", "more than 1048576 bytes"),
        ("noise /dev/zero --sources last-bit", "more than 1048576 bytes"),
        ("bounds scheme --file /dev/zero", "more than 1048576 bytes"),
        ("pde heat --config /dev/zero", "more than 1048576 bytes"),
        ("noise --from /dev/zero", "more than 268435456 bytes"),
        ("pde beltrami --signal zero.csv --overdrive 2", "more than 268435456 bytes"),
        ("data import zero.npy --targets zero.npy --name a --data d", "more than 268435456 bytes"),
        ("diff /dev/zero /dev/zero", "a folder, pipe or device"),
        ("train weights.toml --out o", "/dev/zero: found a folder, pipe or device"),
    ] {
        let ran = run(folder.path(), arguments);
        assert!(ran.code == 2 && ran.stderr.contains(part), "{arguments}: {}", ran.stderr);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_training_that_does_not_fit_is_refused_with_what_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let large = "network = {kind = 'mlp', hidden = [20000, 20000, 20000]}\n\
                 replicas = {k = [1, 3, 5, 7, 9, 11, 13, 15, 17, 19], \
                 seeds = {init = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], batch = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]}}";
    fs::write(folder.path().join("large.toml"), config(large)).unwrap();
    let ran = run(folder.path(), "train large.toml --out o");
    assert_eq!(ran.code, 2, "{ran:?}");
    for part in ["large.toml: needs at least ", "TB of memory, ", "are available", "fewer replicas"]
    {
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
    assert!(!folder.path().join("o").exists(), "nothing has been written");
}

fn config(more: &str) -> String {
    format!(
        "data = {{name = 'mnist01'}}\noptimizer = {{name = 'sgd', lr = 0.1}}\n\
         training = {{steps = 1, batch = 8}}\n{more}\n"
    )
}

#[cfg(target_os = "linux")]
fn link(target: &str, path: &Path) {
    std::os::unix::fs::symlink(target, path).unwrap();
}

/// What the program writes, damaged before it is read again.
#[test]
fn damage_to_our_own_files_never_panics() {
    const CHANGES: u64 = 2000;
    type Accepts = fn(&[u8]) -> bool;
    let readers: [(&str, Accepts); 5] = [
        ("run/config.toml", |bytes| {
            let text = String::from_utf8_lossy(bytes);
            ConfigFile::parse(&text, Path::new("config.toml"), &[]).is_ok()
        }),
        ("run/record.json", |bytes| serde_json::from_slice::<Record>(bytes).is_ok()),
        ("row.json", |bytes| serde_json::from_slice::<MetricsRow>(bytes).is_ok()),
        ("kept/curve/dataset.json", |bytes| serde_json::from_slice::<Description>(bytes).is_ok()),
        ("run/checkpoints/step-1.safetensors", |bytes| {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), bytes).unwrap();
            Opened::read(file.path()).is_ok()
        }),
    ];
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("curve.csv", "x,y\n0,1\n1,2\n2,0\n3,1\n");
    write(
        "curve.toml",
        "data = {name = 'curve'}\nnetwork = {kind = 'mlp', hidden = [2]}\nloss = {name = 'half-mse'}\n\
         optimizer = {name = 'heavy-ball', lr = 0.1, momentum = 0.9}\n\
         training = {steps = 1, batch = 'full'}\nreplicas = {k = [1, 3]}\n",
    );
    for arguments in [
        "data import curve.csv --target y --name curve --data kept",
        "train curve.toml --data kept --out run",
    ] {
        let ran = run(folder.path(), arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let rows = fs::read_to_string(folder.path().join("run/metrics.jsonl")).unwrap();
    write("row.json", rows.lines().next().unwrap());
    for (stream, (name, accepts)) in readers.into_iter().enumerate() {
        let random = Stream::new(22, stream as u64);
        let bytes = fs::read(folder.path().join(name)).unwrap();
        assert!(accepts(&bytes), "{name}");
        let damaged = (0..CHANGES).map(|i| changed(&bytes, &random, i));
        let accepted =
            damaged.filter(|damaged| *damaged != bytes && accepts(damaged)).count() as u64;
        // A checkpoint has a hash; of the others some damage, to a digit or a space, leaves a file that can be read.
        assert_eq!(accepted == 0, name.ends_with(".safetensors"), "{name}: {accepted} accepted");
        assert!(accepted < CHANGES, "{name}: all accepted");
    }
}

/// One to four bytes replaced, removed or doubled.
fn changed(bytes: &[u8], random: &Stream, counter: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for change in 0..=u64::from(random.block(8 * counter)[0] % 4) {
        let [kind, place, value, _] = random.block(8 * counter + change + 1);
        let at = place as usize % bytes.len().max(1);
        match kind % 4 {
            _ if bytes.is_empty() => {}
            0 => bytes[at] = value as u8,
            1 => bytes[at] ^= 1 << (value % 8),
            2 => {
                bytes.remove(at);
            }
            _ => bytes.insert(at, bytes[at]),
        }
    }
    bytes
}
