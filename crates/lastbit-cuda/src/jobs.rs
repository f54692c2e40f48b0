//! Arguments of the kernels, field by field as the kernels declare them.
//!
//! Places in device memory are plain addresses; [`super::engine`] makes them from memory it owns.

/// Threads of a block that sums in the order of the CPU (`compare.cu`): those that add, and those that
/// make the terms.
pub const ADDERS_AND_MAKERS: u32 = 32 + 256;
/// Numbers of a batch norm's channel that its coefficients come from (`norm.cu`).
pub const MOMENTS: usize = 6;
/// Bytes of one of the 64 columns of a block of a matrix product (`gemm.cu`).
pub const COLUMN_BYTES: usize = 512;

/// A place in device memory; 0 for none.
pub type Address = u64;

/// How a layer is read (`view.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct View {
    pub z: Address,
    pub u: Address,
    pub norm: Address,
    pub slot: Address,
    pub stride: u64,
    pub height: i32,
    pub width: i32,
    pub channels: i32,
    pub activation: i32,
    pub beta: f64,
}

/// A batch, formed from a data set (`batch.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct BatchJob {
    pub bytes: Address,
    pub numbers: Address,
    pub table: Address,
    pub mean: Address,
    pub deviation: Address,
    pub labels: Address,
    pub values: Address,
    pub chosen: Address,
    pub stream: Address,
    pub inputs: Address,
    pub classes: Address,
    pub reals: Address,
    pub seed: u64,
    pub height: i32,
    pub width: i32,
    pub channels: i32,
    pub places: i32,
    pub padding: i32,
    pub flip: i32,
    pub targets: i32,
    pub unused: i32,
}

/// A convolution (`gemm.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ConvJob {
    pub input: View,
    pub output: View,
    pub theta: Address,
    pub packed: Address,
    pub partials: Address,
    pub gradient: Address,
    pub parameters: u64,
    pub weight: u64,
    pub bias: u64,
    pub has_bias: i32,
    pub add: i32,
    pub rows: i32,
    pub cols: i32,
    pub stride: i32,
    pub above: i32,
    pub left: i32,
    pub images: i32,
    pub chunks: i32,
    pub images_per_chunk: i32,
    pub inputs: i32,
}

/// A batch norm or a bias (`norm.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct NormJob {
    pub layer: View,
    pub norm: Address,
    pub sums: Address,
    pub moments: Address,
    pub theta: Address,
    pub gradient: Address,
    pub buffers: Address,
    pub tally: Address,
    pub parameters: u64,
    pub statistics: u64,
    pub scale: u64,
    pub shift: u64,
    pub mean: u64,
    pub variance: u64,
    pub images: i32,
    pub settle: i32,
    pub parts: i32,
    pub pixels: i32,
    pub running: i32,
    pub slopes: i32,
}

/// A sum, a pooling, a subsampling or a mean (`op.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct OpJob {
    pub input: View,
    pub output: View,
    pub rows: i32,
    pub cols: i32,
    pub stride: i32,
    pub largest: i32,
    pub add: i32,
    pub images: i32,
}

/// The loss (`step.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LossJob {
    pub output: View,
    pub classes: Address,
    pub reals: Address,
    pub slot: Address,
    pub losses: Address,
    pub mean: Address,
    pub answers: Address,
    pub right: Address,
    pub kind: i32,
    pub outputs: i32,
    pub images: i32,
    pub capacity: i32,
}

/// What a replica's step depends on besides its state (`step.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Step<F> {
    pub k: F,
    pub rate: F,
    pub e1: F,
    pub e2: F,
    pub released: i32,
    pub flip: i32,
    pub flipped: u64,
    pub number: u64,
    pub new_epoch: i32,
    pub unused: i32,
}

/// The step of the optimizer (`step.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct StepJob {
    pub theta: Address,
    pub gradient: Address,
    pub memory: Address,
    pub tally: Address,
    pub steps: Address,
    pub losses: Address,
    pub right: Address,
    pub largest: Address,
    pub scale: Address,
    pub parameters: u64,
    pub method: i32,
    pub images: i32,
    pub capacity: i32,
    pub blocks: i32,
    pub alpha: f64,
    pub mu: f64,
    pub beta1: f64,
    pub beta2: f64,
    pub c1: f64,
    pub c2: f64,
    pub epsilon: f64,
    pub blow_up: f64,
}

/// What a replica has seen since its epoch began, and whether it has ended (`norm.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub last_loss: f64,
    pub loss: f64,
    pub right: u64,
    pub examples: u64,
    pub ended: u64,
}

/// The sum of two layers (`fours.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SumJob {
    pub first: View,
    pub second: View,
    pub sum: View,
    pub sums: Address,
    pub images: i32,
    pub unused: i32,
}

/// A 3x3 convolution, forward or transposed (`conv3x3.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FastJob {
    pub from: View,
    pub result: Address,
    pub kernels: Address,
    pub bias: Address,
    pub sums: Address,
    pub result_stride: u64,
    pub kernels_stride: u64,
    pub bias_stride: u64,
    pub channels: i32,
    pub add: i32,
    pub images: i32,
    pub replicas: i32,
}

/// Kernels in the order in which they are read (`conv3x3.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PackJob {
    pub theta: Address,
    pub forward: Address,
    pub backward: Address,
    pub parameters: u64,
    pub weight: u64,
    pub stride: u64,
    pub inputs: i32,
    pub outputs: i32,
    pub rows: i32,
    pub unused: i32,
}

/// The gradient by the weights of a 3x3 convolution (`weights3x3.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct WeightsJob {
    pub input: View,
    pub output: View,
    pub partials: Address,
    pub images: i32,
    pub chunks: i32,
    pub images_per_chunk: i32,
    pub rows: i32,
}

/// The derivatives of a layer along a direction (`dot.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Dots {
    pub z: Address,
    pub u: Address,
    pub norm: Address,
}

impl View {
    /// Of numbers that are read as they are.
    pub fn as_is(self) -> Self {
        Self { norm: 0, ..self.without_activation() }
    }

    /// Of gradients that have the activation's slope already.
    pub fn without_activation(self) -> Self {
        Self { activation: 0, beta: 0.0, ..self }
    }

    /// Whether there is ReLU or no activation.
    pub fn is_straight(&self) -> bool {
        self.activation <= 1
    }

    /// Whether numbers are read as they are.
    pub fn is_as_is(&self) -> bool {
        self.norm == 0 && self.activation == 0
    }
}

/// The derivative of a convolution (`dot.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ConvDotJob {
    pub conv: ConvJob,
    pub input: Dots,
    pub output: Dots,
    pub direction: Address,
    pub packed: Address,
}

/// The derivative of what stands between convolutions (`dot.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct OpDotJob {
    pub op: OpJob,
    pub input: Dots,
    pub output: Dots,
}

/// The derivative of a batch norm or a bias (`dot_norm.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct NormDotJob {
    pub norm: NormJob,
    pub layer: Dots,
    pub coefficients: Address,
    pub direction: Address,
}

/// The derivative of the loss's gradient (`dot_norm.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LossDotJob {
    pub loss: LossJob,
    pub output: Dots,
}

/// How much gradients fluctuate (`fluctuation.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FluctuationJob {
    pub gradient: Address,
    pub sums: Address,
    pub results: Address,
    pub parameters: u64,
    pub count: f64,
}

/// Sums over all replicas beside the first (`compare.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CompareJob {
    pub theta: Address,
    pub ranges: Address,
    pub results: Address,
    pub parameters: u64,
    pub row: u64,
}

/// The hashes of all replicas (`hash.cu`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct HashJob {
    pub words: Address,
    pub nodes: Address,
    pub hashes: Address,
    pub count: u64,
    pub chunks: u64,
    pub row: u64,
}
