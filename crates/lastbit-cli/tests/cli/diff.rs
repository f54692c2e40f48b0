//! `lastbit diff`, as a user meets it.

use crate::support::Folder;

/// A file in the safetensors format: name, type, shape and bytes of each tensor.
fn put(folder: &Folder, file: &str, tensors: &[(&str, &str, &str, Vec<u8>)]) {
    let (mut header, mut data) = (Vec::new(), Vec::new());
    for (name, dtype, shape, bytes) in tensors {
        let from = data.len();
        data.extend(bytes);
        let to = data.len();
        let info = format!(
            "{name:?}:{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":[{from},{to}]}}"
        );
        header.push(info);
    }
    let header = format!("{{{}}}", header.join(","));
    let length = (header.len() as u64).to_le_bytes();
    folder.write(file, [&length[..], header.as_bytes(), &data].concat());
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn f64s(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A folder with `a` and `b`, which differ in every way, and `nan`, which holds one.
fn folder() -> Folder {
    let folder = Folder::new();
    let weight = [1.0, 2.0, -3.0, 0.5];
    let bits = |x: f32, ulps: u32| f32::from_bits(x.to_bits() + ulps);
    let other = [1.0, bits(2.0, 3), -3.0, bits(0.5, 1000)];
    put(
        &folder,
        "a.safetensors",
        &[
            ("w", "F32", "[2,2]", f32s(&weight)),
            ("same", "F32", "[1]", f32s(&[7.0])),
            ("steps", "I64", "[]", 5_i64.to_le_bytes().to_vec()),
            ("wide", "F64", "[1]", f64s(&[0.1])),
            ("shape", "F32", "[2,1]", f32s(&[1.0, 2.0])),
            ("gone", "U8", "[1]", vec![1]),
        ],
    );
    put(
        &folder,
        "b.safetensors",
        &[
            ("new\nname", "U8", "[1]", vec![1]),
            ("w", "F32", "[2,2]", f32s(&other)),
            ("same", "F32", "[1]", f32s(&[7.0])),
            ("steps", "I64", "[]", 9_i64.to_le_bytes().to_vec()),
            ("wide", "F32", "[1]", f32s(&[0.1])),
            ("shape", "F32", "[1,2]", f32s(&[1.0, 2.0])),
        ],
    );
    put(
        &folder,
        "nan.safetensors",
        &[("w", "F32", "[2,2]", f32s(&[1.0, f32::NAN, f32::INFINITY, 0.5]))],
    );
    folder
}

const A_B: &str = "diff a.safetensors b.safetensors";

#[test]
fn equal_files_end_with_0_and_different_ones_with_1() {
    let folder = folder();
    let same = folder.run("diff a.safetensors a.safetensors");
    assert_eq!(same.code, 0, "{}", same.stderr);
    assert!(same.stdout.ends_with("identical bits: 6 tensors\n"), "{}", same.stdout);
    let ran = folder.run(A_B);
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    insta::assert_snapshot!("table", ran.stdout);
    let only = folder.run(&format!("{A_B} --only sam?"));
    assert_eq!(only.code, 0, "what differs is not asked for");
    assert!(!folder.join("lastbit-out").exists(), "nothing is written unless asked for");
}

#[test]
fn numbers_of_known_tensors() {
    let folder = folder();
    let value = folder.json(A_B);
    assert_eq!(value["identical"], false);
    assert_eq!((&value["tensors_in_all"], &value["tensors_different"]), (&7.into(), &6.into()));
    let tensor = |name: &str| {
        let all = value["tensors"].as_array().unwrap();
        all.iter().find(|tensor| tensor["name"] == name).unwrap()
    };
    let w = &tensor("w")["numbers"];
    assert_eq!((&w["max_ulps"], &w["median_ulps"]), (&1000.into(), &0.into()));
    assert_eq!((&w["entries"], &w["equal_bits"]), (&4.into(), &2.into()));
    // 1000 ulps of 2⁻²⁴ above 0.5; 3 ulps of 2⁻²² above 2.
    let (near, far) = (3.0 / 4_194_304.0, 1000.0 / 16_777_216.0);
    assert_eq!(w["max_difference"], far);
    assert_eq!(w["max_difference_at"], serde_json::json!([1, 1]));
    let rel_l1 = 2.0 / 4.0 * (near / (4.0 + near) + far / (1.0 + far));
    // The same operations but for the order of one sum.
    assert!((w["rel_l1"].as_f64().unwrap() / rel_l1 - 1.0).abs() < 4.0 * f64::EPSILON);
    let squares = near * near + far * far;
    let norm = w["norm_of_difference"].as_f64().unwrap();
    assert!((norm * norm / squares - 1.0).abs() < 8.0 * f64::EPSILON);
    assert_eq!(w["norm_a"], (1.0_f64 + 4.0 + 9.0 + 0.25).sqrt());
    assert_eq!(tensor("steps")["numbers"]["max_ulps"], 4);
    assert_eq!(tensor("steps")["numbers"]["agreeing_bits"], serde_json::Value::Null);
    assert_eq!(tensor("wide")["ulps_of"], "F32");
    assert_eq!(tensor("wide")["numbers"]["max_ulps"], 0);
    assert!(tensor("wide")["numbers"]["rel_l1"].as_f64().unwrap() > 0.0);
    assert_eq!(tensor("same")["status"], "identical");
    assert_eq!(tensor("shape")["status"], "other-shape");
    assert_eq!(tensor("gone")["status"], "only-in-a");
    assert_eq!(tensor("new\nname")["status"], "only-in-b");
    assert_eq!(tensor("same")["a"]["hash"], tensor("same")["b"]["hash"]);
    assert_ne!(tensor("w")["a"]["hash"], tensor("w")["b"]["hash"]);
    assert_eq!(value["total"]["max_difference"], 4.0);
    assert_eq!(value["total"]["max_difference_at"], "steps");
}

#[test]
fn what_is_not_finite_is_counted() {
    let folder = folder();
    let value = folder.json("diff a.safetensors nan.safetensors --only w");
    let total = &value["total"];
    assert_eq!((&total["nan_b"], &total["infinite_b"]), (&1.into(), &1.into()));
    assert_eq!((&total["compared"], &total["rel_l1"]), (&2.into(), &0.0.into()));
    let ran = folder.run("diff a.safetensors nan.safetensors --only w");
    assert!(ran.stdout.contains("not finite: 2 of 4 entries"), "{}", ran.stdout);
    // What has no distance is not 0 ulps away.
    assert!(total["max_ulps"].is_null() && total["max_difference"].is_null(), "{total}");
    assert_eq!(
        (&total["not_comparable"], &total["first_not_comparable"]),
        (&2.into(), &"w".into())
    );
    let w = &value["tensors"][0]["numbers"];
    assert_eq!((&w["max_ulps"], &w["not_comparable"]), (&serde_json::Value::Null, &2.into()));
    for part in [
        "not comparable: 2 of 4 entries, first w at [",
        "1 of 1 tensors differ; 2 entries are not comparable (NaN or infinite)",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    // The same bits, even of NaN, are the same.
    folder.done("diff nan.safetensors nan.safetensors");
}

#[test]
fn tensors_are_sorted_as_asked() {
    let folder = folder();
    let order = |sort: &str| {
        let value = folder.json(&format!("{A_B} --sort {sort}"));
        let tensors = value["tensors"].as_array().unwrap();
        let first: Vec<String> =
            tensors.iter().take(2).map(|t| t["name"].as_str().unwrap().to_owned()).collect();
        first.join(" ")
    };
    assert_eq!(order("name"), "gone new\nname");
    assert_eq!(order("rel-l1"), "steps w");
    assert_eq!(order("ulps"), "w steps");
    assert_eq!(order("max"), "steps w");
}

#[test]
fn files_are_the_same_for_any_threads_and_hold_all_numbers() {
    let folder = folder();
    for threads in [1, 2, 7] {
        // The folder may be given before or after the command.
        let ran = match threads {
            1 => folder.run(&format!("--out out-1 --threads 1 {A_B}")),
            _ => folder.run(&format!("{A_B} --threads {threads} --out out-{threads}")),
        };
        assert_eq!(ran.code, 1, "{}", ran.stderr);
    }
    let files = |threads: usize| folder.files(format!("out-{threads}"));
    let one = files(1);
    let names: Vec<&str> = one.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["diff.csv", "diff.json", "diff.png", "diff.svg"]);
    assert!(one == files(2) && one == files(7), "threads change a file");

    let value: serde_json::Value = serde_json::from_slice(&one[1].1).unwrap();
    let tensors = value["tensors"].as_array().unwrap();
    let mut reader = csv::Reader::from_reader(&one[0].1[..]);
    let header = reader.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|own| own == name).unwrap();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), tensors.len());
    for (row, tensor) in rows.iter().zip(tensors) {
        assert_eq!(row[column("name")], *tensor["name"].as_str().unwrap());
        assert_eq!(row[column("hash_a")], *tensor["a"]["hash"].as_str().unwrap_or(""));
        for name in ["rel_l1", "norm_b", "max_ulps"] {
            let number = tensor["numbers"][name].as_f64();
            assert_eq!(row[column(name)].parse::<f64>().ok(), number, "{name}");
        }
    }
    let picture = lastbit_formats::png::parse(&one[2].1).unwrap();
    assert_eq!(picture.shape[1], 1600);
}

#[test]
fn wrong_input_ends_with_2_and_says_what_to_do() {
    let folder = folder();
    let whole = folder.bytes("a.safetensors");
    folder.write("cut.safetensors", &whole[..whole.len() - 3]);
    folder.write("text.safetensors", "not a file of tensors");
    folder.write("in-the-way", "");
    put(&folder, "eight.safetensors", &[("w", "F8_E4M3", "[1]", vec![1])]);
    let cases = [
        ("diff a.safetensors absent.safetensors", &["absent.safetensors", "cannot be read"][..]),
        ("diff a.safetensors cut.safetensors", &["cut.safetensors", "damaged"]),
        ("diff text.safetensors a.safetensors", &["text.safetensors", "a safetensors file"]),
        ("diff a.safetensors eight.safetensors", &["eight", "F8_E4M3", "\"w\"", "convert"]),
        ("diff a.safetensors .", &["."]),
        ("diff a.safetensors", &["<B>"]),
        ("diff a.safetensors b.safetensors --only zzz*", &["--only", "zzz*", "there are w, same"]),
        ("diff a.safetensors b.safetensors --only [", &["--only", "found [", "layer1.*"]),
        ("diff a.safetensors b.safetensors --sort size", &["--sort", "size", "rel-l1"]),
        ("diff a.safetensors b.safetensors --out in-the-way", &["in-the-way", "cannot be written"]),
    ];
    for (arguments, parts) in cases {
        folder.refused(arguments, parts);
    }
}

#[test]
#[cfg(unix)]
fn a_full_disk_is_an_error_and_keeps_the_old_files() {
    let folder = folder();
    assert_eq!(folder.run(&format!("{A_B} --out out")).code, 1);
    let before = folder.files("out");
    // 512 bytes a file at most: not even the table fits.
    let ran = folder.run_with_little_room(1, &format!("{A_B} --sort name --out out"));
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("out/diff.json: cannot be written"), "{}", ran.stderr);
    assert!(folder.files("out") == before);
}

#[test]
fn help_defines_what_is_measured_and_the_exit_codes() {
    let folder = Folder::new();
    insta::assert_snapshot!("help", folder.run("diff --help").stdout);
}
