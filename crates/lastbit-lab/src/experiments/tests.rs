//! The catalogue as a whole; and that checks answer no where the figures would contradict a claim.

use std::collections::BTreeSet;

use super::*;
use crate::number::Number;
use crate::record::{Cell, Status};

#[test]
fn names_are_unique_and_say_what_kind_of_exhibit_it_is() {
    let ids: Vec<&str> = CATALOGUE.iter().map(|exhibit| exhibit.id).collect();
    for id in &ids {
        assert!(["fig-", "tab-", "ext-"].iter().any(|kind| id.starts_with(kind)), "{id}");
    }
    assert_distinct(&ids);
}

#[track_caller]
fn assert_distinct(names: &[&str]) {
    let distinct: BTreeSet<&&str> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
}

/// Every exhibit at every scale.
fn everywhere() -> impl Iterator<Item = (&'static Exhibit, Scale)> {
    let scales = [Scale::Smoke, Scale::Desk, Scale::Paper];
    CATALOGUE.iter().flat_map(move |exhibit| scales.map(|scale| (exhibit, scale)))
}

#[test]
fn every_page_is_complete_at_every_scale() {
    for (exhibit, scale) in everywhere() {
        let page = exhibit.page(scale);
        for (part, text) in [
            ("title", &page.title),
            ("claim", &page.claim),
            ("method", &page.method),
            ("reference", &page.reference),
        ] {
            assert!(!text.is_empty(), "{} has no {part}", exhibit.id);
        }
    }
}

#[test]
fn cells_of_a_plan_have_names_of_their_own_that_can_name_files() {
    for (exhibit, scale) in everywhere() {
        let plan = exhibit.plan(scale);
        let keys: Vec<&str> = plan.cells.iter().map(|cell| cell.key.as_str()).collect();
        let fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        assert!(keys.iter().all(|key| key.chars().all(fine)), "{keys:?}");
        assert_distinct(&keys);
    }
}

/// A finished record of an exhibit, with the numbers of each cell by its key.
fn record_of(id: &str, scale: Scale, numbers: impl Fn(&str) -> Vec<(String, f64)>) -> Record {
    let exhibit = find(id).unwrap();
    let plan = exhibit.plan(scale);
    let made =
        Record::new(id, Some(scale), None, exhibit.page(scale), plan.settings, plan.cells.len());
    let cell = |task: crate::plan::Task| Cell {
        numbers: numbers(&task.key).into_iter().map(|(name, x)| (name, Number(x))).collect(),
        key: crate::relative_path::RelativePath::new(task.key),
        settings: task.settings,
        version: String::new(),
        commit: String::new(),
        verdict: None,
        hash: None,
        run: None,
        device: None,
        hashes: Default::default(),
        series: Default::default(),
        fields: Default::default(),
        files: Default::default(),
    };
    let mut record = Record { cells: plan.cells.into_iter().map(cell).collect(), ..made };
    record.checks = (exhibit.checks)(&record);
    record
}

#[test]
fn every_claim_is_tested_at_desk_and_paper_scale_and_a_reason_is_a_clause() {
    for exhibit in CATALOGUE {
        for scale in [Scale::Desk, Scale::Paper] {
            assert_eq!(exhibit.not_tested(scale), None, "{}", exhibit.id);
            let checks = record_of(exhibit.id, scale, |_| vec![]).checks;
            assert!(!checks.is_empty(), "{}", exhibit.id);
        }
        match exhibit.not_tested(Scale::Smoke) {
            Some(why) => {
                let is_clause = why.len() > 20 && !why.ends_with('.');
                assert!(is_clause && !why.starts_with(char::is_uppercase), "{why}");
            }
            None => {
                let checks = record_of(exhibit.id, Scale::Smoke, |_| vec![]).checks;
                assert!(!checks.is_empty(), "{}", exhibit.id);
            }
        }
    }
}

#[test]
fn no_exhibit_holds_on_numbers_that_are_missing() {
    for (exhibit, scale) in everywhere() {
        let status = record_of(exhibit.id, scale, |_| vec![]).status().name();
        assert_eq!(status, "fails", "{} at {scale}", exhibit.id);
    }
}

#[test]
fn a_smaller_learning_rate_that_diverges_more_fails() {
    let with = |large: f64, small: f64| {
        let numbers = move |key: &str| {
            let distance = if key == "lr-1" { large } else { small };
            vec![
                ("distance-k3".to_owned(), distance),
                ("first_test_accuracy-k1".to_owned(), 0.1),
                ("test_accuracy-k1".to_owned(), 0.4),
            ]
        };
        record_of("fig-divergence-lr", Scale::Desk, numbers)
    };
    assert_eq!(with(0.05, 1e-6).status(), Status::Holds);
    assert_eq!(with(1e-6, 0.05).status(), Status::Fails);
    assert_eq!(with(0.05, 0.05).status(), Status::Fails);
}

/// Tables of three seeds times six factors, in percent.
fn architectures(accuracy: impl Fn(u64, u64) -> f64) -> Record {
    let numbers = |key: &str| {
        let seed = u64::from(key.as_bytes()[key.len() - 1]);
        let of = |k: u64| {
            [
                (format!("test_accuracy-k{k}"), accuracy(seed, k) / 100.0),
                (format!("rel_l1-k{k}"), 1.0),
            ]
        };
        [1, 3, 5, 7, 9, 11].into_iter().flat_map(of).collect()
    };
    record_of("tab-architectures", Scale::Desk, numbers)
}

#[test]
fn equal_accuracies_leave_their_quotient_undecided() {
    assert_eq!(architectures(|_, _| 20.0 / 3.0).status(), Status::Undecided);
}

#[test]
fn what_three_seeds_cannot_tell_is_undecided_and_what_they_can_is_told() {
    let noise = |seed: u64, k: u64| lastbit::rng::Stream::new(seed, k).normal(0);
    // Batches alone move nothing, as much as rounding does, or a hundred times as much.
    let with = |of_seeds: f64| {
        architectures(|seed, k| 60.0 + of_seeds * (seed % 3) as f64 + noise(seed, k))
            .status()
            .name()
    };
    assert_eq!((with(1.0), with(100.0)), ("undecided", "fails"));
    // Seeds with nearly equal means: close to the largest quotient there is, √(6/5).
    let alike =
        architectures(|seed, k| 60.0 + ((k + 4 * seed) % 12) as f64 + 0.1 * (seed % 3) as f64);
    assert_eq!(alike.status(), Status::Holds, "{:#?}", alike.checks);
}

#[test]
fn a_late_flip_that_matters_fails() {
    let with = |early: f64, late: f64| {
        let numbers = move |_: &str| {
            let of = |t: usize| {
                let distance = if t < 900 { early } else { late };
                let name = |what: &str| format!("{what}-flip-conv1.weight-0-at{t}");
                [(name("rel_l1"), distance), (name("churn"), 0.3)]
            };
            [0, 100, 300, 500, 700, 800, 880, 920, 1000, 1150, 1300, 1400, 1480]
                .into_iter()
                .flat_map(of)
                .collect()
        };
        record_of("ext-butterfly", Scale::Desk, numbers).status().name()
    };
    assert_eq!((with(1.4, 1e-9), with(1.4, 1.2), with(1e-9, 1e-9)), ("holds", "fails", "fails"));
}

#[test]
fn bits_that_are_kept_fail() {
    let with = |single: f64, double: f64| {
        let numbers = move |key: &str| {
            vec![("agreeing_bits-k3".to_owned(), if key == "f32" { single } else { double })]
        };
        record_of("ext-significant-bits", Scale::Desk, numbers).status().name()
    };
    assert_eq!((with(0.5, 8.0), with(23.9, 8.0), with(0.5, 52.0)), ("holds", "fails", "fails"));
}
