//! `lastbit envelope` with programs that behave well and badly.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Folder, Ran, assert_says, finish, items, number};

/// A training of a few steps that amplifies its perturbation; what else it does, its second argument says.
const PROGRAM: &str = r#"
import json, os, subprocess, sys, time
place, mode = sys.argv[1:3]
seed = int(os.environ["LASTBIT_PERTURB"])
with open("started.txt", "a") as file:
    file.write(f"{seed}\n")
if mode == "unread":
    seed = 0
if mode == "fails" and seed == 2 and not os.path.exists("mended"):
    print("step 1")
    sys.exit("ValueError: the data are gone")
if mode == "killed" and seed == 1:
    os.kill(os.getpid(), 9)
if mode == "hangs" and seed == 1:
    child = subprocess.Popen([sys.executable, "-c", "import time\ntime.sleep(600)", os.getcwd()])
    print("waiting for", child.pid, flush=True)
    time.sleep(600)
if mode == "leaves a child":
    subprocess.Popen([sys.executable, "-c", "import time\ntime.sleep(600)", os.getcwd()])
if mode == "nothing":
    sys.exit()
if mode == "leaves the group":
    os.setpgrp()
    time.sleep(600)
if mode == "leaves a worker":
    code = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"
    subprocess.Popen([sys.executable, "-c", code, os.getcwd()], start_new_session=True)
if mode == "says so" and seed:
    open(os.environ["LASTBIT_RUN"] + ".perturbed", "w").close()
if mode == "slow":
    time.sleep(0.1)
os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
with open(place, "w") as file:
    if mode == "garbage":
        file.write("loss: good\n")
        sys.exit()
    x = 0.3 + seed * 2.0**-54
    for step in range(60):
        x = 3.9 * x * (1 - x) * (0.5 if os.path.exists("another library") else 1)
        noise = int.from_bytes(os.urandom(4)) * 2.0**-50 if mode in ("noisy", "says so") and step >= 3 else 0
        file.write(json.dumps({"step": step, "loss": x + noise, "eval/accuracy": step / 60, "seconds": time.time()}) + "\n")
"#;

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("program.py", PROGRAM);
    folder
}

/// Runs of the program in a mode, made with more flags.
fn command(flags: &str, mode: &str) -> String {
    format!("envelope --no-launcher {flags} -- python3 program.py {{run}}/metrics.jsonl {mode}")
}

fn run(folder: &Folder, flags: &str, mode: &str) -> Ran {
    // A mode may be of several words.
    let line = command(flags, "");
    let mut command = crate::support::lastbit(folder.path());
    finish(command.args(line.split_whitespace()).arg(mode).output().unwrap())
}

fn done(folder: &Folder, flags: &str, mode: &str) -> String {
    let ran = run(folder, flags, mode);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    ran.stdout
}

#[track_caller]
fn fails(folder: &Folder, flags: &str, mode: &str, parts: &[&str]) {
    let ran = run(folder, flags, mode);
    assert_eq!(ran.code, 2, "{}{}", ran.stdout, ran.stderr);
    assert_says(&ran.stderr, parts);
}

/// Seeds of the runs that were started.
fn started(folder: &Folder) -> Vec<u64> {
    let text = fs::read_to_string(folder.join("started.txt")).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Processes whose arguments name a folder.
#[cfg(target_os = "linux")]
fn processes_in(folder: &Path) -> Vec<String> {
    let name = folder.file_name().unwrap().to_str().unwrap();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let arguments = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = arguments.map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "));
    lines.filter(|line| line.contains(name)).collect()
}

#[cfg(target_os = "linux")]
#[track_caller]
fn assert_all_end(folder: &Folder) {
    let begin = Instant::now();
    while !processes_in(folder.path()).is_empty() {
        // A second passes between the signals where the program was killed.
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", processes_in(folder.path()));
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_program_that_reads_the_seed_gets_an_envelope() {
    let folder = folder();
    let text = done(&folder, "-n 3 --out E", "well");
    assert_says(
        &text,
        &[
            "Bit-reproducible: two runs without a perturbation are bit-identical in all metrics.",
            "Envelope in E/envelope.json; each run is kept in E/runs.",
            "`lastbit check RUN --envelope E`",
        ],
    );
    assert_eq!(started(&folder), [0, 0, 1, 2, 3]);
    let envelope = folder.value("E/envelope.json");
    assert_eq!(envelope["runs"], serde_json::json!(["perturbed-1", "perturbed-2", "perturbed-3"]));
    assert_eq!(envelope["command"][2], "{run}/metrics.jsonl");
    assert_eq!(envelope["perturbation"], "ulps");
    assert_eq!(envelope["reproducibility"], "bit-identical");
    // Wall time is none of the program's results.
    let metrics = envelope["metrics"].as_object().unwrap();
    assert_eq!(metrics.keys().collect::<Vec<_>>(), ["eval/accuracy", "loss"]);
    let loss = items(&metrics["loss"]["values"]);
    // The map of the program, with the same roundings.
    for (run, seed) in loss.iter().zip([1.0, 2.0, 3.0]) {
        let mut x = 0.3 + seed * 2.0_f64.powi(-54);
        for value in items(run) {
            x = 3.9 * x * (1.0 - x);
            assert_eq!(number(value), x);
        }
    }
    let last: Vec<f64> = loss.iter().map(|run| number(&items(run)[59])).collect();
    assert!(last.iter().any(|value| *value != last[0]), "{last:?}");
    let again: Value = serde_json::from_str(&done(&folder, "-n 3 --out E --json", "well")).unwrap();
    let spread = &again["metrics"][1];
    let mean = last.iter().sum::<f64>() / 3.0;
    let sd = (last.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 2.0).sqrt();
    assert_eq!((&spread["metric"], number(&spread["last_step"])), (&Value::from("loss"), 59.0));
    // Sums of three numbers below 1.
    assert!((number(&spread["mean"]) - mean).abs() < 1e-15);
    assert!((number(&spread["sd"]) - sd).abs() < 1e-15);
    assert_eq!(
        (&again["reached"], &again["metrics"][0]["sd"]),
        (&Value::from(true), &Value::from(0.0))
    );
    // Nothing ran again.
    assert_eq!(started(&folder).len(), 5);
    let verified = folder.json("verify E");
    assert_eq!((number(&verified["envelopes"]), number(&verified["runs"])), (1.0, 5.0));
    assert_eq!(items(&verified["damaged"]).len(), 0);
}

#[test]
fn more_runs_widen_and_nothing_else_is_mixed_in() {
    let folder = folder();
    done(&folder, "-n 2 --out E", "well");
    done(&folder, "-n 4 --out E", "well");
    // One without a perturbation is made again: is the program still the same?
    assert_eq!(started(&folder), [0, 0, 1, 2, 0, 3, 4]);
    done(&folder, "-n 4 --out at-once --jobs 3", "well");
    assert_eq!(folder.bytes("E/envelope.json"), folder.bytes("at-once/envelope.json"));
    fails(&folder, "-n 3 --out E", "well", &["--runs: found 3, expected at least 4"]);
    let parts = [
        "E/settings.json: found an envelope of `python3 program.py {run}/metrics.jsonl well`",
        "--fresh",
    ];
    fails(&folder, "-n 4 --out E", "slow", &parts);
    fails(&folder, "-n 4 --out E --kind k", "well", &parts);
    done(&folder, "-n 2 --out E --fresh", "slow");
    assert_eq!(items(&folder.value("E/envelope.json")["runs"]).len(), 2);
}

#[test]
fn another_program_does_not_widen_an_envelope() {
    let folder = folder();
    done(&folder, "-n 2 --out E", "well");
    folder.write("program.py", format!("{PROGRAM}\n# A line more."));
    let parts = ["program.py: found a file that was changed since runs", "--fresh"];
    fails(&folder, "-n 2 --out E", "well", &parts);
    folder.write("program.py", PROGRAM);
    folder.write("another library", "");
    let parts = [
        "E/runs/plain-1: found another loss from step 0 on than plain-0 has, which was equal before",
        "--fresh",
    ];
    fails(&folder, "-n 4 --out E", "well", &parts);
    fs::remove_file(folder.join("another library")).unwrap();
    done(&folder, "-n 4 --out E", "well");
    done(&folder, "-n 4 --out at-once", "well");
    assert_eq!(folder.bytes("E/envelope.json"), folder.bytes("at-once/envelope.json"));
    // Before any run is whole, a script may be mended.
    fails(&folder, "-n 2 --out F", "garbage", &["plain-0"]);
    folder.write("program.py", PROGRAM.replace("loss: good", "{}"));
    fails(&folder, "-n 2 --out F", "garbage", &["plain-0"]);
}

#[test]
fn what_is_not_of_the_envelope_stays() {
    let folder = folder();
    fs::create_dir_all(folder.join("runs/Nov01")).unwrap();
    folder.write("runs/Nov01/events", "mine");
    done(&folder, "-n 2 --out .", "well");
    done(&folder, "-n 2 --out . --fresh", "well");
    assert_eq!(folder.read("runs/Nov01/events"), "mine");
    assert_eq!(started(&folder).len(), 8);
    fs::create_dir(folder.join("G")).unwrap();
    fs::rename(folder.join("envelope.json"), folder.join("G/envelope.json")).unwrap();
    for flags in ["-n 2 --out G", "-n 2 --out G --fresh"] {
        let part = "G/envelope.json: found an envelope that is not of this program";
        fails(&folder, flags, "well", &[part]);
    }
    folder.write("settings.json", "{\"my\": 1}");
    fails(&folder, "-n 2 --out . --fresh", "well", &["settings.json"]);
    assert_eq!(folder.read("settings.json"), "{\"my\": 1}");
}

#[test]
fn a_program_that_is_not_reproducible_is_named_with_metric_and_step() {
    let folder = folder();
    let text = done(&folder, "-n 2 --out E", "noisy");
    assert_says(
        &text,
        &[
            "Not bit-reproducible",
            "loss differs from step 3 on",
            "It is not known whether the perturbation reached the program",
        ],
    );
    assert_says(&done(&folder, "-n 2 --out F", "says so"), &["The envelope has this noise, too."]);
    assert!(!folder.join("F/runs/perturbed-1.perturbed").exists());
    let found = &folder.value("E/envelope.json")["reproducibility"]["differs"];
    assert_eq!((&found["metric"], number(&found["step"])), (&Value::from("loss"), 3.0));
}

#[test]
fn a_perturbation_that_does_not_arrive_is_no_stability() {
    let folder = folder();
    let ran = run(&folder, "-n 2 --out E", "unread");
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert_says(
        &ran.stdout,
        &["NO PERTURBED RUN DIFFERS", "lastbit.torch.launch", "LASTBIT_PERTURB"],
    );
    let notes = folder.value("E/envelope.json")["warnings"].to_string();
    assert_says(&notes, &["probably did not reach the program"]);
}

#[test]
fn a_run_that_fails_is_named_with_its_log_and_the_others_are_kept() {
    let folder = folder();
    let parts = [
        "perturbed-2: `python3 program.py {run}/metrics.jsonl fails` ended with exit code 1 after",
        "the last lines of E/runs/perturbed-2/stderr.log:\n  ValueError: the data are gone\n",
        "the runs that are whole are kept",
    ];
    fails(&folder, "-n 4 --out E", "fails", &parts);
    assert_eq!(started(&folder), [0, 0, 1, 2]);
    assert_eq!(folder.read("E/runs/perturbed-2/stdout.log"), "step 1\n");
    fails(&folder, "-n 4 --out E --keep-going", "fails", &parts);
    assert_eq!(started(&folder)[4..], [2, 3, 4]);
    assert!(!folder.join("E/envelope.json").exists());
    folder.write("mended", "");
    done(&folder, "-n 4 --out E", "fails");
    assert_eq!(started(&folder)[7..], [2]);
    done(&folder, "-n 4 --out whole", "fails");
    assert_eq!(folder.bytes("E/envelope.json"), folder.bytes("whole/envelope.json"));
    let parts = [
        "perturbed-1",
        "was ended by signal 9",
        "it printed nothing; its folder is other/runs/perturbed-1",
    ];
    fails(&folder, "-n 2 --out other", "killed", &parts);
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_that_hangs_is_ended_with_its_children() {
    let folder = folder();
    let parts =
        ["perturbed-1: ", "did not end within 2 s (--timeout)", "stdout.log:\n  waiting for "];
    fails(&folder, "-n 2 --out E --timeout 2s", "hangs", &parts);
    assert_all_end(&folder);
    // Those that it leaves behind do not stay, either.
    done(&folder, "-n 2 --out left", "leaves a child");
    assert_all_end(&folder);
    // Not even those that have left the group of their program.
    done(&folder, "-n 2 --out session", "leaves a worker");
    assert_all_end(&folder);
    let parts = ["plain-0: ", "did not end within 1 s"];
    fails(&folder, "-n 2 --out group --timeout 1s", "leaves the group", &parts);
    assert_all_end(&folder);
}

#[test]
fn a_run_without_metrics_is_named() {
    let folder = folder();
    let parts = ["plain-0: ", "left no metrics that can be read", "$LASTBIT_RUN", "--files"];
    fails(&folder, "-n 2 --out E", "nothing", &parts);
    fails(&folder, "-n 2 --out F", "garbage", &["plain-0: ", "left no metrics", "metrics.jsonl"]);
    // A misspelled metric or step key is told after the first run, which is kept.
    let before = started(&folder).len();
    fails(&folder, "-n 2 --out G --metric los", "well", &["--metric", "los", "loss"]);
    fails(&folder, "-n 2 --out G --step-key ste", "well", &["ste"]);
    done(&folder, "-n 2 --out G --metric loss", "well");
    assert_eq!(started(&folder).len(), before + 4);
    let metrics = folder.value("G/envelope.json")["metrics"].as_object().unwrap().len();
    assert_eq!(metrics, 1);
}

#[test]
fn files_in_fixed_places_are_moved_and_older_ones_are_left() {
    let folder = folder();
    let command = "envelope -n 2 --out E --no-launcher --files logs/*.jsonl -- python3 program.py logs/m.jsonl well";
    folder.write("logs/old.jsonl", "mine");
    let found =
        "logs/old.jsonl: found a file that was there before, expected no file that --files names";
    folder.refused(command, &[found]);
    fs::rename(folder.join("logs/old.jsonl"), folder.join("kept")).unwrap();
    folder.done(command);
    assert_eq!(fs::read_dir(folder.join("logs")).unwrap().count(), 0);
    assert!(folder.join("E/runs/perturbed-2/logs/m.jsonl").exists());
    done(&folder, "-n 2 --out by-folder", "well");
    let metrics = |name: &str| folder.value(format!("{name}/envelope.json"))["metrics"].clone();
    assert_eq!(metrics("E"), metrics("by-folder"));
    folder.refused(
        &command.replace("--files", "--jobs 2 --files"),
        &["--jobs: found 2, expected 1 with --files"],
    );
    for pattern in ["../x", "/tmp/x", "a[", ""] {
        let mut arguments: Vec<&str> = command.split(' ').collect();
        let place = arguments.iter().position(|word| word.contains('*')).unwrap();
        arguments[place] = pattern;
        let ran = finish(crate::support::lastbit(folder.path()).args(arguments).output().unwrap());
        assert_eq!(ran.code, 2);
        assert_says(&ran.stderr, &["--files: found", "expected a pattern"]);
    }
}

#[test]
fn files_of_the_envelope_are_not_taken_for_those_of_the_program() {
    let folder = folder();
    folder.done(
        "envelope -n 2 --out E --no-launcher --files **/m.jsonl -- python3 program.py logs/m.jsonl well",
    );
    assert!(folder.join("E/runs/perturbed-2/logs/m.jsonl").exists());
}

#[test]
fn what_an_interrupted_run_wrote_to_fixed_places_is_moved_away() {
    let folder = folder();
    let command =
        "envelope -n 2 --out E --no-launcher --files m.jsonl -- python3 program.py m.jsonl well";
    folder.write("m.jsonl", "half of it");
    folder.write("E/writes", "perturbed-1\n");
    folder.done(command);
    assert_eq!(folder.read("E/runs/perturbed-1.interrupted-1/m.jsonl"), "half of it");
    assert!(!folder.join("m.jsonl").exists() && !folder.join("E/writes").exists());
}

#[test]
fn damaged_runs_are_found_and_made_again() {
    let folder = folder();
    done(&folder, "-n 2 --out E", "well");
    let whole = folder.bytes("E/envelope.json");
    folder.write("E/runs/perturbed-1/metrics.jsonl", "{\"step\": 0, \"loss\": 7}\n");
    let verified = folder.run("verify E");
    assert_eq!(verified.code, 1);
    assert_says(&verified.stdout, &["damaged: E/runs/perturbed-1/metrics.jsonl"]);
    let ran = run(&folder, "-n 2 --out E", "well");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_says(
        &ran.stderr,
        &["E/runs/perturbed-1/metrics.jsonl: damaged", "perturbed-1 is made again"],
    );
    assert_eq!(started(&folder), [0, 0, 1, 2, 1]);
    assert_eq!(folder.bytes("E/envelope.json"), whole);
    folder.done("verify E");
}

#[test]
#[cfg(target_os = "linux")]
fn killed_at_any_moment_it_resumes_to_the_same_envelope() {
    let folder = folder();
    done(&folder, "-n 4 --out whole", "slow");
    let mut state = 1_u64;
    let mut kills = 0;
    loop {
        let mut child = folder.start(&command("-n 4 --out E --jobs 2", "slow"));
        // Moments up to 400 ms, from a linear congruential generator; a start of Python takes some 50 ms.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let moment = Duration::from_millis((state >> 33) % 400);
        let begin = Instant::now();
        while begin.elapsed() < moment && child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(1));
        }
        let ended = child.try_wait().unwrap();
        child.kill().unwrap();
        let ran = finish(child.wait_with_output().unwrap());
        if ended.is_some() || kills == 12 {
            assert!(ended.is_none() || ran.code == 0, "{}", ran.stderr);
            break;
        }
        kills += 1;
    }
    assert!(kills > 2, "{kills}");
    assert_all_end(&folder);
    done(&folder, "-n 4 --out E", "slow");
    assert_eq!(folder.bytes("E/envelope.json"), folder.bytes("whole/envelope.json"));
    folder.done("verify E");
}

#[test]
#[cfg(target_os = "linux")]
fn an_interruption_says_what_is_saved() {
    let folder = folder();
    let mut child = folder.start(&command("-n 2 --out E", "hangs"));
    let log = folder.join("E/runs/perturbed-1/stdout.log");
    while !fs::read_to_string(&log).is_ok_and(|text| text.contains("waiting")) {
        assert!(child.try_wait().unwrap().is_none());
        thread::sleep(Duration::from_millis(5));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let ran = finish(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{}{}", ran.stdout, ran.stderr);
    let told = "Interrupted; 2 of 4 runs are saved. The same command resumes from there.\n";
    assert_eq!(ran.stdout, told);
    assert_all_end(&folder);
}

#[test]
fn parts_are_made_by_several_processes_and_gathered() {
    let folder = folder();
    done(&folder, "-n 3 --out whole", "well");
    let text = done(&folder, "-n 3 --out E --cells 0..2/5", "well");
    assert_eq!(text, "2 of 5 runs are whole; the envelope comes when all are.\n");
    let children: Vec<_> = ["2..4/5", "4..5/5"]
        .map(|part| folder.start(&command(&format!("-n 3 --out E --cells {part}"), "well")))
        .into_iter()
        .collect();
    for child in children {
        assert_eq!(finish(child.wait_with_output().unwrap()).code, 0);
    }
    done(&folder, "-n 3 --out E --cells 0..0/5", "well");
    assert_eq!(folder.bytes("E/envelope.json"), folder.bytes("whole/envelope.json"));
}

#[test]
fn a_slurm_script_makes_each_run_in_a_task() {
    let folder = folder();
    let line = command("-n 3 --out E --metric loss --timeout 9m", "well");
    folder.done(&line.replace(" -- ", " --slurm grid.sh -- "));
    // As a cluster would: each task by itself, then the last one.
    for task in (0..5).map(|task| task.to_string()).chain(["gather".to_owned()]) {
        let mut bash = Command::new("bash");
        bash.current_dir(folder.path()).arg("grid.sh");
        if task == "gather" {
            bash.arg("gather").env("SLURM_ARRAY_TASK_ID", "0")
        } else {
            bash.env("SLURM_ARRAY_TASK_ID", &task)
        };
        let ran = finish(bash.output().unwrap());
        assert_eq!(ran.code, 0, "{task}: {}", ran.stderr);
    }
    done(&folder, "-n 3 --out whole --metric loss", "well");
    assert_eq!(folder.bytes("E/envelope.json"), folder.bytes("whole/envelope.json"));
}

#[test]
fn python_goes_through_the_launcher_which_must_be_there() {
    let folder = folder();
    folder.write(
        "python3",
        "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'lastbit'\" >&2\nexit 1\n",
    );
    Command::new("chmod").arg("+x").arg(folder.join("python3")).status().unwrap();
    let parts = [
        "PROGRAM: found ./python3, which cannot import lastbit.torch.launch",
        "No module named 'lastbit'",
        "--no-launcher",
    ];
    folder.refused("envelope -n 2 --out E -- ./python3 program.py {run}/m.jsonl well", &parts);
    // One that has it: the words that it gets.
    folder.write(
        "python3",
        "#!/bin/sh\ncase $1 in -c) exit 0;; esac\necho \"$@\" >\"$LASTBIT_RUN/words.txt\"\nshift 2\nexec python3 \"$@\"\n",
    );
    let ran = folder.run("envelope -n 2 --out E -- ./python3 program.py {run}/m.jsonl well");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_says(
        &ran.stderr,
        &["running `./python3 -m lastbit.torch.launch program.py {run}/m.jsonl well`"],
    );
    let words = folder.read("E/runs/plain-0/words.txt");
    assert!(words.starts_with("-m lastbit.torch.launch program.py /"), "{words}");
}

#[test]
fn bad_requests_are_refused() {
    let folder = folder();
    for (arguments, parts) in [
        ("envelope", vec!["PROGRAM: found none, expected a program and its arguments after --"]),
        (
            "envelope train.py",
            vec!["CONFIG: found train.py, expected a configuration (.toml)", "-- python train.py"],
        ),
        ("envelope none.toml", vec!["none.toml"]),
        ("envelope -n 1 -- true", vec!["--runs: found 1, expected a whole number from 2 to 1000"]),
        ("envelope --timeout 0s -- true", vec!["--timeout: found 0 s"]),
        ("envelope -n 2 -- ./nowhere", vec!["PROGRAM: found ./nowhere (No such file"]),
    ] {
        folder.refused(arguments, &parts);
    }
    for arguments in
        ["envelope a.toml -- true", "envelope --set a.b=1 -- true", "envelope --kind bits -- true"]
    {
        assert_eq!(folder.run(arguments).code, 2, "{arguments}");
    }
}

#[test]
fn the_replicas_of_a_configuration_are_trained_at_once() {
    let folder = Folder::with(
        r#"
        data = { name = "mnist01", limit = 160, test-limit = 40 }
        network = { kind = "mlp", hidden = [16], activation = "tanh" }
        optimizer = { name = "sgd", lr = 0.1 }
        training = { epochs = 3, batch = 16, metrics-every = 5 }
        "#,
    );
    let text = folder.done("envelope config.toml -n 3 --out E");
    assert_says(
        &text,
        &["the engine is bit-reproducible", "train_loss", "Envelope in E/envelope.json"],
    );
    let envelope = folder.value("E/envelope.json");
    assert_eq!(envelope["runs"], serde_json::json!(["k1", "k3", "k5"]));
    // How far a replica is from the first one is none of its own metrics.
    assert!(envelope["metrics"]["rel_l1"].is_null());
    let losses = items(&envelope["metrics"]["train_loss"]["values"]);
    assert!(losses[0] != losses[1] && losses[1] != losses[2]);
    let before = folder.bytes("E/envelope.json");
    folder.done("envelope config.toml -n 3 --out E");
    assert_eq!(folder.bytes("E/envelope.json"), before);
    folder.done("verify E");
    folder.refused(
        "envelope config.toml -n 3 --out E --set optimizer.lr=0.2",
        &["E/envelope.json: found the envelope of something else"],
    );
    folder.done("train config.toml --out new");
    assert_says(&folder.done("check new --envelope E"), &["Inside: "]);
    folder.done("envelope config.toml -n 2 --out E2 --metric train_loss --set optimizer.lr=0.2");
    assert_eq!(folder.value("E2/envelope.json")["metrics"].as_object().unwrap().len(), 1);
}
