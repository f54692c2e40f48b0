//! Certified steps of the schemes of the textbook at random parameters: what is certain never excludes the
//! condition in closed form.

use lastbit::pde::textbook::{self as book, KnownSteps, Parameters};
use lastbit::spectrum::certified::{Kind, Piece, stable_steps};

use super::Draw;

/// Whether a piece says more than the closed form, which is a few roundings off itself.
fn excludes(piece: &Piece, known: KnownSteps) -> bool {
    let rounding = 8.0 * f64::EPSILON;
    match (&piece.kind, known) {
        (Kind::Undecided(_), _) => false,
        (Kind::Stable, KnownSteps::Never) | (Kind::Unstable { .. }, KnownSteps::Always) => true,
        (Kind::Stable, KnownSteps::UpTo(edge)) => piece.to > edge * (1.0 + rounding),
        (Kind::Unstable { .. }, KnownSteps::UpTo(edge)) => piece.from < edge * (1.0 - rounding),
        (Kind::Stable, KnownSteps::Always) | (Kind::Unstable { .. }, KnownSteps::Never) => false,
    }
}

/// What the pieces leave undecided, relative to the edge.
fn undecided_share(pieces: &[Piece], known: KnownSteps) -> f64 {
    let open = pieces.iter().filter(|piece| matches!(piece.kind, Kind::Undecided(_)));
    match known {
        KnownSteps::UpTo(edge) => open.map(|piece| (piece.to - piece.from) / edge).sum(),
        KnownSteps::Always | KnownSteps::Never => open.count() as f64,
    }
}

fn compare(cases: u64) {
    let rows: Vec<_> = book::all().collect();
    let (mut wrong, mut wide) = (Vec::new(), Vec::new());
    for case in 0..cases {
        let mut draw = Draw::new(51, case);
        let row = rows[case as usize % rows.len()];
        let mut size = || draw.log_uniform(1e-3, 1e3);
        let (dx, kappa, lambda, z) = (size(), size(), size(), size());
        let (speed, speed_y) = (size(), size());
        let parameters = Parameters {
            dx,
            kappa,
            lambda,
            speed: draw.normal().signum() * speed,
            speed_y: draw.normal().signum() * speed_y,
            mu: if draw.is_one_in(10) { 0.0 } else { draw.uniform(0.0, 1.0) },
            z,
        };
        let known = (row.known)(&parameters);
        let steps = stable_steps(&(row.build)(&parameters));
        let what = || format!("{case}: {} {parameters:?}, {known:?}: {steps:?}", row.name);
        if steps.pieces.iter().any(|piece| excludes(piece, known)) {
            wrong.push(what());
        }
        // As wide as the brackets of the textbook are promised to be.
        if undecided_share(&steps.pieces, known) > 1e-9 {
            wide.push(what());
        }
    }
    println!("brackets: {cases} cases, {} wrong, {} wider than 1e-9", wrong.len(), wide.len());
    wrong.iter().take(10).for_each(|what| println!("  wrong: {what}"));
    wide.iter().take(10).for_each(|what| println!("  wide: {what}"));
    assert!(wrong.is_empty(), "{} of {cases} wrong: {}", wrong.len(), wrong[0]);
    assert!(20 * wide.len() as u64 <= cases, "{} of {cases} undecided: {}", wide.len(), wide[0]);
}

#[test]
fn no_certified_step_excludes_the_condition_of_the_textbook() {
    // Each scheme once; some take a tenth of a second.
    compare(book::all().count() as u64);
}

/// `cargo test --release -p lastbit --test mathematics random_verdicts::brackets -- --ignored --nocapture`
#[test]
#[ignore = "ten thousand cases"]
fn no_certified_step_of_ten_thousand_excludes_the_condition_of_the_textbook() {
    compare(10_000);
}
