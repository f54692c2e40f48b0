//! Advection, with and without diffusion.

use super::super::scheme::Scheme;
use super::{KnownSteps, Parameters, TextbookScheme, runge_kutta_4, scheme};

/// `|v| dt/dx ≤ number`.
fn courant(number: f64) -> impl Fn(&Parameters) -> KnownSteps {
    move |p| KnownSteps::UpTo(number * p.dx / p.speed.abs())
}

pub(super) const ADVECTION: &[TextbookScheme] = &[
    TextbookScheme {
        name: "advection-ftcs",
        help: "u_t + speed u_x = 0, forward in time, centred in space.",
        parameters: &["dx", "speed"],
        condition: "no dt",
        known: |_| KnownSteps::Never,
        build: |p| advection_ftcs(p.speed, p.dx),
    },
    TextbookScheme {
        name: "advection-upwind",
        help: "u_t + speed u_x = 0, difference against the flow.",
        parameters: &["dx", "speed"],
        condition: "|speed| dt/dx <= 1",
        known: |p| courant(1.0)(p),
        build: |p| advection_upwind(p.speed, p.dx),
    },
    TextbookScheme {
        name: "advection-lax-friedrichs",
        help: "u_t + speed u_x = 0, neighbours averaged.",
        parameters: &["dx", "speed"],
        condition: "|speed| dt/dx <= 1",
        known: |p| courant(1.0)(p),
        build: |p| advection_lax_friedrichs(p.speed, p.dx),
    },
    TextbookScheme {
        name: "advection-lax-friedrichs-2d",
        help: "u_t + speed u_x + speed-y u_y = 0, neighbours averaged.",
        parameters: &["dx", "speed", "speed-y"],
        condition: "(speed^2 + speed-y^2) dt^2/dx^2 <= 1/2",
        known: |p| {
            let square = p.speed * p.speed + p.speed_y * p.speed_y;
            KnownSteps::UpTo(p.dx / (2.0 * square).sqrt())
        },
        build: |p| advection_lax_friedrichs_2d(p.speed, p.speed_y, p.dx),
    },
    TextbookScheme {
        name: "advection-lax-wendroff",
        help: "u_t + speed u_x = 0, second order.",
        parameters: &["dx", "speed"],
        condition: "|speed| dt/dx <= 1",
        known: |p| courant(1.0)(p),
        build: |p| advection_lax_wendroff(p.speed, p.dx),
    },
    TextbookScheme {
        name: "advection-beam-warming",
        help: "u_t + speed u_x = 0, second order, differences against the flow.",
        parameters: &["dx", "speed"],
        condition: "|speed| dt/dx <= 2",
        known: |p| courant(2.0)(p),
        build: |p| advection_beam_warming(p.speed, p.dx),
    },
    TextbookScheme {
        name: "advection-leap-frog",
        help: "u_t + speed u_x = 0, centred in time and space.",
        parameters: &["dx", "speed"],
        condition: "|speed| dt/dx <= 1",
        known: |p| courant(1.0)(p),
        build: |p| advection_leap_frog(p.speed, p.dx),
    },
    TextbookScheme {
        name: "advection-rk4",
        help: "u_t + speed u_x = 0, classical Runge-Kutta, centred in space.",
        parameters: &["dx", "speed"],
        condition: "|speed| dt/dx <= 2 sqrt(2)",
        known: |p| courant(8.0_f64.sqrt())(p),
        build: |p| advection_rk4(p.speed, p.dx),
    },
    TextbookScheme {
        name: "advection-diffusion",
        help: "u_t + speed u_x = kappa u_xx, forward in time, centred in space.",
        parameters: &["dx", "kappa", "speed"],
        condition: "dt <= min(dx^2/(2 kappa), 2 kappa/speed^2)",
        known: |p| {
            let waves = 2.0 * p.kappa / (p.speed * p.speed);
            KnownSteps::UpTo(waves.min(p.dx * p.dx / (2.0 * p.kappa)))
        },
        build: |p| advection_diffusion(p.speed, p.kappa, p.dx),
    },
    TextbookScheme {
        name: "advection-diffusion-2d",
        help: "u_t + speed u_x + speed-y u_y = kappa (u_xx + u_yy), forward in time, centred in space.",
        parameters: &["dx", "kappa", "speed", "speed-y"],
        condition: "dt <= min(dx^2/(4 kappa), 2 kappa/(speed^2 + speed-y^2))",
        known: |p| {
            let waves = 2.0 * p.kappa / (p.speed * p.speed + p.speed_y * p.speed_y);
            KnownSteps::UpTo(waves.min(p.dx * p.dx / (4.0 * p.kappa)))
        },
        build: |p| advection_diffusion_2d([p.speed, p.speed_y], p.kappa, p.dx),
    },
];

/// Forward in time, centred in space: unstable at every step.
pub fn advection_ftcs(speed: f64, dx: f64) -> Scheme {
    let c = speed / dx / 2.0;
    scheme(&[(0, &[-1], &[0.0, c]), (0, &[0], &[1.0]), (0, &[1], &[0.0, -c])])
}

/// One-sided difference on the side the flow comes from.
pub fn advection_upwind(speed: f64, dx: f64) -> Scheme {
    let c = speed.abs() / dx;
    let upstream = if speed >= 0.0 { -1 } else { 1 };
    scheme(&[(0, &[upstream], &[0.0, c]), (0, &[0], &[1.0, -c])])
}

/// The mean of both neighbours in place of the centre.
pub fn advection_lax_friedrichs(speed: f64, dx: f64) -> Scheme {
    let c = speed / dx / 2.0;
    scheme(&[(0, &[-1], &[0.5, c]), (0, &[1], &[0.5, -c])])
}

/// The mean of the four neighbours in place of the centre.
pub fn advection_lax_friedrichs_2d(speed_x: f64, speed_y: f64, dx: f64) -> Scheme {
    let (x, y) = (speed_x / dx / 2.0, speed_y / dx / 2.0);
    // Offsets are (y, x).
    scheme(&[
        (0, &[0, -1], &[0.25, x]),
        (0, &[0, 1], &[0.25, -x]),
        (0, &[-1, 0], &[0.25, y]),
        (0, &[1, 0], &[0.25, -y]),
    ])
}

/// Second order in space and time.
pub fn advection_lax_wendroff(speed: f64, dx: f64) -> Scheme {
    let c = speed / dx;
    let (half, square) = (c / 2.0, c * c / 2.0);
    scheme(&[
        (0, &[-1], &[0.0, half, square]),
        (0, &[0], &[1.0, 0.0, -2.0 * square]),
        (0, &[1], &[0.0, -half, square]),
    ])
}

/// Second order in space and time, from the side the flow comes from:
/// `u − ν/2 (3u − 4u₋₁ + u₋₂) + ν²/2 (u − 2u₋₁ + u₋₂)`, neighbours upstream, `ν = |v| dt/dx`.
pub fn advection_beam_warming(speed: f64, dx: f64) -> Scheme {
    let c = speed.abs() / dx;
    let (half, square) = (c / 2.0, c * c / 2.0);
    let upstream = if speed >= 0.0 { -1 } else { 1 };
    scheme(&[
        (0, &[0], &[1.0, -3.0 * half, square]),
        (0, &[upstream], &[0.0, 4.0 * half, -2.0 * square]),
        (0, &[2 * upstream], &[0.0, -half, square]),
    ])
}

/// Centred in time and space, three time levels.
pub fn advection_leap_frog(speed: f64, dx: f64) -> Scheme {
    let c = speed / dx;
    scheme(&[(0, &[-1], &[0.0, c]), (0, &[1], &[0.0, -c]), (-1, &[0], &[1.0])])
}

/// The classical Runge-Kutta method in time, centred in space.
pub fn advection_rk4(speed: f64, dx: f64) -> Scheme {
    let c = speed / dx / 2.0;
    runge_kutta_4(&[(-1, c), (1, -c)])
}

/// Forward in time, centred in space. Advection and diffusion are terms of their own: added, the
/// smaller would lose digits.
pub fn advection_diffusion(speed: f64, kappa: f64, dx: f64) -> Scheme {
    let (c, k) = (speed / dx / 2.0, kappa / (dx * dx));
    scheme(&[
        (0, &[0], &[1.0, -2.0 * k]),
        (0, &[-1], &[0.0, k]),
        (0, &[1], &[0.0, k]),
        (0, &[-1], &[0.0, c]),
        (0, &[1], &[0.0, -c]),
    ])
}

/// The same in the plane, with speeds along x and y.
pub fn advection_diffusion_2d(speeds: [f64; 2], kappa: f64, dx: f64) -> Scheme {
    let ([x, y], k) = (speeds.map(|speed| speed / dx / 2.0), kappa / (dx * dx));
    // Offsets are (y, x).
    scheme(&[
        (0, &[0, 0], &[1.0, -4.0 * k]),
        (0, &[0, -1], &[0.0, k]),
        (0, &[0, 1], &[0.0, k]),
        (0, &[-1, 0], &[0.0, k]),
        (0, &[1, 0], &[0.0, k]),
        (0, &[0, -1], &[0.0, x]),
        (0, &[0, 1], &[0.0, -x]),
        (0, &[-1, 0], &[0.0, y]),
        (0, &[1, 0], &[0.0, -y]),
    ])
}
