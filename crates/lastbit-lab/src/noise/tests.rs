//! Groups with known answers.

use super::spread::Run;
use super::*;

fn question() -> Question {
    Question {
        metric: "accuracy".to_owned(),
        unit: "points".to_owned(),
        level: 0.05,
        power: 0.8,
        gain: None,
        lower_is_better: false,
        target: None,
        equivalent: None,
        plan: None,
        rounding: vec![],
        compare: Compare::WithFirst,
        pairs: true,
        grid: false,
        resampling: Resampling { resamples: 199, seed: 0 },
    }
}

fn group(name: &str, runs: &[(&str, f64)]) -> Group {
    let run = |(seed, value): &(&str, f64)| Run { seed: Some((*seed).to_owned()), value: *value };
    let runs = runs.iter().map(run).collect();
    Group { name: name.to_owned(), runs, diverged: 0, answers: None }
}

const SEEDS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Runs with the seeds a, b, …
fn seeded(name: &str, values: &[f64]) -> Group {
    let runs: Vec<(&str, f64)> = SEEDS.into_iter().zip(values.iter().copied()).collect();
    group(name, &runs)
}

#[track_caller]
fn says(analysis: &Analysis, parts: &[&str]) {
    let sentence = analysis.verdict.sentences.join(" ");
    for part in parts {
        assert!(sentence.contains(part), "\"{part}\" is missing in: {sentence}");
    }
}

#[test]
fn runs_are_paired_by_seed_in_any_order() {
    let base = group("old", &[("a", 1.0), ("b", 2.0), ("c", 4.0)]);
    let new = group("new", &[("c", 5.0), ("x", 9.0), ("a", 3.0)]);
    let found = analyse(&[base, new], &question()).comparisons.remove(0);
    assert!(found.paired);
    // Gains 2 and 1; b and x have no partner.
    assert_eq!((found.n, found.without_partner, found.gain), (2, 2, 1.5));
}

#[test]
fn seeds_that_are_not_shared_or_not_unique_make_no_pairs() {
    let base = group("old", &[("a", 1.0), ("a", 2.0), ("a", 4.0)]);
    let new = group("new", &[("a", 5.0), ("b", 9.0), ("c", 3.0)]);
    let found = analyse(&[base.clone(), new.clone()], &question()).comparisons.remove(0);
    assert!(!found.paired && found.without_partner == 0);
    let other = group("other", &[("b", 5.0), ("c", 9.0), ("d", 3.0)]);
    let no_pairs = Question { pairs: false, ..question() };
    assert!(analyse(&[new.clone(), other.clone()], &question()).comparisons[0].paired);
    assert!(!analyse(&[new, other], &no_pairs).comparisons[0].paired);
}

#[test]
fn a_gain_is_significant_from_six_pairs_on() {
    let base = [93.1, 93.4, 93.2, 93.9, 93.3, 93.0];
    let better = base.map(|value| value + 0.5);
    let six = analyse(&[seeded("old", &base), seeded("new", &better)], &question());
    assert!(six.verdict.significant);
    says(
        &six,
        &[
            "The gain of new over old, 0.5 points, is significant",
            "p = 0.0312 over 6 pairs (no interval: all 6 differences are equal",
        ],
    );
    let five = analyse(&[seeded("old", &base[..5]), seeded("new", &better[..5])], &question());
    assert!(!five.verdict.significant);
    says(&five, &["is not significant", "2/2^5 = 0.0625", "at 5 %", "at least 6 pairs"]);
    assert_eq!(five.comparisons[0].detectable, None, "nothing can be found");
    let one = analyse(&[seeded("old", &base[..1]), seeded("new", &better[..1])], &question());
    says(&one, &["with 1 pair the smallest two-sided p is 2/2^1 = 1"]);
}

#[test]
fn a_loss_is_no_gain_however_sure_it_is() {
    let base = [93.1, 93.4, 93.2, 93.9, 93.3, 93.0];
    let groups = [seeded("old", &base), seeded("new", &base.map(|value| value - 0.5))];
    let found = analyse(&groups, &question());
    assert!(!found.verdict.significant);
    says(&found, &["new is significantly worse than old (−0.5 points"]);
    let lower = Question { lower_is_better: true, ..question() };
    assert!(analyse(&groups, &lower).verdict.significant);
}

#[test]
fn several_comparisons_are_corrected() {
    let base = [93.1, 93.4, 93.2, 93.9, 93.3, 93.0];
    let better = base.map(|value| value + 0.5);
    let groups = [seeded("old", &base), seeded("new", &better), seeded("newer", &better)];
    let found = analyse(&groups, &question());
    assert_eq!(found.comparisons.len(), 2);
    assert_eq!((found.comparisons[0].p, found.comparisons[0].p_holm), (0.03125, 0.0625));
    assert!(!found.verdict.significant);
    says(&found, &["times 2 comparisons", "at least 7 pairs"]);
    // The table says what the sentence says, and equal gains have no sigma of rounding.
    let first = &found.comparisons[0];
    assert_eq!((first.sigma, first.detectable, first.runs_needed), (Some(0.0), None, None));
    let uneven = [93.5, 94.0, 93.8, 94.3, 93.9, 93.4];
    let groups = [seeded("old", &base), seeded("new", &uneven), seeded("newer", &better)];
    let first = analyse(&groups, &question()).comparisons.remove(0);
    assert_eq!(
        (first.detectable, first.runs_needed),
        (None, None),
        "no power of the gain observed"
    );
    let asked = Question { gain: Some(first.gain), ..question() };
    let first = analyse(&groups, &asked).comparisons.remove(0);
    assert_eq!((first.detectable, first.runs_needed), (None, Some(7)));
    let one = Question { compare: Compare::Pair(["old".into(), "newer".into()]), ..question() };
    assert!(analyse(&groups, &one).verdict.significant);
}

#[test]
fn a_gain_between_two_runs_is_held_against_the_noisiest_group() {
    let last_bit = seeded("last-bit", &[93.1, 93.4, 93.2, 93.5, 93.3, 93.0]);
    let batch = seeded("batch", &[93.0, 93.5, 93.1, 93.6, 93.3, 92.9]);
    let ask = |gain: Option<f64>| {
        let rounding = vec!["last-bit".to_owned()];
        analyse(
            &[last_bit.clone(), batch.clone()],
            &Question { gain, rounding, compare: Compare::Nothing, ..question() },
        )
    };
    // Sigma of batch: squares 0.0544, 0.0711, 0.0178, 0.1344, 0.0044, 0.1111 over 5: 0.2805; t of 5
    // degrees at 97.5 % is 2.571: 2.571 √2 0.2805 = 1.020.
    let small = ask(Some(0.2));
    assert!(!small.verdict.significant && small.comparisons.is_empty());
    let reach = small.verdict.between_two_runs.unwrap();
    assert!((reach - 1.0197).abs() < 1e-4, "{reach}");
    says(
        &small,
        &[
            "A gain of 0.2 points between two runs is not significant",
            "the last bit alone moves accuracy by 0.187 points",
            "(batch) differ by up to 1.02 points",
            "runs a side detect it",
        ],
    );
    assert!(ask(Some(1.1)).verdict.significant);
    let none = ask(None);
    assert!(!none.verdict.significant);
    says(&none, &["No gain was given"]);
}

#[test]
fn too_little_data_are_answered_and_not_feared() {
    let one = seeded("one", &[93.0]);
    let found = analyse(std::slice::from_ref(&one), &Question { gain: Some(1.0), ..question() });
    assert!(!found.verdict.significant);
    says(&found, &["cannot be estimated from one run"]);
    let two = analyse(&[one.clone(), seeded("two", &[94.0])], &question());
    assert!(!two.verdict.significant && two.comparisons[0].p == 1.0);
    let equal = seeded("equal", &[93.0; 6]);
    let found = analyse(&[equal.clone(), seeded("same", &[93.0; 6])], &question());
    says(&found, &["have the same mean"]);
    let alone = analyse(&[equal], &Question { gain: Some(1.0), ..question() });
    assert!(!alone.verdict.significant);
    says(&alone, &["all 6 runs of a group are equal"]);
    says(&analyse(&[], &question()), &["all runs diverged"]);
}

#[test]
fn a_grid_splits_the_variance() {
    // Ten between seeds, and a column effect of one; no rest.
    let values = |shift: f64| [10.0, 20.0, 30.0].map(|value| value + shift);
    let groups = [seeded("k1", &values(0.0)), seeded("k3", &values(1.0))];
    let found = analyse(&groups, &Question { grid: true, compare: Compare::Nothing, ..question() });
    let grid = found.grid.unwrap();
    assert_eq!((grid.seeds, grid.sigma_seed, grid.sigma_rounding), (3, 10.0, 0.0));
    assert!(found.comparisons.is_empty());
}

#[test]
fn the_interval_is_students_or_welchs_and_none_is_given_without_spread() {
    let base = [93.1, 93.4, 93.2, 93.9, 93.3, 93.0];
    let new = [93.5, 94.0, 93.8, 94.3, 93.9, 93.4];
    let found = analyse(&[seeded("old", &base), seeded("new", &new)], &question());
    let one = &found.comparisons[0];
    // Differences 0.4, 0.6, 0.6, 0.4, 0.6, 0.4: mean 0.5, sigma √(6 · 0.01/5) = 0.10954, times
    // 2.5706/√6: 0.11496.
    let [low, high] = one.gain_interval.unwrap();
    assert!((low - 0.38504).abs() < 1e-5 && (high - 0.61496).abs() < 1e-5, "{low} {high}");
    says(&found, &["95 % interval 0.385 to 0.615"]);
    let unpaired = Question { pairs: false, ..question() };
    let found = analyse(&[seeded("old", &base), seeded("new", &new)], &unpaired);
    let [low, high] = found.comparisons[0].gain_interval.unwrap();
    assert!(low < 0.2 && high > 0.8, "the spread of both: {low} {high}");
    // Two pairs that agree are no certainty.
    let two = [seeded("old", &[1.0, 2.0]), seeded("new", &[1.5, 2.5])];
    let found = analyse(&two, &question());
    let one = &found.comparisons[0];
    assert_eq!((one.gain_interval, one.gain_bca, one.gain), (None, None, 0.5));
    assert_eq!(
        one.no_interval.as_deref(),
        Some("all 2 differences are equal, so their spread cannot be estimated")
    );
    assert_eq!((found.groups[0].sigma_bca, found.groups[0].sigma_interval.is_some()), (None, true));
    let equal = analyse(&[seeded("same", &[93.0; 3])], &question());
    let spread = &equal.groups[0];
    assert_eq!((spread.sigma_interval, spread.sigma_bca, spread.mean_interval), (None, None, None));
}

#[test]
fn a_gain_asked_for_is_excluded_compatible_or_exceeded() {
    let base = [93.1, 93.4, 93.2, 93.9, 93.3, 93.0];
    let new = [93.5, 94.0, 93.8, 94.3, 93.9, 93.4];
    let ask = |gain: f64, count: usize| {
        let groups = [seeded("old", &base[..count]), seeded("new", &new[..count])];
        analyse(&groups, &Question { gain: Some(gain), ..question() })
    };
    // The interval is 0.385 to 0.615.
    for (gain, place, part) in [
        (0.7, Place::Above, "A gain of 0.7 points is excluded: it is above the 95 % interval"),
        (0.5, Place::Within, "A gain of 0.5 points is compatible with these runs"),
        (0.3, Place::Below, "The gain is significantly larger than 0.3 points"),
    ] {
        let found = ask(gain, 6);
        let asked = found.comparisons[0].asked.unwrap();
        assert_eq!((asked.place, asked.detectable), (Some(place), Some(true)));
        says(&found, &["is significant", part, "6 pairs detect a gain of"]);
    }
    let small = ask(0.05, 6);
    assert_eq!(small.comparisons[0].asked.unwrap().detectable, Some(false));
    says(
        &small,
        &["6 pairs do not detect it at 80 % power (minimum detectable effect: 0.1", "pairs do."],
    );
    says(&ask(0.5, 5), &["5 pairs cannot detect any gain"]);
    says(&ask(0.5, 1), &["Whether a gain of 0.5 points is excluded cannot be said: one pair"]);
}

#[test]
fn runs_of_unequal_groups_all_count() {
    let values = [93.1, 93.4, 93.2, 93.9, 93.3, 93.0, 93.6, 93.35];
    let named = |name: &str, values: &[f64]| {
        let runs = values.iter().map(|value| Run { seed: None, value: *value }).collect();
        Group { name: name.to_owned(), runs, diverged: 0, answers: None }
    };
    let found = analyse(&[named("old", &values[..6]), named("new", &values)], &question());
    let one = &found.comparisons[0];
    assert_eq!((one.n, one.sizes, one.paired), (6, [6, 8], false));
    // 1.64862 by scipy's noncentral t (reference/t_tests_scipy.py).
    let effect = one.detectable.unwrap() / one.sigma.unwrap();
    assert!((effect - 1.64862).abs() < 1e-5, "{effect}");
}

#[test]
fn a_target_is_passed_missed_or_undecided() {
    let losses = [3.2791, 3.2773, 3.2785, 3.2768, 3.2779, 3.2782];
    let ask = |values: &[f64], value: f64, side: Side| {
        let target = Some(Target { side, value });
        let compare = Compare::Nothing;
        let question =
            Question { target, compare, unit: String::new(), gain: Some(0.001), ..question() };
        analyse(&[seeded("run", values)], &question)
    };
    // Mean 3.27797, sigma 8.2e-4, error 3.4e-4: t = −6.1 of 5 degrees.
    let passed = ask(&losses, 3.28, Side::Below);
    assert!(passed.verdict.significant && passed.targets[0].p.unwrap() < 0.001);
    assert!(passed.targets[0].bound.unwrap() < 3.28);
    says(&passed, &["The mean of run, 3.27797 over 6 runs, is significantly below 3.28"]);
    let missed = ask(&losses, 3.278, Side::Below);
    assert_eq!(missed.targets[0].decision, Decision::NotSignificant);
    assert!(missed.targets[0].bound.unwrap() > 3.278);
    says(
        &missed,
        &["is not significantly below 3.278", "minimum detectable distance", "runs detect"],
    );
    // Both directions share one p.
    let above = ask(&losses, 3.278, Side::Above);
    let sum = above.targets[0].p.unwrap() + missed.targets[0].p.unwrap();
    assert!((sum - 1.0).abs() < 1e-14, "{sum}");
    for (values, part) in
        [(&losses[..1], "with 1 run: one run"), (&[3.2; 4], "all 4 runs are equal")]
    {
        let found = ask(values, 3.28, Side::Below);
        assert_eq!(found.targets[0].decision, Decision::Undecided);
        assert!(!found.verdict.significant);
        says(&found, &["cannot be decided", part]);
    }
}

#[test]
fn equivalence_is_shown_or_not_and_never_assumed() {
    let base = [93.1, 93.4, 93.2, 93.9, 93.3, 93.0];
    let new = [93.12, 93.38, 93.21, 93.91, 93.27, 93.02];
    let ask = |margin: f64, count: usize| {
        let groups = [seeded("old", &base[..count]), seeded("new", &new[..count])];
        analyse(&groups, &Question { equivalent: Some(margin), ..question() })
    };
    let shown = ask(0.1, 6);
    assert_eq!(shown.verdict.equivalent, Some(true));
    says(&shown, &["new and old are equivalent within 0.1 points at level 0.05", "90 % interval"]);
    let not = ask(0.01, 6);
    assert_eq!(not.verdict.equivalent, Some(false));
    says(&not, &["Equivalence of new and old within 0.01 points is not shown"]);
    says(&ask(0.1, 1), &["cannot be tested: one pair has no spread"]);
    assert_eq!(analyse(&[seeded("a", &base)], &question()).verdict.equivalent, None);
}

#[test]
fn a_plan_takes_the_sigma_of_what_is_there() {
    let base = [93.1, 93.4, 93.2, 93.9, 93.3, 93.0];
    let new = [93.3, 93.5, 93.8, 94.0, 93.3, 93.4];
    let plan = Some(PlanRequest { looks: 2, boundary: Boundary::Pocock });
    let groups = [seeded("old", &base), seeded("new", &new)];
    let asked = Question { plan, gain: Some(0.4), ..question() };
    let found = analyse(&groups, &asked);
    let planned = found.plan.as_ref().unwrap();
    assert_eq!(planned.design, PlannedDesign::Paired);
    assert_eq!(Some(planned.sigma), found.comparisons[0].sigma);
    assert!(planned.looks.len() == 2 && planned.false_positives <= 0.05 && planned.power >= 0.8);
    says(&found, &["Sequential plan: at most", "pairs decide on a gain of 0.4 points"]);
    let equal = [seeded("old", &base), seeded("new", &base.map(|value| value + 0.5))];
    says(&analyse(&equal, &asked), &["No plan: the runs of new - old have no spread"]);
}
