//! `lastbit data`, as a user meets it: what is imported comes back to the bit, what is wrong is
//! named.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use crate::support::Folder;
use lastbit_formats::{npy, png};

/// A folder with files of all kinds.
fn inputs() -> Folder {
    let folder = Folder::new();
    let x: Vec<f64> = (0..10).map(|i| 0.1 * f64::from(i)).collect();
    let y: Vec<f64> = x.iter().map(|x| 1.0 / (x + 3.0)).collect();
    let lines: String = x.iter().zip(&y).map(|(x, y)| format!("{x:?},{y:?}\n")).collect();
    folder.write("curve.csv", format!("x,y\n{lines}"));
    folder.write("x.npy", npy::write(&[10], &x));
    folder.write("y.npy", npy::write(&[10], &y));
    folder.write("short.npy", npy::write(&[9], &y[..9]));
    folder.write("cut.npy", &npy::write(&[10], &x)[..100]);
    folder.write("nan.npy", npy::write(&[10], &[f64::NAN; 10]));
    let mut holes = y.clone();
    holes[7] = f64::INFINITY;
    folder.write("holes.npy", npy::write(&[10], &holes));
    let lines: String =
        (0..9).map(|i| format!("{i},{}\n", if i < 8 { 1.5 } else { f64::NAN })).collect();
    folder.write("holes.csv", format!("x,y\n{lines}"));
    folder.write("words.csv", b"x,kind\n1,setosa\n2,virginica\n");
    folder.write("twice.csv", b"x,y,x\n1,2,3\n4,5,6\n");
    folder.write("labels.npy", npy::write(&[10], &[0_i64, 1, 2, 0, 1, 2, 0, 1, 2, 0]));
    folder.write("pixels.npy", npy::write(&[10, 2, 2], &[7_u8; 40]));
    folder.write("classes.csv", b"a,b,kind\n1,2,0\n3,4,1\n5,6,1\n7,8,0\n");
    folder.write("train-images-idx3-ubyte", idx(&[6, 2, 3], 36));
    folder.write("train-labels-idx1-ubyte", idx(&[6], 6));
    folder.write("three-labels", idx(&[3], 3));
    folder.write("wrong-images-idx3", b"\x89PNG, or something else");
    folder.write("cut-images-idx3", idx(&[6, 2, 3], 30));
    let record = |label: u8| [vec![label], vec![9; 3072]].concat();
    for batch in 1..=5 {
        folder.write(&format!("a/data_batch_{batch}.bin"), record(1 + batch / 4));
    }
    folder.write("a/test_batch.bin", record(2));
    folder.write("hundred/train.bin", [vec![0], record(99)].concat());
    folder.write("hundred/test.bin", [vec![0], record(100)].concat());
    for (name, grey) in [("b/1", 10), ("b/2", 20), ("a/1", 30), ("a/2", 40)] {
        folder.write(&format!("png/{name}.png"), picture(3, grey));
    }
    folder.write("uneven/a/1.png", picture(3, 0));
    folder.write("uneven/a/2.png", picture(4, 0));
    folder
}

fn idx(shape: &[u8], values: u8) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, shape.len() as u8];
    shape.iter().for_each(|size| bytes.extend([0, 0, 0, *size]));
    bytes.extend((0..values).map(|value| value % 4));
    bytes
}

fn picture(width: usize, grey: u8) -> Vec<u8> {
    png::Picture { shape: [2, width, 1], pixels: vec![grey; 2 * width] }.to_png().unwrap()
}

/// Where an import has written an array, given as `DATA SET/ARRAY`.
fn in_data_set(folder: &Folder, name: &str) -> PathBuf {
    let (set, array) = name.split_once('/').unwrap();
    let entries = fs::read_dir(folder.join("kept").join(set)).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    paths.find(|path| path.is_dir()).expect("a folder of values").join(array)
}

/// The `f64` values of an array that an import has written.
fn values(folder: &Folder, name: &str) -> Vec<f64> {
    let bytes = fs::read(in_data_set(folder, name)).unwrap();
    npy::parse(&bytes).unwrap().values.into_reals()
}

#[test]
fn every_command_has_help_with_examples() {
    let folder = Folder::new();
    for command in ["get", "import", "show"] {
        let ran = folder.run(&format!("data {command} --help"));
        assert!(ran.code == 0 && ran.stdout.contains("Examples:"), "{command}: {}", ran.stdout);
    }
}

#[test]
fn a_regression_set_comes_in_to_the_bit_from_csv_and_npy_alike() {
    let folder = inputs();
    let csv = folder.json("data import curve.csv --target y --name csv --data kept");
    let npy = folder.json("data import x.npy --targets y.npy --name npy --data kept");
    assert_eq!(csv["dataset"]["content_hash"], npy["dataset"]["content_hash"]);
    assert_eq!(csv["dataset"]["targets"]["reals"], 1);
    let inputs = [values(&folder, "csv/train-inputs.npy"), values(&folder, "csv/test-inputs.npy")];
    assert_eq!((inputs[0].len(), inputs[1].len()), (8, 2));
    let mut all = inputs.concat();
    all.sort_by(f64::total_cmp);
    let expected: Vec<f64> = (0..10).map(|i| 0.1 * f64::from(i)).collect();
    assert!(all.iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()));
    for (x, y) in inputs[1].iter().zip(values(&folder, "csv/test-targets.npy")) {
        assert_eq!((1.0 / (x + 3.0)).to_bits(), y.to_bits());
    }
}

#[test]
fn the_seed_alone_decides_what_is_held_back() {
    let folder = inputs();
    let hash = |settings: &str| {
        let command =
            format!("data import curve.csv --target y --name c --replace --data kept {settings}");
        folder.json(&command)["dataset"]["content_hash"].clone()
    };
    assert_eq!(hash("--seed 0"), hash("--threads 1"));
    assert_ne!(hash("--seed 0"), hash("--seed 1"));
    assert_ne!(hash("--test-share 0.2"), hash("--test-share 0.4"));
}

#[test]
fn every_kind_of_file_comes_in() {
    let folder = inputs();
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_dir_all("cifar-10-batches-bin", folder.join("a")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&archive.into_inner().unwrap()).unwrap();
    folder.write("c.tar.gz", gzip.finish().unwrap());
    for (arguments, shape, sizes, classes) in [
        ("classes.csv --target kind --classes 2 --test-share 0.5", [1, 1, 2], [2, 2], 2),
        ("x.npy --targets labels.npy --classes 3", [1, 1, 1], [8, 2], 3),
        ("pixels.npy --targets labels.npy --classes 3", [2, 2, 1], [8, 2], 3),
        ("train-images-idx3-ubyte", [2, 3, 1], [5, 1], 4),
        ("train-images-idx3-ubyte --test train-images-idx3-ubyte", [2, 3, 1], [6, 6], 4),
        ("a", [32, 32, 3], [5, 1], 10),
        ("c.tar.gz", [32, 32, 3], [5, 1], 10),
        ("png --test png", [2, 3, 1], [4, 4], 2),
    ] {
        let command = format!("data import {arguments} --name mine --replace --data kept");
        let value = folder.json(&command);
        let dataset = &value["dataset"];
        assert_eq!(dataset["shape"], serde_json::json!(shape), "{arguments}: {value}");
        assert_eq!([dataset["train"].as_u64(), dataset["test"].as_u64()], sizes.map(Some));
        assert_eq!(dataset["targets"]["classes"].as_array().unwrap().len(), classes);
        let shown = folder.json("data show mine --data kept");
        assert_eq!(shown["content_hash"], dataset["content_hash"], "{arguments}");
        assert_eq!(shown["train"]["histogram"].as_array().unwrap().len(), classes);
    }
    // Folders in the order of their names: a before b.
    assert_eq!(values(&folder, "mine/train-targets.npy"), [0.0, 0.0, 1.0, 1.0]);
    let inputs = values(&folder, "mine/train-inputs.npy");
    assert_eq!(inputs[..7], [30.0, 30.0, 30.0, 30.0, 30.0, 30.0, 40.0]);
}

#[test]
fn what_cannot_be_imported_is_named_and_nothing_is_kept() {
    let folder = inputs();
    for (arguments, parts) in [
        ("x.npy", &["--targets", "nothing"][..]),
        ("x.npy --targets short.npy", &["short.npy", "(9)", "each of the 10 inputs"]),
        ("cut.npy --targets y.npy", &["cut.npy", "header"]),
        ("nan.npy --targets y.npy", &["nan.npy", "NaN in row 0", "finite"]),
        ("x.npy --targets holes.npy", &["holes.npy", "inf in row 7", "finite"]),
        ("holes.csv --target y", &["holes.csv", "NaN in line 10, column y", "finite"]),
        (
            "words.csv --target kind --classes 2",
            &["words.csv", "\"setosa\" in line 2, column kind", "whole numbers from 0"],
        ),
        ("twice.csv --target y", &["twice.csv", "two columns of the name \"x\""]),
        ("x.npy --targets labels.npy --classes 2", &["labels.npy", "label 2 at position 2"]),
        ("x.npy --targets y.npy --classes 2", &["y.npy", "whole numbers"]),
        ("x.npy --targets y.npy --classes 99999999999", &["--classes", "99999999999", "65536"]),
        ("curve.csv", &["--target", "no column", "x, y"]),
        ("curve.csv --target z", &["--target", "\"z\"", "x, y"]),
        ("curve.csv --target x,y", &["--target", "all columns"]),
        ("curve.csv --target y --test-share 0.01", &["--test-share", "10 examples"]),
        ("curve.csv --target y --test-share 1.5", &["--test-share", "1.5"]),
        ("wrong-images-idx3 --targets three-labels", &["wrong-images-idx3", "two zeros"]),
        ("cut-images-idx3 --targets three-labels", &["cut-images-idx3", "30 bytes", "(6, 2, 3)"]),
        ("train-images-idx3-ubyte --targets three-labels", &["three-labels", "6 images"]),
        ("train-images-idx3-ubyte --classes 3", &["labels-idx1", "label 3 at position 3"]),
        ("hundred", &["test.bin", "label 100", "below 100"]),
        ("a --test a", &["--test", "its own test set"]),
        ("uneven", &["2.png", "(2, 4, 1)", "(2, 3, 1)"]),
        ("kept", &["kept", "cannot be read"]),
        ("three-labels", &["three-labels", "another kind of file"]),
    ] {
        folder.refused(&format!("data import {arguments} --name mine --data kept"), parts);
        assert!(!folder.join("kept/mine").exists(), "{arguments}");
    }
}

#[test]
fn names_are_checked_and_nothing_is_overwritten_unasked() {
    let folder = inputs();
    let import = |name: &str| {
        folder.run(&format!("data import curve.csv --target y --data kept --name {name}"))
    };
    for (name, part) in [("../up", "letters, digits"), ("mnist01", "embedded")] {
        let ran = import(name);
        assert!(ran.code == 2 && ran.stderr.contains(part), "{name}: {}", ran.stderr);
    }
    assert_eq!(import("mine").code, 0);
    let again = import("mine");
    assert!(again.code == 2 && again.stderr.contains("--replace"), "{}", again.stderr);
    for (command, part) in [
        ("data show nothing --data kept", "mnist01, cifar10-small, fashion-mnist-small, mine"),
        ("data show mnist --data kept", "`lastbit data get mnist`"),
        ("data get imagenet --data kept", "mnist, fashion-mnist, cifar10"),
    ] {
        let ran = folder.run(command);
        assert!(ran.code == 2 && ran.stderr.contains(part), "{command}: {}", ran.stderr);
    }
}

#[test]
fn damage_on_disk_is_found() {
    let folder = inputs();
    let command = "data import curve.csv --target y --data kept --name mine";
    folder.done(command);
    let path = in_data_set(&folder, "mine/train-inputs.npy");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    folder.refused("data show mine --data kept", &["content hash"]);
}

#[test]
fn lists_and_tables_read_as_they_were_last_reviewed() {
    let folder = inputs();
    let command = "data import curve.csv --target y --name curve --data kept";
    folder.done(command);
    insta::assert_snapshot!("list", folder.run("data list --data kept").stdout);
    insta::assert_snapshot!("show_curve", folder.run("data show curve --data kept").stdout);
    let shown = folder.run("data show mnist01 --out sheet.png").stdout;
    insta::assert_snapshot!("show_mnist01", shown);
    let sheet = png::parse(&folder.bytes("sheet.png")).unwrap();
    assert_eq!(sheet.shape, [2 * 30 + 2, 20 * 30 + 2, 3]);
}
