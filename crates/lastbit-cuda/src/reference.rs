//! A naive reference implementation of each kernel, for the tests.
//!
//! It takes the kernel's arguments and reads the same memory, computes what the kernel is to write by
//! plain loops in double precision, and derives for each number a bound on the kernel's error
//! ([`bound`]). It is used twice:
//!
//! * **On a device** ([`device::Device::checked`]) every launch of an engine is compared with its
//!   reference. Both see the same numbers, those in the device's memory before the launch, so that
//!   errors do not add up over layers, and it does not matter that layers share buffers.
//! * **Without a device** ([`device::Device::host`]) the references stand in for the kernels: the engine
//!   runs on host memory, where all numbers are doubles, and its gradients and Hessian-vector products
//!   must be those of `lastbit`'s engine. That tests the references, and everything of the engine but the
//!   kernels.
//!
//! ```text
//! bound         numbers with error bounds
//! activation    activations and their first two derivatives
//! view          how a layer is read, with batch norm, activation and tangents
//! conv          the three sums of every convolution
//! gemm          convolutions of any shape, or with one channel on both sides; and their tangents
//! conv3x3       3x3 convolutions with kernels of their own
//! op            sums, pooling, subsampling, mean
//! norm          batch norm and biases
//! norm_tangent  their tangents
//! loss          losses
//! registry      the reference of each kernel
//! memory        memory of a device or of the host
//! error_stats   errors found by comparisons
//! device        a device that checks launches, or the host
//! ```

mod activation;
mod bound;
mod conv;
mod conv3x3;
pub mod device;
pub mod error_stats;
mod gemm;
mod loss;
mod memory;
mod norm;
mod norm_tangent;
mod op;
pub mod registry;
mod view;

use std::any::Any;
use std::rc::Rc;

use bound::{Arithmetic, Bounded, U_DOUBLE, exactly};

use crate::device::Grid;
use crate::kernel_args::Address;

/// Type of the numbers at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Numbers in the engine's precision.
    Real,
    Double,
    Int,
}

/// The memory that kernel arguments name. Positions count numbers from an address on.
pub trait MemoryReader {
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

/// What a kernel must write, from a position on.
pub struct Expected {
    pub kind: Kind,
    pub at: Address,
    pub start: usize,
    pub values: Vec<Bounded>,
}

/// How the kernels round.
#[derive(Debug, Clone, Copy)]
pub struct Rounding {
    /// Unit roundoff.
    pub unit: f64,
    /// Whether 3x3 convolutions run on tensor cores.
    pub tensor: bool,
}

/// One launch, replica by replica.
pub struct Launch {
    /// The current replica.
    r: usize,
    memory: Rc<dyn MemoryReader>,
    grid: Grid,
    tensor: bool,
    /// Arithmetic of the kernels' own precision, and of what they compute in double precision.
    t: Arithmetic,
    double: Arithmetic,
    /// Whether this kernel runs on tensor cores.
    by_tensor: bool,
    expected: Vec<Expected>,
}

impl Launch {
    /// What a kernel must write.
    pub fn run(
        name: &str,
        grid: Grid,
        args: &dyn Any,
        memory: Rc<dyn MemoryReader>,
        how: Rounding,
    ) -> Vec<Expected> {
        let by_tensor =
            how.tensor && (name.starts_with("conv3x3") || name.starts_with("weights3x3"));
        let mut launch = Self {
            r: 0,
            memory,
            grid,
            tensor: how.tensor,
            t: Arithmetic::of(how.unit),
            double: Arithmetic::of(U_DOUBLE),
            by_tensor,
            expected: vec![],
        };
        let reference = registry::reference_of(name);
        reference.unwrap_or_else(|| panic!("{name} has no reference"))(&mut launch, args);
        launch.expected
    }

    fn write(&mut self, kind: Kind, at: Address, start: usize, values: Vec<Bounded>) {
        self.expected.push(Expected { kind, at, start, values });
    }

    /// Values, or their sums with the numbers at an address that is not 0.
    fn add_to(&self, added: Address, start: usize, values: Vec<Bounded>) -> Vec<Bounded> {
        if added == 0 {
            return values;
        }
        let old = self.memory.reals(added, start, values.len());
        let sum = |(old, value): (&f64, &Bounded)| self.t.round(exactly(*old) + *value);
        old.iter().zip(&values).map(sum).collect()
    }

    /// How sums of products are rounded. On tensor cores an instruction adds eight exact products to a sum
    /// and truncates each of the nine terms after the 24 bits of the largest, by 2⁻²³ of it: for `n` products
    /// that is `n/8 · 9 · 2⁻²³ < n · 2⁻²²` of the sum of absolute values.
    fn of_products(&self) -> Arithmetic {
        if self.by_tensor { Arithmetic::of(TENSOR_SUM) } else { self.t }
    }

    /// A factor of a product: for tensor cores rounded to 10 bits after the point, hence by 2⁻¹¹.
    fn factor(&self, x: Bounded) -> Bounded {
        if self.tensor { Arithmetic::of(TENSOR_FACTOR).round(x) } else { x }
    }
}

const TENSOR_SUM: f64 = 1.0 / (1 << 22) as f64;
const TENSOR_FACTOR: f64 = 1.0 / (1 << 11) as f64;
