//! Parameters and step-size bounds of Beltrami reaction-diffusion, in one and two dimensions.
//!
//! ```text
//! ∂u/∂t = div( ∇u / √(|∇u|² + δ²) ) + λ (I − u)
//! E(u)  = Σ  λ/2 (I − u)²  +  √(|∇u|² + δ²)
//! ```
//!
//! | step size | in `d` dimensions | meaning |
//! |---|---|---|
//! | [`dt_cfl`](Beltrami::dt_cfl)`(κ)` | `2/(λ + 4dκ/dx²)` | sharp: the checkerboard mode of a region of diffusivity `κ` is amplified beyond it |
//! | [`dt_sharp`](Beltrami::dt_sharp) | the same at the worst `κ = 1/δ` | no state is unstable below it |
//! | [`dt_paper`](Beltrami::dt_paper)`(κ)` | `1/(λ + 2κ/dx²)`; `2/(λ + 8κ/dx²)` | as printed; sufficient in 1-D, sharp in 2-D |
//! | [`dt_bounded`](Beltrami::dt_bounded) | `2/λ` | the flux is bounded by 1, so `|1 − λ dt| < 1` bounds the solution |
//!
//! Stable below `dt_sharp`, restrained from there to `dt_bounded`, unbounded above. What a restrained
//! run does is often a cycle of period two, of the amplitude of
//! [`cycle_amplitude`](Beltrami::cycle_amplitude).
//!
//! **Two local diffusivities.** The paper treats `κ = (|∇u|² + δ²)^(−1/2)` as constant. The exact
//! linearization of the flux has the coefficient `δ² κ³` along the gradient and `κ` across it.
//! In one dimension there is no "across": a steep place is far more stable than `κ` says.
//!
//! Reference: the paper, Section 3.2, and its withdrawn section on the same equation in 2-D.

/// Step size, mesh width and the two constants of the equation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beltrami {
    /// Step size.
    pub dt: f64,
    /// Mesh width.
    pub dx: f64,
    /// Gradient below which the diffusion is linear.
    pub delta: f64,
    /// Weight of the data.
    pub lambda: f64,
}

impl Beltrami {
    /// Name of [`cycle_amplitude`](Self::cycle_amplitude) among the closed forms.
    pub const CYCLE_AMPLITUDE: &'static str = "cycle_amplitude";

    /// Sharp step size where the diffusivity is `kappa`, in `dimensions`.
    pub fn dt_cfl(&self, kappa: f64, dimensions: usize) -> f64 {
        2.0 / (self.lambda + 4.0 * dimensions as f64 * kappa / (self.dx * self.dx))
    }

    /// [`dt_cfl`](Self::dt_cfl) where the solution is flat.
    pub fn dt_sharp(&self, dimensions: usize) -> f64 {
        self.dt_cfl(1.0 / self.delta, dimensions)
    }

    /// The paper's step size where the diffusivity is `kappa`.
    pub fn dt_paper(&self, kappa: f64, dimensions: usize) -> f64 {
        match dimensions {
            1 => 1.0 / (self.lambda + 2.0 * kappa / (self.dx * self.dx)),
            _ => self.dt_cfl(kappa, dimensions),
        }
    }

    /// Step size beyond which the solution is unbounded; infinite without data term.
    pub fn dt_bounded(&self) -> f64 {
        2.0 / self.lambda
    }

    /// Amplitude `2 √d dt/dx / (2 − λ dt)` of the cycle of period two into which a place falls where
    /// all slopes alternate and are steep.
    ///
    /// There the flux is a unit vector that turns around from place to place, its divergence
    /// `2√d/dx` against the deviation, and `−A = (1 − λ dt) A − 2√d dt/dx`. Infinite from
    /// [`dt_bounded`](Self::dt_bounded) on.
    pub fn cycle_amplitude(&self, dimensions: usize) -> f64 {
        let resistance = 2.0 - self.lambda * self.dt;
        if resistance > 0.0 { self.largest_push(dimensions) / resistance } else { f64::INFINITY }
    }

    /// `2 √d dt/dx`, what a flux that turns around adds to a value in one step.
    pub fn largest_push(&self, dimensions: usize) -> f64 {
        2.0 * (dimensions as f64).sqrt() * self.dt / self.dx
    }

    /// The bounds above, by name, and how far the step lies beyond the sharp one.
    pub fn closed_forms(&self, dimensions: usize) -> Vec<(&'static str, f64)> {
        vec![
            ("dt", self.dt),
            ("dt_sharp", self.dt_sharp(dimensions)),
            ("dt_paper", self.dt_paper(1.0 / self.delta, dimensions)),
            ("dt_bounded", self.dt_bounded()),
            ("overdrive", self.dt / self.dt_sharp(dimensions)),
            (Self::CYCLE_AMPLITUDE, self.cycle_amplitude(dimensions)),
        ]
    }

    pub(crate) fn check(&self) {
        let Self { dt, dx, delta, lambda } = *self;
        assert!(
            dt > 0.0 && dx > 0.0 && delta > 0.0 && lambda >= 0.0,
            "dt = {dt}, dx = {dx}, delta = {delta}, lambda = {lambda}: \
             need lambda at least 0 and the others positive"
        );
    }
}

/// Share of the places of a field at which the step size exceeds the local bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnstableShare {
    /// By the paper's diffusivity `κ`.
    pub by_kappa: f64,
    /// By the largest coefficient of the exact linearization: `δ²κ³` in 1-D, `κ` in 2-D.
    pub by_linearization: f64,
}

impl UnstableShare {
    /// Name of the first share in measurements.
    pub const BY_KAPPA: &'static str = "unstable_by_kappa";

    /// Name of the second.
    pub const BY_LINEARIZATION: &'static str = "unstable_by_linearization";

    /// Both shares by name.
    pub fn measures(self) -> [(&'static str, f64); 2] {
        [(Self::BY_KAPPA, self.by_kappa), (Self::BY_LINEARIZATION, self.by_linearization)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: Beltrami = Beltrami { dt: 1.0, dx: 1.0, delta: 0.01, lambda: 1.0 };

    #[test]
    fn bounds_at_the_settings_of_the_figure() {
        assert_eq!(SPEC.dt_sharp(1), 2.0 / 401.0);
        assert_eq!(SPEC.dt_paper(100.0, 1), 1.0 / 201.0);
        assert_eq!(SPEC.dt_sharp(2), 2.0 / 801.0);
        assert_eq!(SPEC.dt_paper(100.0, 2), 2.0 / 801.0);
        // Overdriven 100 times the solution is still bounded, 1000 times not.
        assert!(100.0 * SPEC.dt_sharp(1) < SPEC.dt_bounded());
        assert!(1000.0 * SPEC.dt_sharp(1) > SPEC.dt_bounded());
    }

    #[test]
    fn the_printed_bound_in_one_dimension_is_the_stricter_one() {
        for kappa in [0.1, 1.0, 10.0, 100.0] {
            assert!(SPEC.dt_paper(kappa, 1) < SPEC.dt_cfl(kappa, 1));
        }
    }
}
