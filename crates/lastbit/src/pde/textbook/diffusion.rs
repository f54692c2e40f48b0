//! Heat and reaction-diffusion equations.

use super::super::scheme::Scheme;
use super::{KnownSteps, TextbookScheme, multistep, runge_kutta_4, scheme};

/// Where the classical Runge-Kutta method ceases to be stable on the negative real axis: the root of
/// `1 + z/2 + z²/6 + z³/24` (that is, `R(z) = 1`).
const RUNGE_KUTTA_4_REAL: f64 = 2.785_293_563_405_282;

pub(super) const DIFFUSION: &[TextbookScheme] = &[
    TextbookScheme {
        name: "heat",
        help: "u_t = kappa u_xx, forward Euler.",
        parameters: &["dx", "kappa"],
        condition: "kappa dt/dx^2 <= 1/2",
        known: |p| KnownSteps::UpTo(p.dx * p.dx / p.kappa / 2.0),
        build: |p| heat(p.kappa, p.dx),
    },
    TextbookScheme {
        name: "heat-2d",
        help: "u_t = kappa (u_xx + u_yy), forward Euler.",
        parameters: &["dx", "kappa"],
        condition: "kappa dt/dx^2 <= 1/4",
        known: |p| KnownSteps::UpTo(p.dx * p.dx / p.kappa / 4.0),
        build: |p| heat_2d(p.kappa, p.dx),
    },
    TextbookScheme {
        name: "heat-crank-nicolson",
        help: "u_t = kappa u_xx, implicit.",
        parameters: &["dx", "kappa"],
        condition: "every dt",
        known: |_| KnownSteps::Always,
        build: |p| heat_crank_nicolson(p.kappa, p.dx),
    },
    TextbookScheme {
        name: "heat-fourth-order",
        help: "u_t = kappa u_xx, forward Euler, fourth-order differences.",
        parameters: &["dx", "kappa"],
        condition: "kappa dt/dx^2 <= 3/8",
        known: |p| KnownSteps::UpTo(p.dx * p.dx / p.kappa * 3.0 / 8.0),
        build: |p| heat_fourth_order(p.kappa, p.dx),
    },
    TextbookScheme {
        name: "heat-dufort-frankel",
        help: "u_t = kappa u_xx, leap-frog with the centre averaged over time.",
        parameters: &["dx", "kappa"],
        condition: "every dt",
        known: |_| KnownSteps::Always,
        build: |p| heat_dufort_frankel(p.kappa, p.dx),
    },
    TextbookScheme {
        name: "heat-bdf2",
        help: "u_t = kappa u_xx, implicit, backward differences of second order.",
        parameters: &["dx", "kappa"],
        condition: "every dt",
        known: |_| KnownSteps::Always,
        build: |p| heat_bdf2(p.kappa, p.dx),
    },
    TextbookScheme {
        name: "heat-ab2",
        help: "u_t = kappa u_xx, Adams-Bashforth of second order.",
        parameters: &["dx", "kappa"],
        condition: "kappa dt/dx^2 <= 1/4",
        known: |p| KnownSteps::UpTo(p.dx * p.dx / p.kappa / 4.0),
        build: |p| heat_ab2(p.kappa, p.dx),
    },
    TextbookScheme {
        name: "heat-ab3",
        help: "u_t = kappa u_xx, Adams-Bashforth of third order.",
        parameters: &["dx", "kappa"],
        condition: "kappa dt/dx^2 <= 3/22",
        known: |p| KnownSteps::UpTo(p.dx * p.dx / p.kappa * 3.0 / 22.0),
        build: |p| heat_ab3(p.kappa, p.dx),
    },
    TextbookScheme {
        name: "heat-rk4",
        help: "u_t = kappa u_xx, classical Runge-Kutta.",
        parameters: &["dx", "kappa"],
        condition: "kappa dt/dx^2 <= 2.7853/4",
        known: |p| KnownSteps::UpTo(p.dx * p.dx / p.kappa * RUNGE_KUTTA_4_REAL / 4.0),
        build: |p| heat_rk4(p.kappa, p.dx),
    },
    TextbookScheme {
        name: "reaction-diffusion",
        help: "u_t = kappa u_xx - lambda u, forward Euler.",
        parameters: &["dx", "kappa", "lambda"],
        condition: "dt <= 2/(lambda + 4 kappa/dx^2)",
        known: |p| KnownSteps::UpTo(2.0 / (p.lambda + 4.0 * p.kappa / (p.dx * p.dx))),
        build: |p| reaction_diffusion(p.kappa, p.lambda, p.dx),
    },
    TextbookScheme {
        name: "reaction-diffusion-2d",
        help: "The same in the plane.",
        parameters: &["dx", "kappa", "lambda"],
        condition: "dt <= 2/(lambda + 8 kappa/dx^2)",
        known: |p| KnownSteps::UpTo(2.0 / (p.lambda + 8.0 * p.kappa / (p.dx * p.dx))),
        build: |p| reaction_diffusion_2d(p.kappa, p.lambda, p.dx),
    },
];

/// `κ ∂_xx`, second order.
fn laplacian(kappa: f64, dx: f64) -> [(i32, f64); 3] {
    let k = kappa / (dx * dx);
    [(-1, k), (0, -2.0 * k), (1, k)]
}

/// Forward in time, centred in space.
pub fn heat(kappa: f64, dx: f64) -> Scheme {
    reaction_diffusion(kappa, 0.0, dx)
}

/// Forward in time, five-point stencil in the plane.
pub fn heat_2d(kappa: f64, dx: f64) -> Scheme {
    reaction_diffusion_2d(kappa, 0.0, dx)
}

/// Half the diffusion at the old time, half at the new: implicit.
pub fn heat_crank_nicolson(kappa: f64, dx: f64) -> Scheme {
    let k = kappa / (dx * dx) / 2.0;
    scheme(&[
        (1, &[-1], &[0.0, k]),
        (1, &[0], &[0.0, -2.0 * k]),
        (1, &[1], &[0.0, k]),
        (0, &[-1], &[0.0, k]),
        (0, &[0], &[1.0, -2.0 * k]),
        (0, &[1], &[0.0, k]),
    ])
}

/// Forward in time, differences `(−1, 16, −30, 16, −1)/12`.
pub fn heat_fourth_order(kappa: f64, dx: f64) -> Scheme {
    let k = kappa / (dx * dx) / 12.0;
    scheme(&[
        (0, &[-2], &[0.0, -k]),
        (0, &[-1], &[0.0, 16.0 * k]),
        (0, &[0], &[1.0, -30.0 * k]),
        (0, &[1], &[0.0, 16.0 * k]),
        (0, &[2], &[0.0, -k]),
    ])
}

/// `(u₊₁ − u₋₁)/2dt = κ/dx² (u[x−1] − (u₊₁ + u₋₁)[x] + u[x+1])`.
pub fn heat_dufort_frankel(kappa: f64, dx: f64) -> Scheme {
    let k = 2.0 * kappa / (dx * dx);
    scheme(&[
        (1, &[0], &[0.0, -k]),
        (0, &[-1], &[0.0, k]),
        (0, &[1], &[0.0, k]),
        (-1, &[0], &[1.0, -k]),
    ])
}

/// `u₊₁ = (4 u − u₋₁ + 2 dt κ ∂_xx u₊₁)/3`.
pub fn heat_bdf2(kappa: f64, dx: f64) -> Scheme {
    let weights = [(0.0, 2.0 / 3.0), (4.0 / 3.0, 0.0), (-1.0 / 3.0, 0.0)];
    multistep(&laplacian(kappa, dx), &weights)
}

/// `u₊₁ = u + dt κ ∂_xx (3 u − u₋₁)/2`.
pub fn heat_ab2(kappa: f64, dx: f64) -> Scheme {
    multistep(&laplacian(kappa, dx), &[(0.0, 0.0), (1.0, 1.5), (0.0, -0.5)])
}

/// `u₊₁ = u + dt κ ∂_xx (23 u − 16 u₋₁ + 5 u₋₂)/12`.
pub fn heat_ab3(kappa: f64, dx: f64) -> Scheme {
    let weights = [(0.0, 0.0), (1.0, 23.0 / 12.0), (0.0, -16.0 / 12.0), (0.0, 5.0 / 12.0)];
    multistep(&laplacian(kappa, dx), &weights)
}

/// The classical Runge-Kutta method in time, centred in space.
pub fn heat_rk4(kappa: f64, dx: f64) -> Scheme {
    runge_kutta_4(&laplacian(kappa, dx))
}

/// Heat with linear decay `lambda`; the linearized Beltrami equation.
pub fn reaction_diffusion(kappa: f64, lambda: f64, dx: f64) -> Scheme {
    let k = kappa / (dx * dx);
    scheme(&[(0, &[-1], &[0.0, k]), (0, &[0], &[1.0, -2.0 * k - lambda]), (0, &[1], &[0.0, k])])
}

/// Heat with linear decay in the plane.
pub fn reaction_diffusion_2d(kappa: f64, lambda: f64, dx: f64) -> Scheme {
    let k = kappa / (dx * dx);
    scheme(&[
        (0, &[-1, 0], &[0.0, k]),
        (0, &[1, 0], &[0.0, k]),
        (0, &[0, -1], &[0.0, k]),
        (0, &[0, 1], &[0.0, k]),
        (0, &[0, 0], &[1.0, -4.0 * k - lambda]),
    ])
}
