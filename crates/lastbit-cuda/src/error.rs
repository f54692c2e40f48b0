//! Why a device cannot be used.

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No driver is installed.
    #[error(
        "found no CUDA driver (libcuda), expected one: install NVIDIA's driver, or use --device cpu"
    )]
    NoDriver,
    /// There is a driver, but no device.
    #[error(
        "found a CUDA driver without a device, expected one: look for it with nvidia-smi and in \
         CUDA_VISIBLE_DEVICES, or use --device cpu"
    )]
    NoDevice,
    /// The device has too little memory.
    #[error("{doing}: the device has too little memory: take smaller batches or fewer replicas")]
    Memory {
        /// What needed the memory.
        doing: String,
    },
    /// NVRTC, which compiles the kernels, is missing.
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
        /// The driver's error.
        source: cudarc::driver::DriverError,
    },
    /// Kernels count the numbers of a layer in 32 bits.
    #[error(
        "found a layer of {numbers} numbers for each of {examples} examples, expected fewer than 2^31 in \
         all: take smaller batches, or use --device cpu"
    )]
    TooMany {
        /// Numbers of the largest layer, per example.
        numbers: usize,
        /// Examples in a batch.
        examples: usize,
    },
    /// Tiles of an image do not fit into shared memory.
    #[error(
        "found {found} bytes of shared memory for a block, expected {expected} or more: use a device of \
         compute capability 8.0 or later, or --device cpu"
    )]
    SharedMemory {
        /// Bytes available to a block.
        found: usize,
        /// Bytes that a block needs.
        expected: usize,
    },
    /// The kernels do not compile.
    #[error("the kernels do not compile for {target}: {log}")]
    Compile {
        /// The device's compute capability.
        target: String,
        /// The compiler's log.
        log: String,
    },
}
