//! A naive twin for each kernel, for the tests.
//!
//! A twin takes what a kernel takes, its job: it reads the same memory, computes by plain loops in double
//! precision what the kernel is to write, and says with each number how far the kernel's may be from it
//! (`bound`). That is used twice:
//!
//! * **On a device** ([`device::Device::checked`]) every launch of an engine is compared with its twin. Both
//!   see the same numbers, those in the device's memory before the launch, so that errors do not add
//!   up over layers, and it does not matter that places of gradients are used again.
//! * **Without a device** ([`device::Device::host`]) the twins *are* the kernels: the engine runs on memory of
//!   the host, where all numbers are doubles, and its gradients and products must be those of `lastbit`'s
//!   engine. That tests the twins, and everything of the engine but the kernels.
//!
//! ```text
//! bound    numbers with error bounds
//! curve    activations, their slopes and curvatures
//! view     how a layer is read, with norm, activation and derivatives
//! conv     what all convolutions compute
//! product  convolutions of any shape, or from one channel to one; with derivatives
//! conv3x3  those that have kernels of their own
//! op       sums, pooling, subsampling, mean
//! norm     batch norm and biases
//! norm_dot   their derivatives
//! loss     losses
//! names    which twin is whose
//! memory   memory of a device or of the host
//! findings   what comparisons find
//! device   a device that checks launches, or the host
//! ```

mod bound;
mod conv;
mod conv3x3;
mod curve;
pub mod device;
pub mod findings;
mod loss;
mod memory;
pub mod names;
mod norm;
mod norm_dot;
#[path = "../tests/device/common/on_device.rs"]
mod on_device;
mod op;
mod product;
mod view;

use std::any::Any;
use std::rc::Rc;

use bound::{Arithmetic, DOUBLE, Near, exactly};
pub use on_device::on_device;

use crate::device::Grid;
use crate::error::Error;
use crate::jobs::Address;

/// What lies at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Numbers in the engine's precision.
    Real,
    Double,
    Int,
}

/// The memory that jobs speak of. Places count numbers from an address on.
pub trait Ram {
    fn read(&self, kind: Kind, at: Address, start: usize, len: usize) -> Vec<f64>;

    fn reals(&self, at: Address, start: usize, len: usize) -> Vec<f64> {
        self.read(Kind::Real, at, start, len)
    }

    fn doubles(&self, at: Address, start: usize, len: usize) -> Vec<f64> {
        self.read(Kind::Double, at, start, len)
    }

    fn ints(&self, at: Address, start: usize, len: usize) -> Vec<i32> {
        self.read(Kind::Int, at, start, len).iter().map(|x| *x as i32).collect()
    }
}

/// What a kernel is to write from a place on.
pub struct Written {
    pub kind: Kind,
    pub at: Address,
    pub start: usize,
    pub values: Vec<Near>,
}

/// How a device computes.
#[derive(Debug, Clone, Copy)]
pub struct Precision {
    /// Unit roundoff.
    pub unit: f64,
    /// Whether 3x3 convolutions go by tensor cores.
    pub tensor: bool,
}

/// One launch.
pub struct Run {
    ram: Rc<dyn Ram>,
    grid: Grid,
    tensor: bool,
    /// The kernels' own arithmetic, and that of what they do in double precision.
    t: Arithmetic,
    double: Arithmetic,
    /// Whether the products in work go by tensor cores.
    by_tensor: bool,
    written: Vec<Written>,
}

impl Run {
    /// What a kernel that has a twin writes.
    pub fn launch(
        name: &str,
        grid: Grid,
        job: &dyn Any,
        ram: Rc<dyn Ram>,
        how: Precision,
    ) -> Vec<Written> {
        let by_tensor =
            how.tensor && (name.starts_with("conv3x3") || name.starts_with("weights3x3"));
        let mut run = Self {
            ram,
            grid,
            tensor: how.tensor,
            t: Arithmetic::of(how.unit),
            double: Arithmetic::of(DOUBLE),
            by_tensor,
            written: vec![],
        };
        names::twin_of(name).unwrap_or_else(|| panic!("{name} has no twin")).run(&mut run, job);
        run.written
    }

    /// Replicas, which a launch has in one direction of its blocks.
    fn replicas(&self, direction: usize) -> usize {
        self.grid.blocks[direction] as usize
    }

    fn write(&mut self, kind: Kind, at: Address, start: usize, values: Vec<Near>) {
        self.written.push(Written { kind, at, start, values });
    }

    /// Values, or their sums with what is there.
    fn put(&self, add: i32, at: Address, start: usize, values: Vec<Near>) -> Vec<Near> {
        if add == 0 {
            return values;
        }
        let old = self.ram.reals(at, start, values.len());
        let sum = |(old, value): (&f64, &Near)| self.t.round(exactly(*old) + *value);
        old.iter().zip(&values).map(sum).collect()
    }

    /// How sums of products are rounded. On tensor cores an instruction adds eight products to a sum
    /// and cuts each of the nine off behind the 24 bits of the largest, 2⁻²³ of it: for `n` products
    /// that is `n/8 · 9 · 2⁻²³ < n · 2⁻²²` of the sum of sizes, and they are exact before.
    fn of_products(&self) -> Arithmetic {
        if self.by_tensor { Arithmetic::of(TENSOR_SUM) } else { self.t }
    }

    /// A factor of a product: for tensor cores rounded to 10 bits after the point, hence by 2⁻¹¹.
    fn factor(&self, x: Near) -> Near {
        if self.tensor { Arithmetic::of(TENSOR_FACTOR).round(x) } else { x }
    }
}

const TENSOR_SUM: f64 = 1.0 / (1 << 22) as f64;
const TENSOR_FACTOR: f64 = 1.0 / (1 << 11) as f64;
