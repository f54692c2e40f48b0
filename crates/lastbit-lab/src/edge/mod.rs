//! Where the stability of a training configuration ends: by running it, and by its sharpness.
//!
//! ```text
//! probe     one value of the parameter: a judged run from the start, and the curvature where it ended
//! result    what a probe showed, written to a record and read back
//! search    brackets by doubling and halving, then bisection
//! cell      a whole search as one cell of an exhibit
//! repeats   the median edge over orders of the mini-batches, with its confidence
//! record    the search as a record, probe by probe, so that an interrupted one resumes
//! summary   the edges of all seeds, in a sentence and as a result to be printed
//! request   from a configuration to the edges asked for
//! kernel    the edge of a one-layer network
//! ```
//!
//! **Which edge?** There are three. A probe starts at the configuration's initial weights and is judged by
//! the [rule](lastbit::verdict): the *growth edge* (largest stable value) and the *divergence edge* (largest
//! bounded value) are those of the run *from these weights, over so many steps*. The sharpness where the
//! largest stable probe ended gives the *CFL edge*, that of the minimum it reached: `2/lambda_max` for
//! gradient descent, the largest stable step of a run that is already there. CFL and growth edge agree where all
//! stable runs end in one minimum and have come near to it, which the norm of the gradient tells. A
//! run on its way through sharper places may be unstable although the minimum is not; a minimum that
//! has not been reached yet may be sharper than what has been seen so far.
//!
//! **Same start.** Each probe takes its first weights anew from the seed, and shares nothing with other
//! probes: their order does not matter.
//!
//! **Mini-batches.** The edge of a training with mini-batches depends on their order. One search is one draw;
//! searches repeated over orders give an interval for the median edge.

mod cell;
#[cfg(test)]
mod coverage;
mod kernel;
mod probe;
mod record;
mod repeats;
mod request;
mod result;
mod search;
mod summary;

pub use cell::searched;
pub use kernel::{KernelEdgeResult, KernelEdgeSettings, KernelProbe};
pub use probe::{Over, Probes};
pub use record::EdgeRecord;
pub use repeats::{MedianEdge, OrderEdge, Stability};
pub use request::{Answer, Answers, Request};
pub use result::{EdgeNumber, ProbeCurvature, ProbeResult};
pub use search::{Draw, End, Property, Search, SearchResult};
pub use summary::{EdgeResult, of_one, sentence};
