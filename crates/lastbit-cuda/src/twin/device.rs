//! The device as tests see it, in place of `crate::device`: a real one, a real one whose launches are
//! compared with their twins, or the host.

use std::any::Any;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Kind, Precision as How, Ram, Run, Written, names};
use crate::cuda;
pub use crate::cuda::{
    DeviceReal, Graph, Grid, Job, KernelTime, Mark, Plain, compiler_version, has_compiler,
};
use crate::error::Error;
use crate::fast::Precision;
use crate::jobs::Address;

/// What was found out about the kernels.
#[derive(Debug, Default)]
pub struct Findings {
    /// By kernel.
    pub kernels: BTreeMap<&'static str, Finding>,
}

/// What was found out about a kernel.
#[derive(Debug, Clone, Default)]
pub struct Finding {
    pub launches: usize,
    /// Numbers that were compared.
    pub numbers: usize,
    /// The largest error as a share of its bound.
    pub share: f64,
    /// Where, in words.
    pub place: String,
    /// The mean bound of what a launch writes as a share of the mean size of its numbers, where it is
    /// smallest: sums that cancel, such as the gradient of a bias before a batch norm, are nothing but
    /// their errors.
    pub width: f64,
}

/// Several devices may tell one who asks.
pub type Asked = Arc<Mutex<Findings>>;

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

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

/// Memory of the host under addresses as a device would give them: numbers of any kind are kept as doubles,
/// so that what the twins compute is not rounded between them.
#[derive(Debug, Default)]
pub struct Host {
    /// By first address: bytes to a number as the engine counts them, and the numbers.
    parts: BTreeMap<Address, (usize, Vec<f64>)>,
}

impl Host {
    fn zeros(&mut self, bytes: usize, len: usize) -> Address {
        let after =
            |(at, (bytes, part)): (&u64, &(usize, Vec<f64>))| at + (bytes * part.len()) as u64;
        let free = self.parts.last_key_value().map_or(0, after);
        // As far apart that no address is that of two parts, nor 0.
        let at = (free + 4096).next_multiple_of(256);
        self.parts.insert(at, (bytes, vec![0.0; len.max(1)]));
        at
    }

    /// The part of an address, and which number of it stands there.
    fn find(&self, at: Address) -> (Address, usize) {
        let (first, (bytes, part)) = self.parts.range(..=at).next_back().expect("an address");
        let number = (at - first) as usize / bytes;
        assert!(number < part.len(), "address {at} is {number} of {}", part.len());
        (*first, number)
    }

    fn read(&self, at: Address, start: usize, len: usize) -> Vec<f64> {
        let (first, number) = self.find(at);
        self.parts[&first].1[number + start..][..len].to_vec()
    }

    fn write(&mut self, at: Address, start: usize, values: impl Iterator<Item = f64>) {
        let (first, number) = self.find(at);
        let part = &mut self.parts.get_mut(&first).expect("found").1[number + start..];
        for (i, value) in values.enumerate() {
            part[i] = value;
        }
    }
}

impl Ram for Arc<Mutex<Host>> {
    fn read(&self, _: Kind, at: Address, start: usize, len: usize) -> Vec<f64> {
        lock(self).read(at, start, len)
    }
}

/// The memory of a device with numbers of some size.
struct OnDevice {
    device: cuda::Device,
    is_single: bool,
}

impl Ram for OnDevice {
    fn read(&self, kind: Kind, at: Address, start: usize, len: usize) -> Vec<f64> {
        let from = |bytes: usize| at + (bytes * start) as u64;
        let failed = |error: Error| -> ! { panic!("{kind:?}, {len} numbers: {error}") };
        match kind {
            Kind::Int => {
                let read = self.device.read_at::<i32>(from(4), len).unwrap_or_else(|e| failed(e));
                read.into_iter().map(f64::from).collect()
            }
            Kind::Real if self.is_single => {
                let read = self.device.read_at::<f32>(from(4), len).unwrap_or_else(|e| failed(e));
                read.into_iter().map(f64::from).collect()
            }
            Kind::Real | Kind::Double => {
                self.device.read_at(from(8), len).unwrap_or_else(|e| failed(e))
            }
        }
    }
}

/// Numbers in the memory of either.
#[derive(Debug)]
pub enum Memory<T> {
    Cuda(cuda::Memory<T>),
    Host { at: Address, len: usize, of: PhantomData<T> },
}

impl<T: Plain> Memory<T> {
    pub fn address(&self) -> Address {
        match self {
            Self::Cuda(memory) => memory.address(),
            Self::Host { at, .. } => *at,
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Cuda(memory) => memory.len(),
            Self::Host { len, .. } => *len,
        }
    }

    fn on_device(&self) -> &cuda::Memory<T> {
        let Self::Cuda(memory) = self else { panic!("memory of the host, on a device") };
        memory
    }

    fn on_device_mut(&mut self) -> &mut cuda::Memory<T> {
        let Self::Cuda(memory) = self else { panic!("memory of the host, on a device") };
        memory
    }
}

/// A number of whatever kind as a double.
fn double<T: Plain>(value: &T) -> f64 {
    let value: &dyn Any = value;
    let real = value.downcast_ref::<f64>().copied();
    let single = || value.downcast_ref::<f32>().map(|x| f64::from(*x));
    let int = || value.downcast_ref::<i32>().map(|x| f64::from(*x));
    real.or_else(single).or_else(int).expect("numbers alone are written to the host's memory")
}

/// A double as a number of whatever kind.
fn number<T: Plain>(value: f64) -> T {
    let mut out = T::default();
    let place: &mut dyn Any = &mut out;
    if let Some(real) = place.downcast_mut::<f64>() {
        *real = value;
    } else if let Some(single) = place.downcast_mut::<f32>() {
        *single = value as f32;
    } else if let Some(int) = place.downcast_mut::<i32>() {
        *int = value as i32;
    } else {
        panic!("numbers alone are read from the host's memory");
    }
    out
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

    /// As a device's; on the host there is no work beside.
    pub fn write_beside<T: Plain>(
        &self,
        memory: &mut Memory<T>,
        start: usize,
        values: &[T],
    ) -> Result<(), Error> {
        match &self.at {
            Where::Cuda(device) => device.write_beside(memory.on_device_mut(), start, values),
            Where::Host(_) => self.write(memory, start, values),
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
                let is_single = how.unit > super::DOUBLE;
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

impl Finding {
    /// Counts a launch and measures its bounds: one that says nothing would hide every error.
    fn count(&mut self, written: &[Written]) {
        let mut width = 0.0_f64;
        for Written { kind, values, .. } in written {
            let bounds: f64 = values.iter().map(|value| value.e).sum();
            let sizes: f64 = values.iter().map(|value| value.x.abs()).sum();
            assert!(bounds.is_finite() && sizes.is_finite(), "{kind:?}: {sizes} within {bounds}");
            width = width.max(if bounds > 0.0 { bounds / sizes } else { 0.0 });
        }
        self.width = if self.launches == 0 { width } else { self.width.min(width) };
        self.launches += 1;
        self.numbers += written.iter().map(|written| written.values.len()).sum::<usize>();
    }

    /// Looks for the largest error.
    fn compare(&mut self, written: &Written, ram: &dyn Ram) {
        let Written { kind, at, start, values } = written;
        // Numbers below the smallest normal one are not rounded in proportion to their size.
        let smallest = if *kind == Kind::Int { 0.0 } else { f64::from(f32::MIN_POSITIVE) };
        let found = ram.read(*kind, *at, *start, values.len());
        for (i, (found, expected)) in found.iter().zip(values).enumerate() {
            let error = (found - expected.x).abs();
            let share = match error {
                0.0 => 0.0,
                error if error.is_finite() => error / (expected.e + smallest),
                _ => f64::INFINITY,
            };
            if share > self.share {
                self.share = share;
                self.place = format!(
                    "{kind:?} {i} of {}: {found:e}, expected {:e} within {:e}",
                    values.len(),
                    expected.x,
                    expected.e
                );
            }
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

#[cfg(test)]
mod tests {
    use super::super::bound::Near;
    use super::*;

    #[test]
    fn what_is_beyond_its_bound_is_found() {
        let host = Arc::new(Mutex::new(Host::default()));
        let at = lock(&host).zeros(8, 3);
        for (third, share) in [(3.5, 0.5), (1.0, 2.0), (f64::NAN, f64::INFINITY)] {
            lock(&host).write(at, 0, [1.0, 2.0, third].into_iter());
            let expected = [1.0, 2.0, 3.0].map(|x| Near { x, e: 1.0 });
            let mut finding = Finding::default();
            let written = Written { kind: Kind::Real, at, start: 0, values: expected.to_vec() };
            finding.compare(&written, &host);
            assert_eq!(finding.share, share, "{}", finding.place);
        }
    }
}
