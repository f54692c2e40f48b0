//! Waves, and descent with momentum.

use super::super::scheme::Scheme;
use super::{KnownSteps, TextbookScheme, scheme};

pub(super) const SECOND_ORDER: &[TextbookScheme] = &[
    TextbookScheme {
        name: "wave-leap-frog",
        help: "u_tt = speed^2 u_xx.",
        parameters: &["dx", "speed"],
        condition: "|speed| dt/dx <= 1",
        known: |p| KnownSteps::UpTo(p.dx / p.speed.abs()),
        build: |p| wave_leap_frog(p.speed, p.dx),
    },
    TextbookScheme {
        name: "nesterov",
        help: "Nesterov's recursion at curvature z.",
        parameters: &["mu", "z"],
        condition: "z dt^2 <= 4/(1 + 2 mu)",
        known: |p| KnownSteps::UpTo((4.0 / ((1.0 + 2.0 * p.mu) * p.z)).sqrt()),
        build: |p| nesterov(p.z, p.mu),
    },
    TextbookScheme {
        name: "nesterov-heat",
        help: "Nesterov's recursion on the heat equation.",
        parameters: &["dx", "kappa", "mu"],
        condition: "kappa dt^2/dx^2 <= 1/(1 + 2 mu)",
        known: |p| KnownSteps::UpTo(p.dx / (p.kappa * (1.0 + 2.0 * p.mu)).sqrt()),
        build: |p| nesterov_heat(p.kappa, p.mu, p.dx),
    },
];

/// Centred in time and space, three time levels.
pub fn wave_leap_frog(speed: f64, dx: f64) -> Scheme {
    let c = speed / dx;
    let square = c * c;
    scheme(&[
        (0, &[-1], &[0.0, 0.0, square]),
        (0, &[0], &[2.0, 0.0, -2.0 * square]),
        (0, &[1], &[0.0, 0.0, square]),
        (-1, &[0], &[-1.0]),
    ])
}

/// Nesterov's recursion at one curvature `z`, with no space in it:
/// `V = K + mu (K − K₋₁)`, `K₊₁ = V − s z V`, `s = dt² (1 + mu)/2`. It approximates
/// `K_tt + d K_t = −z K` with `mu = (2 − d dt)/(2 + d dt)`.
pub fn nesterov(z: f64, mu: f64) -> Scheme {
    let s = (1.0 + mu) / 2.0;
    scheme(&[(0, &[0], &[1.0 + mu, 0.0, -(1.0 + mu) * s * z]), (-1, &[0], &[-mu, 0.0, mu * s * z])])
}

/// Nesterov's recursion on the heat equation: `z` becomes `κ/dx² (2 − E − E⁻¹)`, `E` the shift.
pub fn nesterov_heat(kappa: f64, mu: f64, dx: f64) -> Scheme {
    let k = kappa / (dx * dx) * (1.0 + mu) / 2.0;
    let (present, past) = ((1.0 + mu) * k, -mu * k);
    scheme(&[
        (0, &[-1], &[0.0, 0.0, present]),
        (0, &[0], &[1.0 + mu, 0.0, -2.0 * present]),
        (0, &[1], &[0.0, 0.0, present]),
        (-1, &[-1], &[0.0, 0.0, past]),
        (-1, &[0], &[-mu, 0.0, -2.0 * past]),
        (-1, &[1], &[0.0, 0.0, past]),
    ])
}
