//! How much gradients fluctuate, measured where they lie: the bits of
//! [`lastbit::training::Fluctuation`], which adds them on the CPU (`fluctuation.cu`).

use crate::device::{Device, DeviceReal, Grid, Memory};
use crate::error::Error;
use crate::jobs::{ADDERS_AND_MAKERS, FluctuationJob};

/// Gradients of replicas whose means are held against one more each.
#[derive(Debug)]
pub(crate) struct Fluctuations {
    parameters: usize,
    replicas: usize,
    sums: Memory<f64>,
    results: Memory<f64>,
    count: usize,
}

impl Fluctuations {
    /// Of replicas with so many parameters each.
    pub fn new(device: &Device, parameters: usize, replicas: usize) -> Result<Self, Error> {
        let sums = device.zeros(replicas * parameters)?;
        Ok(Self { parameters, replicas, sums, results: device.zeros(2 * replicas)?, count: 0 })
    }

    /// From now on means are those of no gradients yet.
    pub fn restart(&mut self) {
        self.count = 0;
    }

    /// One gradient of each mean.
    pub fn add<F: DeviceReal>(
        &mut self,
        device: &mut Device,
        gradient: &Memory<F>,
    ) -> Result<(), Error> {
        let each = Grid::each(self.parameters, self.replicas);
        device.launch("fluctuation_add", each, &self.job(gradient))?;
        self.count += 1;
        Ok(())
    }

    /// The relative gradient fluctuation of each replica.
    pub fn against<F: DeviceReal>(
        &self,
        device: &mut Device,
        gradient: &Memory<F>,
    ) -> Result<Vec<f64>, Error> {
        let grid = Grid::blocks([self.replicas, 1, 1], ADDERS_AND_MAKERS);
        device.launch("fluctuation_sum", grid, &self.job(gradient))?;
        let results = device.read(&self.results, 0, 2 * self.replicas)?;
        Ok(results.chunks_exact(2).map(|result| result[0] / result[1]).collect())
    }

    fn job<F: DeviceReal>(&self, gradient: &Memory<F>) -> FluctuationJob {
        FluctuationJob {
            gradient: gradient.address(),
            sums: self.sums.address(),
            results: self.results.address(),
            parameters: self.parameters as u64,
            count: self.count as f64,
        }
    }
}

#[cfg(test)]
mod tests;
