//! How kernels read a layer: `view.cu`, and `dot.cu` for derivatives along a direction.

use super::Run;
use super::bound::{Arithmetic, Near, exactly};
use super::curve::curve;
use crate::jobs::{Dots, View};

/// A layer of one replica, for some images.
pub struct Side {
    pub z: Vec<f64>,
    pub u: Vec<Near>,
    /// Scale, shift, mean, b, c of the channels.
    norm: Option<Vec<f64>>,
    pub channels: usize,
    activation: i32,
    beta: Near,
    t: Arithmetic,
    dots: Option<Moves>,
}

/// Its derivatives.
struct Moves {
    /// None where values do not move.
    z: Option<Vec<f64>>,
    u: Vec<f64>,
    /// `mean_dot, q, r, b_dot, c_dot` of the channels.
    norm: Option<Vec<f64>>,
}

impl Run {
    /// Numbers of a layer's images.
    pub fn numbers(view: &View, images: i32) -> usize {
        (images * view.height * view.width * view.channels) as usize
    }

    /// A layer as it is before the launch.
    pub fn side(&self, view: &View, replica: usize, images: i32) -> Side {
        let (len, stride) = (Self::numbers(view, images), view.stride as usize);
        let channels = view.channels as usize;
        let slot = match view.slot {
            0 => replica,
            slots => self.ram.ints(slots, replica, 1)[0] as usize,
        };
        Side {
            z: self.ram.reals(view.z, slot * stride, len),
            u: self.reals_if(view.u, replica * stride, len).into_iter().map(exactly).collect(),
            norm: self.norm(view.norm, replica, channels),
            channels,
            activation: view.activation,
            beta: self.t.round(exactly(view.beta)),
            t: self.t,
            dots: None,
        }
    }

    /// The same with its derivatives.
    pub fn side_dot(&self, view: &View, dots: &Dots, replica: usize, images: i32) -> Side {
        let (len, start) = (Self::numbers(view, images), replica * view.stride as usize);
        let moves = Moves {
            z: (dots.z != 0).then(|| self.ram.reals(dots.z, start, len)),
            u: self.reals_if(dots.u, start, len),
            norm: self.norm(dots.norm, replica, view.channels as usize),
        };
        Side { dots: Some(moves), ..self.side(view, replica, images) }
    }

    fn norm(&self, at: u64, replica: usize, channels: usize) -> Option<Vec<f64>> {
        (at != 0).then(|| self.ram.reals(at, replica * 5 * channels, 5 * channels))
    }

    /// Numbers at an address; none at none.
    pub fn reals_if(&self, at: u64, start: usize, len: usize) -> Vec<f64> {
        if at == 0 { vec![] } else { self.ram.reals(at, start, len) }
    }
}

impl Side {
    fn of_channel(&self, norm: &[f64], row: usize, i: usize) -> Near {
        exactly(norm[row * self.channels + i % self.channels])
    }

    /// The mean of a number's channel.
    pub fn mean(&self, i: usize) -> Near {
        self.norm.as_ref().map_or(Near::ZERO, |norm| self.of_channel(norm, 2, i))
    }

    /// That of its derivatives.
    pub fn mean_dot(&self, i: usize) -> Near {
        let norm = self.dots.as_ref().and_then(|dots| dots.norm.as_ref());
        norm.map_or(Near::ZERO, |norm| self.of_channel(norm, 0, i))
    }

    pub fn raw(&self, i: usize) -> Near {
        exactly(self.z[i])
    }

    /// The derivative of a raw value.
    pub fn raw_dot(&self, i: usize) -> Near {
        let moves = self.dots.as_ref().and_then(|dots| dots.z.as_ref());
        moves.map_or(Near::ZERO, |z| exactly(z[i]))
    }

    pub fn moves(&self) -> bool {
        self.dots.as_ref().is_some_and(|dots| dots.z.is_some())
    }

    fn n(&self, i: usize) -> Near {
        let Some(norm) = &self.norm else { return self.raw(i) };
        // Once, as on the device: where n is 0 decides what ReLU lets through.
        let [scale, shift] = [0, 1].map(|row| self.of_channel(norm, row, i));
        let x = self.z[i].mul_add(scale.x, shift.x);
        self.t.round(exactly(x))
    }

    fn curve(&self, i: usize) -> [Near; 3] {
        curve(self.activation, self.beta, self.n(i), self.t)
    }

    /// `v = r(n)`
    pub fn value(&self, i: usize) -> Near {
        self.curve(i)[0]
    }

    /// `g = r'(n) u`
    pub fn slope(&self, i: usize) -> Near {
        self.t.round(self.curve(i)[1] * self.u[i])
    }

    /// `dL/dz = scale g + b z + c`
    pub fn gradient(&self, i: usize) -> Near {
        let (g, t) = (self.slope(i), self.t);
        let Some(norm) = &self.norm else { return g };
        let [scale, b, c] = [0, 3, 4].map(|row| self.of_channel(norm, row, i));
        t.fused(scale, g, t.fused(b, self.raw(i), c))
    }

    fn n_dot(&self, i: usize) -> Near {
        let z_dot = self.raw_dot(i);
        let dots = self.dots.as_ref().and_then(|dots| dots.norm.as_ref());
        let (Some(norm), Some(dots)) = (&self.norm, dots) else { return z_dot };
        let scale = self.of_channel(norm, 0, i);
        let [q, r] = [1, 2].map(|row| self.of_channel(dots, row, i));
        self.t.fused(scale, z_dot, self.t.fused(q, self.raw(i), r))
    }

    /// `v' = r'(n) n'`
    pub fn value_dot(&self, i: usize) -> Near {
        if self.moves() { self.t.round(self.curve(i)[1] * self.n_dot(i)) } else { Near::ZERO }
    }

    /// `g' = r'(n) u' + r''(n) u n'`
    pub fn slope_dot(&self, i: usize) -> Near {
        let ([_, slope, curvature], t) = (self.curve(i), self.t);
        let dots = self.dots.as_ref().expect("read with derivatives");
        let bend = t.round(t.round(curvature * self.u[i]) * self.n_dot(i));
        t.fused(slope, exactly(dots.u[i]), bend)
    }

    /// `scale g' + q g + b z' + b' z + c'`
    pub fn gradient_dot(&self, i: usize) -> Near {
        let (g_dot, t) = (self.slope_dot(i), self.t);
        let dots = self.dots.as_ref().and_then(|dots| dots.norm.as_ref());
        let (Some(norm), Some(dots)) = (&self.norm, dots) else { return g_dot };
        let [scale, b] = [0, 3].map(|row| self.of_channel(norm, row, i));
        let [q, b_dot, c_dot] = [1, 3, 4].map(|row| self.of_channel(dots, row, i));
        let rest = t.fused(b, self.raw_dot(i), t.fused(b_dot, self.raw(i), c_dot));
        t.fused(scale, g_dot, t.fused(q, self.slope(i), rest))
    }

    /// What is carried forward: values, or their derivatives where these were read.
    pub fn forth(&self, i: usize) -> Near {
        if self.dots.is_some() { self.value_dot(i) } else { self.value(i) }
    }

    /// What is carried back.
    pub fn back(&self, i: usize) -> Near {
        if self.dots.is_some() { self.gradient_dot(i) } else { self.gradient(i) }
    }

    /// One of its readings for all numbers.
    pub fn all(&self, read: impl Fn(&Self, usize) -> Near) -> Vec<Near> {
        (0..self.z.len()).map(|i| read(self, i)).collect()
    }
}
