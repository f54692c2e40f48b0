//! How often intervals contain the edge: against closed forms on quadratics, and for the median over orders of
//! the mini-batches against the median of many other orders.
//!
//! The tests run all quadratics and a few networks. With 50 networks (a quarter of an hour on two cores), and the numbers
//! printed:
//!
//! ```text
//! cargo test --release -p lastbit-lab --lib edge::coverage -- --include-ignored --nocapture
//! ```

use std::convert::Infallible;
use std::sync::Arc;

use lastbit::activation::Activation;
use lastbit::batches::{BatchSource, Batches, FullBatch, Normalization, Order, Selection};
use lastbit::data::{Dataset, Inputs, Targets};
use lastbit::nn::{Builder, Engine, Init, Loss, Network};
use lastbit::objective::{Objective, StochasticObjective, TrainableModel};
use lastbit::optim::direction::Optimizer;
use lastbit::optim::method::Method;
use lastbit::rng::Stream;
use lastbit::search::Bracket;
use lastbit::statistics::Interval;
use lastbit::training::GradientDescent;
use lastbit::verdict::{Horizon, judge};
use rayon::prelude::*;

use super::repeats::medians;
use super::{Draw, MedianEdge, OrderEdge, Over, ProbeResult, Property, Search, SearchResult};
use crate::number::Number;
use crate::record::VerdictRecord;

fn search_of(property: Property, tolerance: f64) -> Search {
    Search { over: Over::Dt, property, start: None, ends: None, tolerance }
}

/// As `lastbit edge` has it by default.
fn horizon(property: Property, steps: usize) -> Horizon {
    Horizon { steps, at_most: 4 * steps, tells_divergence: property == Property::Bounded }
}

/// The verdict on a training at one learning rate, as a probe.
fn probe<O, S>(
    (model, batches): (O, S),
    optimizer: Optimizer,
    start: &[f64],
    horizon: Horizon,
    dt: f64,
) -> ProbeResult
where
    O: TrainableModel<f64, Error = Infallible>,
    S: BatchSource<Batch = O::Batch> + Clone,
{
    let mut run = GradientDescent::new(model, batches, optimizer, dt, start.to_vec());
    let Ok(judged) = judge(&mut run, horizon, &mut []);
    let verdict = VerdictRecord::from(&judged);
    ProbeResult { at: dt, verdict, loss: Number(f64::NAN), curvature: None }
}

/// `L = (θ − m)ᵀ H Λ H (θ − m)/2` with a reflection `H = 1 − 2 u uᵀ`: eigenvalues `Λ` in a rotated basis.
#[derive(Debug, Clone)]
struct Quadratic {
    eigenvalues: Vec<f64>,
    u: Vec<f64>,
    minimum: Vec<f64>,
}

impl Quadratic {
    fn reflect(&self, v: &mut [f64]) {
        let along: f64 = self.u.iter().zip(v.iter()).map(|(u, v)| u * v).sum();
        v.iter_mut().zip(&self.u).for_each(|(v, u)| *v -= 2.0 * along * u);
    }

    fn multiply(&self, v: &[f64], out: &mut [f64]) {
        out.copy_from_slice(v);
        self.reflect(out);
        out.iter_mut().zip(&self.eigenvalues).for_each(|(v, lambda)| *v *= lambda);
        self.reflect(out);
    }

    fn offset(&self, theta: &[f64]) -> Vec<f64> {
        theta.iter().zip(&self.minimum).map(|(theta, m)| theta - m).collect()
    }
}

impl Objective<f64> for Quadratic {
    type Error = Infallible;

    fn len(&self) -> usize {
        self.eigenvalues.len()
    }

    fn loss(&mut self, theta: &[f64]) -> Result<f64, Infallible> {
        let (offset, mut force) = (self.offset(theta), vec![0.0; theta.len()]);
        self.multiply(&offset, &mut force);
        Ok(0.5 * offset.iter().zip(&force).map(|(a, b)| a * b).sum::<f64>())
    }

    fn gradient(&mut self, theta: &[f64], out: &mut [f64]) -> Result<(), Infallible> {
        self.multiply(&self.offset(theta), out);
        Ok(())
    }

    fn hessian_vector(&mut self, _: &[f64], v: &[f64], out: &mut [f64]) -> Result<(), Infallible> {
        self.multiply(v, out);
        Ok(())
    }

    fn is_quadratic(&self) -> bool {
        true
    }
}

impl StochasticObjective<f64> for Quadratic {
    type Batch = ();

    fn set_batch(&mut self, _: &Arc<()>) {}
}

impl TrainableModel<f64> for Quadratic {}

/// One interval of a quadratic with its closed form.
struct OnQuadratic {
    what: String,
    edge: f64,
    found: Interval,
    /// How far the lower end lies above the closed form, relative to it.
    excess: f64,
    /// Growth per step there, in closed form, over the resolution of the verdict that called it stable.
    growth_over_resolution: f64,
    relative_width: f64,
    is_wide: bool,
    probes: usize,
    undecided: usize,
}

/// The growth and divergence edge of a random quadratic.
fn on_quadratic(index: u64) -> Vec<OnQuadratic> {
    let random = Stream::new(index, 0);
    let uniform = |i: u64, low: f64, high: f64| low + (high - low) * random.uniform(i);
    let n = 1 + random.below(0, 30) as usize;
    let largest = libm::exp10(uniform(1, -2.0, 2.0));
    // Spread over many decades, gathered below the largest, with the largest many times, or half of them zero.
    let kind = random.below(2, 4);
    let eigenvalue = |i: usize| match (kind, i) {
        (_, 0) => largest,
        (0, _) => largest * libm::exp10(uniform(100 + i as u64, -5.0, 0.0)),
        (1, _) => largest * uniform(100 + i as u64, 0.97, 1.0),
        (2, _) if i.is_multiple_of(2) => largest,
        (3, _) if i.is_multiple_of(2) => 0.0,
        _ => largest * uniform(100 + i as u64, 0.0, 1.0),
    };
    let normals = |from: u64| (0..n as u64).map(|i| random.normal(from + i)).collect::<Vec<f64>>();
    let mut u = normals(200);
    let norm = u.iter().map(|u| u * u).sum::<f64>().sqrt();
    u.iter_mut().for_each(|u| *u /= norm);
    let model =
        Quadratic { eigenvalues: (0..n).map(eigenvalue).collect(), u, minimum: normals(300) };
    let mu = uniform(3, 0.0, 0.95);
    let (method, edge) = match random.below(4, 3) {
        0 => (Method::Sgd, 2.0 / largest),
        1 => (Method::HeavyBall { mu }, 2.0 * (1.0 + mu) / largest),
        _ => (Method::Nesterov { mu }, (2.0 + 2.0 * mu) / ((1.0 + 2.0 * mu) * largest)),
    };
    let steps = [64, 100, 300, 1000][random.below(5, 4) as usize];
    let tolerance = [1e-2, 1e-3][random.below(6, 2) as usize];
    let own = edge * libm::exp10(uniform(7, -2.0, 2.0));
    let start = normals(400);
    let of = |property: Property| {
        let search = search_of(property, tolerance);
        let all = FullBatch { batch: Arc::new(()), examples: 1 };
        let optimizer = Optimizer { method, alpha: 0.0 };
        let horizon = horizon(property, steps);
        let Ok(found) = search.run(own, 2.0 / own, |dt| {
            Ok::<_, Infallible>(probe((model.clone(), all.clone()), optimizer, &start, horizon, dt))
        });
        let (_, Bracket { holds: low, fails: high }) = found.edges[0];
        let relative_width = (high - low) / (0.5 * (high + low));
        let lowest = found.probes.iter().find(|probe| probe.at == low).expect("an end was tried");
        OnQuadratic {
            what: format!(
                "{index}: {method:?}, {n} dimensions, kind {kind}, {steps} steps, {property}"
            ),
            edge,
            found: Interval { low, high },
            excess: low / edge - 1.0,
            growth_over_resolution: growth(method, low * largest) / lowest.verdict.resolution.0,
            relative_width,
            is_wide: relative_width > tolerance,
            probes: found.probes.len(),
            undecided: found
                .probes
                .iter()
                .filter(|probe| property.holds(&probe.verdict).is_none())
                .count(),
        }
    };
    vec![of(Property::Stable), of(Property::Bounded)]
}

/// Growth per step, in closed form, of the mode whose curvature times the learning rate is `s`: of the largest
/// root in [`method`](lastbit::optim::method).
fn growth(method: Method, s: f64) -> f64 {
    let (sum, product) = match method {
        Method::HeavyBall { mu } => (1.0 + mu - s, mu),
        Method::Nesterov { mu } => ((1.0 + mu) * (1.0 - s), mu * (1.0 - s)),
        _ => (1.0 - s, 0.0),
    };
    let discriminant = sum * sum - 4.0 * product;
    let radius =
        if discriminant < 0.0 { product.sqrt() } else { 0.5 * (sum.abs() + discriminant.sqrt()) };
    libm::log(radius)
}

/// Each interval contains the closed form, or lies above it by no more than the verdict resolves: "stable" says that
/// differences grow by less than its resolution. Prints how often, and how wide they are.
fn quadratics(count: u64) {
    let all: Vec<OnQuadratic> = (0..count).into_par_iter().flat_map_iter(on_quadratic).collect();
    for one in &all {
        // The eigenvalues are those of the matrix up to a few roundings of the reflections.
        let slack = 1e-13 * one.edge;
        assert!(one.edge <= one.found.high + slack, "{}: {} {:?}", one.what, one.edge, one.found);
        let is_resolved = one.found.low <= one.edge + slack || one.growth_over_resolution < 1.0;
        assert!(is_resolved, "{}: {} is not in {:?}", one.what, one.edge, one.found);
    }
    let above: Vec<&OnQuadratic> = all.iter().filter(|one| one.excess > 1e-13).collect();
    for one in &above {
        println!(
            "above by {:.2e}, growth {:.3} of the resolution: {}",
            one.excess, one.growth_over_resolution, one.what
        );
    }
    let share = |of: &dyn Fn(&OnQuadratic) -> usize, whole: usize| {
        all.iter().map(of).sum::<usize>() as f64 / whole as f64
    };
    let mut widths: Vec<f64> = all.iter().map(|one| one.relative_width).collect();
    widths.sort_by(f64::total_cmp);
    println!(
        "{count} quadratics: {} of {} intervals contain the closed form, the others lie above it by at most {:.2e}; \
         relative width: median {:.2e}, largest {:.2e}; {:.1} % of the \
         intervals are wider than asked for; {:.1} % of {} probes undecided",
        all.len() - above.len(),
        all.len(),
        above.iter().map(|one| one.excess).fold(0.0, f64::max),
        widths[widths.len() / 2],
        widths[widths.len() - 1],
        100.0 * share(&|one| usize::from(one.is_wide), all.len()),
        100.0 * share(&|one| one.undecided, all.iter().map(|one| one.probes).sum()),
        all.iter().map(|one| one.probes).sum::<usize>(),
    );
}

/// A network of one hidden layer on a few points, trained with mini-batches.
struct Small {
    network: Arc<Network>,
    data: Arc<Dataset>,
    optimizer: Optimizer,
    start: Vec<f64>,
    batch: usize,
}

impl Small {
    fn new(index: u64) -> Self {
        let random = Stream::new(index, 1);
        let (inputs, hidden) = (2 + random.below(0, 3) as usize, 3 + random.below(1, 4) as usize);
        let mut net = Builder::new([1, 1, inputs]);
        let input = net.input();
        let inner = net.linear(input, "fc1", hidden, true);
        let inner = net.activation(inner, Activation::Tanh);
        net.linear(inner, "fc2", 1, true);
        let network = net.build();
        let examples = 20 + random.below(2, 21) as usize;
        let points: Vec<f64> =
            (0..(examples * inputs) as u64).map(|i| random.normal(1000 + i)).collect();
        let target = |(i, x): (usize, &[f64])| {
            libm::sin(2.0 * x[0]) + x[1] + 0.3 * random.normal(5000 + i as u64)
        };
        let values = points.chunks(inputs).enumerate().map(target).collect();
        let targets = Targets::Reals { width: 1, values };
        let mu = [0.5, 0.9][random.below(3, 2) as usize];
        let method = [Method::Sgd, Method::HeavyBall { mu }][random.below(4, 2) as usize];
        Self {
            start: network.initial(Init::Torch, index),
            network: Arc::new(network),
            data: Arc::new(Dataset {
                shape: [1, 1, inputs],
                inputs: Inputs::Reals(points),
                targets,
            }),
            optimizer: Optimizer { method, alpha: 0.0 },
            batch: 4 + random.below(5, 5) as usize,
        }
    }

    /// Searches over these seeds of the batches, as a command would.
    fn searches(&self, search: &Search, seeds: std::ops::Range<u64>) -> Vec<(Draw, SearchResult)> {
        let one = |batch: u64| {
            let selection = Selection {
                size: self.batch,
                order: Order::Shuffled { seed: batch },
                keep_last: false,
            };
            let none = Normalization::none();
            let batches = Batches::<f64>::new(self.data.clone(), &none, selection, None);
            let engine = Engine::<f64>::new(&self.network, Loss::HalfMse);
            let horizon = horizon(search.property, 200);
            let Ok(found) = search.run(0.1, 20.0, |dt| {
                let run = (engine.clone(), batches.clone());
                Ok::<_, Infallible>(probe(run, self.optimizer, &self.start, horizon, dt))
            });
            (Draw { seed: 0, batch: Some(batch) }, found)
        };
        seeds.map(one).collect()
    }
}

/// The median of one number of each order.
fn median_of(found: &MedianEdge, number: fn(&OrderEdge) -> f64) -> f64 {
    let mut numbers: Vec<f64> = found.orders.iter().map(number).collect();
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// A number inside the bracket of an order: its middle, or its lower end where it has no upper one.
fn middle(order: &OrderEdge) -> f64 {
    let middle = 0.5 * (order.low.0 + order.high.0);
    if middle.is_finite() { middle } else { order.low.0 }
}

/// What the intervals of one network did.
#[derive(Default)]
struct OnNetwork {
    groups: usize,
    /// Groups whose interval contains the median edge of the reference.
    hits: usize,
    /// The same if each edge lies at the lower end of its bracket, or at the upper end.
    hits_at_ends: [usize; 2],
    /// The same for pairs of groups as one.
    pair_hits: usize,
    /// Mean width of an interval over the median edge, of those with two ends.
    width: f64,
    unbounded: usize,
    /// Orders whose verdicts are not monotone, and orders in all.
    contradictory: usize,
    orders: usize,
    probes: usize,
    undecided: usize,
}

/// The reference is the median over `reference` orders; other orders make groups of six.
fn on_network(index: u64, reference: u64, groups: u64) -> OnNetwork {
    let (small, search) = (Small::new(index), search_of(Property::Stable, 0.01));
    let median = |found: &[(Draw, SearchResult)]| medians(&search, found).swap_remove(0);
    let of_reference = median(&small.searches(&search, 0..reference));
    // The edge of an order may lie anywhere in its bracket: any rule that depends on that order alone will do.
    let truth = median_of(&of_reference, middle);
    let at_ends = [
        median_of(&of_reference, |order| order.low.0),
        median_of(&of_reference, |order| order.high.0),
    ];
    let mut result = OnNetwork::default();
    let mut former: Vec<(Draw, SearchResult)> = Vec::new();
    for group in 0..groups {
        let first = reference + 6 * group;
        let found = small.searches(&search, first..first + 6);
        let interval = median(&found);
        let contains = |interval: &MedianEdge, truth: f64| {
            usize::from(interval.low.0 <= truth && truth <= interval.high.0)
        };
        result.groups += 1;
        result.hits += contains(&interval, truth);
        for (hits, truth) in result.hits_at_ends.iter_mut().zip(at_ends) {
            *hits += contains(&interval, truth);
        }
        let width = (interval.high.0 - interval.low.0) / truth;
        if width.is_finite() {
            result.width += width;
        } else {
            result.unbounded += 1;
        }
        result.orders += 6;
        result.contradictory +=
            interval.orders.iter().filter(|order| order.contradiction.is_some()).count();
        for probe in found.iter().flat_map(|(_, found)| &found.probes) {
            result.probes += 1;
            result.undecided += usize::from(search.property.holds(&probe.verdict).is_none());
        }
        if group.is_multiple_of(2) {
            former = found;
        } else {
            former.extend(found);
            result.pair_hits += contains(&median(&former), truth);
        }
    }
    result
}

/// Intervals contain the median edge about as often as they say.
fn networks(count: u64, reference: u64, groups: u64) {
    let all: Vec<OnNetwork> =
        (0..count).into_par_iter().map(|i| on_network(i, reference, groups)).collect();
    let sum = |of: fn(&OnNetwork) -> usize| all.iter().map(of).sum::<usize>() as f64;
    let intervals = sum(|one| one.groups);
    let coverage = sum(|one| one.hits) / intervals;
    // Groups of one network share its reference, so networks are the independent units.
    let of_each = all.iter().map(|one| one.hits as f64 / one.groups as f64 - coverage);
    let error = (of_each.map(|d| d * d).sum::<f64>() / (count * (count - 1)) as f64).sqrt();
    let with_ends = intervals - sum(|one| one.unbounded);
    println!(
        "{count} networks, reference of {reference} orders: {} of {intervals} intervals of 6 orders contain the \
         median, {:.2} ± {:.2} % (edges at the lower ends of brackets: {}, upper: {}); {} of {} of 12 orders; mean relative width {:.3}, {} without two ends; \
         {:.1} % of orders not monotone; {:.1} probes an order, {:.1} % of them undecided",
        sum(|one| one.hits),
        100.0 * coverage,
        100.0 * error,
        sum(|one| one.hits_at_ends[0]),
        sum(|one| one.hits_at_ends[1]),
        sum(|one| one.pair_hits),
        sum(|one| one.groups / 2),
        all.iter().map(|one| one.width).sum::<f64>() / with_ends,
        sum(|one| one.unbounded),
        100.0 * sum(|one| one.contradictory) / sum(|one| one.orders),
        sum(|one| one.probes) / sum(|one| one.orders),
        100.0 * sum(|one| one.undecided) / sum(|one| one.probes),
    );
    // The median of the reference is itself a draw: with `q` the share of edges above it, distributed as
    // Beta(m, m), m = (n + 1)/2, all six lie on one side with probability 2 E q⁶ = 2 Π (m + j)/(2m + j).
    let m = (reference + 1) as f64 / 2.0;
    let misses = 2.0 * (0..6).map(|j| (m + j as f64) / (2.0 * m + j as f64)).product::<f64>();
    // Three standard errors, of independent intervals or as networks differ, whichever is larger.
    let error = error.max((misses * (1.0 - misses) / intervals).sqrt());
    assert!(coverage > 1.0 - misses - 3.0 * error, "{coverage}, expected {}", 1.0 - misses);
}

#[test]
fn intervals_contain_the_closed_form_of_200_quadratics_to_the_resolution_of_verdicts() {
    quadratics(200);
}

#[test]
fn intervals_contain_the_median_edge_of_small_networks() {
    networks(3, 11, 2);
}

#[test]
#[ignore = "minutes"]
fn intervals_contain_the_median_edge_of_50_networks() {
    networks(50, 101, 10);
}
