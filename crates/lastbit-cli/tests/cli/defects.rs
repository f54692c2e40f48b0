//! What users stumbled over, each with the command that showed it.

use std::fs;
use std::path::Path;

use crate::support::{finish, has_device, json, lastbit, run};
use lastbit_formats::tensors::{self, Tensor, TensorFile};

/// A training of two steps.
const CONFIG: &str = "[data]\nname = \"mnist01\"\nlimit = 20\ntest-limit = 20\n\
                      [network]\nkind = \"mlp\"\nhidden = [4]\n[optimizer]\nname = \"sgd\"\n\
                      dt = 0.1\n[training]\nsteps = 2\nbatch = 10\n";

/// An empty folder with that configuration.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.toml"), CONFIG).unwrap();
    folder
}

/// The message of a command that must be refused, which contains all of these parts.
#[track_caller]
fn refused(folder: &Path, arguments: &str, parts: &[&str]) -> String {
    let ran = run(folder, arguments);
    assert_eq!(ran.code, 2, "{arguments}: {}{}", ran.stdout, ran.stderr);
    for part in parts {
        assert!(ran.stderr.contains(part), "{arguments}: no \"{part}\" in {}", ran.stderr);
    }
    ran.stderr
}

/// What a command that must succeed prints.
#[track_caller]
fn done(folder: &Path, arguments: &str) -> String {
    let ran = run(folder, arguments);
    assert_eq!(ran.code, 0, "{arguments}: {}{}", ran.stdout, ran.stderr);
    ran.stdout
}

#[test]
fn a_misspelt_name_is_answered_with_the_nearest() {
    let folder = folder();
    for command in ["run fig-haet", "list fig-haet", "run heat"] {
        let message = refused(folder.path(), command, &["did you mean fig-heat", "lastbit list"]);
        assert!(!message.contains("tab-adam"), "only what is near: {message}");
    }
    let unknown = "train config.toml --set data.name=\"minst01\"";
    refused(folder.path(), unknown, &["did you mean mnist01", "lastbit data get"]);
}

#[test]
fn embedded_data_need_no_home() {
    let folder = folder();
    let without_home = |arguments: &str| {
        let mut command = lastbit(folder.path());
        finish(command.env_clear().args(arguments.split_whitespace()).output().unwrap())
    };
    let listed = without_home("data list");
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    assert!(listed.stdout.contains("mnist01") && listed.stdout.contains("none; give one"));
    for arguments in ["data show mnist01 --out sheet.png", "train config.toml"] {
        let ran = without_home(arguments);
        assert_eq!(ran.code, 0, "{arguments}: {}", ran.stderr);
    }
    let unknown = without_home("data show curve");
    assert!(unknown.stderr.contains("curve: no such data set"), "{}", unknown.stderr);
    let kept = without_home("data get mnist");
    assert!(kept.code == 2 && kept.stderr.contains("--data: found no folder"), "{}", kept.stderr);
}

#[test]
fn a_folder_is_no_configuration() {
    let folder = folder();
    fs::create_dir(folder.path().join("runs")).unwrap();
    for command in ["train", "edge", "noise", "pde heat --config", "bounds scheme --file"] {
        for path in ["..", "runs"] {
            let expected = format!("{path}: found a folder, expected a TOML file");
            refused(folder.path(), &format!("{command} {path}"), &[&expected]);
        }
    }
}

#[test]
fn a_path_on_the_command_line_is_relative_to_the_current_folder() {
    let folder = folder();
    let run_in = |place: &str| folder.path().join(place);
    done(folder.path(), "train config.toml --out run");
    fs::create_dir(run_in("configs")).unwrap();
    fs::write(run_in("configs/config.toml"), CONFIG).unwrap();
    let weights = "run/final/k1.safetensors";
    let set = format!("train configs/config.toml --set network.weights={weights}");
    done(folder.path(), &format!("{set} --out second"));
    done(folder.path(), &format!("{set} --out second --resume"));
    let whole = "network={kind=\"mlp\",hidden=[4],weights=\"run/final/k1.safetensors\"}";
    done(folder.path(), &format!("train configs/config.toml --set {whole} --out third"));
    // In a file a path stays relative to the file.
    fs::copy(run_in(weights), run_in("configs/start.safetensors")).unwrap();
    let with_weights = CONFIG.replace("[network]", "[network]\nweights = \"start.safetensors\"");
    fs::write(run_in("configs/config.toml"), with_weights).unwrap();
    done(folder.path(), "train configs/config.toml --out fourth");
}

#[test]
fn train_and_diff_print_one_hash_of_the_same_weights() {
    let folder = folder();
    // Batch norm has running statistics, which are in the file and no parameters.
    let set = "--set network={kind=\"cnn\",channels=[2],kernel=3,batch-norm=true} --out run";
    let summary = json(folder.path(), &format!("train config.toml {set}"));
    let hash = summary["replicas"][0]["hash"].as_str().unwrap();
    let same = "diff run/final/k1.safetensors run/final/k1.safetensors";
    let diff = json(folder.path(), same);
    assert_eq!((diff["a"]["hash"].as_str(), diff["b"]["hash"].as_str()), (Some(hash), Some(hash)));
    assert!(done(folder.path(), same).contains(&format!("A {hash}, B {hash}")));
}

#[test]
fn flags_that_would_be_ignored_are_refused_by_name() {
    let folder = folder();
    let put = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    put("u.csv", b"u\n0\n1\n0.5\n0.25\n0\n");
    put("xy.csv", b"x,y\n0,1\n1,2\n2,3\n");
    put("signal.toml", b"signal = \"u.csv\"\npoints = 9\n");
    put("x.npy", &lastbit_formats::npy::write(&[3, 3], &[0.0; 9]));
    for (arguments, flag, cause) in [
        ("pde beltrami --signal u.csv --points 5", "--points", "--signal"),
        ("pde beltrami --signal u.csv --noise 0.1", "--noise", "--signal"),
        ("pde beltrami --signal u.csv --dimensions 2", "--dimensions", "--signal"),
        ("pde beltrami --config signal.toml --points 5", "--points", "--signal"),
        ("pde beltrami --size 9x9", "--size", "--dimensions 1"),
        ("pde beltrami --dimensions 2 --points 9", "--points", "--dimensions 2"),
        ("pde heat --initial u.csv --points 5", "--points", "--initial"),
        ("pde heat --initial u.csv --height 2", "--height", "--initial"),
        ("pde scheme heat --initial u.csv --points 5", "--points", "--initial"),
        ("pde scheme heat --size 9x9", "--size", "a line"),
        ("pde scheme heat-2d --points 9", "--points", "the plane"),
        ("bounds scheme heat --speed 2", "--speed", "the scheme heat"),
        ("bounds scheme nesterov --dx 2", "--dx", "the scheme nesterov"),
        ("bounds kernel --image x.npy --size 9x9", "--size", "--image"),
        ("bounds kernel --a -0.5 --label 0", "--label", "--a"),
        ("pde kernel --image x.npy --size 9x9", "--size", "--image"),
        ("pde kernel --size 8x8 --kernel 3x3 --initial x.npy --seed 2", "--seed", "--initial"),
        ("pde kernel --size 8x8 --no-window --kernel 3x3", "--kernel", "--no-window"),
        ("pde kernel --a -0.5", "--a", "--equation non-linear"),
        ("edge kernel --activation relu --beta 2", "--beta", "--activation relu"),
        ("edge kernel --dt 0.1", "--dt", "--over dt"),
        ("edge kernel --over alpha-min --alpha 3", "--alpha", "--over alpha-min"),
        ("data import xy.csv --target y --targets x.npy --name a", "--targets", "a .csv file"),
        ("data import x.npy --targets x.npy --target y --name a", "--target", "an .npy file"),
    ] {
        refused(folder.path(), arguments, &[&format!("{flag}: found it with"), cause]);
    }
    let other = "bounds kernel --activation relu";
    refused(folder.path(), other, &["--activation: found relu", "swish"]);
    // A file of settings is complete, and a flag wins over it.
    let beltrami = "pde beltrami --steps 70 --overdrive 0.9";
    done(folder.path(), &format!("{beltrami} --config signal.toml"));
    put("points.toml", b"points = 9\n");
    done(folder.path(), &format!("{beltrami} --config points.toml --signal u.csv"));
}

#[test]
fn all_commands_on_kernels_pool_alike() {
    let folder = folder();
    let small = "--size 16x16 --kernel 4x4";
    for command in ["bounds kernel", "edge kernel --tolerance 0.1", "pde kernel --steps 70"] {
        let command = format!("{command} {small}");
        assert_eq!(json(folder.path(), &command)["settings"]["pooling"], "mean", "{command}");
        let text = done(folder.path(), &command);
        assert!(text.starts_with("One-layer network, mean pooling"), "{command}: {text}");
    }
    // With the same flags theory and search agree: the smallest stable weight decay is 4 x 4/4.
    let bounds = json(folder.path(), &format!("bounds kernel {small} --dt 0.1"));
    let linear = format!("edge kernel {small} --equation linear --over alpha-min --dt 0.1");
    let edge = json(folder.path(), &linear)["predicted"].as_f64().unwrap();
    let bound = bounds["windowed"]["alpha_min"].as_f64().unwrap();
    assert!((bound - 4.0).abs() < 1e-9 && (edge - 4.0).abs() < 1e-9, "{bound} {edge}");
}

#[test]
fn columns_keep_their_names() {
    let folder = folder();
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    put("iris.csv", "sepal,species,petal\n1,0,3\n2,1,4\n3,0,5\n4,1,6\n5,1,7\n");
    put("turned.csv", "petal,species,sepal\n1,0,3\n2,1,4\n");
    let import = "data import iris.csv --data kept --name iris --replace --target";
    done(folder.path(), &format!("{import} petal"));
    let shown = done(folder.path(), "data show iris --data kept");
    for name in ["input sepal", "input species", "target petal"] {
        assert!(shown.contains(name), "{name}: {shown}");
    }
    done(folder.path(), &format!("{import} species --classes 2"));
    let shown = done(folder.path(), "data show iris --data kept");
    assert!(shown.contains("input petal") && shown.contains("each class of species"), "{shown}");
    // Columns in another order would be taken for one another.
    let turned = format!("{import} species --classes 2 --test turned.csv");
    refused(folder.path(), &turned, &["turned.csv", "inputs petal, sepal and targets species"]);
}

#[test]
fn a_missing_device_is_named_before_a_folder_nobody_gave() {
    if has_device() {
        return;
    }
    let folder = folder();
    done(folder.path(), "train config.toml");
    let message = refused(folder.path(), "train config.toml --device cuda", &["training.device"]);
    assert!(!message.contains("--out"), "{message}");
    let again =
        refused(folder.path(), "train config.toml", &["lastbit-out/train/config: found a run"]);
    assert!(again.contains("--resume") && again.contains("--out DIR"), "{again}");
}

#[test]
fn a_report_finds_records_at_any_depth_and_each_once() {
    let folder = folder();
    let heat = "pde heat --steps 70 --out";
    for (dt, place) in [("0.1", "all"), ("0.2", "all/mine"), ("0.3", "all/of/last/week")] {
        done(folder.path(), &format!("{heat} {place} --dt {dt}"));
    }
    done(folder.path(), "train config.toml --out all/training");
    #[cfg(unix)]
    std::os::unix::fs::symlink("..", folder.path().join("all/mine/link")).unwrap();
    let records = |out: &str| {
        let report = json(folder.path(), &format!("report --out {out}"));
        report["records"].as_array().unwrap().len()
    };
    assert_eq!(
        [records("."), records("all"), records("all/of"), records("all/training")],
        [4, 4, 1, 1]
    );
}

#[test]
fn two_identical_runs_have_two_sections() {
    let folder = folder();
    for place in ["all/first", "all/second"] {
        done(folder.path(), &format!("pde heat --steps 70 --out {place}"));
    }
    done(folder.path(), "report --out all");
    let page = fs::read_to_string(folder.path().join("all/report.html")).unwrap();
    let ids = page.split("<section id=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut ids: Vec<&str> = ids.collect();
    ids.sort_unstable();
    assert_eq!(ids.len(), 3, "two runs and the findings");
    ids.dedup();
    assert_eq!(ids.len(), 3, "{ids:?}");
    let is_linked = |id: &&str| page.contains(&format!("href=\"#{id}\""));
    assert!(ids.iter().filter(|id| **id != "findings").all(is_linked), "{ids:?}");
}

#[test]
fn the_json_of_a_report_says_what_its_page_says() {
    let folder = folder();
    done(folder.path(), "pde heat --steps 70");
    done(folder.path(), "run fig-heat --scale smoke");
    let records = json(folder.path(), "report")["records"].clone();
    let found = |id: &str| {
        let record = records.as_array().unwrap().iter().find(|record| record["id"] == id).unwrap();
        record["status"].as_str().unwrap().to_owned()
    };
    assert_eq!((found("pde-heat"), found("fig-heat")), ("no-claim".to_owned(), "holds".to_owned()));
    let page = fs::read_to_string(folder.path().join("lastbit-out/report.html")).unwrap();
    assert!(page.contains("1 holds, 1 without a claim"), "the page counts alike");
}

#[test]
fn a_pickle_is_answered_by_how_to_save_safetensors() {
    let folder = folder();
    let put = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    // The first bytes of what torch.save writes, since PyTorch 1.6 and before.
    put("new.pt", &[b"PK\x03\x04\x00\x00\x08\x08", &[0; 100][..]].concat());
    put("old.pt", &[b"\x80\x02\x8a\x0al\xfc\x9cF\xf9", &[0; 100][..]].concat());
    for name in ["new.pt", "old.pt"] {
        let parts = [name, "PyTorch pickle", "safetensors.torch.save_file(model.state_dict()"];
        refused(folder.path(), &format!("diff {name} {name}"), &parts);
        refused(folder.path(), &format!("train config.toml --set network.weights={name}"), &parts);
    }
}

#[test]
fn weights_by_torchvisions_names_are_a_start_and_all_that_is_wrong_is_listed() {
    let folder = folder();
    let resnet = "train config.toml --set network={kind=\"resnet\",depth=8,shortcut=\"conv\"}";
    let first = json(folder.path(), &format!("{resnet} --out run"));
    let start = |weights: &str| format!("{resnet} --set network.weights={weights}");
    let bytes = fs::read(folder.path().join("run/final/k1.safetensors")).unwrap();
    let mut file = tensors::parse(&bytes[..], bytes.len() as u64).unwrap();
    for tensor in &mut file.tensors {
        tensor.name = tensor.name.replace(".shortcut.", ".downsample.").replace("linear.", "fc.");
    }
    assert!(file.tensors.iter().any(|tensor| tensor.name == "layer2.0.downsample.1.running_var"));
    let write = |name: &str, file: &TensorFile| {
        let mut bytes = Vec::new();
        tensors::write(file, &mut bytes).unwrap();
        fs::write(folder.path().join(name), bytes).unwrap();
    };
    write("torchvision.safetensors", &file);
    done(folder.path(), &format!("{} --out second", start("torchvision.safetensors")));
    let rows = fs::read_to_string(folder.path().join("second/metrics.jsonl")).unwrap();
    let row: serde_json::Value = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
    assert_eq!(row["hash"], first["replicas"][0]["hash"]);
    // Two are missing, two are new, one has another shape.
    file.tensors.retain(|tensor| !tensor.name.starts_with("layer1.0.bn1"));
    for name in ["extra.weight", "extra.bias"] {
        file.tensors.push(Tensor { name: name.into(), ..file.tensors[0].clone() });
    }
    let head = file.tensors.iter_mut().find(|tensor| tensor.name == "fc.weight").unwrap();
    head.shape.reverse();
    write("wrong.safetensors", &file);
    let missing = "missing tensors layer1.0.bn1.weight, layer1.0.bn1.bias";
    let unexpected = "unexpected tensors extra.weight, extra.bias";
    let shape = "fc.weight of shape [64, 2] instead of [2, 64]";
    refused(folder.path(), &start("wrong.safetensors"), &[missing, unexpected, shape]);
}
