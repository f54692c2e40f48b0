//! Whatever the user does wrong: one message that names the file or flag, what was found and what
//! is expected; exit code 2; no panic; nothing lost.

use std::fs;
use std::path::Path;

use crate::support::{Folder, assert_says, finish, lastbit};

/// A training of two steps.
const CONFIG: &str = "[data]\nname = \"mnist01\"\n[network]\nkind = \"mlp\"\nhidden = [4]\n\
                      [optimizer]\nname = \"sgd\"\ndt = 0.1\n[training]\nsteps = 2\nbatch = 10\n";

#[test]
fn settings_out_of_range_name_flag_value_and_range() {
    let folder = Folder::new();
    for (arguments, parts) in [
        ("pde heat --dt 0", &["--dt", "found 0", "greater than 0"][..]),
        ("pde heat --dt -0.5", &["--dt", "found -0.5"]),
        ("pde heat --dt NaN", &["--dt", "found NaN"]),
        ("pde heat --dt inf", &["--dt", "found inf"]),
        ("pde heat --dx 0", &["--dx", "found 0"]),
        ("pde heat --points 2", &["--points", "found 2", "from 3"]),
        ("pde heat --steps 0", &["--steps", "found 0"]),
        ("pde heat --steps 10 --times 0,99", &["--times", "found 99", "steps x dt = 4"]),
        ("pde heat --dt 1e-400", &["--dt", "found 0"]),
        ("pde heat --kappa 1e308 --dt 1e308", &["--dt", "1e30"]),
        ("pde heat --dt 1e-25 --precision f32", &["--dt", "f64"]),
        ("pde beltrami --dx 1e-200", &["--dx", "1e-30"]),
        ("pde beltrami --size 30000x30000", &["--size", "30000", "8192"]),
        ("bounds scheme heat --dx 1e-200", &["--dx", "1e-30"]),
        ("run fig-heat --threads 100000", &["--threads", "1024"]),
        ("pde kernel --kernel 300x300", &["--kernel", "300x300", "256x256"]),
        ("pde kernel --label 2", &["--label", "found 2", "0 or 1"]),
        ("pde kernel --equation linear --activation relu", &["--activation", "swish"]),
        ("pde kernel --no-window --size 100x100", &["100x100", "powers of two"]),
        ("pde kernel --k 0", &["--k", "found 0"]),
        ("bounds kernel --dt 0", &["--dt", "found 0"]),
        ("edge kernel --tolerance 0", &["--tolerance", "found 0"]),
        ("pde beltrami --delta 0", &["--delta", "found 0"]),
        ("pde beltrami --lambda -1", &["--lambda", "found -1"]),
        ("pde beltrami --overdrive -3", &["--overdrive", "found -3"]),
        ("pde beltrami --dimensions 3", &["--dimensions", "found 3", "1 to 2"]),
        ("pde beltrami --size 64", &["--size", "\"64\"", "rows x columns"]),
        ("pde beltrami --size 64x", &["--size", "\"64x\""]),
        ("pde beltrami --size 1x64", &["--size", "found 1"]),
        ("pde beltrami --dt 1 --overdrive 2", &["--dt", "--overdrive"]),
        ("pde beltrami --steps 10 --snapshots 11", &["--snapshots", "found 11", "0 to 10"]),
        ("bounds scheme heat --kappa 0", &["--kappa", "found 0"]),
        ("bounds scheme nesterov --mu 1", &["--mu", "found 1"]),
        ("bounds scheme advection-upwind --speed 0", &["--speed", "found 0"]),
        ("pde scheme heat-crank-nicolson", &["heat-crank-nicolson", "explicit"]),
        ("run fig-nothing", &["fig-nothing", "fig-heat"]),
        ("run all fig-nothing", &["fig-nothing", "fig-heat"]),
        ("list fig-nothing", &["fig-nothing", "fig-heat"]),
        ("run fig-heat --scale large", &["large", "smoke", "desk", "paper"]),
        ("run fig-heat --threads 0", &["--threads", "0"]),
        ("pde heat --unknown 3", &["--unknown"]),
        ("report", &["lastbit-out", "no record", "lastbit run all"]),
        ("bounds scheme", &["SCHEME", "heat", "--file"]),
        ("pde scheme", &["SCHEME", "heat", "--file"]),
        ("train", &["CONFIG", "`lastbit train --example > config.toml`"]),
    ] {
        folder.refused(arguments, parts);
    }
}

#[test]
fn negative_numbers_are_judged_by_their_flag() {
    let folder = Folder::new();
    folder.write("a.csv", "group,seed,value\na,0,1\na,1,2\n");
    folder.write("config.toml", CONFIG);
    for (arguments, flag) in [
        ("noise --from a.csv --power -1", "--power"),
        ("noise --from a.csv --level -1", "--level"),
        ("noise --from a.csv --resamples -1", "--resamples"),
        ("edge config.toml --tolerance -1", "--tolerance"),
        ("data import a.csv --target seed --name a --test-share -1", "--test-share"),
        ("run fig-heat --slurm-tasks -1", "--slurm-tasks"),
        ("run fig-heat --threads -1", "--threads"),
        ("--threads -1 list", "--threads"),
        ("train config.toml --time-limit -1", "--time-limit"),
    ] {
        let message = folder.refused(arguments, &[flag, "-1"]);
        assert!(!message.contains("unexpected argument"), "{arguments}: {message}");
    }
}

#[test]
fn what_is_no_number_is_refused_in_words() {
    let folder = Folder::new();
    for (arguments, parts) in [
        ("run fig-heat --threads 0", &["--threads", "found 0", "a whole number from 1 on"][..]),
        ("run fig-heat --slurm --slurm-tasks 0", &["--slurm-tasks", "whole number from 1 on"]),
        ("run fig-heat --time-limit nan", &["--time-limit", "found nan", "90s"]),
        ("train config.toml --time-limit 9", &["--time-limit", "found 9", "90s"]),
        ("pde kernel --seed x", &["--seed", "found x", "a whole number from 0 on"]),
        ("pde heat --steps 1e4", &["--steps", "found 1e4", "a whole number"]),
        ("pde kernel --snapshots 1,two", &["--snapshots", "found two", "a whole number"]),
        ("edge config.toml --seeds 0,-1", &["--seeds", "found -1", "a whole number from 0 on"]),
        ("pde heat --dt wide", &["--dt", "found wide", "a number"]),
    ] {
        folder.refused(arguments, parts);
    }
}

#[test]
fn configuration_files_are_checked_key_by_key() {
    let folder = Folder::new();
    for (text, parts) in [
        ("dt = 0.4\nspeed = 3\n", &["bad.toml", "speed", "dt", "kappa"][..]),
        ("dt = \"fast\"\n", &["bad.toml", "dt", "fast"]),
        ("points = 2.5\n", &["bad.toml", "points", "2.5"]),
        ("ends = \"open\"\n", &["bad.toml", "open", "neumann"]),
        ("dt = \n", &["bad.toml", "line 1"]),
        ("dt = -1.0\n", &["bad.toml: found dt = -1", "greater than 0"]),
        ("steps = 0\n", &["bad.toml: found steps = 0", "from 1"]),
    ] {
        folder.write("bad.toml", text);
        folder.refused("pde heat --config bad.toml", parts);
    }
    folder.refused("pde heat --config absent.toml", &["absent.toml"]);
    folder.write("bad.toml", "dt = -1.0\n");
    let kernel = "bounds kernel --config bad.toml";
    folder.refused(kernel, &["bad.toml: found dt = -1"]);
    folder.refused(&format!("{kernel} --dt -2"), &["--dt: found -2"]);
    folder.write("bad.toml", "bogus = 3\n");
    for command in ["pde scheme", "bounds scheme", "pde kernel", "bounds kernel", "edge kernel"] {
        let known = if command.contains("kernel") { "kernel, " } else { "dx, " };
        let command = format!("{command} --config bad.toml");
        folder.refused(&command, &["bad.toml", "\"bogus\"", known]);
    }
}

#[test]
fn data_files_are_checked() {
    let folder = Folder::new();
    folder.write("nan.csv", b"u\n1\nNaN\n2\n");
    folder.write("words.csv", b"1\nx\n");
    folder.write("wide.csv", b"1,2\n3,4\n");
    folder.write("short.csv", b"1\n");
    folder.write("broken.png", b"\x89PNG\r\n\x1a\nrest");
    folder.write("broken.npy", b"\x93NUMPY\x01\x00\xff\xff");
    folder.write("huge.npy", npy("(99999999999, 99999999999)", &[]));
    folder.write("cube.npy", npy("(2, 2, 2)", &[0.0; 8]));
    folder.write("line.npy", npy("(4,)", &[0.0; 4]));
    folder.write(
        "scheme.toml",
        b"dimensions = 1\nterm = [{level = 2, offset = [0], coefficient = [1]}]",
    );
    folder.write(
        "old.toml",
        b"dimensions = 1\nterm = [{level = -1000000, offset = [0], coefficient = [1]}]",
    );
    folder.write("huge.csv", b"1\n1e200\n1\n");
    for (arguments, parts) in [
        ("pde heat --initial nan.csv", &["nan.csv", "NaN at position 1", "finite"][..]),
        ("pde heat --initial words.csv", &["words.csv", "\"x\" in line 2"]),
        ("pde heat --initial wide.csv", &["wide.csv", "2 columns"]),
        ("pde heat --initial short.csv", &["short.csv", "1 values", "at least 3"]),
        ("pde heat --initial cube.npy", &["cube.npy", "(2, 2, 2)", "one dimension"]),
        ("pde heat --initial absent.csv", &["absent.csv", "cannot be read"]),
        ("pde heat --initial photo.jpeg", &["photo.jpeg", ".csv or .npy"]),
        ("pde beltrami --signal broken.png", &["broken.png", "PNG"]),
        ("pde beltrami --signal broken.npy", &["broken.npy"]),
        ("pde beltrami --signal huge.npy", &["huge.npy"]),
        ("pde beltrami --signal cube.npy", &["cube.npy", "(2, 2, 2)"]),
        ("pde beltrami --signal short.csv", &["short.csv", "at least 2"]),
        ("pde scheme heat-2d --initial line.npy", &["line.npy", "a line", "2 dimensions"]),
        ("bounds scheme --file scheme.toml", &["scheme.toml", "level = 2", "the new time"]),
        ("bounds scheme --file old.toml", &["old.toml", "level = -1000000", "-64"]),
        ("bounds scheme --file old.toml --kappa 3", &["--kappa", "--file"]),
        ("pde beltrami --signal huge.csv", &["huge.csv", "position 1", "1e100"]),
        ("pde kernel --initial cube.npy", &["cube.npy", "(2, 2, 2)"]),
    ] {
        folder.refused(arguments, parts);
    }
}

/// A file as numpy writes it.
fn npy(shape: &str, values: &[f64]) -> Vec<u8> {
    let mut header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
    while !(header.len() + 11).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    values.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
    bytes
}

#[test]
fn an_output_folder_that_cannot_be_made_is_found_before_anything_is_computed() {
    let folder = Folder::new();
    folder.write("file", "in the way");
    folder.refused(
        "run fig-heat fig-beltrami-1d --scale paper --out file",
        &["file", "cannot be written", "--out"],
    );
}

#[test]
fn a_file_that_cannot_be_written_is_named_with_its_flag() {
    let folder = Folder::new();
    folder.write("file", "in the way");
    for (arguments, parts) in [
        ("bounds scheme heat --csv none/a.csv", ["none/a.csv: cannot be written", "with --csv"]),
        ("run fig-heat --slurm none/a.sh", ["none/a.sh: cannot be written", "with --slurm"]),
        ("data show mnist01 --out file/a.png", ["file: cannot be written", "with --out"]),
    ] {
        let message = folder.refused(arguments, &parts);
        assert!(!message.contains("record") && !message.contains("unfinished"), "{message}");
    }
}

#[test]
fn data_that_is_not_there_is_missed_before_anything_is_computed() {
    let folder = Folder::new();
    let mut command = lastbit(folder.path());
    command.env("LASTBIT_DATA", folder.path()).args(["run", "all", "--scale", "paper"]);
    let ran = finish(command.output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
    assert_says(&ran.stderr, &["cifar10: no such data set", "`lastbit data get cifar10`"]);
    assert!(!folder.join("lastbit-out").exists());
}

#[test]
#[cfg(unix)]
fn a_write_that_fails_in_the_middle_names_the_file_and_loses_nothing() {
    let folder = Folder::new();
    folder.done("run fig-heat --scale smoke");
    let record = folder.join("lastbit-out/fig-heat/smoke/record.json");
    let before = fs::read(&record).unwrap();
    // Of 4 KiB a file: the settings fit, the first curve does not.
    let ran = folder.run_with_little_room(8, "run fig-heat --scale smoke --fresh");
    assert_eq!(ran.code, 2, "{}{}", ran.stdout, ran.stderr);
    assert_says(&ran.stderr, &["series/", "cannot be written", "make room"]);
    assert_eq!(fs::read(&record).unwrap(), before);
    folder.done("run fig-heat --scale smoke");
}

#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    // /dev/full answers every write like a disk without room; only Linux has it.
    if !Path::new("/dev/full").exists() {
        eprintln!("skipped: this system has no /dev/full");
        return;
    }
    let folder = Folder::new();
    let mut command = lastbit(folder.path());
    command.args(["bounds", "scheme", "heat"]);
    command.stdout(fs::File::options().write(true).open("/dev/full").unwrap());
    let ran = finish(command.output().unwrap());
    assert_eq!(ran.code, 2);
    assert_says(&ran.stderr, &["stdout", "No space left"]);
}

#[test]
fn a_truncated_record_is_named_and_put_together_again() {
    let folder = Folder::new();
    folder.done("run fig-heat --scale smoke");
    let path = folder.join("lastbit-out/fig-heat/smoke/record.json");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 3]).unwrap();
    let report = folder.run("report");
    assert_eq!(report.code, 1);
    assert_says(&report.stdout, &["Not shown", "record.json", "damaged"]);
    let ran = folder.run("run fig-heat --scale smoke");
    assert_eq!(ran.code, 0);
    assert_says(&ran.stderr, &["record.json", "damaged", "put together again"]);
    assert_eq!(fs::read(&path).unwrap(), whole);
    // One of another version is not replaced.
    fs::write(&path, "{\"format\": 2}").unwrap();
    for command in ["run fig-heat --scale smoke", "report"] {
        folder.refused(command, &["record.json", "format is 2", "--fresh"]);
    }
    folder.done("run fig-heat --scale smoke --fresh");
    assert_eq!(fs::read(&path).unwrap(), whole);
}

#[test]
fn a_damaged_record_of_a_training_is_written_again_by_resuming() {
    let folder = Folder::new();
    folder.write("config.toml", CONFIG);
    folder.done("train config.toml");
    let training = Path::new("lastbit-out/train/config");
    let record = folder.join(training).join("record.json");
    let whole = fs::read(&record).unwrap();
    fs::write(&record, &whole[..whole.len() / 3]).unwrap();
    let resume = format!("train --out {} --resume", training.display());
    for out in ["lastbit-out", "lastbit-out/train/config"] {
        let report = folder.run(&format!("report --out {out}"));
        assert_eq!(report.code, 1);
        assert_says(&report.stdout, &["record.json", &format!("lastbit {resume}")]);
    }
    folder.done(&resume);
    assert_eq!(fs::read(&record).unwrap(), whole);

    // What a figure needs is missed when the report is drawn.
    let mut without_curves: serde_json::Value = serde_json::from_slice(&whole).unwrap();
    without_curves["cells"][0]["series"] = serde_json::json!({});
    without_curves.as_object_mut().unwrap().remove("blake3");
    lastbit_lab::sealed::write(&record, &without_curves).unwrap();
    let report = folder.run("report");
    assert_says(&report.stdout, &["record.json", "which cell", &format!("lastbit {resume}")]);
}

#[test]
fn errors_are_one_json_object_where_json_is_asked_for() {
    let folder = Folder::new();
    for arguments in ["pde heat --dt 0", "run fig-nothing", "pde heat --unknown", "report"] {
        let value = folder.json(arguments);
        assert_eq!(value["exit_code"], 2, "{arguments}: {value}");
        assert!(value["error"].as_str().unwrap().len() > 10);
    }
}

#[test]
fn noise_of_wrong_tables_and_questions() {
    let folder = Folder::new();
    folder.write("good.csv", "group,seed,value\na,0,1\na,1,2\nb,0,2\nb,1,3\n");
    folder.write("words.csv", "group,seed,value\na,0,1\nb,0,many\n");
    folder.write("nan.csv", "group,value\na,NaN\n");
    folder.write("columns.csv", "name,value\na,1\n");
    folder.write("empty.csv", "group,value\n");
    folder.write("config.toml", CONFIG);
    for (arguments, parts) in [
        ("noise", &["CONFIG", "`lastbit train`", "--from"][..]),
        ("noise --from missing.csv", &["missing.csv", "cannot be read"]),
        ("noise --from words.csv", &["words.csv", "\"many\" in line 3, column value", "number"]),
        ("noise --from nan.csv", &["nan.csv", "NaN", "line 2", "leave out"]),
        ("noise --from columns.csv", &["columns.csv", "no column \"group\"", "header"]),
        ("noise --from empty.csv", &["empty.csv", "no runs"]),
        ("noise --from good.csv --compare a,c", &["--compare", "found c", "one of a, b"]),
        ("noise --from good.csv --compare a", &["--compare", "found a", "two groups"]),
        ("noise --from good.csv --compare a,a", &["--compare", "two groups"]),
        ("noise --from good.csv --last-bit k", &["--last-bit", "found k", "one of a, b"]),
        ("noise --from good.csv --gain 0", &["--gain", "found 0", "greater than 0"]),
        ("noise --from good.csv --gain NaN", &["--gain", "found NaN"]),
        ("noise --from good.csv --level 0", &["--level", "found 0", "0.0001 to 0.5"]),
        ("noise --from good.csv --level 1e-300", &["--level", "found 1e-300,"]),
        ("noise --from good.csv --level 0.9", &["--level", "found 0.9"]),
        ("noise --from good.csv --power 0.01", &["--power", "found 0.01", "0.05"]),
        ("noise --from good.csv --power 1", &["--power", "found 1", "below 1"]),
        ("noise --from good.csv --resamples 5", &["--resamples", "found 5", "99"]),
        ("noise --from good.csv --n 5", &["--n", "--from"]),
        ("noise config.toml --from good.csv", &["--from"]),
        ("noise config.toml --compare a,b", &["--compare", "CONFIG", "cannot be used"]),
        ("noise missing.toml", &["missing.toml", "cannot be read"]),
        ("noise config.toml --n 1", &["--n", "found 1", "from 2"]),
        ("noise config.toml --sources batch,batch", &["--sources", "batch twice"]),
        ("noise config.toml --sources dust", &["--sources", "dust", "last-bit"]),
        ("noise config.toml --sources augment", &["--sources", "augment", "data.augment"]),
        (
            "noise config.toml --sources batch --set training.batch=full",
            &["--sources", "found batch", "training.batch"],
        ),
        ("noise config.toml --set optimizer.lr=-1", &["optimizer.lr", "-1"]),
    ] {
        folder.refused(arguments, parts);
    }
    folder.write("grid.csv", "group,seed,value\na,0,1\na,1,2\nb,2,2\nb,3,3\n");
    folder.refused("noise --from grid.csv --grid", &["grid.csv", "seeds in common", "--grid"]);
}
