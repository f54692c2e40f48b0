//! The device of the tests, in place of `crate::device`: a real one, a real one whose launches are
//! compared with their references, or the host.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use super::bound::U_DOUBLE;
use super::error_stats::SharedStats;
pub use super::memory::Memory;
use super::memory::{DeviceMemory, Host, double, lock, number};
use super::{Expected, Launch, Rounding, registry};
use crate::conv3x3_plan::{MathMode, SharedMemory};
use crate::cuda;
pub use crate::cuda::{
    Aside, DeviceReal, DeviceValue, Event, Graph, Grid, KernelArgs, KernelTime, compiler_version,
    has_compiler,
};
use crate::error::Error;

/// A device, or the host in its place.
#[derive(Debug, Clone)]
pub struct Device {
    at: Where,
    how: Rounding,
    /// Errors found; without, launches are not compared.
    stats: Option<SharedStats>,
}

#[derive(Debug, Clone)]
enum Where {
    Cuda(cuda::Device),
    Host(Arc<Mutex<Host>>),
}

/// Methods that a real device has are documented there.
#[allow(missing_docs)]
impl Device {
    /// A real device, whose launches are not compared.
    pub fn new<F: DeviceReal>(math: MathMode) -> Result<Self, Error> {
        let device = cuda::Device::new::<F>(math)?;
        Ok(Self { at: Where::Cuda(device), how: how::<F>(math), stats: None })
    }

    /// A real device whose launches are compared with their references.
    pub fn checked<F: DeviceReal>(math: MathMode, stats: &SharedStats) -> Result<Self, Error> {
        Ok(Self { stats: Some(stats.clone()), ..Self::new::<F>(math)? })
    }

    /// The host; launches run the references.
    pub fn host<F: DeviceReal>(math: MathMode, stats: &SharedStats) -> Self {
        let host = Arc::new(Mutex::new(Host::default()));
        Self { at: Where::Host(host), how: how::<F>(math), stats: Some(stats.clone()) }
    }

    /// That of a device; the references need none.
    pub fn shared_memory(&self) -> SharedMemory {
        match &self.at {
            Where::Cuda(device) => device.shared_memory(),
            Where::Host(_) => SharedMemory::of(size_of::<f64>(), 1 << 20).expect("enough"),
        }
    }

    pub fn zeros<T: DeviceValue>(&self, len: usize) -> Result<Memory<T>, Error> {
        match &self.at {
            Where::Cuda(device) => Ok(Memory::Cuda(device.zeros(len)?)),
            Where::Host(host) => {
                let at = lock(host).zeros(size_of::<T>(), len);
                Ok(Memory::Host { at, len, of: PhantomData })
            }
        }
    }

    pub fn upload<T: DeviceValue>(&self, values: &[T]) -> Result<Memory<T>, Error> {
        let mut memory = self.zeros(values.len())?;
        self.write(&mut memory, 0, values)?;
        Ok(memory)
    }

    pub fn write<T: DeviceValue>(
        &self,
        memory: &mut Memory<T>,
        start: usize,
        values: &[T],
    ) -> Result<(), Error> {
        match &self.at {
            Where::Cuda(device) => device.write(memory.on_device_mut(), start, values),
            Where::Host(host) => {
                lock(host).write(memory.address(), start, values.iter().map(double));
                Ok(())
            }
        }
    }

    pub fn read<T: DeviceValue>(
        &self,
        memory: &Memory<T>,
        start: usize,
        len: usize,
    ) -> Result<Vec<T>, Error> {
        match &self.at {
            Where::Cuda(device) => device.read(memory.on_device(), start, len),
            Where::Host(_) => {
                Ok(self.read_doubles(memory, start, len).into_iter().map(number).collect())
            }
        }
    }

    /// Reads host memory without rounding to `T`.
    pub fn read_doubles<T: DeviceValue>(
        &self,
        memory: &Memory<T>,
        start: usize,
        len: usize,
    ) -> Vec<f64> {
        let Where::Host(host) = &self.at else { panic!("not on a device") };
        lock(host).read(memory.address(), start, len)
    }

    pub fn wait(&self) -> Result<(), Error> {
        match &self.at {
            Where::Cuda(device) => device.wait(),
            Where::Host(_) => Ok(()),
        }
    }

    /// Launches a kernel and compares it with its reference; on the host, runs the reference.
    pub fn launch<J: KernelArgs>(
        &mut self,
        name: &'static str,
        grid: Grid,
        args: &J,
    ) -> Result<(), Error> {
        let stats = self.stats.clone().filter(|_| !registry::is_tested_elsewhere(name));
        let how = self.how;
        match (&mut self.at, stats) {
            (Where::Host(host), stats) => {
                let expected = Launch::run(name, grid, args, Rc::new(host.clone()), how);
                for Expected { at, start, values, .. } in &expected {
                    lock(host).write(*at, *start, values.iter().map(|value| value.x));
                }
                let stats = stats.expect("steps are not taken on the host");
                lock(&stats).kernels.entry(name).or_default().count(&expected);
                Ok(())
            }
            (Where::Cuda(device), Some(stats)) => {
                let is_single = how.unit > U_DOUBLE;
                let memory = Rc::new(DeviceMemory { device: device.clone(), is_single });
                let expected = Launch::run(name, grid, args, memory.clone(), how);
                device.launch(name, grid, args)?;
                let mut error_stats = lock(&stats);
                let errors = error_stats.kernels.entry(name).or_default();
                errors.count(&expected);
                expected.iter().for_each(|expected| errors.compare(expected, memory.as_ref()));
                Ok(())
            }
            (Where::Cuda(device), None) => device.launch(name, grid, args),
        }
    }

    /// Launches a kernel beside the main stream; where launches are compared, at once.
    pub fn launch_aside<J: KernelArgs>(
        &mut self,
        name: &'static str,
        grid: Grid,
        args: &J,
    ) -> Result<Aside, Error> {
        match (&mut self.at, &self.stats) {
            (Where::Cuda(device), None) => device.launch_aside(name, grid, args),
            _ => self.launch(name, grid, args).map(|()| Aside::DONE),
        }
    }

    pub fn join(&mut self, launch: Aside) -> Result<(), Error> {
        match &mut self.at {
            Where::Cuda(device) => device.join(launch),
            Where::Host(_) => Ok(()),
        }
    }
}

fn how<F: DeviceReal>(math: MathMode) -> Rounding {
    Rounding { unit: F::UNIT_ROUNDOFF, tensor: math == MathMode::Tf32 }
}

/// Everything else needs a real device.
impl Deref for Device {
    type Target = cuda::Device;

    fn deref(&self) -> &cuda::Device {
        let Where::Cuda(device) = &self.at else { panic!("not on the host") };
        device
    }
}

impl DerefMut for Device {
    fn deref_mut(&mut self) -> &mut cuda::Device {
        let Where::Cuda(device) = &mut self.at else { panic!("not on the host") };
        device
    }
}
