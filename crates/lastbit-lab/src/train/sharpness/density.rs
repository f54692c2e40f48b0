//! The spectral density of a trained network, as files.
//!
//! ```text
//! nodes-REPLICA.csv     probe, lambda, weight      Lanczos quadrature of each random vector
//! density-REPLICA.csv   lambda, density            their mean, each node a Gaussian
//! ```

use std::fmt::Write;
use std::path::Path;

use lastbit::curvature::stochastic::{Density, Estimate};

use crate::error::Error;
use crate::files::write_atomically;
use crate::input::columns;
use crate::series::Series;

/// Random vectors, and Hessian-vector products for each.
pub(super) const PROBES: usize = 10;
pub(super) const STEPS: usize = 64;
/// Points of the density, and its broadening as a share of the range of the nodes.
const POINTS: usize = 512;
const SIGMA: f64 = 0.01;

/// The files of a replica: its density and the nodes.
pub fn files_of(name: &str) -> [String; 2] {
    ["density", "nodes"].map(|what| format!("{what}-{name}.csv"))
}

/// The density of a replica.
pub fn read(folder: &Path, name: &str) -> Result<Series, Error> {
    columns(&folder.join(&files_of(name)[0]))
}

/// Writes the files of a replica; returns the trace of its Hessian, estimated from the same products.
pub(super) fn write(found: &Density, folder: &Path, name: &str) -> Result<Estimate, Error> {
    let mut nodes = "probe,lambda,weight\n".to_owned();
    for (probe, of_probe) in found.probes.iter().enumerate() {
        for (lambda, weight) in of_probe {
            writeln!(nodes, "{probe},{lambda:?},{weight:?}").expect("a string has room");
        }
    }
    let [density_file, nodes_file] = files_of(name).map(|file| folder.join(file));
    write_atomically(&nodes_file, nodes.as_bytes())?;
    let (low, high) = found.range();
    // A spectrum of one point would otherwise have no width.
    let sigma = SIGMA * (high - low).max(f64::EPSILON * high.abs()).max(f64::MIN_POSITIVE);
    let (from, to) = (low - 5.0 * sigma, high + 5.0 * sigma);
    let mut density = "lambda,density\n".to_owned();
    for i in 0..POINTS {
        let lambda = from + (to - from) * i as f64 / (POINTS - 1) as f64;
        let value = found.at(lambda, sigma);
        writeln!(density, "{lambda:?},{value:?}").expect("a string has room");
    }
    write_atomically(&density_file, density.as_bytes())?;
    Ok(found.trace())
}
