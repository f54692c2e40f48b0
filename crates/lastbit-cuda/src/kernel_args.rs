//! Arguments of the kernels. Each struct has the fields of the struct of the same name in the kernels'
//! source, in the same order; NVRTC checks that sizes and the offset of each field agree.
//!
//! Device memory is named by plain addresses; [`super::engine`] takes them from memory it owns.

/// Threads of a block that sums in the order of the CPU (`compare.cu`): those that add, and those that
/// compute the terms.
pub const ORDERED_SUM_THREADS: u32 = 32 + 256;
/// Numbers of a batch norm's channel that its coefficients come from (`norm.cu`).
pub const MOMENTS: usize = 6;
/// Bytes of one of the 64 columns of a block's tile in a matrix product (`gemm.cu`).
pub const GEMM_TILE_BYTES: usize = 512;

/// Groups of four channels that a thread computes tangents of (`tangent.cu`).
pub const POSITIONS: usize = 4;
/// Layers that one launch packs weights of, or finishes gradients of, at most: a kernel's argument may have 4 KiB.
pub const LAYERS_AT_ONCE: usize = 32;

/// An address in device memory; 0 is the null pointer.
pub type Address = u64;

/// Declares structs as C does: a type, then the names of its fields.
macro_rules! kernel_args {
    ($($(#[$doc:meta])* $name:ident $(<$real:ident>)? { $($kind:ty: $($field:ident),+;)+ })+) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Debug, Clone, Copy, Default)]
            pub struct $name $(<$real>)? { $($(pub $field: $kind,)+)+ }

            impl $(<$real>)? $name $(<$real>)? {
                /// Fields and where they begin.
                pub const FIELDS: &[(&str, usize)] =
                    &[$($((stringify!($field), std::mem::offset_of!(Self, $field)),)+)+];
            }
        )+
    };
}

kernel_args! {
    /// How a layer is read (`view.cu`).
    View {
        Address: z, u, norm, slot;
        u64: stride;
        i32: height, width, channels, activation;
        f64: beta;
    }

    /// Forming a batch from a data set (`batch.cu`).
    BatchArgs {
        Address: bytes, numbers, table, mean, deviation, labels, values, chosen, stream;
        Address: inputs, classes, reals;
        u64: seed;
        i32: height, width, channels, positions, padding, flip, targets, unused;
    }

    /// A convolution (`gemm.cu`).
    ConvArgs {
        View: input, output;
        Address: theta, packed, partials, gradient;
        u64: parameters, weight, bias;
        i32: has_bias, add, rows, cols, stride, above, left;
        i32: images, chunks, images_per_chunk, inputs;
    }

    /// A batch norm or a bias (`norm.cu`).
    NormArgs {
        View: layer;
        Address: norm, sums, moments, theta, gradient, buffers, tally;
        u64: parameters, statistics, scale, shift, mean, variance;
        i32: images, settle, parts, pixels, running, slopes;
    }

    /// A sum, a pooling, a subsampling or a mean (`op.cu`).
    OpArgs {
        View: input, output;
        i32: rows, cols, stride, is_max, add, images;
    }

    /// The loss (`step.cu`).
    LossArgs {
        View: output;
        Address: classes, reals, slot, losses, mean, answers, right;
        i32: kind, outputs, images, capacity;
    }

    /// What a replica's step depends on besides its state (`step.cu`).
    Step<F> {
        F: k, rate, e1, e2;
        i32: released, flip;
        u64: flipped, number;
        i32: new_epoch, unused;
    }

    /// The step of the optimizer (`step.cu`).
    StepArgs {
        Address: theta, gradient, memory, tally, steps, losses, right, block_max, scale;
        u64: parameters;
        i32: method, images, capacity, blocks;
        f64: alpha, mu, beta1, beta2, c1, c2, epsilon, blow_up;
    }

    /// What a replica has seen since its epoch began, and whether it has diverged (`norm.cu`).
    Tally {
        f64: last_loss, loss;
        u64: right, examples, ended;
    }

    /// The sum of two layers (`vec4.cu`).
    AddArgs {
        View: first, second, sum;
        Address: sums;
        i32: images, unused;
    }

    /// A 3x3 convolution, forward or transposed (`conv3x3.cu`).
    Conv3x3Args {
        View: from;
        Address: result, added, kernels, bias, sums;
        u64: result_stride, kernels_stride, bias_stride;
        i32: channels, images, replicas, unused;
    }

    /// The packed weights of a 3x3 convolution (`conv3x3.cu`).
    PackedLayer {
        Address: forward, backward;
        u64: weight, stride;
        i32: inputs, outputs, rows, unused;
    }

    /// Packing the weights of 3x3 convolutions (`conv3x3.cu`).
    PackArgs {
        Address: theta;
        u64: parameters;
        [PackedLayer; LAYERS_AT_ONCE]: layers;
    }

    /// Sums of a layer's weights over chunks of images (`gemm.cu`).
    WeightSums {
        Address: partials;
        u64: weight;
        i32: chunks, taps, rows, inputs, outputs, unused;
    }

    /// Adding these chunks (`gemm.cu`).
    FinishArgs {
        Address: gradient;
        u64: parameters;
        [WeightSums; LAYERS_AT_ONCE]: layers;
    }

    /// The gradient by the weights of a 3x3 convolution (`weights3x3.cu`).
    Weights3x3Args {
        View: input, output;
        Address: partials;
        i32: images, chunks, images_per_chunk, rows;
    }

    /// The tangents of a layer (`tangent.cu`).
    Tangents {
        Address: z, u, norm;
    }

    /// The tangent of a convolution (`tangent.cu`).
    ConvTangentArgs {
        ConvArgs: conv;
        Tangents: input, output;
        Address: direction, packed;
    }

    /// The tangent of a sum, a pooling, a subsampling or a mean (`tangent.cu`).
    OpTangentArgs {
        OpArgs: op;
        Tangents: input, output;
    }

    /// The tangent of a batch norm or a bias (`tangent_norm.cu`).
    NormTangentArgs {
        NormArgs: norm;
        Tangents: layer;
        Address: coefficients, direction;
    }

    /// The tangent of the loss's gradient (`tangent_norm.cu`).
    LossTangentArgs {
        LossArgs: loss;
        Tangents: output;
    }

    /// Distances of all replicas from the first (`compare.cu`).
    CompareArgs {
        Address: theta, ranges, results;
        u64: parameters, row;
    }

    /// Hashes of all replicas (`hash.cu`).
    HashArgs {
        Address: words, nodes, hashes;
        u64: count, chunks, row;
    }
}

/// Calls a macro with all structs that kernels take as their argument.
macro_rules! with_all_kernel_args {
    ($call:ident) => {
        $call! {
            AddArgs, BatchArgs, CompareArgs, Conv3x3Args, ConvArgs, ConvTangentArgs, FinishArgs,
            HashArgs, LossArgs, LossTangentArgs, NormArgs, NormTangentArgs, OpArgs, OpTangentArgs,
            PackArgs, StepArgs, Weights3x3Args
        }
    };
}
pub(crate) use with_all_kernel_args;

impl View {
    /// Reads stored numbers without batch norm and activation.
    pub fn plain(self) -> Self {
        Self { norm: 0, ..self.without_activation() }
    }

    /// Reads gradients that were multiplied by the activation's slope before.
    pub fn without_activation(self) -> Self {
        Self { activation: 0, beta: 0.0, ..self }
    }

    /// Whether there is ReLU or no activation.
    pub fn is_piecewise_linear(&self) -> bool {
        self.activation <= 1
    }

    /// Whether stored numbers are read without batch norm and activation.
    pub fn is_plain(&self) -> bool {
        self.norm == 0 && self.activation == 0
    }
}
