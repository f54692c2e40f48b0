//! A table of runs and the question about it: read, checked and analysed in memory.

use std::collections::HashSet;
use std::path::Path;

use lastbit::statistics::sequential::MOST_LOOKS;
use lastbit_formats::results;

use super::spread::{Group, Run};
use super::{Analysis, Compare, Question, Side, analyse};
use crate::error::Error;
use crate::input;
use crate::number::digits;
use crate::validate::within;

/// The groups of a CSV of results, and the hash of its bytes.
pub fn read_table(path: &Path) -> Result<(Vec<Group>, String), Error> {
    let bytes = input::read(path)?;
    let runs = results::parse(&bytes).map_err(|error| Error::input(path, error))?;
    Ok((Group::all_of(runs), blake3::hash(&bytes).to_hex()[..32].to_owned()))
}

/// Analyses a table of runs; `from` is its name in messages.
pub fn analyse_table(
    groups: &[Group],
    question: &Question,
    from: &Path,
) -> Result<Analysis, Error> {
    check_runs(groups, from)?;
    if question.pairs && question.target.is_none() {
        each_seed_once(groups, from)?;
    }
    if let Compare::Pair([base, new]) = &question.compare {
        known("--compare", base, groups)?;
        known("--compare", new, groups)?;
        if base == new {
            let expected = "two groups, BASE,NEW";
            return Err(Error::setting("--compare", format!("{base},{new}"), expected));
        }
    }
    for name in &question.rounding {
        known("--last-bit", name, groups)?;
    }
    let analysis = analyse(groups, question);
    if question.equivalent.is_some() && analysis.comparisons.is_empty() {
        let expected = "two groups to compare, for --equivalent";
        return Err(input::refuse(from, "one group", expected));
    }
    if question.grid && analysis.grid.is_none() {
        let found = "no two groups with two seeds in common";
        return Err(input::refuse(from, found, "the same seeds in every group, for --grid"));
    }
    Ok(analysis)
}

impl Question {
    /// Refuses numbers out of range, by the names of the flags of `lastbit noise`.
    pub fn check(&self) -> Result<(), Error> {
        // Two runs a side know their sigma so badly that at smaller levels nothing is detectable.
        for (flag, value, low) in
            [("--level", self.level, 1e-4), ("--power", self.power, self.level)]
        {
            if !(low..1.0).contains(&value) || flag == "--level" && value > 0.5 {
                let high = if flag == "--level" { "0.5" } else { "below 1" };
                let expected = format!("a number from {low} to {high}");
                return Err(Error::setting(flag, digits(value), expected));
            }
        }
        for (flag, value) in [("--gain", self.gain), ("--equivalent", self.equivalent)] {
            positive(flag, value)?;
        }
        if let Some(target) = self.target
            // Not NaN either.
            && !(-1e100..=1e100).contains(&target.value)
        {
            let flag = match target.side {
                Side::Below => "--below",
                Side::Above => "--above",
            };
            let expected = "a finite number such as 3.28";
            return Err(Error::setting(flag, digits(target.value), expected));
        }
        if let Some(plan) = self.plan {
            within("--plan", plan.looks, 1, MOST_LOOKS)?;
        }
        within("--resamples", self.resampling.resamples, 99, 10_000_000)
    }
}

/// A difference or a spread that is given.
pub fn positive(flag: &str, value: Option<f64>) -> Result<(), Error> {
    match value.filter(|value| !(*value > 0.0 && *value <= 1e100)) {
        Some(value) => Err(Error::setting(flag, digits(value), "a number greater than 0")),
        None => Ok(()),
    }
}

fn known(flag: &str, name: &str, groups: &[Group]) -> Result<(), Error> {
    if groups.iter().any(|group| group.name == name) {
        return Ok(());
    }
    let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
    Err(Error::setting(flag, name, format!("one of {}", names.join(", "))))
}

/// What a CSV is held to, of runs that come from elsewhere.
fn check_runs(groups: &[Group], from: &Path) -> Result<(), Error> {
    if groups.is_empty() {
        return Err(input::refuse(from, "no runs", "one run at least"));
    }
    for Group { name, runs, .. } in groups {
        if runs.is_empty() {
            return Err(input::refuse(from, format!("no runs in group {name}"), "one at least"));
        }
        // Not NaN either.
        let is_finite = |run: &&Run| run.value.abs() <= results::LARGEST;
        if let Some(run) = runs.iter().find(|run| !is_finite(run)) {
            let seed = run.seed.as_ref().map_or(String::new(), |seed| format!(", seed {seed}"));
            let found = format!("{} in group {name}{seed}", digits(run.value));
            let expected = "finite numbers (of size up to 1e100); leave out runs without a result";
            return Err(input::refuse(from, found, expected));
        }
    }
    Ok(())
}

/// A seed that comes twice in a group is a run pasted twice, or a column that was forgotten: taken for
/// runs of their own, they would show what is not there.
fn each_seed_once(groups: &[Group], from: &Path) -> Result<(), Error> {
    for group in groups {
        let mut seen = HashSet::new();
        let mut seeds = group.runs.iter().filter_map(|run| run.seed.as_deref());
        if let Some(seed) = seeds.find(|seed| !seen.insert(*seed)) {
            let found = format!("seed {seed} more than once in group {}", group.name);
            let expected = "each seed once in a group; --unpaired leaves seeds aside";
            return Err(input::refuse(from, found, expected));
        }
    }
    Ok(())
}
