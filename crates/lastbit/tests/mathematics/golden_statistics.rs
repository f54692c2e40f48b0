//! Distributions, power, tests and intervals against scipy.
//!
//! `tests/golden/statistics.json` is made by `python reference/noise_scipy.py`, `t_tests.json` by
//! `python reference/t_tests_scipy.py`, `quotients.json` by `python reference/quotient_scipy.py`.

use lastbit::statistics::distributions::{
    chi_square_quantile, f_quantile, normal_cdf, normal_quantile, student_cdf, student_quantile,
};
use lastbit::statistics::noncentral::noncentral_t_cdf;
use lastbit::statistics::power::{Design, Sizes, Tails};
use lastbit::statistics::quotient::{Pooled, Quotient, within_over_total};
use lastbit::statistics::sample::Sample;
use lastbit::statistics::t_test::Estimate;
use lastbit::statistics::{Interval, Resampling, bootstrap, permutation};
use serde_json::Value;

use crate::json::{self, items, numbers};

fn golden() -> Value {
    json::golden(include_str!("../golden/statistics.json"))
}

#[track_caller]
fn assert_close(found: f64, expected: f64, tolerance: f64, what: &str) {
    let error = (found - expected).abs();
    assert!(error <= tolerance, "{what}: {found} against {expected}, off by {error:e}");
}

#[test]
fn distributions() {
    let golden = golden();
    let each = |name: &str, tolerance: f64, f: &dyn Fn(&[f64]) -> f64| {
        for case in golden["distributions"][name].as_array().expect("cases") {
            let case = numbers(case);
            let (expected, arguments) = case.split_last().expect("arguments and value");
            let found = f(arguments);
            assert_close(
                found,
                *expected,
                tolerance * expected.abs(),
                &format!("{name}{arguments:?}"),
            );
        }
    };
    // erfc is good to an ulp or two on either side, and a relative error of ε in the argument −8
    // changes it by 64 ε.
    each("normal_cdf", 1e-14, &|a| normal_cdf(a[0]));
    each("normal_quantile", 1e-14, &|a| normal_quantile(a[0]));
    // The exponent of the front factor is as large as ln Γ(ν/2) or ν ln ν: below 1000 for 300 degrees
    // of freedom, so its relative error is below 1000 ε = 2e-13; five times that for both sides.
    each("chi_square_quantile", 1e-12, &|a| chi_square_quantile(a[0], a[1]));
    each("student_cdf", 1e-12, &|a| student_cdf(a[0], a[1]));
    each("student_quantile", 1e-12, &|a| student_quantile(a[0], a[1]));
    // A tail of one degree of freedom is stretched: at p = 1e-6 the quantile of F(1, n) goes as p²,
    // and that of F(m, 1) at 0.999 as 1/(1−p)²; 1−p carries ε/(1−p) = 2e-13 of rounding.
    each("f_quantile", 4e-12, &|a| f_quantile(a[0], a[1], a[2]));
}

#[test]
fn noncentral_t() {
    for case in golden()["distributions"]["noncentral_t_cdf"].as_array().expect("cases") {
        let case = numbers(case);
        let found = noncentral_t_cdf(case[0], case[1], case[2]);
        // Absolute, for power is a sum of tails: scipy's series is good to about 1e-12.
        assert_close(found, case[3], 1e-11, &format!("{case:?}"));
    }
}

#[test]
fn power() {
    for case in golden()["power"].as_array().expect("cases") {
        let number = |key: &str| case[key].as_f64().expect("a number");
        let design = if case["paired"] == true { Design::Paired } else { Design::Independent };
        let n = case["n"].as_u64().expect("a count") as usize;
        let (level, power) = (number("level"), number("power"));
        let detectable =
            design.sizes(n).detectable(level, power, Tails::Two).expect("two runs or more");
        // Power changes by about 0.1 or more for a relative change of 1 in the gain, so an error of
        // 1e-11 in a share is one of 1e-10 in the gain.
        assert_close(detectable, number("detectable"), 1e-10 * detectable, &case.to_string());
        let needed = design.runs_needed(0.7 * detectable, level, power, Tails::Two);
        assert_eq!(needed.map(|n| n as u64), case["needed_for_0.7"].as_u64(), "{case}");
    }
}

fn t_tests() -> Value {
    json::golden(include_str!("../golden/t_tests.json"))
}

#[test]
fn minimum_detectable_effects_of_unequal_samples() {
    for case in t_tests()["detectable"].as_array().expect("cases") {
        let number = |key: &str| case[key].as_f64().expect("a number");
        let tails = if case["tails"] == 1 { Tails::One } else { Tails::Two };
        let sizes = match numbers(&case["sizes"])[..] {
            [n] => Sizes::Pairs(n as usize),
            [m, n] => Sizes::Sides(m as usize, n as usize),
            _ => panic!("{case}"),
        };
        let found = sizes.detectable(number("level"), number("power"), tails).expect("degrees");
        // As in `power`.
        assert_close(found, number("detectable"), 1e-10 * found, &case.to_string());
    }
}

#[test]
fn t_tests_of_samples() {
    for case in t_tests()["data"].as_array().expect("cases") {
        let (base, new) = (numbers(&case["base"]), numbers(&case["new"]));
        let margin = case["margin"].as_f64().expect("a number");
        for design in ["paired", "welch"].into_iter().filter(|design| !case[design].is_null()) {
            let expected = &case[design];
            let number = |key: &str| expected[key].as_f64().expect("a number");
            let found = match design {
                "paired" => Estimate::of_pairs(&base, &new),
                _ => Estimate::of_difference(&base, &new),
            };
            let found = found.expect("they differ");
            let what = format!("{design} {}", case["name"]);
            // Values near 93 are differences of 0.1, known to 100 ε of them at best: 2e-14 of 0.1,
            // in relative terms 2e-13; scipy squares sums of them. p moves by less than t does.
            let near = |found: f64, expected: f64| {
                assert_close(found, expected, 1e-11 * expected.abs(), &what);
            };
            near(found.degrees, number("degrees"));
            near(found.p_two_sided(0.0), number("p"));
            let ends = |key: &str| numbers(&expected[key]);
            // An end may lie near 0 although what it is the sum of does not.
            let near_end = |found: f64, expected: f64| assert_close(found, expected, 1e-12, &what);
            let interval = found.interval(0.95);
            near_end(interval.low, ends("interval")[0]);
            near_end(interval.high, ends("interval")[1]);
            let tested = found.equivalence(margin, 0.05);
            near(tested.p, number("equivalence_p"));
            near_end(tested.interval.low, ends("equivalence_interval")[0]);
            near_end(tested.interval.high, ends("equivalence_interval")[1]);
        }
        let number = |key: &str| case["target"][key].as_f64().expect("a number");
        let (found, target) = (Estimate::of_mean(&new).expect("they differ"), number("target"));
        let what = format!("target {}", case["name"]);
        assert_close(found.p_below(target), number("p_below"), 1e-11, &what);
        assert_close(found.p_above(target), number("p_above"), 1e-11, &what);
        assert_close(found.upper_bound(0.99), number("upper_bound"), 1e-11, &what);
        assert_close(found.lower_bound(0.99), number("lower_bound"), 1e-11, &what);
    }
}

#[test]
fn p_values() {
    for case in golden()["data"].as_array().expect("cases") {
        let (base, new) = (numbers(&case["base"]), numbers(&case["new"]));
        let p = |key: &str| case[key].as_f64();
        // As whole numbers of examples and as accuracies: ties must survive the rounding.
        let fractions = |values: &[f64]| values.iter().map(|x| x / 1e4).collect::<Vec<f64>>();
        for (base, new) in [(base.clone(), new.clone()), (fractions(&base), fractions(&new))] {
            let resampling = Resampling { resamples: 999_999, seed: 0 };
            let flipped = permutation::sign_flip(&base, &new, resampling);
            let expected = p("sign_flip_p").expect("every case has one");
            // Counts are exact; drawn ones have the standard error of a binomial share of p/2, of
            // which four are allowed.
            let drawn = 2.0 * (expected / 2.0 * (1.0 - expected / 2.0) / 1e6).sqrt();
            let tolerance = if flipped.exact { 0.0 } else { 4.0 * drawn };
            assert_eq!(flipped.exact, base.len() <= 20);
            assert_close(flipped.p, expected, tolerance, &case["name"].to_string());
            for (key, new) in [("split_p", &new[..]), ("unequal_split_p", &new[..new.len() - 2])] {
                if let Some(expected) = p(key) {
                    let split = permutation::split(&base, new, resampling);
                    // Both divide whole numbers; scipy doubles after dividing by a count that is no
                    // power of two.
                    assert_close(split.p, expected, 1e-15, &format!("{key} of {}", case["name"]));
                }
            }
        }
    }
}

#[test]
fn intervals() {
    // Both sides have a million resamples; the script derives the band for their random difference.
    let resampling = Resampling { resamples: 999_999, seed: 0 };
    for case in golden()["data"].as_array().expect("cases") {
        let (base, new) = (numbers(&case["base"]), numbers(&case["new"]));
        let sample = Sample::of(&new);
        let number = |key: &str| case[key].as_f64().expect("a number");
        assert_close(sample.mean, number("mean"), 1e-12 * sample.mean, "mean");
        let sigma = sample.sigma.expect("several runs");
        assert_close(sigma, number("sigma"), 1e-12 * sigma, "sigma");
        if sigma == 0.0 {
            continue;
        }
        let chi_square = sample.sigma_interval(0.95).expect("several runs");
        let expected = numbers(&case["sigma_interval"]);
        assert_close(chi_square.low, expected[0], 1e-12 * expected[0], "sigma interval");
        assert_close(chi_square.high, expected[1], 1e-12 * expected[1], "sigma interval");
        let differences: Vec<f64> = new.iter().zip(&base).map(|(new, base)| new - base).collect();
        let check = |key: &str, found: Option<Interval>| {
            let found = found.expect("several runs");
            for (found, golden) in
                [found.low, found.high].into_iter().zip(case[key].as_array().expect("ends"))
            {
                let band = numbers(&golden["band"]);
                let rounding = 1e-12 * found.abs();
                let is_within = band[0] - rounding <= found && found <= band[1] + rounding;
                assert!(is_within, "{key} of {}: {found}, scipy {golden}", case["name"]);
            }
        };
        check("bca_mean", bootstrap::of_mean(&new, 0.95, resampling));
        check("bca_sigma", bootstrap::of_sigma(&new, 0.95, resampling));
        check("bca_paired", bootstrap::of_mean(&differences, 0.95, resampling));
        check("bca_unpaired", bootstrap::of_difference(&base, &new, 0.95, resampling));
    }
}

#[test]
fn quotients_of_standard_deviations() {
    let cases = json::golden(include_str!("../golden/quotients.json"));
    let table = |value: &Value| -> Vec<Vec<f64>> { items(value).iter().map(numbers).collect() };
    for case in items(&cases) {
        let [first, second] = ["first", "second"].map(|name| table(&case[name]));
        let confidence = case["confidence"].as_f64().expect("a number");
        let [a, b] = [&first, &second].map(|groups| Pooled::within(groups).expect("a spread"));
        for (name, found) in [
            ("within_over_total", within_over_total(&first, confidence)),
            ("over", a.over(b, confidence)),
        ] {
            let Quotient { value, interval } = found.expect("a quotient");
            let found = [value, interval.low, interval.high];
            for (found, expected) in found.into_iter().zip(numbers(&case[name])) {
                // Runs of 93 with two decimals: a deviation of 0.1 carries 1000 ε, some of them in a
                // sum; quantiles are good to 4e-12 (above), and a quotient goes as their root.
                assert_close(found, expected, 4e-12 * expected, name);
            }
        }
    }
}
