//! Well-known linear schemes and the conditions under which they are stable.
//!
//! | scheme | equation | stable for |
//! |---|---|---|
//! | [`heat`] | `u_t = κ u_xx` | `κ dt/dx² ≤ 1/2` |
//! | [`heat_2d`] | `u_t = κ (u_xx + u_yy)` | `κ dt/dx² ≤ 1/4` |
//! | [`heat_crank_nicolson`] | `u_t = κ u_xx` | every `dt` |
//! | [`reaction_diffusion`] | `u_t = κ u_xx − λ u` | `dt ≤ 2/(λ + 4κ/dx²)` |
//! | [`reaction_diffusion_2d`] | `u_t = κ Δu − λ u` | `dt ≤ 2/(λ + 8κ/dx²)` |
//! | [`advection_ftcs`] | `u_t + v u_x = 0` | no `dt` |
//! | [`advection_upwind`] | `u_t + v u_x = 0` | `|v| dt/dx ≤ 1` |
//! | [`advection_lax_wendroff`] | `u_t + v u_x = 0` | `|v| dt/dx ≤ 1` |
//! | [`wave_leap_frog`] | `u_tt = v² u_xx` | `v dt/dx ≤ 1` |
//! | [`nesterov`] | `K_tt + d K_t = −z K`, `mu = (2 − d dt)/(2 + d dt)` | `z ≤ 4/((1 + 2 mu) dt²)` |
//! | [`nesterov_heat`] | the same with `z = −κ ∂_xx` | `dt² ≤ dx²/(κ (1 + 2 mu))` |

use super::scheme::{Scheme, Term};

/// Offsets with their coefficients (polynomials in `dt`) at one time level.
type Level<'a> = (i32, &'a [(&'a [i32], &'a [f64])]);

fn scheme(dimensions: usize, levels: &[Level]) -> Scheme {
    let terms = levels.iter().flat_map(|(level, stencil)| {
        stencil.iter().map(|(offset, coefficient)| Term {
            level: *level,
            offset: offset.to_vec(),
            coefficient: coefficient.to_vec(),
        })
    });
    Scheme::new(dimensions, terms.collect()).expect("the schemes of this file are well formed")
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
    let side: &[f64] = &[0.0, k];
    scheme(
        1,
        &[
            (1, &[(&[-1], side), (&[0], &[0.0, -2.0 * k]), (&[1], side)]),
            (0, &[(&[-1], side), (&[0], &[1.0, -2.0 * k]), (&[1], side)]),
        ],
    )
}

/// Heat with linear decay `lambda`; the linearized Beltrami equation.
pub fn reaction_diffusion(kappa: f64, lambda: f64, dx: f64) -> Scheme {
    let k = kappa / (dx * dx);
    scheme(1, &[(0, &[(&[-1], &[0.0, k]), (&[0], &[1.0, -2.0 * k - lambda]), (&[1], &[0.0, k])])])
}

/// Heat with linear decay in the plane.
pub fn reaction_diffusion_2d(kappa: f64, lambda: f64, dx: f64) -> Scheme {
    let k = kappa / (dx * dx);
    let side: &[f64] = &[0.0, k];
    scheme(
        2,
        &[(
            0,
            &[
                (&[-1, 0], side),
                (&[1, 0], side),
                (&[0, -1], side),
                (&[0, 1], side),
                (&[0, 0], &[1.0, -4.0 * k - lambda]),
            ],
        )],
    )
}

/// Forward in time, centred in space: unstable at every step.
pub fn advection_ftcs(speed: f64, dx: f64) -> Scheme {
    let c = speed / dx / 2.0;
    scheme(1, &[(0, &[(&[-1], &[0.0, c]), (&[0], &[1.0]), (&[1], &[0.0, -c])])])
}

/// One-sided difference on the side the flow comes from.
pub fn advection_upwind(speed: f64, dx: f64) -> Scheme {
    let c = speed.abs() / dx;
    let upstream: &[i32] = if speed >= 0.0 { &[-1] } else { &[1] };
    scheme(1, &[(0, &[(upstream, &[0.0, c]), (&[0], &[1.0, -c])])])
}

/// Second order in space and time.
pub fn advection_lax_wendroff(speed: f64, dx: f64) -> Scheme {
    let c = speed / dx;
    let (half, square) = (c / 2.0, c * c / 2.0);
    scheme(
        1,
        &[(
            0,
            &[
                (&[-1], &[0.0, half, square]),
                (&[0], &[1.0, 0.0, -2.0 * square]),
                (&[1], &[0.0, -half, square]),
            ],
        )],
    )
}

/// Centred in time and space, three time levels.
pub fn wave_leap_frog(speed: f64, dx: f64) -> Scheme {
    let c = speed / dx;
    let square = c * c;
    scheme(
        1,
        &[
            (
                0,
                &[
                    (&[-1], &[0.0, 0.0, square]),
                    (&[0], &[2.0, 0.0, -2.0 * square]),
                    (&[1], &[0.0, 0.0, square]),
                ],
            ),
            (-1, &[(&[0], &[-1.0])]),
        ],
    )
}

/// Nesterov's recursion at one curvature `z`, with no space in it:
/// `V = K + mu (K − K₋₁)`, `K₊₁ = V − s z V`, `s = dt² (1 + mu)/2`.
pub fn nesterov(z: f64, mu: f64) -> Scheme {
    let s = (1.0 + mu) / 2.0;
    scheme(
        1,
        &[
            (0, &[(&[0], &[1.0 + mu, 0.0, -(1.0 + mu) * s * z])]),
            (-1, &[(&[0], &[-mu, 0.0, mu * s * z])]),
        ],
    )
}

/// Nesterov's recursion on the heat equation: `z` becomes `κ/dx² (2 − E − E⁻¹)`, `E` the shift.
pub fn nesterov_heat(kappa: f64, mu: f64, dx: f64) -> Scheme {
    let k = kappa / (dx * dx) * (1.0 + mu) / 2.0;
    let (present, past) = ((1.0 + mu) * k, -mu * k);
    scheme(
        1,
        &[
            (
                0,
                &[
                    (&[-1], &[0.0, 0.0, present]),
                    (&[0], &[1.0 + mu, 0.0, -2.0 * present]),
                    (&[1], &[0.0, 0.0, present]),
                ],
            ),
            (
                -1,
                &[
                    (&[-1], &[0.0, 0.0, past]),
                    (&[0], &[-mu, 0.0, -2.0 * past]),
                    (&[1], &[0.0, 0.0, past]),
                ],
            ),
        ],
    )
}
