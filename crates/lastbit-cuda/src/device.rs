//! The device: its memory, its kernels, its queue. The one file with unsafe code.
//!
//! # Why it is sound
//!
//! * A kernel takes one argument, a `repr(C)` struct of `jobs.rs`, whose fields are those of the
//!   struct of the same name in the kernels' source; the kernels' compiler checks that both have
//!   the same size.
//! * Addresses in a job come from [`Memory::address`] of memory whose owner puts the job into the queue:
//!   the engine, or a trainer with its data sets, lists and results. Kernels are put into one queue only,
//!   and memory is given back through the same queue, behind them. A recording lives no longer than what
//!   it names: those of steps as long as their trainer, those of examinations as long as their data set.
//! * Kernels stay within memory because their loops end at the lengths in the job, which the engine
//!   computes from the same network and capacity as the memory's lengths; examples that do not fit
//!   them are refused before a batch is formed. That is tested with the compute sanitizer, as
//!   `docs/gpu.md` says.
//! * [`Plain`] types have no invalid bit patterns and no padding that is read.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use cudarc::driver::sys::{
    CUdevice_attribute, CUevent_flags, CUfunction_attribute, CUgraphInstantiate_flags,
    CUlaunchAttribute, CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig, CUresult,
    CUstreamCaptureMode, cuLaunchKernelEx,
};
use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaGraph, CudaModule, CudaSlice, CudaStream, DevicePtr,
    DeviceRepr, DriverError, ValidAsZeroBits,
};
use cudarc::nvrtc::sys::nvrtcResult;
use lastbit::Real;

use crate::compile::compile;
use crate::error::Error;
use crate::fast::{Precision, Room};
use crate::jobs::{
    Address, BatchJob, CompareJob, ConvDotJob, ConvJob, FastJob, FluctuationJob, HashJob,
    LossDotJob, LossJob, NormDotJob, NormJob, OpDotJob, OpJob, PackJob, Step, StepJob, SumJob,
    Tally, WeightsJob,
};

/// `f32` or `f64`, on both sides.
pub trait DeviceReal: Real + Plain {
    /// Its name in the kernels.
    const KERNEL_NAME: &'static str;
}

impl DeviceReal for f32 {
    const KERNEL_NAME: &'static str = "float";
}

impl DeviceReal for f64 {
    const KERNEL_NAME: &'static str = "double";
}

/// What may lie in device memory.
pub trait Plain: DeviceRepr + ValidAsZeroBits + Clone + Default + 'static {}
impl Plain for f32 {}
impl Plain for f64 {}
impl Plain for i32 {}
impl Plain for u8 {}
impl Plain for u64 {}

macro_rules! plain {
    ($($kind:ty),*) => {
        $(
            // SAFETY: `repr(C)`, numbers alone; zero bits are zeros.
            unsafe impl DeviceRepr for $kind {}
            unsafe impl ValidAsZeroBits for $kind {}
            impl Plain for $kind {}
        )*
    };
}
plain!(Tally);

// SAFETY: likewise.
unsafe impl<F: DeviceReal> DeviceRepr for Step<F> {}
unsafe impl<F: DeviceReal> ValidAsZeroBits for Step<F> {}
impl<F: DeviceReal> Plain for Step<F> {}

/// The one argument of a kernel.
pub trait Job: DeviceRepr + 'static {}

macro_rules! jobs {
    ($($kind:ty),*) => {
        $(
            // SAFETY: `repr(C)`, the fields of the kernels' struct of this name.
            unsafe impl DeviceRepr for $kind {}
            impl Job for $kind {}
        )*
    };
}
jobs!(ConvJob, NormJob, OpJob, LossJob, StepJob, SumJob, FastJob, PackJob, WeightsJob);
jobs!(ConvDotJob, NormDotJob, OpDotJob, LossDotJob, BatchJob, CompareJob, HashJob, FluctuationJob);

/// Numbers in device memory.
#[derive(Debug)]
pub struct Memory<T> {
    slice: CudaSlice<T>,
}

impl<T: Plain> Memory<T> {
    /// Where they lie.
    pub fn address(&self) -> Address {
        let (address, _in_one_queue) = self.slice.device_ptr(self.slice.stream());
        address
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.slice.len()
    }
}

/// Threads of a launch.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    /// Blocks.
    pub blocks: [u32; 3],
    /// Threads to a block.
    pub threads: u32,
    /// Bytes of shared memory to a block, beyond those that the kernel declares.
    pub shared: u32,
}

impl Grid {
    /// One thread for each of `count` numbers of each of `replicas`.
    pub fn each(count: usize, replicas: usize) -> Self {
        Self { blocks: [count.div_ceil(256) as u32, replicas as u32, 1], threads: 256, shared: 0 }
    }

    /// Blocks of this many threads.
    pub fn blocks(blocks: [usize; 3], threads: u32) -> Self {
        Self { blocks: blocks.map(|n| n as u32), threads, shared: 0 }
    }
}

/// A recorded sequence of launches.
pub struct Graph(CudaGraph);

// SAFETY: a graph may be used from any thread, but from one at a time. It is used by
// `Device::replay` alone, which has the device to itself, and dropped by its one owner.
unsafe impl Send for Graph {}
unsafe impl Sync for Graph {}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Graph")
    }
}

/// A device with the kernels of one precision.
#[derive(Debug)]
pub struct Device {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    module: Arc<CudaModule>,
    room: Room,
    functions: BTreeMap<&'static str, CudaFunction>,
    /// Whether a kernel can wait for the one before it by itself.
    can_wait: bool,
    /// Device time of each kernel, while it is measured.
    times: Option<BTreeMap<&'static str, KernelTime>>,
}

/// Device time of a kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct KernelTime {
    /// How often it was launched.
    pub launches: usize,
    /// Milliseconds in all.
    pub milliseconds: f64,
}

/// The first device and its kernels of one precision: compiled once in a process, since that takes
/// seconds, and used by all queues.
#[derive(Debug, Clone)]
struct Opened {
    real: &'static str,
    precision: Precision,
    context: Arc<CudaContext>,
    module: Arc<CudaModule>,
    room: Room,
    can_wait: bool,
}

static OPENED: Mutex<Vec<Opened>> = Mutex::new(Vec::new());

impl Opened {
    fn of<F: DeviceReal>(precision: Precision) -> Result<Self, Error> {
        let (real, number) = (F::KERNEL_NAME, size_of::<F>());
        let mut all = OPENED.lock().expect("no panic while compiling");
        if let Some(opened) = all.iter().find(|o| (o.real, o.precision) == (real, precision)) {
            return Ok(opened.clone());
        }
        let context = driver("opening the first CUDA device", CudaContext::new(0))?;
        // SAFETY: each device has one queue, and memory of its own.
        unsafe { context.disable_event_tracking() };
        let (major, minor) = driver("asking for its generation", context.compute_capability())?;
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let shared = driver("asking for its shared memory", context.attribute(attribute))?;
        let room = Room::of(number, shared as usize)?;
        let ptx = compile(real, precision, room, major, minor)?;
        let module = driver("loading the kernels", context.load_module(ptx))?;
        let opened = Self { real, precision, context, module, room, can_wait: major >= 9 };
        all.push(opened.clone());
        Ok(opened)
    }
}

/// Where NVIDIA's driver says its version.
const DRIVER_VERSION: &str = "/proc/driver/nvidia/version";

impl Device {
    /// The first device, with the kernels compiled for it.
    ///
    /// # Panics
    ///
    /// If TF32 is asked for in double precision.
    pub fn new<F: DeviceReal>(precision: Precision) -> Result<Self, Error> {
        let is_single = F::KERNEL_NAME == f32::KERNEL_NAME;
        assert!(is_single || precision == Precision::Plain, "TF32 is of single precision");
        // SAFETY: looks for a shared library, as the first call of the driver would.
        if !unsafe { cudarc::driver::sys::is_culib_present() } {
            return Err(Error::NoDriver);
        }
        if !has_compiler() {
            return Err(Error::NoCompiler);
        }
        let Opened { context, module, room, can_wait, .. } = Opened::of::<F>(precision)?;
        let stream = driver("making a queue", context.new_stream())?;
        let functions = BTreeMap::new();
        Ok(Self { context, stream, module, room, functions, can_wait, times: None })
    }

    /// The same queue, for whoever takes the place of its owner.
    pub(crate) fn same_queue(&self) -> Self {
        Self {
            context: self.context.clone(),
            stream: self.stream.clone(),
            module: self.module.clone(),
            room: self.room,
            functions: self.functions.clone(),
            can_wait: self.can_wait,
            times: self.times.clone(),
        }
    }

    /// Its name and the versions of its driver and of the kernels' compiler.
    pub fn in_words(&self) -> Result<String, Error> {
        let version = std::fs::read_to_string(DRIVER_VERSION).unwrap_or_default();
        let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
        let version = version.split_whitespace().find(is_number).unwrap_or("unknown");
        let name = driver("asking for its name", self.context.name())?;
        Ok(format!("{name}, driver {version}, NVRTC {}", compiler_version()))
    }

    /// Bytes of its memory that are in use.
    pub fn used(&self) -> Result<usize, Error> {
        let (free, total) = driver("asking for its memory", self.context.mem_get_info())?;
        Ok(total - free)
    }

    /// Zeros.
    pub fn zeros<T: Plain>(&self, len: usize) -> Result<Memory<T>, Error> {
        let slice = self.stream.alloc_zeros(len.max(1));
        Ok(Memory { slice: driver(&format!("asking for {len} numbers of memory"), slice)? })
    }

    /// These numbers; one zero in place of none.
    pub fn with<T: Plain>(&self, values: &[T]) -> Result<Memory<T>, Error> {
        let mut memory = self.zeros(values.len())?;
        self.write(&mut memory, 0, values)?;
        Ok(memory)
    }

    /// Writes numbers from `start` on.
    pub fn write<T: Plain>(
        &self,
        memory: &mut Memory<T>,
        start: usize,
        values: &[T],
    ) -> Result<(), Error> {
        let mut part = memory.slice.slice_mut(start..start + values.len());
        driver("writing to its memory", self.stream.memcpy_htod(values, &mut part))
    }

    /// Reads `len` numbers from `start` on, when all work is done.
    pub fn read<T: Plain>(
        &self,
        memory: &Memory<T>,
        start: usize,
        len: usize,
    ) -> Result<Vec<T>, Error> {
        let values = self.stream.clone_dtoh(&memory.slice.slice(start..start + len));
        let values = driver("reading its memory", values)?;
        self.wait()?;
        Ok(values)
    }

    /// Reads `len` numbers at an address, when all work is done: what a kernel's test compares.
    #[cfg(test)]
    pub fn read_at<T: Plain>(&self, address: Address, len: usize) -> Result<Vec<T>, Error> {
        self.wait()?;
        driver("reading its memory", self.context.bind_to_thread())?;
        let mut values = vec![T::default(); len];
        // SAFETY: as many bytes are written as there are; any bits are numbers. The driver refuses to
        // read what is none of its memory.
        let read = unsafe { cudarc::driver::result::memcpy_dtoh_sync(&mut values, address) };
        driver("reading its memory", read)?;
        Ok(values)
    }

    /// Shared memory for tiles.
    pub(crate) fn room(&self) -> Room {
        self.room
    }

    /// Waits until all work is done.
    pub fn wait(&self) -> Result<(), Error> {
        driver("waiting for its work", self.stream.synchronize())
    }

    /// Puts a kernel into the queue.
    pub fn launch<J: Job>(&mut self, name: &'static str, grid: Grid, job: &J) -> Result<(), Error> {
        if !self.functions.contains_key(name) {
            let function = driver(name, self.module.load_function(name))?;
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            if grid.shared > 0 {
                driver(name, function.set_attribute(attribute, grid.shared as i32))?;
            }
            self.functions.insert(name, function);
        }
        let before = if self.times.is_some() { Some(self.mark()?) } else { None };
        self.put(&self.functions[name], name, grid, job)?;
        if let Some(before) = before {
            let after = self.mark()?;
            self.wait()?;
            let time = self.times.get_or_insert_default().entry(name).or_default();
            time.launches += 1;
            time.milliseconds += before.until(&after)?;
        }
        Ok(())
    }

    /// Puts a kernel into the queue such that its blocks may wait on the multiprocessors for the end
    /// of the kernel before it; each kernel's first words are to wait for that.
    fn put<J: Job>(
        &self,
        function: &CudaFunction,
        name: &str,
        grid: Grid,
        job: &J,
    ) -> Result<(), Error> {
        let mut attribute = CUlaunchAttribute {
            id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let [x, y, z] = grid.blocks;
        let config = CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: grid.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: grid.shared,
            hStream: self.stream.cu_stream(),
            attrs: &raw mut attribute,
            numAttrs: u32::from(self.can_wait),
        };
        driver(name, self.context.bind_to_thread())?;
        let mut arguments = [std::ptr::from_ref(job).cast_mut().cast()];
        // SAFETY: see the module doc; the driver copies the configuration and the one argument
        // before it returns.
        let answer = unsafe {
            let arguments = arguments.as_mut_ptr();
            cuLaunchKernelEx(
                &raw const config,
                function.cu_function(),
                arguments,
                std::ptr::null_mut(),
            )
        };
        driver(name, answer.result())
    }

    /// From now on the device time of each kernel is measured: launches wait for each other's end.
    pub fn measure_kernels(&mut self) {
        self.times = Some(BTreeMap::new());
    }

    /// What was measured; nothing is from now on.
    pub fn kernel_times(&mut self) -> BTreeMap<&'static str, KernelTime> {
        self.times.take().unwrap_or_default()
    }

    /// From now on what is put into the queue is recorded instead of done.
    pub fn begin_recording(&self) -> Result<(), Error> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        driver("beginning to record", self.stream.begin_capture(mode))
    }

    /// What was recorded.
    pub fn end_recording(&self) -> Result<Graph, Error> {
        let graph = self.stream.end_capture(CUgraphInstantiate_flags(0));
        Ok(Graph(driver("recording", graph)?.expect("a recording was begun")))
    }

    /// Puts a recorded sequence into the queue.
    pub fn replay(&mut self, graph: &Graph) -> Result<(), Error> {
        driver("replaying recorded work", graph.0.launch())
    }

    /// A mark in the queue.
    pub fn mark(&self) -> Result<Mark, Error> {
        let event = self.stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
        Ok(Mark(driver("marking the time", event)?))
    }
}

/// A mark in the queue, for the time between two of them.
#[derive(Debug)]
pub struct Mark(CudaEvent);

impl Mark {
    /// Milliseconds of device time from this mark to a later one.
    pub fn until(&self, later: &Self) -> Result<f64, Error> {
        driver("measuring time", self.0.elapsed_ms(&later.0)).map(f64::from)
    }
}

fn driver<T>(doing: &str, result: Result<T, DriverError>) -> Result<T, Error> {
    result.map_err(|source| match source.0 {
        CUresult::CUDA_ERROR_NO_DEVICE => Error::NoDevice,
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => Error::Memory { doing: doing.to_owned() },
        _ => Error::Driver { doing: doing.to_owned(), source },
    })
}

/// Whether NVRTC is there.
pub fn has_compiler() -> bool {
    // SAFETY: looks for a shared library.
    unsafe { cudarc::nvrtc::sys::is_culib_present() }
}

/// Version of NVRTC.
pub fn compiler_version() -> String {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: writes two numbers; the library is there, or `has_compiler` would have said so.
    let answer = unsafe { cudarc::nvrtc::sys::nvrtcVersion(&raw mut major, &raw mut minor) };
    if answer == nvrtcResult::NVRTC_SUCCESS {
        format!("{major}.{minor}")
    } else {
        format!("{answer:?}")
    }
}
