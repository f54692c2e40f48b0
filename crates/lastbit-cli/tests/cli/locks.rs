//! Several processes at one folder while `flock` fails (network file systems without a lock server), lies (says yes to
//! everybody) or is slow; some processes are killed and some lock files removed. The files must be those of one process.
//!
//! `LASTBIT_ATTACK_RUNS=200 cargo test --release --test cli locks::` makes 200 such runs instead of six.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lastbit::rng::Stream;

use crate::support::{Files, Ran, assert_same, finish, lastbit, reproducible_files, run};

/// Stands before the system's `flock`; the standard library calls nothing else to lock a file.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

int flock(int file, int operation) {
    switch (getenv("LOCKS")[0]) {
        case 'f': errno = ENOLCK; return -1;
        case 'l': return 0;
    }
    usleep(200000);
    return ((int (*)(int, int))dlsym(RTLD_NEXT, "flock"))(file, operation);
}
"#;

const MODES: [&str; 3] = ["fail", "lie", "slow"];

const CONFIG: &str = r#"
data = { name = "mnist01", limit = 160, test-limit = 40 }
network = { kind = "cnn", channels = [4], kernel = 5, stride = 2 }
optimizer = { name = "nesterov", dt = 0.05 }
training = { epochs = 60, batch = 16, metrics-every = 3, checkpoint-every = 20 }
replicas = { k = [1, 3] }
"#;

/// The files of one process.
fn alone(arguments: &str) -> Files {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.toml"), CONFIG).unwrap();
    let ran = run(folder.path(), arguments);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    reproducible_files(&folder.path().join("out"))
}

const TRAIN: &str = "train config.toml --out out --resume";
const RUN: &str = "run tab-power-of-two fig-heat --scale smoke --out out --threads 1";
static TRAINED: LazyLock<Files> = LazyLock::new(|| alone(TRAIN));
static EXHIBITED: LazyLock<Files> = LazyLock::new(|| alone(RUN));

/// The library of the shim, if there is a C compiler.
fn shim(folder: &Path) -> Option<PathBuf> {
    let (source, library) = (folder.join("shim.c"), folder.join("shim.so"));
    fs::write(&source, SHIM).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).args([&library, &source]);
    compiler.status().is_ok_and(|status| status.success()).then_some(library)
}

/// One run of the attack.
struct Attack {
    folder: tempfile::TempDir,
    shim: PathBuf,
    mode: &'static str,
    moments: Stream,
}

impl Attack {
    fn start(&self, arguments: &str) -> Child {
        let mut command = lastbit(self.folder.path());
        command.args(arguments.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("LD_PRELOAD", &self.shim).env("LOCKS", self.mode).spawn().unwrap()
    }

    /// Starts so many processes, kills every third and removes the lock files at drawn moments, and waits for the others.
    fn several(&self, count: usize, arguments: &str) -> Vec<Ran> {
        let mut processes: Vec<Child> = (0..count).map(|_| self.start(arguments)).collect();
        for i in 0..4 {
            thread::sleep(Duration::from_millis((self.moments.uniform(i) * 1500.0) as u64));
            remove_locks(&self.folder.path().join("out"));
            if let Some(process) = processes.get_mut(3 * i as usize) {
                process.kill().unwrap();
            }
        }
        let ended = processes.into_iter().map(|process| process.wait_with_output().unwrap());
        // A killed process has no code.
        ended.filter(|output| output.status.code().is_some()).map(finish).collect()
    }

    #[track_caller]
    fn assert_same(&self, expected: &Files) {
        let mut found = reproducible_files(&self.folder.path().join("out"));
        // What a killed process was just writing is removed by the next that writes there.
        found.retain(|(name, _)| !name.contains(".unfinished-"));
        assert_same(expected, &found, &format!("with locks that {}", self.mode));
    }

    /// Processes at one training; how many were refused.
    fn at_a_training(&self) -> usize {
        fs::write(self.folder.path().join("config.toml"), CONFIG).unwrap();
        let mut refused = 0;
        for ran in self.several(4, TRAIN) {
            let said =
                ["at work there", "another process changed", "expected that of this process"];
            let is_refused = ran.code == 2 && said.iter().any(|part| ran.stderr.contains(part));
            assert!(ran.code == 0 || is_refused, "{}: {}", ran.code, ran.stderr);
            refused += usize::from(is_refused);
        }
        let ran = finish(self.start(TRAIN).wait_with_output().unwrap());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        self.assert_same(&TRAINED);
        refused
    }

    /// Processes at one table and one figure.
    fn at_exhibits(&self) {
        let count = 4 + (self.moments.uniform(9) * 5.0) as usize;
        for ran in self.several(count, RUN) {
            let is_lost = ran.code == 2 && ran.stderr.contains("expected that of this process");
            assert!(ran.code == 0 || is_lost, "{}: {}", ran.code, ran.stderr);
        }
        let ran = finish(self.start(RUN).wait_with_output().unwrap());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        self.assert_same(&EXHIBITED);
    }
}

fn remove_locks(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name() == "lock" {
            let _ = fs::remove_file(entry.path());
        } else if entry.path().is_dir() {
            remove_locks(&entry.path());
        }
    }
}

#[test]
fn with_failing_lying_and_slow_locks_the_files_are_those_of_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let Some(shim) = shim(folder.path()) else {
        println!("skipped: no C compiler");
        return;
    };
    let runs = std::env::var("LASTBIT_ATTACK_RUNS").map_or(6, |runs| runs.parse().unwrap());
    let (next, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let attack = |i: usize| {
        let (mode, moments) = (MODES[i % 3], Stream::new(11, i as u64));
        let folder = tempfile::tempdir().unwrap();
        let attack = Attack { folder, shim: shim.clone(), mode, moments };
        if (i / 3).is_multiple_of(2) {
            refused.fetch_add(attack.at_a_training(), Ordering::Relaxed);
        } else {
            attack.at_exhibits();
        }
        println!("run {i}, locks that {mode}: no wrong file");
    };
    // Most of the time they wait for each other.
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while let Some(i) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|i| *i < runs)
                {
                    attack(i);
                }
            });
        }
    });
    println!("{runs} runs, {} processes refused", refused.load(Ordering::Relaxed));
    assert!(refused.into_inner() > 0, "no two processes met at one training");
}

#[test]
fn waiting_names_the_holder_and_ends_with_ctrl_c() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out/fig-heat/smoke");
    fs::create_dir_all(&out).unwrap();
    let held = fs::File::open(&out).unwrap();
    held.lock().unwrap();
    fs::write(out.join("lock"), OTHER).unwrap();
    let mut command = lastbit(folder.path());
    command.args(["run", "fig-heat", "--scale", "smoke", "--out", "out"]);
    let process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    thread::sleep(Duration::from_millis(1500));
    let sent = Command::new("kill").args(["-INT", &process.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let ran = finish(process.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{}{}", ran.stdout, ran.stderr);
    let told = "waiting for process 7 on host elsewhere, which works at out/fig-heat/smoke\n";
    assert_eq!(ran.stderr, told, "after {:?}", started.elapsed());
    assert!(!out.join("record.json").exists(), "nothing is written without the lock");
}

/// The lock of a process on another machine.
const OTHER: &str =
    r#"{"holds":true,"beat":3,"host":"elsewhere","process":7,"started":1,"space":"0","nonce":"n"}"#;
