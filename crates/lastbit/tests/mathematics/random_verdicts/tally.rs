//! Counts of right, wrong and undecided verdicts.

use std::collections::BTreeMap;

use lastbit::verdict::{Judgement, LEAST_STEPS, Verdict};

use super::Rate;

/// Whether so many steps should decide: as many as a verdict takes at least, and enough for the slowest
/// mode to grow or shrink by twenty e-folds.
pub(super) fn steps_suffice(rate: Rate, steps: usize) -> bool {
    steps >= LEAST_STEPS && rate.least.max(-rate.most) * steps as f64 >= 20.0
}

/// What was found among the cases of a kind.
#[derive(Debug, Default)]
pub(super) struct Tally {
    cases: usize,
    /// Per verdict; reasons of those undecided.
    verdicts: BTreeMap<&'static str, usize>,
    /// Stable although differences grow, more slowly than the resolution that the verdict names.
    pub(super) below_resolution: usize,
    wrong: Vec<String>,
    /// Cases whose steps suffice, and the undecided ones among them.
    suffice: usize,
    undecided_although: Vec<String>,
}

impl Tally {
    /// Counts a verdict that is right or wrong by itself.
    pub(super) fn add(&mut self, judged: &Judgement, is_wrong: bool, suffices: bool, what: &str) {
        self.cases += 1;
        self.suffice += usize::from(suffices);
        let name = match judged.verdict {
            Verdict::Undecided(doubt) => doubt.name(),
            decided => decided.kind().name(),
        };
        *self.verdicts.entry(name).or_default() += 1;
        if is_wrong {
            self.wrong.push(format!("{what}: {judged:?}"));
        }
        if suffices && matches!(judged.verdict, Verdict::Undecided(_)) {
            self.undecided_although.push(format!("{what}: {judged:?}"));
        }
    }

    /// Counts the verdict on a linear run. It is never restrained, diverges where `ln ρ > 0` and is
    /// stable up to its resolution otherwise.
    pub(super) fn add_linear(
        &mut self,
        judged: &Judgement,
        rate: Rate,
        suffices: bool,
        what: &str,
    ) {
        let is_wrong = match judged.verdict.is_stable() {
            Some(true) => rate.least > judged.resolution,
            Some(false) => rate.most <= 0.0 || judged.verdict == Verdict::Restrained,
            None => false,
        };
        self.below_resolution +=
            usize::from(judged.verdict == Verdict::Stable && rate.least > 0.0 && !is_wrong);
        self.add(judged, is_wrong, suffices, &format!("{what}, {rate:?}"));
    }

    /// Prints the counts; fails if one is wrong, or more than 5 % undecided where steps suffice.
    #[track_caller]
    pub(super) fn report(&self, kind: &str) {
        let Self { cases, verdicts, below_resolution, wrong, suffice, undecided_although } = self;
        println!("{kind}: {cases} cases, {} wrong; {verdicts:?}", wrong.len());
        println!(
            "  steps suffice in {suffice}, of which {} undecided; stable below the resolution: {below_resolution}",
            undecided_although.len()
        );
        for (name, list) in [("wrong", wrong), ("undecided", undecided_although)] {
            list.iter().take(60).for_each(|what| println!("  {name}: {what}"));
        }
        assert!(wrong.is_empty(), "{kind}: {} of {cases} wrong: {:#?}", wrong.len(), &wrong[..1]);
        assert!(20 * undecided_although.len() <= *suffice, "{kind}: too many undecided");
    }
}
