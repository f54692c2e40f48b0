//! The device: memory, kernel launches, CUDA graphs. The one file with unsafe code.
//!
//! # Why it is sound
//!
//! * A kernel takes one argument, a `repr(C)` struct of `kernel_args.rs`. Its fields are those of the
//!   struct of the same name in the kernels' source; NVRTC checks that both have the same size.
//! * Addresses come from [`Memory::address`] of memory whose owner launches the kernel: the engine, or a
//!   trainer with its data sets, lists and results. All kernels of an owner go into one stream, and
//!   memory is freed in the same stream, behind them. A graph lives no longer than the memory it names:
//!   graphs of steps as long as their trainer, graphs of evaluations as long as their data set.
//! * Kernels stay within memory because their loops end at the lengths in their argument, which the
//!   engine computes from the same network and capacity as the memory's lengths; examples that do not
//!   fit are refused before a batch is formed. That is tested with the compute sanitizer, as
//!   `docs/gpu.md` says.
//! * [`DeviceValue`] types have no invalid bit patterns and no padding that is read.
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
use crate::conv3x3_plan::{MathMode, SharedMemory};
use crate::error::Error;
use crate::kernel_args::*;

/// `f32` or `f64`, on host and device.
pub trait DeviceReal: Real + DeviceValue {
    /// Its C++ name.
    const KERNEL_NAME: &'static str;
}

impl DeviceReal for f32 {
    const KERNEL_NAME: &'static str = "float";
}

impl DeviceReal for f64 {
    const KERNEL_NAME: &'static str = "double";
}

/// Values that device memory can hold.
pub trait DeviceValue: DeviceRepr + ValidAsZeroBits + Clone + Default + 'static {}
impl DeviceValue for f32 {}
impl DeviceValue for f64 {}
impl DeviceValue for i32 {}
impl DeviceValue for u8 {}
impl DeviceValue for u64 {}

// SAFETY: `repr(C)`, numbers alone; zero bits are zeros.
unsafe impl DeviceRepr for Tally {}
unsafe impl ValidAsZeroBits for Tally {}
impl DeviceValue for Tally {}

// SAFETY: likewise.
unsafe impl<F: DeviceReal> DeviceRepr for Step<F> {}
unsafe impl<F: DeviceReal> ValidAsZeroBits for Step<F> {}
impl<F: DeviceReal> DeviceValue for Step<F> {}

/// The one argument of a kernel.
pub trait KernelArgs: DeviceRepr + 'static {}

macro_rules! implement {
    ($($args:ident),+) => {
        $(
            // SAFETY: `repr(C)`, with the fields of the struct of this name in the kernels' source.
            unsafe impl DeviceRepr for $args {}
            impl KernelArgs for $args {}
        )+
    };
}
with_all_kernel_args!(implement);

/// Numbers in device memory.
#[derive(Debug)]
pub struct Memory<T> {
    slice: CudaSlice<T>,
}

impl<T: DeviceValue> Memory<T> {
    pub fn address(&self) -> Address {
        let (address, _one_stream) = self.slice.device_ptr(self.slice.stream());
        address
    }

    pub fn len(&self) -> usize {
        self.slice.len()
    }
}

/// Blocks and threads of a launch.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    pub blocks: [u32; 3],
    /// Threads per block.
    pub threads: u32,
    /// Bytes of dynamic shared memory per block.
    pub shared: u32,
}

impl Grid {
    /// One thread for each of `count` numbers of each replica.
    pub fn each(count: usize, replicas: usize) -> Self {
        Self { blocks: [count.div_ceil(256) as u32, replicas as u32, 1], threads: 256, shared: 0 }
    }

    /// One block for each image of each replica.
    pub fn images(images: usize, replicas: usize) -> Self {
        Self::blocks([images, replicas, 1], 256)
    }

    /// One warp for each channel of each replica.
    pub fn channels(channels: usize, replicas: usize) -> Self {
        Self::blocks([channels.div_ceil(4), replicas, 1], 128)
    }

    pub fn blocks(blocks: [usize; 3], threads: u32) -> Self {
        Self { blocks: blocks.map(|n| n as u32), threads, shared: 0 }
    }
}

/// A CUDA graph: a captured sequence of launches.
pub struct Graph(CudaGraph);

// SAFETY: a graph may be used from any thread, but from one at a time. It is used by
// `Device::launch_graph` alone, which borrows the device exclusively, and dropped by its one owner.
unsafe impl Send for Graph {}
unsafe impl Sync for Graph {}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Graph")
    }
}

/// A device with the kernels of one precision. Clones share its stream.
#[derive(Debug, Clone)]
pub struct Device {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    module: Arc<CudaModule>,
    shared: SharedMemory,
    functions: BTreeMap<&'static str, CudaFunction>,
    /// Whether the device supports programmatic dependent launch: a kernel waits for the previous one itself.
    has_dependent_launch: bool,
    /// Streams beside the main one, and which of them has the next launch.
    asides: [Arc<CudaStream>; ASIDES],
    next_aside: usize,
    /// Whether the next launch of the main stream waits for more than the launch before it.
    has_joined: bool,
    /// Device time of each kernel, while launches are timed.
    times: Option<BTreeMap<&'static str, KernelTime>>,
}

/// Streams beside the main one: launches in several of them overlap.
const ASIDES: usize = 3;

/// A launch beside the main stream; `None` once it is done.
#[derive(Debug)]
pub struct Aside(Option<CudaEvent>);

impl Aside {
    /// One that needs no waiting for.
    pub const DONE: Self = Self(None);
}

/// Device time of a kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct KernelTime {
    /// Number of launches.
    pub launches: usize,
    /// Total time of all launches.
    pub milliseconds: f64,
}

/// The first device and its kernels of one precision, which all streams share: compiled once per
/// process, because that takes seconds.
#[derive(Debug, Clone)]
struct LoadedKernels {
    real: &'static str,
    math: MathMode,
    context: Arc<CudaContext>,
    module: Arc<CudaModule>,
    shared: SharedMemory,
    has_dependent_launch: bool,
}

static LOADED: Mutex<Vec<LoadedKernels>> = Mutex::new(Vec::new());

impl LoadedKernels {
    fn of<F: DeviceReal>(math: MathMode) -> Result<Self, Error> {
        let (real, number) = (F::KERNEL_NAME, size_of::<F>());
        let mut all = LOADED.lock().expect("no panic while compiling");
        if let Some(loaded) = all.iter().find(|o| (o.real, o.math) == (real, math)) {
            return Ok(loaded.clone());
        }
        let context = driver("opening the first CUDA device", CudaContext::new(0))?;
        // SAFETY: each device has one stream, and memory of its own.
        unsafe { context.disable_event_tracking() };
        let (major, minor) =
            driver("asking for its compute capability", context.compute_capability())?;
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let bytes = driver("asking for its shared memory", context.attribute(attribute))?;
        let shared = SharedMemory::of(number, bytes as usize)?;
        let ptx = compile(real, math, shared, major, minor)?;
        let module = driver("loading the kernels", context.load_module(ptx))?;
        let loaded = Self { real, math, context, module, shared, has_dependent_launch: major >= 9 };
        all.push(loaded.clone());
        Ok(loaded)
    }
}

/// The file in which NVIDIA's driver states its version.
const DRIVER_VERSION: &str = "/proc/driver/nvidia/version";

impl Device {
    /// The first device, with the kernels compiled for it.
    ///
    /// # Panics
    ///
    /// If TF32 is asked for in double precision.
    pub fn new<F: DeviceReal>(math: MathMode) -> Result<Self, Error> {
        let is_single = F::KERNEL_NAME == f32::KERNEL_NAME;
        assert!(is_single || math == MathMode::Fma, "TF32 is of single precision");
        // SAFETY: looks for a shared library, as the first call of the driver would.
        if !unsafe { cudarc::driver::sys::is_culib_present() } {
            return Err(Error::NoDriver);
        }
        if !has_compiler() {
            return Err(Error::NoCompiler);
        }
        let LoadedKernels { context, module, shared, has_dependent_launch, .. } =
            LoadedKernels::of::<F>(math)?;
        // The lower number is the higher priority: what is beside the main stream fills what that leaves free.
        let stream =
            |priority: i32| driver("creating a stream", context.new_stream_with_priority(priority));
        let main = stream(-1)?;
        let asides = [stream(0)?, stream(0)?, stream(0)?];
        Ok(Self {
            context,
            stream: main,
            module,
            shared,
            functions: BTreeMap::new(),
            has_dependent_launch,
            asides,
            next_aside: 0,
            has_joined: false,
            times: None,
        })
    }

    /// Its name and the versions of its driver and of the kernels' compiler.
    pub fn description(&self) -> Result<String, Error> {
        let version = std::fs::read_to_string(DRIVER_VERSION).unwrap_or_default();
        let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
        let version = version.split_whitespace().find(is_number).unwrap_or("unknown");
        let name = driver("asking for its name", self.context.name())?;
        Ok(format!("{name}, driver {version}, NVRTC {}", compiler_version()))
    }

    /// Bytes of its memory that are in use.
    pub fn used_memory(&self) -> Result<usize, Error> {
        let (free, total) = driver("asking for its memory", self.context.mem_get_info())?;
        Ok(total - free)
    }

    /// Memory of zeros.
    pub fn zeros<T: DeviceValue>(&self, len: usize) -> Result<Memory<T>, Error> {
        let slice = self.stream.alloc_zeros(len.max(1));
        Ok(Memory { slice: driver(&format!("asking for {len} numbers of memory"), slice)? })
    }

    /// Memory with these numbers; of an empty slice, one zero.
    pub fn upload<T: DeviceValue>(&self, values: &[T]) -> Result<Memory<T>, Error> {
        let mut memory = self.zeros(values.len())?;
        self.write(&mut memory, 0, values)?;
        Ok(memory)
    }

    /// Writes numbers from `start` on.
    pub fn write<T: DeviceValue>(
        &self,
        memory: &mut Memory<T>,
        start: usize,
        values: &[T],
    ) -> Result<(), Error> {
        let mut part = memory.slice.slice_mut(start..start + values.len());
        driver("writing to its memory", self.stream.memcpy_htod(values, &mut part))
    }

    /// Reads `len` numbers from `start` on, when all work is done.
    pub fn read<T: DeviceValue>(
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

    /// Reads `len` numbers at an address, when all work is done: for tests of kernels.
    #[cfg(test)]
    pub fn read_at<T: DeviceValue>(&self, address: Address, len: usize) -> Result<Vec<T>, Error> {
        self.wait()?;
        driver("reading its memory", self.context.bind_to_thread())?;
        let mut values = vec![T::default(); len];
        // SAFETY: writes as many bytes as `values` has; any bits are numbers. The driver refuses to
        // read outside of its memory.
        let read = unsafe { cudarc::driver::result::memcpy_dtoh_sync(&mut values, address) };
        driver("reading its memory", read)?;
        Ok(values)
    }

    /// Shared memory for tiles.
    pub(crate) fn shared_memory(&self) -> SharedMemory {
        self.shared
    }

    /// Waits until all work is done.
    pub fn wait(&self) -> Result<(), Error> {
        driver("waiting for its work", self.stream.synchronize())
    }

    /// Launches a kernel.
    pub fn launch<J: KernelArgs>(
        &mut self,
        name: &'static str,
        grid: Grid,
        args: &J,
    ) -> Result<(), Error> {
        self.load(name, grid)?;
        let before = if self.times.is_some() { Some(self.record_event()?) } else { None };
        let is_dependent = self.has_dependent_launch && !std::mem::take(&mut self.has_joined);
        self.launch_in(&self.stream, is_dependent, name, grid, args)?;
        if let Some(before) = before {
            let after = self.record_event()?;
            self.wait()?;
            let time = self.times.get_or_insert_default().entry(name).or_default();
            time.launches += 1;
            time.milliseconds += before.milliseconds_until(&after)?;
        }
        Ok(())
    }

    /// Launches a kernel beside the main stream, after all that was launched there. What it reads may not be written
    /// and what it writes not be read before [`join`](Self::join).
    pub fn launch_aside<J: KernelArgs>(
        &mut self,
        name: &'static str,
        grid: Grid,
        args: &J,
    ) -> Result<Aside, Error> {
        if self.times.is_some() {
            return self.launch(name, grid, args).map(|()| Aside::DONE);
        }
        self.load(name, grid)?;
        let stream = &self.asides[self.next_aside];
        self.next_aside = (self.next_aside + 1) % ASIDES;
        let no_timing = Some(CUevent_flags::CU_EVENT_DISABLE_TIMING);
        let so_far = driver("recording an event", self.stream.record_event(no_timing))?;
        driver("waiting for an event", stream.wait(&so_far))?;
        self.launch_in(stream, false, name, grid, args)?;
        driver("recording an event", stream.record_event(no_timing)).map(|event| Aside(Some(event)))
    }

    /// Lets what is launched in the main stream from now on wait for a launch beside it.
    pub fn join(&mut self, launch: Aside) -> Result<(), Error> {
        let Some(event) = launch.0 else { return Ok(()) };
        self.has_joined = true;
        driver("waiting for an event", self.stream.wait(&event))
    }

    /// Loads a kernel, the first time.
    fn load(&mut self, name: &'static str, grid: Grid) -> Result<(), Error> {
        if !self.functions.contains_key(name) {
            let function = driver(name, self.module.load_function(name))?;
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            if grid.shared > 0 {
                driver(name, function.set_attribute(attribute, grid.shared as i32))?;
            }
            self.functions.insert(name, function);
        }
        Ok(())
    }

    /// Launches a loaded kernel; where it `is_dependent`, by programmatic dependent launch: its blocks may be resident
    /// before the previous kernel of the stream has ended, and each kernel begins by waiting for that.
    fn launch_in<J: KernelArgs>(
        &self,
        stream: &CudaStream,
        is_dependent: bool,
        name: &str,
        grid: Grid,
        args: &J,
    ) -> Result<(), Error> {
        let function = &self.functions[name];
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
            hStream: stream.cu_stream(),
            attrs: &raw mut attribute,
            numAttrs: u32::from(is_dependent),
        };
        driver(name, self.context.bind_to_thread())?;
        let mut arguments = [std::ptr::from_ref(args).cast_mut().cast()];
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

    /// From now on the device time of each kernel is measured, which serializes the launches.
    pub fn start_timing(&mut self) {
        self.times = Some(BTreeMap::new());
    }

    /// The times measured since [`start_timing`](Self::start_timing); ends the measurement.
    pub fn kernel_times(&mut self) -> BTreeMap<&'static str, KernelTime> {
        self.times.take().unwrap_or_default()
    }

    /// From now on launches are captured into a graph instead of executed.
    pub fn begin_capture(&self) -> Result<(), Error> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        driver("beginning a capture", self.stream.begin_capture(mode))
    }

    /// The graph captured.
    pub fn end_capture(&self) -> Result<Graph, Error> {
        let graph = self.stream.end_capture(CUgraphInstantiate_flags(0));
        Ok(Graph(driver("capturing a graph", graph)?.expect("a capture was begun")))
    }

    /// Launches a graph.
    pub fn launch_graph(&mut self, graph: &Graph) -> Result<(), Error> {
        driver("launching a graph", graph.0.launch())
    }

    /// Records an event in the stream.
    pub fn record_event(&self) -> Result<Event, Error> {
        let event = self.stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
        Ok(Event(driver("recording an event", event)?))
    }
}

/// A CUDA event, for the time between two of them.
#[derive(Debug)]
pub struct Event(CudaEvent);

impl Event {
    /// Milliseconds of device time from this event to a later one.
    pub fn milliseconds_until(&self, later: &Self) -> Result<f64, Error> {
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
