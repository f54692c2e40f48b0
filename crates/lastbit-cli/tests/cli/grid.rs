//! One record by several processes: parts at the same time, kills in between, overlaps, and the
//! script that hands the parts to Slurm.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use crate::catalogue;
use crate::support::{Files, Folder, assert_same, finish, has_device, lastbit, reproducible_files};

/// Simulations with curves and images, and trainings of two networks.
const SIMULATIONS: [&str; 2] = ["fig-beltrami-1d", "fig-beltrami-2d"];
const TRAININGS: [&str; 2] = ["fig-fc-cifar5k", "tab-relu"];

fn command(exhibits: &[&str]) -> String {
    format!("run {} --scale smoke", exhibits.join(" "))
}

#[track_caller]
fn assert_same_as_by_one(found: &Files, exhibits: &[&str]) {
    assert_same(&catalogue::files_of(exhibits), found, "against one process");
}

/// Waits for the ends of processes, which must succeed.
fn wait_for(processes: impl IntoIterator<Item = Child>) {
    for process in processes {
        let ran = finish(process.wait_with_output().unwrap());
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn parts_in_processes_of_their_own_give_the_record_of_one() {
    let folder = Folder::new();
    for exhibits in [SIMULATIONS, TRAININGS] {
        let command = command(&exhibits);
        let parts =
            |i: usize| format!("{command} --out parts --threads 1 --cells {i}..{}/4", i + 1);
        wait_for([0, 1, 2, 3].map(|i| folder.start(&parts(i))));
        // Whoever finished last has written checks and figures: nobody has to be run after them.
        assert_same_as_by_one(&folder.files("parts"), &exhibits);
        fs::remove_dir_all(folder.join("parts")).unwrap();
    }
}

#[test]
fn a_part_says_how_much_is_there_and_the_last_one_checks() {
    let folder = Folder::new();
    let heat = "run fig-heat --scale smoke";
    let ran = folder.run(&format!("{heat} --cells 1..3/4"));
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let told = "fig-heat (smoke): 2 of 4 cells, checks come when all are there; record in ";
    assert!(ran.stdout.starts_with(told), "{}", ran.stdout);
    let value = folder.json(&format!("{heat} --cells 0..0/4"));
    let record = &value["records"][0];
    assert_eq!((&record["cells"], &record["planned"]), (&2.into(), &4.into()));
    assert!(record["status"] == "unfinished" && record["checks"].as_array().unwrap().is_empty());
    let reported = folder.json("report");
    assert_eq!(reported["records"].as_array().unwrap().len(), 1);
    // The rest, once more with what is there already.
    let value = folder.json(&format!("{heat} --cells 0..4/4"));
    assert_eq!(value["records"][0]["status"], "holds");
    fs::remove_file(folder.join("lastbit-out/report.html")).unwrap();
    assert_same_as_by_one(&folder.files("lastbit-out"), &["fig-heat"]);
    // Parts without a cell leave everything alone.
    let ran = folder.run(&format!("{heat} --cells 1..2/9 --out none"));
    assert!(ran.code == 0 && ran.stdout.contains("--cells 1..2/9"), "{}", ran.stdout);
    assert!(!folder.join("none").exists());
}

/// Cells that are finished, of one exhibit.
fn cells(exhibit: &Path) -> usize {
    let is_whole = |name: &str| name.ends_with(".json");
    let entries = fs::read_dir(exhibit.join("smoke/cells")).into_iter().flatten().flatten();
    entries.filter(|entry| is_whole(&entry.file_name().to_string_lossy())).count()
}

/// Cells that are finished, of all records.
fn finished(out: &Path) -> usize {
    fs::read_dir(out).map_or(0, |ids| ids.flatten().map(|id| cells(&id.path())).sum())
}

#[test]
fn killed_and_overlapping_parts_lose_nothing() {
    let folder = Folder::new();
    let command = command(&TRAININGS);
    let out = folder.join("parts");
    let all = TRAININGS.map(|id| cells(&catalogue::folder().join(id))).iter().sum();
    assert_eq!(all, 4);
    let mut kills = 0;
    // Two processes at a time, both given most of the cells; as soon as another cell is there, both
    // are killed with a signal that cannot be caught.
    while finished(&out) < all {
        let before = finished(&out);
        let arguments = |range: &str| format!("{command} --out parts --threads 1 --cells {range}");
        let mut processes = ["0..3/4", "1..4/4"].map(|range| folder.start(&arguments(range)));
        while finished(&out) == before {
            let have_ended = processes.iter_mut().all(|p| p.try_wait().unwrap().is_some());
            assert!(!have_ended || finished(&out) > before, "they end without a cell");
            std::thread::sleep(Duration::from_millis(1));
        }
        for process in &mut processes {
            process.kill().unwrap();
            process.wait().unwrap();
            kills += 1;
        }
        assert!(finished(&out) > before, "a finished cell is never lost");
    }
    assert!(kills >= 4, "killed {kills} times only");
    folder.done(&format!("{command} --out parts --cells 0..0/4"));
    let mut found = reproducible_files(&out);
    // What a killed process was just writing is removed by the next that writes there.
    found.retain(|(name, _)| !name.contains(".unfinished-"));
    assert_same_as_by_one(&found, &TRAININGS);
}

/// One exhibit of each kind: a simulation, a search of edges, trainings, curves of twins.
#[test]
fn four_processes_with_the_same_exhibits_do_not_disturb_each_other() {
    let folder = Folder::new();
    let exhibits = ["fig-heat", "tab-windowed-bounds", "fig-fc-cifar5k", "ext-last-bit"];
    let statuses = ["holds", "holds", "not-tested", "holds"];
    let command = command(&exhibits);
    wait_for([(); 4].map(|()| folder.start(&format!("{command} --out all"))));
    assert_same_as_by_one(&folder.files("all"), &exhibits);
    // Who comes later finds all of it.
    let records = folder.json(&format!("{command} --out all"))["records"].clone();
    let records = records.as_array().unwrap();
    assert_eq!(records.len(), exhibits.len());
    let found: Vec<&str> = records.iter().map(|r| r["status"].as_str().unwrap()).collect();
    assert_eq!(found, statuses, "{records:#?}");
    assert_same_as_by_one(&folder.files("all"), &exhibits);
}

#[test]
fn two_processes_with_the_same_cells_do_not_harm_each_other() {
    let folder = Folder::new();
    let arguments = "run tab-relu --scale smoke --out both --threads 1";
    wait_for([(); 3].map(|()| folder.start(arguments)));
    assert_same_as_by_one(&folder.files("both"), &["tab-relu"]);
}

#[test]
fn damaged_cells_are_named_and_computed_again() {
    let folder = Folder::new();
    let heat = "run fig-heat --scale smoke";
    catalogue::copy(&["fig-heat"], &folder.join("lastbit-out"));
    let record = folder.join("lastbit-out/fig-heat/smoke");
    for part in ["cells", "series"] {
        let path = fs::read_dir(record.join(part)).unwrap().flatten().next().unwrap().path();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        // Putting the record together leaves it out; a run computes it.
        let merged = folder.json(&format!("{heat} --cells 0..0/4"));
        assert_eq!(merged["records"][0]["cells"], 3);
        let ran = folder.run(heat);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(ran.stderr.contains(name) && ran.stderr.contains("damaged"), "{}", ran.stderr);
        assert_eq!(fs::read(&path).unwrap(), whole);
        assert_same_as_by_one(&folder.files("lastbit-out"), &["fig-heat"]);
    }
}

#[test]
fn without_a_device_nothing_is_begun() {
    if has_device() {
        return;
    }
    let folder = Folder::new();
    // The first of them trains nothing: it is not computed either.
    folder.refused(
        "run fig-heat tab-relu --scale smoke --device cuda --out out",
        &["training.device", "CUDA", "--device cpu"],
    );
    assert!(!folder.join("out").exists());
    folder.done("run fig-heat --scale smoke --device cuda --out out");
}

#[test]
fn what_is_no_part_is_refused_by_the_name_of_the_flag() {
    let folder = Folder::new();
    for (flags, parts) in [
        ("--cells 3..2/6", &["--cells", "3..2/6", "A..B/N", "0..1/4"][..]),
        ("--cells 0..7/6", &["--cells", "0..7/6", "A <= B <= N"]),
        ("--cells x", &["--cells", "\"x\"", "whole numbers"]),
        ("--cells 0..1/0", &["--cells", "N >= 1"]),
        ("--cells 0..1/2 --slurm", &["--cells", "--slurm"]),
        ("--fresh --slurm", &["--fresh", "--slurm"]),
        ("--slurm-tasks 3", &["--slurm"]),
        ("--slurm --slurm-tasks 0", &["--slurm-tasks", "0"]),
        ("--slurm fig-beltrami-1d", &["--slurm", "fig-beltrami-1d", "a file to write"]),
        ("--slurm absent/grid.sh", &["absent/grid.sh", "cannot be written"]),
    ] {
        folder.refused(&format!("run fig-heat --scale smoke {flags}"), parts);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "and nothing is left");
}

#[test]
fn the_script_for_slurm_reads_as_it_was_last_reviewed() {
    let folder = Folder::new();
    let mut settings = insta::Settings::clone_current();
    for (what, name) in [
        ("lastbit='?/.*", "lastbit=PROGRAM"),
        ("out='?/.*", "out=OUT"),
        ("DATA='?/.*", "DATA=DATA"),
    ] {
        settings.add_filter(&format!("(?m)^(export LASTBIT_)?{what}$"), format!("${{1}}{name}"));
    }
    let script = |flags: &str| folder.done(&format!("run tab-relu --scale paper --slurm {flags}"));
    settings.bind(|| insta::assert_snapshot!("script", script("")));
    let value = folder.json("run all --slurm --slurm-tasks 7 --threads 3");
    let written = value["script"].as_str().unwrap();
    assert!(written.contains("--array=0-6\n") && written.contains("--cpus-per-task=3\n"));
    assert!(written.contains("run=(all --scale desk)"));
    assert_eq!(script("grid.sh"), "6 cells in 6 tasks: bash grid.sh\n");
}

/// Stands for Slurm's command: starts the tasks of the array one after the other, as Slurm would.
const SBATCH: &str = r#"#!/bin/bash
echo "$@" >> "$CALLS"
while [ "${1#--}" != "$1" ]; do
    case "$1" in --array=*) array=${1#--array=} ;; esac
    shift
done
script=$1
shift
: "${array:=$(sed -n 's/^#SBATCH --array=//p' "$script")}"
for task in $(seq "${array%-*}" "${array#*-}"); do
    env SLURM_ARRAY_JOB_ID=17 SLURM_ARRAY_TASK_ID="$task" SLURM_CPUS_PER_TASK=2 \
        bash "$script" "$@" >> "$CALLS.log" 2>&1
done
echo "17;cluster"
"#;

#[test]
#[cfg(unix)]
fn the_script_submits_itself_and_its_tasks_make_the_record() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let bin = folder.join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("sbatch"), SBATCH).unwrap();
    fs::set_permissions(bin.join("sbatch"), fs::Permissions::from_mode(0o755)).unwrap();
    let out = folder.join("a folder, it's $HOME");
    let wrote = lastbit(folder.path())
        .args(command(&SIMULATIONS).split_whitespace())
        .args(["--slurm", "the grid.sh", "--slurm-tasks", "3", "--out"])
        .arg(&out)
        .output()
        .unwrap();
    assert!(finish(wrote).stdout.ends_with("in 3 tasks: bash 'the grid.sh'\n"));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let ran = finish(
        std::process::Command::new("bash")
            .args(["the grid.sh", "--partition=long"])
            .current_dir(folder.path())
            .envs([("PATH", path.as_str()), ("CALLS", "calls")])
            .env_remove("SLURM_ARRAY_TASK_ID")
            .output()
            .unwrap(),
    );
    let log = fs::read_to_string(folder.join("calls.log")).unwrap_or_default();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{log}");
    assert!(ran.stdout.starts_with("Submitted array 17; 17 puts"), "{}", ran.stdout);
    let calls = folder.read("calls");
    let last = "--array=0 --cpus-per-task=1 --dependency=afterany:17 the grid.sh assemble";
    let both = "--parsable --partition=long";
    assert_eq!(calls, format!("{both} the grid.sh\n{both} {last}\n"));
    fs::remove_file(out.join("report.html")).expect("the last job has written the report");
    assert_same_as_by_one(&reproducible_files(&out), &SIMULATIONS);
}

#[test]
fn trainings_killed_at_drawn_moments_end_in_the_same_record() {
    let folder = Folder::new();
    let command = "run tab-relu --scale smoke";
    let moments = lastbit::rng::Stream::new(5, 0);
    let mut kills = 0;
    for i in 0.. {
        let mut process = folder.start(&format!("{command} --out killed"));
        // Longer and longer, so that it comes to an end on any machine.
        let patience = 20.0 + moments.uniform(i) * 100.0 * (i + 1) as f64;
        std::thread::sleep(Duration::from_millis(patience as u64));
        if process.try_wait().unwrap().is_some_and(|status| status.success()) {
            break;
        }
        process.kill().unwrap();
        process.wait().unwrap();
        kills += 1;
    }
    assert!(kills >= 3, "killed {kills} times only");
    assert_same_as_by_one(&folder.files("killed"), &["tab-relu"]);
}

#[test]
fn trainings_stopped_by_a_time_limit_end_in_the_same_record() {
    let folder = Folder::new();
    let command = "run tab-relu --scale smoke";
    // The last checkpoint but one is where a stop was, and else where one was due.
    let but_one = |mut files: Files| {
        files.retain(|(name, _)| !name.contains("checkpoints/") || name.contains("step-9."));
        files
    };
    // The shortest limit is one step; nine make a cell.
    for stop in 1..=9 {
        let ran = folder.run(&format!("{command} --out stopped --time-limit 0s"));
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let told = format!("Time limit reached after step {stop} of 9, saved");
        assert!(stop == 9 || ran.stderr.contains(&told), "{}", ran.stderr);
        let cells = if stop == 9 { "1 of 2 cells" } else { "0 of 2 cells" };
        assert!(ran.stdout.contains(cells), "{}", ran.stdout);
    }
    // What is there can be seen already.
    let ran = folder.json("report --out stopped");
    assert_eq!(ran["records"][0]["status"], "unfinished");
    let page = folder.read("stopped/report.html");
    assert!(page.contains("One batch seed: mean"), "the table of the first seed");
    fs::remove_file(folder.join("stopped/report.html")).unwrap();
    folder.done(&format!("{command} --out stopped"));
    let found = but_one(folder.files("stopped"));
    assert_same(&but_one(catalogue::files_of(&["tab-relu"])), &found, "after nine stops");
}

#[test]
fn a_training_is_run_once_for_all_records_that_stand_on_it() {
    let folder = Folder::new();
    let runs = || {
        let entries = fs::read_dir(folder.join("lastbit-out/runs")).unwrap().flatten();
        let folders = entries.filter(|entry| entry.path().is_dir());
        let when =
            |path: &Path| fs::metadata(path.join("timing.json")).unwrap().modified().unwrap();
        let mut found: Vec<_> = folders.map(|run| (run.path(), when(&run.path()))).collect();
        found.sort();
        found
    };
    catalogue::copy(&["tab-relu"], &folder.join("lastbit-out"));
    let before = runs();
    assert_eq!(before.len(), 2, "one for each seed");
    folder.done("run ext-significant-bits --scale smoke");
    let after = runs();
    assert_eq!(after.len(), 3, "only the run in double precision is new");
    assert!(before.iter().all(|run| after.contains(run)), "the others were left alone");
    // A run that has gone is no reason to train again: the record has what it needs.
    fs::remove_dir_all(folder.join("lastbit-out/runs")).unwrap();
    folder.done("run tab-relu --scale smoke");
    assert!(!folder.join("lastbit-out/runs").exists());
}
