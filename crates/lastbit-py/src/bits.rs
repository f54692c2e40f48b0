//! Hashes and random numbers.

use lastbit::rng::Stream;
use numpy::{PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rayon::prelude::*;

/// BLAKE3 of each array of bytes, the first 32 hexadecimal digits: the hash that `lastbit diff` prints of a tensor.
#[pyfunction]
pub fn hash_of_bytes(
    py: Python<'_>,
    arrays: Vec<PyReadonlyArray1<'_, u8>>,
) -> PyResult<Vec<String>> {
    debug_assert!(arrays.iter().all(|array| array.is_contiguous()));
    let slices: Vec<&[u8]> =
        arrays.iter().map(|array| array.as_slice()).collect::<Result<_, _>>()?;
    // A large tensor is hashed by all threads.
    let hash = |bytes: &&[u8]| {
        blake3::Hasher::new().update_rayon(bytes).finalize().to_hex()[..32].to_owned()
    };
    Ok(py.detach(|| slices.par_iter().map(hash).collect()))
}

/// A uniformly random integer below `bound`, a function of its arguments alone.
#[pyfunction]
pub fn below(seed: u64, stream: u64, counter: u64, bound: u64) -> u64 {
    Stream::new(seed, stream).below(counter, bound)
}
