//! A sequential plan for the question: looks, boundaries, expected runs.

use lastbit::statistics::power::{Design, Tails};
use lastbit::statistics::sequential::{self, Aim, Boundary, MOST_RUNS};
use serde::Serialize;

use super::amount::{amount, percent};
use super::comparison::Comparison;
use super::spread::Spread;
use super::{Question, TargetTest};

/// What is planned for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedStudy {
    /// The comparison or group whose sigma was taken; none where it was given.
    pub sigma_of: Option<String>,
    /// Standard deviation that was assumed: of differences of pairs, or of runs.
    pub sigma: f64,
    /// The gain to be found.
    pub gain: f64,
    /// Whether runs are compared in pairs, in two groups or with a target.
    pub design: PlannedDesign,
    /// How the level is spread over the looks.
    pub boundary: Boundary,
    /// The looks.
    pub looks: Vec<PlannedLook>,
    /// Runs (pairs, runs a side) that a single test at the end would need.
    pub runs_of_one_look: usize,
    /// Simulated share of false positives, over all looks.
    pub false_positives: f64,
    /// Simulated chance of finding the gain, over all looks.
    pub power: f64,
    /// Expected runs without a gain.
    pub expected_runs_without_gain: f64,
    /// Expected runs with the gain.
    pub expected_runs_with_gain: f64,
}

/// How the runs of a plan are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlannedDesign {
    /// Seed by seed; two-sided.
    Paired,
    /// Two groups with as many runs each; two-sided.
    Unpaired,
    /// One group with a target; one-sided.
    Target,
}

/// A look at the runs so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PlannedLook {
    /// Pairs, runs a side, or runs so far.
    pub n: usize,
    /// Stop if |t| (with a target: t) reaches this.
    pub t: f64,
    /// The same in terms of the p-value of the t-test.
    pub p: f64,
    /// Chance to have stopped by now without a gain.
    pub stopped_without_gain: f64,
    /// Chance to have stopped by now with the gain.
    pub stopped_with_gain: f64,
}

impl PlannedDesign {
    /// What `n` counts.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Paired => "pairs",
            Self::Unpaired => "runs a side",
            Self::Target => "runs",
        }
    }
}

/// The plan that was asked for, with the sigma of the runs that are there; or why there is none.
pub fn of(
    spreads: &[Spread],
    comparisons: &[Comparison],
    targets: &[TargetTest],
    question: &Question,
) -> Option<Result<PlannedStudy, String>> {
    question.plan?;
    let spread = |name: &str| spreads.iter().find(|spread| spread.group == name);
    let (name, sigma, design) = if let Some(target) = targets.first() {
        let sigma = spread(&target.group).and_then(|spread| spread.sigma);
        (target.group.clone(), sigma, PlannedDesign::Target)
    } else if let Some(one) = comparisons.first() {
        let design = if one.paired { PlannedDesign::Paired } else { PlannedDesign::Unpaired };
        (format!("{} - {}", one.new, one.base), one.sigma, design)
    } else {
        let noisy =
            |a: &&Spread, b: &&Spread| a.sigma.unwrap_or(0.0).total_cmp(&b.sigma.unwrap_or(0.0));
        let noisiest = spreads.iter().max_by(noisy)?;
        (noisiest.group.clone(), noisiest.sigma, PlannedDesign::Unpaired)
    };
    let Some(sigma) = sigma.filter(|sigma| *sigma > 0.0) else {
        return Some(Err(format!(
            "No plan: the runs of {name} have no spread from which sigma could be estimated."
        )));
    };
    Some(with_sigma(sigma, Some(name), design, question))
}

/// The plan for a sigma that is known or assumed.
pub fn with_sigma(
    sigma: f64,
    sigma_of: Option<String>,
    design: PlannedDesign,
    question: &Question,
) -> Result<PlannedStudy, String> {
    let (Some(request), Some(gain)) = (question.plan, question.gain) else {
        return Err("No plan: there is no gain to plan for.".to_owned());
    };
    let (compared, tails) = match design {
        PlannedDesign::Paired => (Design::Paired, Tails::Two),
        PlannedDesign::Unpaired => (Design::Independent, Tails::Two),
        PlannedDesign::Target => (Design::Paired, Tails::One),
    };
    let aim = Aim {
        design: compared,
        tails,
        effect: gain / sigma,
        level: question.level,
        power: question.power,
    };
    let found = sequential::plan(aim, request.looks, request.boundary, question.resampling.seed)
        .ok_or_else(|| {
            let gain = amount(gain, question);
            let unit = design.unit();
            format!("No plan: a gain of {gain} needs more than {MOST_RUNS} {unit}.")
        })?;
    let look = |look: &sequential::Look| PlannedLook {
        n: look.n,
        t: look.t,
        p: look.p,
        stopped_without_gain: look.stopped[0],
        stopped_with_gain: look.stopped[1],
    };
    Ok(PlannedStudy {
        sigma_of,
        sigma,
        gain,
        design,
        boundary: request.boundary,
        looks: found.looks.iter().map(look).collect(),
        runs_of_one_look: found.runs_of_one_look,
        false_positives: found.false_positives,
        power: found.power,
        expected_runs_without_gain: found.expected_runs[0],
        expected_runs_with_gain: found.expected_runs[1],
    })
}

impl PlannedStudy {
    /// The plan in one sentence.
    pub fn sentence(&self, question: &Question) -> String {
        let most = self.looks.last().map_or(0, |look| look.n);
        let [without, with] = [self.expected_runs_without_gain, self.expected_runs_with_gain]
            .map(|runs| format!("{runs:.1}"));
        format!(
            "Sequential plan: at most {most} {} decide on a gain of {} at level {} with {} power; {with} \
             are expected if the gain is there, {without} if it is not (one test at the end: {}).",
            self.design.unit(),
            amount(self.gain, question),
            question.level,
            percent(question.power),
            self.runs_of_one_look,
        )
    }
}
