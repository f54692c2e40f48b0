//! Memory of a device or of the host, as the twins read it.

use std::any::Any;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Kind, Ram};
use crate::cuda::{self, Plain};
use crate::error::Error;
use crate::jobs::Address;

pub fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory of the host under addresses as a device would give them: numbers of any kind are kept as doubles,
/// so that what the twins compute is not rounded between them.
#[derive(Debug, Default)]
pub struct Host {
    /// By first address: bytes to a number as the engine counts them, and the numbers.
    parts: BTreeMap<Address, (usize, Vec<f64>)>,
}

impl Host {
    pub fn zeros(&mut self, bytes: usize, len: usize) -> Address {
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

impl Ram for Arc<Mutex<Host>> {
    fn read(&self, _: Kind, at: Address, start: usize, len: usize) -> Vec<f64> {
        lock(self).read(at, start, len)
    }
}

/// The memory of a device with numbers of some size.
pub struct OnDevice {
    pub device: cuda::Device,
    pub is_single: bool,
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

    pub fn on_device(&self) -> &cuda::Memory<T> {
        let Self::Cuda(memory) = self else { panic!("memory of the host, on a device") };
        memory
    }

    pub fn on_device_mut(&mut self) -> &mut cuda::Memory<T> {
        let Self::Cuda(memory) = self else { panic!("memory of the host, on a device") };
        memory
    }
}

/// A number of whatever kind as a double.
pub fn double<T: Plain>(value: &T) -> f64 {
    let value: &dyn Any = value;
    let real = value.downcast_ref::<f64>().copied();
    let single = || value.downcast_ref::<f32>().map(|x| f64::from(*x));
    let int = || value.downcast_ref::<i32>().map(|x| f64::from(*x));
    real.or_else(single).or_else(int).expect("numbers alone are written to the host's memory")
}

/// A double as a number of whatever kind.
pub fn number<T: Plain>(value: f64) -> T {
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
