//! The analysis of a noise study as text.

use lastbit_lab::noise::{
    Analysis, Comparison, Decision, PlannedLook, PlannedStudy, Question, Spread, TargetTest, pairs,
    percent, short,
};
use lastbit_lab::number::Number;

use crate::cli::table::table;

/// Tables, shares and the verdict.
pub fn text(analysis: &Analysis, question: &Question) -> String {
    let unit = match question.unit.as_str() {
        "" => String::new(),
        unit => format!(", in {unit}"),
    };
    let confidence = percent(question.confidence());
    let mut text = format!("{}{unit}; {confidence} confidence intervals\n\n", question.metric);
    text += &spreads(&analysis.groups, question);
    text += &answers(&analysis.groups);
    text += &comparisons(&analysis.comparisons, question);
    text += &targets(&analysis.targets, question);
    text += &analysis.plan.as_ref().map(plan).unwrap_or_default();
    for share in &analysis.rounding_shares {
        text += &format!(
            "Rounding ({}) accounts for {} of the variance of {} (interval {} to {}).\n",
            share.rounding,
            percent_short(share.share),
            share.of,
            percent_short(share.interval[0]),
            percent_short(share.interval[1]),
        );
    }
    if let Some(grid) = &analysis.grid {
        text += &format!(
            "Over {} seeds: sigma {} between seeds, {} between groups, {} residual; rounding accounts \
             for {} of the variance of a run.\n",
            grid.seeds,
            short(grid.sigma_seed),
            short(grid.sigma_group),
            short(grid.sigma_rounding),
            percent_short(grid.rounding_share),
        );
    }
    if !text.ends_with("\n\n") {
        text.push('\n');
    }
    for sentence in &analysis.verdict.sentences {
        text += &format!("{sentence}\n");
    }
    text
}

fn percent_short(share: f64) -> String {
    format!("{} %", short(100.0 * share))
}

fn optional(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), short)
}

fn interval(ends: Option<[f64; 2]>) -> String {
    ends.map_or("-".to_owned(), |[low, high]| format!("{} … {}", short(low), short(high)))
}

fn spreads(groups: &[Spread], question: &Question) -> String {
    let gain = question.gain.map(|gain| format!("n for {}", short(gain)));
    let chance = format!("detectable at {} power", percent(question.power));
    let mut header =
        vec!["group", "n", "mean", "sigma", "interval", "interval (BCa)", "min", "max", &chance];
    header.extend(gain.as_deref());
    let row = |spread: &Spread| {
        let lost = match spread.diverged {
            0 => String::new(),
            lost => format!(" ({lost} diverged)"),
        };
        let mut row = vec![
            format!("{}{lost}", spread.group),
            spread.n.to_string(),
            Number(spread.mean).to_string(),
            optional(spread.sigma),
            interval(spread.sigma_interval),
            interval(spread.sigma_bca),
            Number(spread.min).to_string(),
            Number(spread.max).to_string(),
            optional(spread.detectable),
        ];
        if question.gain.is_some() {
            row.push(spread.runs_needed.map_or("-".to_owned(), |n| n.to_string()));
        }
        row
    };
    table(&header, groups.iter().map(row)) + "\n"
}

fn answers(groups: &[Spread]) -> String {
    let header = [
        "two runs of",
        "predicted class differs %",
        "only one correct %",
        "SD if disagreements were independent",
        "sigma",
    ];
    let row = |spread: &Spread| {
        let answers = spread.answers?;
        Some(vec![
            spread.group.clone(),
            short(100.0 * answers.churn),
            short(100.0 * answers.disagreement),
            short(answers.sigma_of_coin_tosses),
            optional(spread.sigma),
        ])
    };
    let rows: Vec<Vec<String>> = groups.iter().filter_map(row).collect();
    if rows.is_empty() { String::new() } else { table(&header, rows) + "\n" }
}

fn comparisons(all: &[Comparison], question: &Question) -> String {
    if all.is_empty() {
        return String::new();
    }
    let needed = question.gain.map(|gain| format!("n for {}", short(gain)));
    let chance = format!("detectable at {} power", percent(question.power));
    let mut header = vec![
        "new - base",
        "n",
        "gain",
        "interval",
        "interval (BCa)",
        "sigma",
        "p",
        "p (Holm)",
        "p (t)",
        &chance,
    ];
    header.extend(needed.as_deref());
    let row = |one: &Comparison| {
        let [base, new] = one.sizes;
        let mut row = vec![
            format!("{} - {}", one.new, one.base),
            if one.paired { pairs(one.n) } else { format!("{base} and {new}, unpaired") },
            short(one.gain),
            interval(one.gain_interval),
            interval(one.gain_bca),
            optional(one.sigma),
            short(one.p),
            short(one.p_holm),
            optional(one.p_t),
            optional(one.detectable),
        ];
        if question.gain.is_some() {
            row.push(one.runs_needed.map_or("-".to_owned(), |n| n.to_string()));
        }
        row
    };
    let mut text = table(&header, all.iter().map(row));
    let left_out: usize = all.iter().map(|one| one.without_partner).sum();
    if left_out > 0 {
        let (runs, were) = if left_out == 1 { ("run", "was") } else { ("runs", "were") };
        text += &format!("{left_out} {runs} without a partner of the same seed {were} ignored.\n");
    }
    text + "\n"
}

fn targets(all: &[TargetTest], question: &Question) -> String {
    let Some(first) = all.first() else { return String::new() };
    let side = format!("{} {}", first.side.name(), Number(first.target));
    let bound = format!("bound ({})", percent(question.confidence()));
    let chance = format!("detectable at {} power", percent(question.power));
    let header = ["group", "n", "mean", &side, &bound, "p (one-sided)", "p (Holm)", &chance];
    let row = |test: &TargetTest| {
        vec![
            test.group.clone(),
            test.n.to_string(),
            Number(test.mean).to_string(),
            decision(test.decision).to_owned(),
            test.bound.map_or("-".to_owned(), |bound| Number(bound).to_string()),
            optional(test.p),
            optional(test.p_holm),
            optional(test.detectable),
        ]
    };
    table(&header, all.iter().map(row)) + "\n"
}

fn decision(decision: Decision) -> &'static str {
    match decision {
        Decision::Significant => "significant",
        Decision::NotSignificant => "not significant",
        Decision::Undecided => "undecided",
    }
}

/// The looks of a plan.
pub fn plan(plan: &PlannedStudy) -> String {
    let unit = plan.design.unit();
    let header = ["look", unit, "t", "p (t)", "stopped, no gain", "stopped, with gain"];
    let row = |(i, look): (usize, &PlannedLook)| {
        vec![
            (i + 1).to_string(),
            look.n.to_string(),
            short(look.t),
            short(look.p),
            percent_short(look.stopped_without_gain),
            percent_short(look.stopped_with_gain),
        ]
    };
    let sigma_of = plan.sigma_of.as_ref().map_or(String::new(), |name| format!(" of {name}"));
    format!(
        "Plan ({}) for a gain of {} and sigma {}{sigma_of}: stop at the first look at which p (t) is at \
         most\n\n{}\nThe level holds whatever sigma is; the power holds for this sigma.\n\n",
        plan.boundary.name(),
        short(plan.gain),
        short(plan.sigma),
        table(&header, plan.looks.iter().enumerate().map(row))
    )
}
