//! `lastbit train --device cuda`: the same bytes after stops, and runs that move from one device to the
//! other. These tests need a CUDA device, so they are ignored unless asked for.

use std::fs;

use crate::support::Folder;

const CONFIG: &str = r#"
network = { kind = "resnet", depth = 8, activation = { swish = 1.0 } }
optimizer = { name = "heavy-ball", mu = 0.9, dt = 0.02, alpha = 5e-4 }
training = { epochs = 2, batch = 32, metrics-every = 3, checkpoint-every = 4 }
replicas = { k = [1, 3], permute-order = [1] }
[data]
name = "cifar10-small"
limit = 200
test-limit = 50
augment = { padding = 4, flip = true }
"#;

#[test]
#[ignore = "needs a CUDA device"]
fn stops_change_no_byte_in_any_precision() {
    let folder = Folder::with(CONFIG);
    for how in ["cuda", "cuda-tf32", "cuda --set training.precision=f64"] {
        // Attributed are steps 3, 6, 9 and 12, of two replicas each; the header comes first.
        let begin = format!("config.toml --device {how} --set attribution.every=3");
        folder.train(&format!("{begin} --out whole"));
        folder.train(&format!("{begin} --out parts --time-limit 0s"));
        for _ in 0..4 {
            folder.train(&format!("{begin} --out parts --resume --time-limit 0s"));
        }
        folder.train(&format!("{begin} --out parts --resume"));
        folder.assert_same("whole", "parts", how);
        let attributed = folder.read("whole/attribution.csv");
        assert_eq!(attributed.lines().count(), 9, "{attributed}");
        assert!(!attributed.contains("not-finite"), "{attributed}");
        for out in ["whole", "parts"] {
            fs::remove_dir_all(folder.join(out)).unwrap();
        }
    }
}

/// From the device to the CPU and back: exact arithmetic would not see it.
#[test]
#[ignore = "needs a CUDA device"]
fn a_run_moves_from_one_device_to_the_other() {
    let folder = Folder::with(CONFIG);
    let double = "--set training.precision=f64";
    folder.train(&format!("config.toml {double} --device cuda --out stays"));
    folder.train(&format!("config.toml {double} --device cuda --out first --time-limit 0s"));
    let fork =
        |from: &str, step: usize| format!("--fork {from}/checkpoints/step-{step}.safetensors");
    folder.train(&format!("{} --device cpu --out second --time-limit 0s", fork("first", 1)));
    folder.train(&format!("{} --device cuda --out third", fork("second", 2)));
    for replica in ["k1", "k3", "order1"] {
        let files = format!("stays/final/{replica}.safetensors third/final/{replica}.safetensors");
        let found = folder.json(&format!("diff {files}"));
        let distance = found["total"]["rel_l1"].as_f64().unwrap();
        // The gradient of one step of twelve differs by some 1e-15. Twins of this network part by a
        // factor below 2 a step, in ten steps by less than 1e3.
        assert!(distance > 0.0 && distance < 1e-12, "{replica}: {distance:e}");
    }
}
