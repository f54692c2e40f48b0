//! Attribution of growth along `lastbit train`: parts that add up, bit-identical after a resume and on any number of
//! threads, and what does not fit named.

use std::fs;
use std::path::Path;

use crate::support::Folder;

/// Points of a curve, and a network that learns them at the edge of stability.
fn own(optimizer: &str) -> Folder {
    let folder = Folder::new();
    let point = |i: u32| {
        let x = f64::from(i) / 10.0 - 1.0;
        format!("{x},{}\n", x * x * x - 0.5 * x + if i.is_multiple_of(2) { 0.1 } else { -0.1 })
    };
    let points: String = (0..20).map(point).collect();
    folder.write("own.csv", format!("x,y\n{points}"));
    let config = format!(
        r#"
        data = {{ name = "own", normalization = "none" }}
        network = {{ kind = "mlp", hidden = [8, 8], activation = "tanh" }}
        loss = {{ name = "half-mse" }}
        training = {{ steps = 60, batch = "full", precision = "f64", checkpoint-every = 7 }}
        replicas = {{ k = [1, 3, 5] }}
        [optimizer]
        {optimizer}
        [attribution]
        every = 4
        nodes = 12
        "#
    );
    folder.write("config.toml", config);
    folder.done("data import own.csv --test own.csv --target y --name own --data data");
    folder
}

/// The rows as fields by name.
fn rows(path: &Path) -> Vec<Vec<(String, String)>> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let names = lines.next().unwrap();
    lines
        .map(|fields| {
            assert_eq!(fields.len(), names.len(), "{fields:?}");
            names.iter().cloned().zip(fields).collect()
        })
        .collect()
}

const PARTS: [&str; 6] =
    ["overshoot", "negative_curvature", "transient", "contraction", "preconditioner", "kinks"];

#[test]
fn parts_of_every_optimizer_add_up_to_the_growth_in_rows_and_summary() {
    for optimizer in [
        "name = \"sgd\"\ndt = 0.5",
        "name = \"heavy-ball\"\ndt = 0.1\nmu = 0.8",
        "name = \"nesterov\"\ndt = 0.1\nmu = 0.8",
        "name = \"nesterov-pde\"\ndt = 0.5\nmu = 0.8",
        "name = \"adam\"\ndt = 0.01",
    ] {
        let folder = own(optimizer);
        let summary = folder.json("train config.toml --data data --out run");
        let rows = rows(&folder.join("run/attribution.csv"));
        // Steps 4, 8, …, 60 of two replicas.
        assert_eq!(rows.len(), 30, "{optimizer}");
        for row in &rows {
            let field = |name: &str| &row.iter().find(|(own, _)| own == name).unwrap().1;
            let number = |name: &str| field(name).parse::<f64>().unwrap();
            let sum: f64 = PARTS.iter().map(|part| number(part)).sum();
            // Six roundings of parts whose sizes are below 10.
            assert!((sum - number("growth")).abs() < 1e-13, "{optimizer}: {row:?}");
            // Kept off the rounding of the states, whatever the replicas' own distance is.
            assert!(number("probe") >= number("distance") && number("probe") > 1e-10, "{row:?}");
            assert!(number("rounding") > 0.0, "{optimizer}: {row:?}");
            assert!(!["identical", "not-finite"].contains(&field("cause").as_str()), "{row:?}");
        }
        let of = &summary["attribution"][0];
        assert_eq!((of["replica"].as_str(), of["steps"].as_u64()), (Some("k3"), Some(15)));
        let parts = of["parts"].as_object().unwrap().values().map(|part| part.as_f64().unwrap());
        let growth = of["growth"].as_f64().unwrap();
        assert!((parts.sum::<f64>() - growth).abs() < 1e-13, "{optimizer}");
        assert!(folder.join("run/figures/attribution.svg").exists());
    }
}

#[test]
fn same_bits_after_a_resume_and_on_any_number_of_threads() {
    let folder = own("name = \"adam\"\ndt = 0.01");
    let command = "train config.toml --data data";
    for (out, threads) in [("one", 1), ("two", 2), ("seven", 7)] {
        let text = folder.done(&format!("{command} --threads {threads} --out {out}"));
        assert!(text.contains("Growth of k3 beside k1: "), "{text}");
    }
    folder.assert_same("one", "two", "threads");
    folder.assert_same("one", "seven", "threads");
    // As a kill in the last steps leaves it: with the checkpoint of step 56 and rows beyond it.
    for gone in ["checkpoints/step-60.safetensors", "summary.json"] {
        fs::remove_file(folder.join("two").join(gone)).unwrap();
    }
    folder.done(&format!("{command} --out two --resume"));
    folder.assert_same("one", "two", "resume");
}

#[test]
fn chosen_steps_are_those_of_the_rows_and_what_does_not_fit_is_named() {
    let folder = own("name = \"sgd\"\ndt = 0.5");
    let config = folder.read("config.toml");
    let chosen = config.replace("every = 4\n", "steps = [1, 2, 59]\n");
    folder.write("chosen.toml", &chosen);
    folder.done("train chosen.toml --data data --out chosen --set replicas.k=[1,2]");
    // A power of two changes no bit.
    let found: Vec<String> = rows(&folder.join("chosen/attribution.csv"))
        .iter()
        .map(|row| format!("{} {}", row[0].1, row[2].1))
        .collect();
    assert_eq!(found, ["1 identical", "2 identical", "59 identical"]);
    for (file, set, parts) in [
        ("config.toml", "attribution.nodes=1", &["attribution.nodes", "1", "2"][..]),
        ("config.toml", "attribution.steps=[3]", &["attribution", "either every or steps"]),
        ("chosen.toml", "attribution.steps=[61]", &["attribution.steps", "61", "60"]),
        ("chosen.toml", "attribution.steps=[0]", &["attribution.steps", "from 1"]),
        ("config.toml", "replicas.k=[1]", &["attribution", "replicas.k = [1, 3]"]),
        ("config.toml", "optimizer.name=cfl", &["attribution", "cfl", "power iteration"]),
    ] {
        folder.refused(&format!("train {file} --data data --out x --set {set}"), parts);
    }
}
