//! One layer of a stacked network on zeros and ones of MNIST: what the theory predicts for it, its
//! block of the Hessian, and its edge of stability by running.

use std::sync::Arc;

use lastbit::activation::Activation;
use lastbit::batches::{Batches, Normalization, Order, Selection};
use lastbit::hash_of_bits;
use lastbit::krylov::Eigenpair;
use lastbit::nn::zoo::{Cnn, Head, Pooling as After};
use lastbit::nn::{Batch, Engine, Init, Loss, Padding, Targets};
use lastbit::objective::{Objective, StochasticObjective};
use lastbit::optim::perturbation::Perturbation;
use lastbit::pde::one_layer::Pooling;
use lastbit::reduce::{distance, norm, sum_by};
use lastbit::theory::observed::{Model, Observed};
use lastbit::theory::{Example, Restricted, Stack};
use lastbit::verdict::Horizon;
use serde::Serialize;

use crate::data::embedded;
use crate::error::Error;
use crate::progress::Progress;
use crate::record::Outcome;
use crate::simulate::Tick;

/// Each model and its name in records.
pub const MODELS: [(Model, &str); 9] = [
    (Model::Constant, "constant"),
    (Model::PerImage, "theory"),
    (Model::Stringent, "stringent"),
    (Model::Bracket, "bracket"),
    (Model::OwnLayer, "own_layer"),
    (Model::MovingResidual, "moving_residual"),
    (Model::LaterLayers, "later_layers"),
    (Model::GaussNewton, "gauss_newton"),
    (Model::AllButLater, "all_but_later"),
];

/// Distance of the gradient theorem from the backward pass, relative: a number.
pub const GRADIENT_ERROR: &str = "gradient_error";
/// By how much the parts of the largest curvature miss it, relative: a number.
pub const SPLIT_ERROR: &str = "split_error";
/// Share of the Gauss-Newton part in the largest curvature: a number.
pub const SHARE_GAUSS_NEWTON: &str = "share_gauss_newton";
/// Share of the layer's own activation: a number.
pub const SHARE_OWN: &str = "share_own";
/// Share of the layers behind it: a number.
pub const SHARE_LATER: &str = "share_later";
/// Share of the weight decay: a number.
pub const SHARE_DECAY: &str = "share_decay";
/// Edge found by running over 2/z of the block: a number.
pub const EDGE_TIMES_BLOCK: &str = "edge_times_block_over_2";
/// The same with the block where that run ended.
pub const EDGE_TIMES_BLOCK_AT_ITS_END: &str = "edge_times_block_at_its_end_over_2";

/// Name of the curvature that a model predicts.
pub fn curvature_by(model: &str) -> String {
    format!("z_{model}")
}

/// Name of that curvature over the largest of the Hessian's block.
pub fn over_block(model: &str) -> String {
    format!("{model}_over_block")
}

/// Name of the decimal logarithm of that ratio.
pub fn decades(model: &str) -> String {
    format!("decades_{model}")
}

/// A network, how it is trained, and the layer that is looked at.
#[derive(Debug, Clone, Serialize)]
pub struct LayerRun {
    /// Layers of one channel.
    pub layers: usize,
    /// Which of them, from 1.
    pub layer: usize,
    /// The first so many images of the training set.
    pub images: usize,
    /// Weight decay.
    pub alpha: f64,
    /// Step of the training of all layers.
    pub dt: f64,
    /// Its steps before anything is measured.
    pub trained: usize,
    /// Of the initial weights.
    pub seed: u64,
    /// Steps of a run that looks for the edge; a growing one is continued to four times as many.
    pub edge_steps: usize,
    /// Width of the bracket, relative.
    pub tolerance: f64,
}

/// The network twice: for the engine and for the theory.
struct Networks {
    engine: Engine<f64>,
    stack: Stack,
    batch: Arc<Batch<f64>>,
    theta: Vec<f64>,
}

impl LayerRun {
    /// Trains, measures and searches.
    pub fn run(&self, progress: &Progress) -> Result<Outcome, Error> {
        let Networks { engine, stack, batch, mut theta } = self.networks();
        let (i, alpha) = (self.layer - 1, self.alpha);
        let mut whole = Restricted::new(engine.clone(), theta.clone(), 0..theta.len(), alpha);
        let mut gradient = vec![0.0; theta.len()];
        for _ in 0..self.trained {
            whole.gradient(&theta, &mut gradient);
            Perturbation::NONE.step(&mut theta, &gradient, self.dt);
            progress.advance(1);
            progress.check()?;
        }
        let examples = examples(&batch);
        let mut outcome = Outcome { hash: Some(hash_of_bits(&theta)), ..Outcome::default() };
        outcome.number("loss", whole.loss(&theta).unwrap());
        outcome.number("sharpness", whole.block(&theta).lambda_max());
        whole.gradient(&theta, &mut gradient);
        outcome.number("gradient_norm", norm(&gradient));
        let theorem = stack.gradient(&theta, &examples);
        let error = distance(&theorem, &gradient) / norm(&theta);
        outcome.number(GRADIENT_ERROR, error);

        let mut layer = Restricted::new(engine, theta.clone(), stack.range(i), alpha);
        let start = layer.start().to_vec();
        let block = layer.block(&start);
        outcome.number("block", block.lambda_max());
        outcome.number("block_min", block.lambda_min());
        add_parts(&mut outcome, &stack, &theta, &examples, i, &block.largest[0]);
        let observed = Observed::new(&stack, &theta, i, &examples);
        add_predictions(&mut outcome, &observed, block.lambda_max());

        let horizon = Horizon {
            steps: self.edge_steps,
            at_most: 4 * self.edge_steps,
            tells_divergence: true,
        };
        let guess = 2.0 / block.lambda_max().max(alpha);
        let mut tick = Tick::new(progress, self.edge_steps);
        let found = layer.edge(guess, self.tolerance, horizon, &mut tick);
        tick.finished()?;
        let (edge, end) = match &found {
            Some(found) => (found.bracket.middle(), layer.block(&found.end).lambda_max()),
            None => (f64::NAN, f64::NAN),
        };
        outcome.number("edge", edge);
        outcome.number(EDGE_TIMES_BLOCK, 0.5 * edge * block.lambda_max());
        outcome.number(EDGE_TIMES_BLOCK_AT_ITS_END, 0.5 * edge * end);
        if let Some(found) = &found {
            let theta = layer.with(&found.end);
            let observed = Observed::new(&stack, &theta, i, &examples);
            let z = observed.predict(Model::PerImage).z.max;
            outcome.number("theory_over_block_at_its_end", z / end);
        }
        Ok(outcome)
    }

    fn networks(&self) -> Networks {
        let data = embedded::find("mnist01").expect("embedded").load().train;
        let [height, width, _] = data.shape;
        let selection = Selection { size: self.images, order: Order::AsStored, keep_last: true };
        let batch = Batches::new(Arc::new(data), &Normalization::none(), selection, None).batch(0);
        let activation = Activation::Swish { beta: 1.0 };
        let channels = vec![1; self.layers];
        let network = Cnn {
            input: [height, width, 1],
            channels: channels.clone(),
            kernel: 3,
            stride: 1,
            padding: Padding::Same,
            bias: false,
            batch_norm: false,
            activation,
            pooling: After::None,
            head: Head::Mean,
            outputs: 1,
        };
        let network = Arc::new(network.build());
        let theta = network.initial(Init::Torch, self.seed);
        let mut engine = Engine::new(&network, Loss::BinaryCrossEntropy);
        engine.set_batch(&batch);
        let (input, kernel) = ([1, height, width], [3, 3]);
        let mut stack =
            Stack::new(input, &channels, kernel, Padding::Same, activation, Pooling::Mean);
        stack.alpha = self.alpha;
        Networks { engine, stack, batch, theta }
    }
}

fn examples(batch: &Batch<f64>) -> Vec<Example<'_>> {
    let Targets::Classes(labels) = &batch.targets else { panic!("images have labels") };
    let images = batch.inputs.chunks_exact(batch.inputs.len() / labels.len());
    let pairs = images.zip(labels);
    pairs.map(|(image, label)| Example { image, label: f64::from(*label) }).collect()
}

/// What the largest curvature of the block consists of, and by how much the parts miss it.
fn add_parts(
    outcome: &mut Outcome,
    stack: &Stack,
    theta: &[f64],
    examples: &[Example],
    i: usize,
    top: &Eigenpair,
) {
    let parts = stack.second_derivative(theta, examples, i, &top.vector);
    let along = |part: &[f64]| sum_by(part.len(), |k| part[k] * top.vector[k]);
    let parts = [
        (SHARE_GAUSS_NEWTON, along(&parts.gauss_newton)),
        (SHARE_OWN, along(&parts.own)),
        (SHARE_LATER, along(&parts.later)),
        (SHARE_DECAY, stack.alpha),
    ];
    for (name, part) in parts {
        outcome.number(name, part / top.value);
    }
    let total: f64 = parts.iter().map(|(_, part)| part).sum();
    outcome.number(SPLIT_ERROR, (total / top.value - 1.0).abs());
}

fn add_predictions(outcome: &mut Outcome, observed: &Observed, block: f64) {
    let spreads = [
        ("gamma", observed.gamma()),
        ("ahat", observed.ahat()),
        ("roughness", observed.roughness()),
    ];
    for (name, spread) in spreads {
        outcome.number(name, spread.mean);
        outcome.number(&format!("{name}_std"), spread.std);
    }
    for (model, name) in MODELS {
        let found = observed.predict(model);
        outcome.number(&curvature_by(name), found.z.max);
        let ratio = found.z.max / block;
        outcome.number(&over_block(name), ratio);
        outcome.number(&decades(name), libm::log10(ratio));
        if model == Model::PerImage {
            outcome.number("z_min_theory", found.z.min);
            outcome.number("alpha_min_theory", found.alpha_min);
            outcome.number("dt_theory", found.dt.unwrap_or(f64::NAN));
        }
    }
}
