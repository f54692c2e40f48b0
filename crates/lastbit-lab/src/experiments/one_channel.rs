//! Networks of one channel on zeros and ones of MNIST: what the exhibits on depth share.

use std::sync::Arc;

use lastbit::verdict::Horizon;
use serde_json::{Value, json};

use super::perturbed::parsed;
use crate::edge::{Over, Probes};
use crate::error::Error;
use crate::plan::Plan;
use crate::train::{ConfigFile, Device, Prepared};

/// A network and how it is trained: full batch, plain descent, f64.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OneChannel {
    /// Layers.
    pub layers: usize,
    /// The first so many images; all without.
    pub images: Option<usize>,
    /// Weight decay.
    pub alpha: f64,
    /// Learning rate, or where the search for one begins.
    pub dt: f64,
    /// Seed of the first weights.
    pub seed: u64,
    /// Steps of a run.
    pub steps: usize,
}

impl OneChannel {
    /// What all of them have in common, as it stands in a record.
    pub fn settings(&self) -> Value {
        json!({
            "data": "mnist01", "images": self.images.unwrap_or(12_665), "pixels": "0 to 1",
            "kernel": 3, "padding": "same", "bias": false, "beta": 1.0, "pooling": "mean",
            "init": "uniform(-1/3, 1/3)", "optimizer": "sgd", "batch": "full", "precision": "f64",
        })
    }

    fn found(&self, device: Device) -> ConfigFile {
        let Self { layers, alpha, dt, steps, images, .. } = self;
        let limit = images.map(|images| format!("limit = {images}")).unwrap_or_default();
        let text = format!(
            "[data]\nname = \"mnist01\"\nnormalization = \"none\"\n{limit}\n\
             [network]\nkind = \"cnn\"\nchannels = {:?}\nkernel = 3\npadding = \"same\"\nbias = false\n\
             activation = {{ swish = 1.0 }}\npooling = \"none\"\nhead = \"mean\"\ninit = \"torch\"\n\
             [loss]\nname = \"binary-cross-entropy\"\n\
             [optimizer]\nname = \"sgd\"\ndt = {dt:?}\nalpha = {alpha:?}\n\
             [training]\nsteps = {steps}\nbatch = \"full\"\nprecision = \"f64\"\n\
             device = \"{}\"\n",
            vec![1; *layers],
            device.name(),
        );
        parsed("one-channel", &text, &[])
    }

    /// Its probes over the learning rate on a device; the data is embedded.
    pub fn probes(&self, device: Device, horizon: Horizon, twins: bool) -> Result<Probes, Error> {
        let prepared = Prepared::new(self.found(device), None, true)?;
        Probes::new(Arc::new(prepared), Over::Dt, self.seed, horizon, twins)
    }
}

/// A plan on a device. Whether that can be used is asked before the first cell is computed; its kernels
/// are compiled by that, once for all cells.
pub fn on_device(plan: Plan, device: Device) -> Result<Plan, Error> {
    if device == Device::CudaTf32 {
        let expected = "cuda: these networks are trained in f64";
        return Err(Error::setting("--device", device.name(), expected));
    }
    if device != Device::Cpu {
        lastbit_cuda::Device::new::<f64>(lastbit_cuda::MathMode::Fma)?;
    }
    plan.on(device)
}

/// A search asks whether a run is stable; an oscillation that dies out may take twice the steps.
pub fn horizon_of_a_search(steps: usize) -> Horizon {
    Horizon { steps, at_most: 2 * steps, tells_divergence: false }
}

/// `1 layer`, `2 layers`, ….
pub fn in_words(layers: usize) -> String {
    if layers == 1 { "1 layer".to_owned() } else { format!("{layers} layers") }
}
