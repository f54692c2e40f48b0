//! What can go wrong on the way to a device.

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no driver.
    #[error(
        "found no CUDA driver (libcuda), expected one: install NVIDIA's driver, or use --device cpu"
    )]
    NoDriver,
    /// There is a driver, but nothing that it drives.
    #[error(
        "found a CUDA driver without a device, expected one: look for it with nvidia-smi and in \
         CUDA_VISIBLE_DEVICES, or use --device cpu"
    )]
    NoDevice,
    /// Too little memory.
    #[error("{doing}: the device has too little memory: take smaller batches or fewer replicas")]
    Memory {
        /// What it was asked for.
        doing: String,
    },
    /// The compiler of kernels is missing.
    #[error(
        "found no NVRTC (libnvrtc), expected that of CUDA 13: put the toolkit's lib64 on \
         LD_LIBRARY_PATH, or use --device cpu"
    )]
    NoCompiler,
    /// A call of the driver failed.
    #[error("{doing}: the CUDA driver answered {source}")]
    Driver {
        /// What was being done.
        doing: String,
        /// The answer.
        source: cudarc::driver::DriverError,
    },
    /// Kernels count the numbers of a layer in 32 bits.
    #[error(
        "found a layer of {numbers} numbers for each of {examples} examples, expected fewer than 2^31 in \
         all: take smaller batches, or use --device cpu"
    )]
    TooMany {
        /// Numbers of the largest layer.
        numbers: usize,
        /// Examples in a batch.
        examples: usize,
    },
    /// Tiles of an image do not fit.
    #[error(
        "found {found} bytes of shared memory for a block, expected {expected} or more: use a device of \
         generation 8.0 or later, or --device cpu"
    )]
    SharedMemory {
        /// Bytes that there are.
        found: usize,
        /// Bytes that are enough.
        expected: usize,
    },
    /// The kernels do not compile.
    #[error("the kernels do not compile for {target}: {log}")]
    Compile {
        /// The device's generation.
        target: String,
        /// What the compiler said.
        log: String,
    },
}

impl Error {
    /// Whether this computer has nothing to run kernels with, rather than something that fails.
    pub fn means_no_device(&self) -> bool {
        matches!(self, Self::NoDriver | Self::NoDevice | Self::NoCompiler)
    }
}
