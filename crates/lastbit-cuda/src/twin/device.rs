//! The device as tests see it, in place of `crate::device`: a real one, a real one whose launches are
//! compared with their twins, or the host.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use super::bound::DOUBLE;
use super::findings::Asked;
pub use super::memory::Memory;
use super::memory::{Host, OnDevice, double, lock, number};
use super::{Precision as How, Run, Written, names};
use crate::cuda;
pub use crate::cuda::{
    DeviceReal, Graph, Grid, Job, KernelTime, Mark, Plain, compiler_version, has_compiler,
};
use crate::error::Error;
use crate::fast::{Precision, Room};

/// A device, or the host in its place.
#[derive(Debug)]
pub struct Device {
    at: Where,
    how: How,
    /// Who asks about the launches; without, they are not compared.
    asked: Option<Asked>,
}

#[derive(Debug)]
enum Where {
    Cuda(cuda::Device),
    Host(Arc<Mutex<Host>>),
}

impl Device {
    /// A real one, whose launches are not compared.
    pub fn new<F: DeviceReal>(precision: Precision) -> Result<Self, Error> {
        let device = cuda::Device::new::<F>(precision)?;
        Ok(Self { at: Where::Cuda(device), how: how::<F>(precision), asked: None })
    }

    /// A device whose launches are compared with their twins.
    pub fn checked<F: DeviceReal>(precision: Precision, asked: &Asked) -> Result<Self, Error> {
        Ok(Self { asked: Some(asked.clone()), ..Self::new::<F>(precision)? })
    }

    /// The host; launches are those of the twins.
    pub fn host<F: DeviceReal>(precision: Precision, asked: &Asked) -> Self {
        let host = Arc::new(Mutex::new(Host::default()));
        Self { at: Where::Host(host), how: how::<F>(precision), asked: Some(asked.clone()) }
    }

    /// That of a device; the host's twins need none.
    pub fn room(&self) -> Room {
        match &self.at {
            Where::Cuda(device) => device.room(),
            Where::Host(_) => Room::of(size_of::<f64>(), 1 << 20).expect("enough"),
        }
    }

    /// As a device's.
    pub fn same_queue(&self) -> Self {
        let at = match &self.at {
            Where::Cuda(device) => Where::Cuda(device.same_queue()),
            Where::Host(host) => Where::Host(host.clone()),
        };
        Self { at, how: self.how, asked: self.asked.clone() }
    }

    /// As a device's.
    pub fn zeros<T: Plain>(&self, len: usize) -> Result<Memory<T>, Error> {
        match &self.at {
            Where::Cuda(device) => Ok(Memory::Cuda(device.zeros(len)?)),
            Where::Host(host) => {
                let at = lock(host).zeros(size_of::<T>(), len);
                Ok(Memory::Host { at, len, of: PhantomData })
            }
        }
    }

    /// As a device's.
    pub fn with<T: Plain>(&self, values: &[T]) -> Result<Memory<T>, Error> {
        let mut memory = self.zeros(values.len())?;
        self.write(&mut memory, 0, values)?;
        Ok(memory)
    }

    /// As a device's.
    pub fn write<T: Plain>(
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

    /// As a device's.
    pub fn read<T: Plain>(
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

    /// The same as it is in the host's memory.
    pub fn read_doubles<T: Plain>(&self, memory: &Memory<T>, start: usize, len: usize) -> Vec<f64> {
        let Where::Host(host) = &self.at else { panic!("not on a device") };
        lock(host).read(memory.address(), start, len)
    }

    /// As a device's.
    pub fn wait(&self) -> Result<(), Error> {
        match &self.at {
            Where::Cuda(device) => device.wait(),
            Where::Host(_) => Ok(()),
        }
    }

    /// As a device's, and compared with the kernel's twin; or the twin in its place.
    pub fn launch<J: Job>(&mut self, name: &'static str, grid: Grid, job: &J) -> Result<(), Error> {
        let is_tested_elsewhere = names::TESTED_ELSEWHERE.iter().any(|(own, _)| *own == name);
        let asked = self.asked.clone().filter(|_| !is_tested_elsewhere);
        let how = self.how;
        match (&mut self.at, asked) {
            (Where::Host(host), asked) => {
                let written = Run::launch(name, grid, job, Rc::new(host.clone()), how);
                for Written { at, start, values, .. } in &written {
                    lock(host).write(*at, *start, values.iter().map(|value| value.x));
                }
                let asked = asked.expect("steps are not taken on the host");
                lock(&asked).kernels.entry(name).or_default().count(&written);
                Ok(())
            }
            (Where::Cuda(device), Some(asked)) => {
                let is_single = how.unit > DOUBLE;
                let ram = Rc::new(OnDevice { device: device.same_queue(), is_single });
                let written = Run::launch(name, grid, job, ram.clone(), how);
                device.launch(name, grid, job)?;
                let mut findings = lock(&asked);
                let finding = findings.kernels.entry(name).or_default();
                finding.count(&written);
                written.iter().for_each(|written| finding.compare(written, ram.as_ref()));
                Ok(())
            }
            (Where::Cuda(device), None) => device.launch(name, grid, job),
        }
    }
}

fn how<F: DeviceReal>(precision: Precision) -> How {
    How { unit: F::UNIT_ROUNDOFF, tensor: precision == Precision::Tf32 }
}

/// Everything else a device can do is done by real ones alone.
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
