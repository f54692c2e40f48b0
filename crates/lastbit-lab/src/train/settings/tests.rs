use std::path::Path;

use super::*;
use crate::error::Error;

fn parsed(text: &str, changes: &[&str]) -> Result<ConfigFile, Error> {
    let changes: Vec<String> = changes.iter().map(|change| (*change).to_owned()).collect();
    ConfigFile::parse(text, Path::new("config.toml"), &changes)
}

#[test]
fn the_example_is_valid_and_complete_settings_read_back() {
    let example = parsed(EXAMPLE, &[]).unwrap();
    assert_eq!(example.settings.replicas.k, [1.0, 3.0, 5.0]);
    let again = parsed(&example.to_toml(), &[]).unwrap();
    assert_eq!(again.settings, example.settings);
    assert_eq!(again.to_toml(), example.to_toml());
}

#[test]
fn every_commented_key_of_the_example_is_one() {
    let commented: Vec<&str> =
        EXAMPLE.lines().filter(|line| line.starts_with("# ") && line.contains(" = ")).collect();
    assert_eq!(commented.len(), 14, "{commented:#?}");
    // Uncommented one by one, each where it stands.
    for line in commented {
        let text = EXAMPLE.replace(line, line.trim_start_matches("# "));
        parsed(&text, &[]).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

#[test]
fn training_words_and_the_symbols_of_the_theory_are_both_understood() {
    let symbols = EXAMPLE
        .replace("\nlr =", "\ndt =")
        .replace("\nmomentum =", "\nmu =")
        .replace("\nweight-decay =", "\nalpha =");
    let words = ["optimizer.lr=0.2", "optimizer.momentum=0.5", "optimizer.weight-decay=0.1"];
    for (text, changes) in [
        (EXAMPLE, ["optimizer.dt=0.2", "optimizer.mu=0.5", "optimizer.alpha=0.1"]),
        (&symbols, words),
        (EXAMPLE, words),
    ] {
        let optimizer = parsed(text, &changes).unwrap().settings.optimizer;
        assert_eq!([optimizer.dt, optimizer.mu, optimizer.alpha], [0.2, 0.5, 0.1]);
    }
}

#[test]
fn changes_are_laid_over_the_file() {
    let found = parsed(
        EXAMPLE,
        &["optimizer.dt=0.01", "training.batch=full", "replicas.k=[1, 7]", "loss.name=half-mse"],
    )
    .unwrap();
    assert_eq!(found.settings.optimizer.dt, 0.01);
    assert_eq!(found.settings.training.batch, Batch::Full);
    assert_eq!(found.settings.replicas.k, [1.0, 7.0]);
    assert_eq!(found.settings.loss.name, nn::Loss::HalfMse);
    let found = parsed(EXAMPLE, &["training.steps=3", "optimizer.lr=0.3"]).unwrap();
    let training = &found.settings.training;
    assert_eq!((training.epochs, training.steps), (None, Some(3)), "one replaces the other");
    assert_eq!(found.settings.optimizer.dt, 0.3);
    for wrong in ["optimizer.lr", "optimizer.lr.x=1"] {
        let message = parsed(EXAMPLE, &[wrong]).unwrap_err().to_string();
        assert!(message.contains("--set") && message.contains(wrong), "{message}");
    }
}

#[test]
fn every_key_is_checked() {
    // Change, and what the message must say.
    for (change, parts) in [
        ("data.nam=\"x\"", &["nam", "name"][..]),
        ("data.limit=0", &["data.limit", "found 0"]),
        ("data.limit=-1", &["limit", "-1"]),
        ("data.test-limit=0", &["data.test-limit"]),
        ("data.classes=[1]", &["data.classes", "[1]", "two"]),
        ("data.classes=[1, 1]", &["data.classes", "1 twice"]),
        ("data.normalization=\"all\"", &["normalization", "all", "channel"]),
        ("data.normalization={mean=[1.0]}", &["normalization", "std"]),
        ("data.normalization={mean=[0.0], std=[0.0]}", &["data.normalization.std", "found 0"]),
        ("data.normalization={mean=[0.0, 1.0], std=[1.0]}", &["2 means and 1 deviations"]),
        ("data.augment={padding=4}", &["flip"]),
        ("data.augment={padding=100000, flip=true}", &["data.augment.padding"]),
        ("network.kind=\"transformer\"", &["transformer", "resnet"]),
        ("network.chanels=[3]", &["chanels"]),
        ("network.depth=20", &["depth"]),
        ("network.init=\"zeros\"", &["init", "zeros", "torch"]),
        ("network.init={normal=-1}", &["network.init.normal", "-1"]),
        ("network.activation=\"gelu\"", &["gelu", "relu"]),
        ("network.activation={swish=0}", &["swish"]),
        ("loss.name=\"hinge\"", &["hinge", "cross-entropy"]),
        ("optimizer.name=\"lion\"", &["lion", "nesterov"]),
        ("optimizer.lr=0", &["optimizer.lr", "found 0"]),
        ("optimizer.lr=nan", &["optimizer.lr", "NaN"]),
        ("optimizer.lr=1e-25", &["optimizer.lr", "f64"]),
        ("optimizer.momentum=1", &["optimizer.momentum", "found 1"]),
        ("optimizer.beta2=-0.1", &["optimizer.beta2"]),
        ("optimizer.epsilon=0", &["optimizer.epsilon"]),
        ("optimizer.weight-decay=-1", &["optimizer.weight-decay", "-1"]),
        ("optimizer.safety=0", &["optimizer.safety", "found 0", "at most 1"]),
        ("optimizer.safety=1.5", &["optimizer.safety", "1.5"]),
        ("optimizer.curvature-every=0", &["optimizer.curvature-every", "found 0"]),
        ("optimizer.limit=\"tensor\"", &["tensor", "layer", "network"]),
        ("optimizer.schedule={kind=\"every\", gamma=0.1}", &["optimizer.schedule", "neither"]),
        ("optimizer.schedule={kind=\"every\", gamma=0.1, epochs=1, steps=1}", &["both"]),
        ("optimizer.schedule={kind=\"every\", gamma=0, epochs=1}", &["optimizer.schedule.gamma"]),
        ("optimizer.schedule={kind=\"milestones\", gamma=0.1, steps=[]}", &["optimizer.schedule"]),
        ("optimizer.schedule={kind=\"cosine\", epochs=0}", &["optimizer.schedule", "found 0"]),
        ("optimizer.schedule={kind=\"cosine\", epochs=3, floor=-1}", &["schedule.floor"]),
        ("optimizer.schedule={kind=\"linear\"}", &["linear", "cosine"]),
        ("training.epochs=0", &["training.epochs", "found 0"]),
        ("training={epochs=3, steps=3, batch=1}", &["training", "both", "either epochs or steps"]),
        ("training.batch=0", &["batch", "found 0", "full"]),
        ("training.batch=\"all\"", &["batch", "all", "full"]),
        ("training.precision=\"f16\"", &["f16", "f32"]),
        ("training.device=\"gpu\"", &["gpu", "cuda-tf32"]),
        (
            "training={epochs=1, batch=1, device=\"cuda-tf32\", precision=\"f64\"}",
            &["device", "f32"],
        ),
        ("training.metrics-every=0", &["metrics-every", "found 0", "epoch"]),
        ("training.evaluate-every=\"day\"", &["evaluate-every", "day"]),
        ("training.checkpoint-every=-3", &["checkpoint-every", "-3"]),
        ("training.keep-every=-1", &["keep-every", "-1"]),
        ("training.keep-last=1", &["keep-last"]),
        ("training.shuffle=\"no\"", &["shuffle"]),
        ("training.fluctuation-batches=-1", &["fluctuation-batches"]),
        ("training.fluctuation-batches=100000", &["fluctuation-batches", "1000"]),
        ("training.keep-every=9000000000", &["keep-every", "9000000000"]),
        ("replicas.seeds={augment=[1, 2]}", &["replicas.seeds.augment", "[1, 2]", "data.augment"]),
        ("replicas.k=[]", &["replicas.k", "at least one"]),
        ("replicas.k=[1, 1]", &["replicas.k", "1 twice"]),
        ("replicas.k=[0]", &["replicas.k", "found 0"]),
        ("replicas.k=[1e30]", &["replicas.k", "f64"]),
        ("replicas.form=\"other\"", &["other", "released"]),
        ("replicas.seeds={init=[]}", &["replicas.seeds.init"]),
        ("replicas.seeds={order=[1]}", &["order", "augment"]),
        ("replicas.seeds={batch=[-1]}", &["-1"]),
        ("replicas.flip-bit=[{index=1}]", &["tensor"]),
        ("replicas.permute-order=[2, 2]", &["replicas.permute-order", "2 twice"]),
        ("sharpnes.top=1", &["sharpnes", "sharpness"]),
        ("sharpness.k=1", &["`k`", "every"]),
        ("sharpness.every=0", &["every", "found 0", "epoch"]),
        ("sharpness.top=0", &["sharpness.top", "found 0"]),
        ("sharpness.top=101", &["sharpness.top", "100"]),
        ("sharpness.examples=0", &["examples", "found 0", "all"]),
        ("sharpness.examples=\"half\"", &["examples", "half", "all"]),
        ("sharpness.tolerance=0", &["sharpness.tolerance", "found 0", "1e-5", "f32"]),
        ("sharpness.tolerance=1e-6", &["sharpness.tolerance", "1e-5", "f32"]),
        ("sharpness.tolerance=1", &["sharpness.tolerance", "below 1"]),
        ("sharpness.tolerance=nan", &["sharpness.tolerance", "NaN"]),
        ("sharpness.batch=1001", &["sharpness.batch", "1000"]),
        ("sharpness.layers=1", &["layers"]),
        ("sharpness.replicas=\"second\"", &["second", "first", "all"]),
    ] {
        let message = match parsed(EXAMPLE, &[change]) {
            Ok(_) => panic!("{change} is accepted"),
            Err(error) => error.to_string(),
        };
        for part in ["config.toml"].iter().chain(parts) {
            assert!(message.contains(part), "{change}: \"{part}\" is missing in: {message}");
        }
    }
    let message = parsed("[data", &[]).unwrap_err().to_string();
    assert!(message.contains("line 1"), "{message}");
    let message = parsed("[data]\nname = \"x\"", &[]).unwrap_err().to_string();
    assert!(message.contains("network"), "{message}");
}

#[test]
fn full_batches_are_tested_and_saved_a_hundred_times() {
    let changes = ["training={steps=2001, batch=\"full\"}", "replicas.seeds={}"];
    let training = parsed(EXAMPLE, &changes).unwrap().settings.training;
    assert_eq!(training.evaluate_every, Every::Steps(21));
    assert_eq!(training.checkpoint_every, Every::Steps(21));
    let changes = ["training={steps=2001, batch=\"full\", evaluate-every=\"epoch\"}"];
    let training = parsed(EXAMPLE, &changes).unwrap().settings.training;
    assert_eq!(training.evaluate_every, Every::Epoch);
}

#[test]
fn keys_of_another_optimizer_are_refused_where_a_user_gives_them() {
    let set = |changes: &[&str]| parsed(EXAMPLE, changes).map(|_| ()).map_err(|e| e.to_string());
    let refused = |changes: &[&str]| set(changes).expect_err("of another optimizer");
    let found = refused(&["optimizer.name=sgd", "optimizer.momentum=0.5"]);
    assert!(
        found.starts_with("--set optimizer.momentum: found 0.5 with the optimizer sgd"),
        "{found}"
    );
    assert!(found.contains("heavy-ball"), "{found}");
    refused(&["optimizer.beta1=0.5"]);
    refused(&["optimizer.name=adam", "optimizer.safety=0.5"]);
    set(&["optimizer.name=adam", "optimizer.beta1=0.5"]).unwrap();
    // What the file says for its own optimizer stays there, and so does what the program wrote.
    set(&["optimizer.name=sgd"]).unwrap();
    let written = parsed(EXAMPLE, &["optimizer.name=sgd"]).unwrap().to_toml();
    parsed(&written, &[]).unwrap();
    let theirs = EXAMPLE.replace("name = \"nesterov\"", "name = \"sgd\"");
    let found = parsed(&theirs, &[]).expect_err("plain descent has none").to_string();
    assert!(found.starts_with("config.toml: optimizer.momentum: found 0.9"), "{found}");
}
