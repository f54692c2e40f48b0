//! The gradient fluctuation, computed on the device: bit-identical to
//! [`lastbit::training::Fluctuation`] on the CPU (`fluctuation.cu`).

use crate::device::{Device, DeviceReal, Grid, Memory};
use crate::error::Error;
use crate::kernel_args::{FluctuationArgs, ORDERED_SUM_THREADS};

/// For each replica the mean of some gradients, compared with one more.
#[derive(Debug)]
pub(crate) struct Fluctuations {
    parameters: usize,
    replicas: usize,
    sums: Memory<f64>,
    results: Memory<f64>,
    count: usize,
}

impl Fluctuations {
    /// For replicas with so many parameters each.
    pub fn new(device: &Device, parameters: usize, replicas: usize) -> Result<Self, Error> {
        let sums = device.zeros(replicas * parameters)?;
        Ok(Self { parameters, replicas, sums, results: device.zeros(2 * replicas)?, count: 0 })
    }

    /// Forgets all gradients.
    pub fn restart(&mut self) {
        self.count = 0;
    }

    /// Adds one gradient to each mean.
    pub fn add<F: DeviceReal>(
        &mut self,
        device: &mut Device,
        gradient: &Memory<F>,
    ) -> Result<(), Error> {
        let each = Grid::each(self.parameters, self.replicas);
        device.launch("fluctuation_add", each, &self.args(gradient))?;
        self.count += 1;
        Ok(())
    }

    /// The relative gradient fluctuation of each replica.
    pub fn against<F: DeviceReal>(
        &self,
        device: &mut Device,
        gradient: &Memory<F>,
    ) -> Result<Vec<f64>, Error> {
        let grid = Grid::blocks([self.replicas, 1, 1], ORDERED_SUM_THREADS);
        device.launch("fluctuation_sum", grid, &self.args(gradient))?;
        let results = device.read(&self.results, 0, 2 * self.replicas)?;
        Ok(results.chunks_exact(2).map(|result| result[0] / result[1]).collect())
    }

    fn args<F: DeviceReal>(&self, gradient: &Memory<F>) -> FluctuationArgs {
        FluctuationArgs {
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
