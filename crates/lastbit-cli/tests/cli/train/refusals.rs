//! Messages for everything that does not fit.

use std::fs;

use super::{CONFIG, refused};
use crate::support::{Folder, has_device};

#[test]
fn a_run_in_the_way_changed_settings_and_foreign_files_are_refused() {
    let folder = Folder::with(CONFIG);
    folder.train("config.toml --out run");
    refused(&folder, "config.toml --out run", &["--out", "run", "--resume"]);
    let changed = "config.toml --out run --resume --set optimizer.dt=0.3";
    refused(&folder, changed, &["optimizer.dt", "0.3", "0.05", "config.toml", "--fork"]);

    let lock = fs::File::open(folder.join("run")).unwrap();
    lock.lock().unwrap();
    refused(&folder, "config.toml --out run --resume", &["--out", "another process"]);
    drop(lock);

    fs::remove_dir_all(folder.join("run/checkpoints")).unwrap();
    refused(&folder, "--out run --resume", &["checkpoints", "no checkpoint"]);
    refused(&folder, "--fork config.toml --out x", &["config.toml", "safetensors"]);
    refused(
        &folder,
        "--fork run/final/k1.safetensors --out x",
        &["k1.safetensors", "weights alone", "checkpoints/step-N.safetensors", "network.weights"],
    );
    refused(&folder, "--resume", &["--out", "CONFIG"]);
    refused(&folder, "--resume --out nowhere", &["CONFIG", "--example"]);
    refused(&folder, "absent.toml", &["absent.toml", "cannot be read"]);
}

#[test]
fn without_a_device_the_message_says_what_to_do() {
    let folder = Folder::with(CONFIG);
    if has_device() {
        return;
    }
    let parts = ["training.device", "CUDA", "--device cpu"];
    refused(&folder, "config.toml --out run --device cuda", &parts);
    // Nothing of a run is left.
    assert!(!folder.join("run").exists());
    folder.train("config.toml --out run --device cpu");
}

#[test]
fn what_does_not_fit_the_data_is_named() {
    let folder = Folder::with(CONFIG);
    for (set, parts) in [
        ("data.name=\"nothing\"", &["nothing", "mnist01"][..]),
        ("data.limit=20000", &["data.limit", "20000", "12665"]),
        ("data.test-limit=20000", &["data.test-limit", "2115"]),
        ("data.classes=[0,7]", &["data.classes", "found 7", "below 2"]),
        (
            "data.normalization={mean=[0.1,0.2],std=[1.0,1.0]}",
            &["normalization.mean", "1, one for"],
        ),
        ("training.batch=161", &["config.toml: training.batch", "161", "160"]),
        ("network={kind=\"vgg\",depth=11}", &["vgg", "28x28", "32x32"]),
        ("network={kind=\"vgg\",depth=12}", &["network.depth", "12", "11, 13"]),
        ("network={kind=\"resnet\",depth=10}", &["network.depth", "10", "6n + 2"]),
        ("network={kind=\"mlp\",hidden=[0]}", &["network.hidden", "found 0"]),
        ("network={kind=\"mlp\",hidden=[65536,65536]}", &["network", "parameters", "at most"]),
        ("network.kernel=999", &["network.kernel", "999", "256"]),
        (
            "network={kind=\"cnn\",channels=[2],kernel=29,padding=\"valid\"}",
            &["network.kernel", "29x29"],
        ),
        ("network.channels=[2,2,2,2]", &["network.pooling", "layer 3", "2x2"]),
        ("network.head=mean", &["network.head", "mean", "2 outputs"]),
        ("network.weights=\"none.safetensors\"", &["none.safetensors", "cannot be read"]),
        ("replicas.flip-bit=[{tensor=\"fc9\"}]", &["flip-bit.tensor", "fc9", "conv1.weight"]),
        ("replicas.flip-bit=[{tensor=\"fc.bias\",index=2}]", &["flip-bit.index", "below 2"]),
        ("replicas.flip-bit=[{tensor=\"fc.bias\",step=50}]", &["flip-bit.step", "below 50"]),
    ] {
        let arguments = format!("config.toml --set {set} --out out");
        refused(&folder, &arguments, parts);
        assert!(!folder.join("out").exists(), "{set}: nothing is written before all is well");
    }
    // A file where the folder should be.
    refused(
        &folder,
        "config.toml --out config.toml/run",
        &["config.toml/run", "cannot be written"],
    );
}
