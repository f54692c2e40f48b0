//! The edge of a one-layer network: what `lastbit edge kernel` does.

use lastbit::search::Probe;
use lastbit::verdict::Judgement;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::progress::{Monitor, Progress};
use crate::record::VerdictRecord;
use crate::settings::{Flow, Given, Network};
use crate::simulate::kernel::{KernelEdge, Over};
use crate::validate::positive;

/// Settings of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct KernelEdgeSettings {
    /// The network and its image.
    #[serde(flatten)]
    pub network: Network,
    /// The equation and how it is stepped.
    #[serde(flatten)]
    pub flow: Flow,
    /// The parameter to vary.
    pub over: Over,
    /// One end of the search; half of what theory predicts otherwise.
    pub low: Option<f64>,
    /// The other end; twice what theory predicts otherwise.
    pub high: Option<f64>,
    /// Width of the bracket over its middle.
    pub tolerance: f64,
    /// Steps of a probe; growing ones are extended up to 20 times.
    pub steps: usize,
}

impl Default for KernelEdgeSettings {
    fn default() -> Self {
        Self {
            network: Network::default(),
            flow: Flow::default(),
            over: Over::Dt,
            low: None,
            high: None,
            tolerance: 0.01,
            steps: 500,
        }
    }
}

/// The edge that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelEdgeResult {
    /// Settings, complete.
    pub settings: KernelEdgeSettings,
    /// The parameter that was varied.
    pub over: Over,
    /// The end of the bracket that is stable.
    pub stable: f64,
    /// Its other end.
    pub unstable: f64,
    /// Its middle.
    pub edge: f64,
    /// Its width over its middle.
    pub relative_width: f64,
    /// The edge that theory predicts; none where it predicts none.
    pub predicted: Option<f64>,
    /// By how much the middle lies above that, relatively.
    pub off_by: Option<f64>,
    /// All runs, in order.
    pub probes: Vec<KernelProbe>,
}

/// One run of the search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelProbe {
    /// Value of the parameter.
    pub at: f64,
    /// The verdict on its run.
    pub verdict: VerdictRecord,
}

impl KernelEdgeSettings {
    /// Searches.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`] if its monitor asked to stop: no probe is saved. An error, too, if there is no edge.
    pub fn search(self, given: Given, monitor: &dyn Monitor) -> Result<KernelEdgeResult, Error> {
        positive("--tolerance", self.tolerance)?;
        let varied = if self.over == Over::Dt { "dt" } else { "alpha" };
        given.refuse_unused(&[varied], &format!("--over {}", self.over))?;
        let run = self.flow.run(given, &self.network, self.steps)?;
        for (flag, end) in [("--low", self.low), ("--high", self.high)] {
            end.map_or(Ok(()), |end| positive(flag, end))?;
        }
        let progress = Progress::new(monitor, "edge kernel", 10 * self.steps as u64);
        let found = run.search_edge(self.over, (self.low, self.high), self.tolerance, &progress)?;
        let edge = found.map_err(|found| {
            let expected = "two positive ends with different verdicts";
            Error::setting("--low and --high", found, expected)
        })?;
        Ok(self.result(edge))
    }

    fn result(self, found: KernelEdge) -> KernelEdgeResult {
        let KernelEdge { bracket, probes, predicted } = found;
        let edge = bracket.middle();
        let probe = |probe: &Probe<Judgement>| KernelProbe {
            at: probe.at,
            verdict: VerdictRecord::from(&probe.seen),
        };
        KernelEdgeResult {
            over: self.over,
            stable: bracket.holds,
            unstable: bracket.fails,
            edge,
            relative_width: bracket.relative_width(),
            predicted,
            off_by: predicted.map(|predicted| edge / predicted - 1.0),
            probes: probes.iter().map(probe).collect(),
            settings: self,
        }
    }
}
