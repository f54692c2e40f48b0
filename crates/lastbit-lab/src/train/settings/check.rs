//! Every setting by itself: is it in range, does it contradict another? What depends on the data is
//! checked where data and network meet, in [`prepare`](crate::train::prepare).

use lastbit::activation::Activation;
use lastbit::attribution::Linearization;
use lastbit::nn::Init;
use lastbit::optim::direction;

use super::{Batch, ConfigFile, Device, Normalization, Schedule};
use crate::error::Error;
use crate::simulate::Precision;
use crate::validate::{fits_precision, not_negative, positive, within};

/// More replicas than anyone's memory holds.
const MOST_REPLICAS: usize = 4096;
/// Batches are in memory together where their gradients are compared.
const MOST_BATCHES: usize = 1000;
/// Eigenvectors are in memory together, and in every checkpoint.
const MOST_EIGENVALUES: usize = 100;
/// As many vectors are in memory together.
const MOST_NODES: usize = 1000;
/// Residuals below this are the rounding of products.
const FINEST_F32: (f64, &str) = (1e-5, "f32");
const FINEST_F64: (f64, &str) = (1e-13, "f64");

impl ConfigFile {
    pub(super) fn check(&self) -> Result<(), Error> {
        self.check_data()?;
        self.check_optimizer()?;
        self.check_schedule()?;
        self.check_training()?;
        self.check_replicas()?;
        self.check_sharpness()?;
        self.check_attribution()
    }

    /// The key as it stands in messages.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}: {key}", self.path.display())
    }

    fn check_data(&self) -> Result<(), Error> {
        let data = &self.settings.data;
        for (key, limit) in [("data.limit", data.limit), ("data.test-limit", data.test_limit)] {
            if let Some(limit) = limit {
                within(&self.key(key), limit, 1, usize::MAX)?;
            }
        }
        if let Some(classes) = &data.classes {
            self.check_list("data.classes", classes)?;
            if classes.len() < 2 {
                return Err(self.refuse("data.classes", list(classes), "at least two classes"));
            }
        }
        if let Normalization::Given { mean, std } = &data.normalization {
            if mean.len() != std.len() || mean.is_empty() {
                let found = format!("{} means and {} deviations", mean.len(), std.len());
                return Err(self.refuse("data.normalization", found, "as many of each"));
            }
            for std in std {
                positive(&self.key("data.normalization.std"), *std)?;
            }
            if let Some(mean) = mean.iter().find(|mean| !mean.is_finite()) {
                return Err(self.refuse("data.normalization.mean", mean, "finite numbers"));
            }
        }
        within(&self.key("data.border"), data.border, 0, 1000)?;
        if let Some(augment) = data.augment {
            within(&self.key("data.augment.padding"), augment.padding, 0, 1000)?;
        }
        if let Init::Normal { sigma } = self.settings.network.init {
            positive(&self.key("network.init.normal"), sigma)?;
        }
        match self.settings.network.kind.activation() {
            Activation::Swish { beta } if !(1e-6..=1e6).contains(&beta) => {
                let expected = "a number from 1e-6 to 1e6";
                return Err(self.refuse("network.activation.swish", beta, expected));
            }
            _ => {}
        }
        Ok(())
    }

    fn check_schedule(&self) -> Result<(), Error> {
        let one = |epochs: &Option<usize>, steps: &Option<usize>| {
            self.exactly_one("optimizer.schedule", epochs.is_some(), steps.is_some())?;
            let time = epochs.or(*steps).unwrap_or(0);
            within(&self.key("optimizer.schedule"), time, 1, usize::MAX)
        };
        match &self.settings.optimizer.schedule {
            Schedule::Constant => Ok(()),
            Schedule::Every { gamma, epochs, steps } => {
                positive(&self.key("optimizer.schedule.gamma"), *gamma)?;
                one(epochs, steps)
            }
            Schedule::Milestones { gamma, epochs, steps } => {
                positive(&self.key("optimizer.schedule.gamma"), *gamma)?;
                self.exactly_one("optimizer.schedule", epochs.is_some(), steps.is_some())?;
                self.check_list("optimizer.schedule", epochs.as_ref().or(steps.as_ref()).unwrap())
            }
            Schedule::Cosine { floor, epochs, steps } => {
                not_negative(&self.key("optimizer.schedule.floor"), *floor)?;
                one(epochs, steps)
            }
        }
    }

    fn check_training(&self) -> Result<(), Error> {
        let training = &self.settings.training;
        self.exactly_one("training", training.epochs.is_some(), training.steps.is_some())?;
        let (key, length) = match training.epochs {
            Some(epochs) => ("training.epochs", epochs),
            None => ("training.steps", training.steps.unwrap_or(0)),
        };
        within(&self.key(key), length, 1, 1 << 40)?;
        within(&self.key("training.keep-every"), training.keep_every, 0, 1 << 20)?;
        let batches = training.fluctuation_batches;
        within(&self.key("training.fluctuation-batches"), batches, 0, MOST_BATCHES)?;
        self.check_device()
    }

    fn check_device(&self) -> Result<(), Error> {
        let training = &self.settings.training;
        if training.device == Device::CudaTf32 && training.precision == Precision::F64 {
            let expected = "\"cuda\", or precision = \"f32\"";
            return Err(self.refuse("training.device", "\"cuda-tf32\" in f64", expected));
        }
        let method = self.settings.optimizer.method();
        if training.device == Device::CudaTf32 && method.needs_hessian() {
            // Hessian-vector products of values rounded so coarsely are not those of a symmetric matrix.
            let found = format!("\"cuda-tf32\" with the optimizer {}", method.name());
            return Err(self.refuse("training.device", found, "\"cuda\""));
        }
        Ok(())
    }

    fn check_replicas(&self) -> Result<(), Error> {
        let replicas = &self.settings.replicas;
        self.check_list("replicas.k", &replicas.k)?;
        for k in &replicas.k {
            positive(&self.key("replicas.k"), *k)?;
            fits_precision(&self.key("replicas.k"), *k, self.settings.training.precision)?;
        }
        let seeds = &replicas.seeds;
        for (key, list) in
            [("init", &seeds.init), ("batch", &seeds.batch), ("augment", &seeds.augment)]
        {
            self.check_list(&format!("replicas.seeds.{key}"), list)?;
        }
        self.check_seeds_matter()?;
        if !replicas.permute_order.is_empty() {
            self.check_list("replicas.permute-order", &replicas.permute_order)?;
        }
        if !replicas.flip_bit.is_empty() {
            let shown: Vec<String> = replicas.flip_bit.iter().map(|f| format!("{f:?}")).collect();
            self.check_list("replicas.flip-bit", &shown)?;
        }
        let combined = [seeds.init.len(), seeds.batch.len(), seeds.augment.len()];
        let count = combined.iter().fold(replicas.k.len(), |product, n| product.saturating_mul(*n));
        let count = count + replicas.flip_bit.len() + replicas.permute_order.len();
        within(&self.key("replicas"), count, 1, MOST_REPLICAS)
    }

    fn check_sharpness(&self) -> Result<(), Error> {
        let Some(sharpness) = &self.settings.sharpness else { return Ok(()) };
        within(&self.key("sharpness.top"), sharpness.top, 1, MOST_EIGENVALUES)?;
        within(&self.key("sharpness.batch"), sharpness.batch, 0, MOST_BATCHES)?;
        let (finest, name) = match self.settings.training.precision {
            Precision::F32 => FINEST_F32,
            Precision::F64 => FINEST_F64,
        };
        if !(finest..1.0).contains(&sharpness.tolerance) {
            let expected = format!("a number from {finest:e} to below 1 in {name}");
            return Err(self.refuse("sharpness.tolerance", sharpness.tolerance, expected));
        }
        Ok(())
    }

    fn check_attribution(&self) -> Result<(), Error> {
        let Some(attribution) = &self.settings.attribution else { return Ok(()) };
        let (method, alpha) = (self.settings.optimizer.method(), self.settings.optimizer.alpha);
        let linearization =
            Linearization::of(direction::Optimizer { method, alpha }).map_err(|undefined| {
                let found = format!("the optimizer {}", undefined.optimizer);
                let expected = format!("another one: {}", undefined.because);
                self.refuse("attribution", found, expected)
            })?;
        if let (Some(_), Some(_)) = (attribution.every, &attribution.steps) {
            return Err(self.refuse("attribution", "both", "either every or steps"));
        }
        if let Some(steps) = &attribution.steps {
            self.check_list("attribution.steps", steps)?;
            if steps.contains(&0) {
                return Err(self.refuse("attribution.steps", 0, "steps counted from 1"));
            }
        }
        let least = linearization.least_products();
        within(&self.key("attribution.nodes"), attribution.nodes, least, MOST_NODES)
    }

    /// Several seeds of something that is not drawn would train the same replica several times.
    fn check_seeds_matter(&self) -> Result<(), Error> {
        let (seeds, training) = (&self.settings.replicas.seeds, &self.settings.training);
        let is_shuffled = training.shuffle && training.batch != Batch::Full;
        for (key, list, is_drawn, expected) in [
            (
                "init",
                &seeds.init,
                self.settings.network.weights.is_none(),
                "one seed: the first weights come from the file network.weights",
            ),
            (
                "batch",
                &seeds.batch,
                is_shuffled,
                "one seed: every epoch has the same batches (training.batch, training.shuffle)",
            ),
            (
                "augment",
                &seeds.augment,
                self.settings.data.augment.is_some(),
                "one seed: nothing is augmented without data.augment",
            ),
        ] {
            if list.len() > 1 && !is_drawn {
                let key = format!("replicas.seeds.{key}");
                return Err(self.refuse(&key, self::list(list), expected));
            }
        }
        Ok(())
    }

    fn exactly_one(&self, section: &str, epochs: bool, steps: bool) -> Result<(), Error> {
        let found = match (epochs, steps) {
            (true, true) => "both",
            (false, false) => "neither",
            _ => return Ok(()),
        };
        Err(self.refuse(section, found, "either epochs or steps"))
    }

    /// Requires a list of different things that is not empty.
    fn check_list<T: PartialEq + ToString>(&self, key: &str, values: &[T]) -> Result<(), Error> {
        if values.is_empty() {
            return Err(self.refuse(key, "[]", "at least one"));
        }
        let again = (1..values.len()).find(|i| values[..*i].contains(&values[*i]));
        match again {
            Some(i) => {
                let found = format!("{} twice", values[i].to_string());
                Err(self.refuse(key, found, "each once"))
            }
            None => Ok(()),
        }
    }
}

fn list<T: ToString>(values: &[T]) -> String {
    let shown: Vec<String> = values.iter().map(ToString::to_string).collect();
    format!("[{}]", shown.join(", "))
}
