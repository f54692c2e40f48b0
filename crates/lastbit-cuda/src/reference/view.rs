//! How kernels read a layer: `view.cu`, and `tangent.cu` for tangents.

use super::Launch;
use super::activation::activation;
use super::bound::{Arithmetic, Bounded, exactly};
use crate::kernel_args::{Tangents, View};

/// A layer of one replica, for some images.
pub struct LayerView {
    pub z: Vec<f64>,
    pub u: Vec<Bounded>,
    /// Scale, shift, mean, b, c of the channels.
    norm: Option<Vec<f64>>,
    pub channels: usize,
    activation: i32,
    beta: Bounded,
    t: Arithmetic,
    tangent: Option<Tangent>,
}

/// Its tangents.
struct Tangent {
    /// `None` for the network's input, which has no tangent.
    z: Option<Vec<f64>>,
    u: Vec<f64>,
    /// `mean_dot, q, r, b_dot, c_dot` of the channels.
    norm: Option<Vec<f64>>,
}

impl Launch {
    /// Numbers of a layer's images.
    pub fn numbers(view: &View, images: i32) -> usize {
        (images * view.height * view.width * view.channels) as usize
    }

    /// A layer before the launch.
    pub fn layer(&self, view: &View, images: i32) -> LayerView {
        let (len, stride) = (Self::numbers(view, images), view.stride as usize);
        let channels = view.channels as usize;
        let slot = match view.slot {
            0 => self.r,
            slots => self.memory.ints(slots, self.r, 1)[0] as usize,
        };
        LayerView {
            z: self.memory.reals(view.z, slot * stride, len),
            u: self.reals_if(view.u, self.r * stride, len).into_iter().map(exactly).collect(),
            norm: self.norm(view.norm, channels),
            channels,
            activation: view.activation,
            beta: self.t.round(exactly(view.beta)),
            t: self.t,
            tangent: None,
        }
    }

    /// The same with its tangents.
    pub fn layer_tangent(&self, view: &View, tangent: &Tangents, images: i32) -> LayerView {
        let (len, start) = (Self::numbers(view, images), self.r * view.stride as usize);
        let has_tangent = Tangent {
            z: (tangent.z != 0).then(|| self.memory.reals(tangent.z, start, len)),
            u: self.reals_if(tangent.u, start, len),
            norm: self.norm(tangent.norm, view.channels as usize),
        };
        LayerView { tangent: Some(has_tangent), ..self.layer(view, images) }
    }

    fn norm(&self, at: u64, channels: usize) -> Option<Vec<f64>> {
        (at != 0).then(|| self.memory.reals(at, self.r * 5 * channels, 5 * channels))
    }

    /// Numbers at an address; none at the null pointer.
    pub fn reals_if(&self, at: u64, start: usize, len: usize) -> Vec<f64> {
        if at == 0 { vec![] } else { self.memory.reals(at, start, len) }
    }
}

impl LayerView {
    fn of_channel(&self, norm: &[f64], row: usize, i: usize) -> Bounded {
        exactly(norm[row * self.channels + i % self.channels])
    }

    /// The mean of a number's channel.
    pub fn mean(&self, i: usize) -> Bounded {
        self.norm.as_ref().map_or(Bounded::ZERO, |norm| self.of_channel(norm, 2, i))
    }

    /// Its tangent.
    pub fn mean_dot(&self, i: usize) -> Bounded {
        let norm = self.tangent.as_ref().and_then(|tangent| tangent.norm.as_ref());
        norm.map_or(Bounded::ZERO, |norm| self.of_channel(norm, 0, i))
    }

    pub fn raw(&self, i: usize) -> Bounded {
        exactly(self.z[i])
    }

    /// The tangent of a raw value.
    pub fn raw_dot(&self, i: usize) -> Bounded {
        let has_tangent = self.tangent.as_ref().and_then(|tangent| tangent.z.as_ref());
        has_tangent.map_or(Bounded::ZERO, |z| exactly(z[i]))
    }

    pub fn has_tangent(&self) -> bool {
        self.tangent.as_ref().is_some_and(|tangent| tangent.z.is_some())
    }

    fn n(&self, i: usize) -> Bounded {
        let Some(norm) = &self.norm else { return self.raw(i) };
        // Rounded once, as on the device: the sign of n decides what ReLU passes on.
        let [scale, shift] = [0, 1].map(|row| self.of_channel(norm, row, i));
        let x = self.z[i].mul_add(scale.x, shift.x);
        self.t.round(exactly(x))
    }

    fn derivatives(&self, i: usize) -> [Bounded; 3] {
        activation(self.activation, self.beta, self.n(i), self.t)
    }

    /// `v = r(n)`
    pub fn value(&self, i: usize) -> Bounded {
        self.derivatives(i)[0]
    }

    /// `g = r'(n) u`
    pub fn slope(&self, i: usize) -> Bounded {
        self.t.round(self.derivatives(i)[1] * self.u[i])
    }

    /// `dL/dz = scale g + b z + c`
    pub fn gradient(&self, i: usize) -> Bounded {
        let (g, t) = (self.slope(i), self.t);
        let Some(norm) = &self.norm else { return g };
        let [scale, b, c] = [0, 3, 4].map(|row| self.of_channel(norm, row, i));
        t.fma(scale, g, t.fma(b, self.raw(i), c))
    }

    fn n_dot(&self, i: usize) -> Bounded {
        let z_dot = self.raw_dot(i);
        let tangent = self.tangent.as_ref().and_then(|tangent| tangent.norm.as_ref());
        let (Some(norm), Some(tangent)) = (&self.norm, tangent) else { return z_dot };
        let scale = self.of_channel(norm, 0, i);
        let [q, r] = [1, 2].map(|row| self.of_channel(tangent, row, i));
        self.t.fma(scale, z_dot, self.t.fma(q, self.raw(i), r))
    }

    /// `v' = r'(n) n'`
    pub fn value_dot(&self, i: usize) -> Bounded {
        if self.has_tangent() {
            self.t.round(self.derivatives(i)[1] * self.n_dot(i))
        } else {
            Bounded::ZERO
        }
    }

    /// `g' = r'(n) u' + r''(n) u n'`
    pub fn slope_dot(&self, i: usize) -> Bounded {
        let ([_, slope, curvature], t) = (self.derivatives(i), self.t);
        let tangent = self.tangent.as_ref().expect("read with derivatives");
        let bend = t.round(t.round(curvature * self.u[i]) * self.n_dot(i));
        t.fma(slope, exactly(tangent.u[i]), bend)
    }

    /// `scale g' + q g + b z' + b' z + c'`
    pub fn gradient_dot(&self, i: usize) -> Bounded {
        let (g_dot, t) = (self.slope_dot(i), self.t);
        let tangent = self.tangent.as_ref().and_then(|tangent| tangent.norm.as_ref());
        let (Some(norm), Some(tangent)) = (&self.norm, tangent) else { return g_dot };
        let [scale, b] = [0, 3].map(|row| self.of_channel(norm, row, i));
        let [q, b_dot, c_dot] = [1, 3, 4].map(|row| self.of_channel(tangent, row, i));
        let rest = t.fma(b, self.raw_dot(i), t.fma(b_dot, self.raw(i), c_dot));
        t.fma(scale, g_dot, t.fma(q, self.slope(i), rest))
    }

    /// What ops pass forward: values, or their tangents where these were read.
    pub fn forth(&self, i: usize) -> Bounded {
        if self.tangent.is_some() { self.value_dot(i) } else { self.value(i) }
    }

    /// What ops pass back: gradients, or their tangents.
    pub fn back(&self, i: usize) -> Bounded {
        if self.tangent.is_some() { self.gradient_dot(i) } else { self.gradient(i) }
    }

    /// One of these for all numbers.
    pub fn all(&self, read: impl Fn(&Self, usize) -> Bounded) -> Vec<Bounded> {
        (0..self.z.len()).map(|i| read(self, i)).collect()
    }
}
