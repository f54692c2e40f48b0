//! Memory of a device or of the host, as the references read it.

use std::any::Any;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Kind, MemoryReader};
use crate::cuda::{self, DeviceValue};
use crate::error::Error;
use crate::kernel_args::Address;

pub fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Host memory under addresses like those of a device. Numbers of any type are stored as doubles, so that
/// results of references are not rounded.
#[derive(Debug, Default)]
pub struct Host {
    /// By first address: bytes per number as the engine counts them, and the numbers.
    parts: BTreeMap<Address, (usize, Vec<f64>)>,
}

impl Host {
    pub fn zeros(&mut self, bytes: usize, len: usize) -> Address {
        let after =
            |(at, (bytes, part)): (&u64, &(usize, Vec<f64>))| at + (bytes * part.len()) as u64;
        let free = self.parts.last_key_value().map_or(0, after);
        // Far enough apart that no address belongs to two parts, and none is 0.
        let at = (free + 4096).next_multiple_of(256);
        self.parts.insert(at, (bytes, vec![0.0; len.max(1)]));
        at
    }

    /// The part that an address belongs to, and the index of its number.
    fn find(&self, at: Address) -> (Address, usize) {
        let (first, (bytes, part)) = self.parts.range(..=at).next_back().expect("an address");
        let number = (at - first) as usize / bytes;
        assert!(number < part.len(), "address {at} is {number} of {}", part.len());
        (*first, number)
    }

    pub fn read(&self, at: Address, start: usize, len: usize) -> Vec<f64> {
        let (first, number) = self.find(at);
        self.parts[&first].1[number + start..][..len].to_vec()
    }

    pub fn write(&mut self, at: Address, start: usize, values: impl Iterator<Item = f64>) {
        let (first, number) = self.find(at);
        let part = &mut self.parts.get_mut(&first).expect("found").1[number + start..];
        for (i, value) in values.enumerate() {
            part[i] = value;
        }
    }
}

impl MemoryReader for Arc<Mutex<Host>> {
    fn read(&self, _: Kind, at: Address, start: usize, len: usize) -> Vec<f64> {
        lock(self).read(at, start, len)
    }
}

/// Memory of a device.
pub struct DeviceMemory {
    pub device: cuda::Device,
    pub is_single: bool,
}

impl MemoryReader for DeviceMemory {
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

/// Numbers in device or host memory.
#[derive(Debug)]
pub enum Memory<T> {
    Cuda(cuda::Memory<T>),
    Host { at: Address, len: usize, of: PhantomData<T> },
}

impl<T: DeviceValue> Memory<T> {
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

    pub fn on_device(&self) -> &cuda::Memory<T> {
        let Self::Cuda(memory) = self else { panic!("memory of the host, on a device") };
        memory
    }

    pub fn on_device_mut(&mut self) -> &mut cuda::Memory<T> {
        let Self::Cuda(memory) = self else { panic!("memory of the host, on a device") };
        memory
    }
}

/// A number of any type as a double.
pub fn double<T: DeviceValue>(value: &T) -> f64 {
    let value: &dyn Any = value;
    let real = value.downcast_ref::<f64>().copied();
    let single = || value.downcast_ref::<f32>().map(|x| f64::from(*x));
    let int = || value.downcast_ref::<i32>().map(|x| f64::from(*x));
    real.or_else(single).or_else(int).expect("numbers alone are written to the host's memory")
}

/// A double as a number of any type.
pub fn number<T: DeviceValue>(value: f64) -> T {
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
