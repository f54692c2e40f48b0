//! CUDA graphs of work that is repeated: captured once, then launched with one call of the driver.

use std::collections::BTreeMap;

use crate::device::{DeviceReal, Graph};
use crate::engine::Engine;
use crate::error::Error;

/// Graphs by the number of examples. `None`: the work was launched directly once and will be captured
/// next time, because a kernel must be loaded before it can be captured.
#[derive(Debug, Default)]
pub struct GraphCache(BTreeMap<usize, Option<Graph>>);

impl GraphCache {
    /// Launches `work` on so many examples, as a graph from the second time on.
    pub fn launch<F: DeviceReal>(
        &mut self,
        engine: &mut Engine<F>,
        examples: usize,
        work: impl Fn(&mut Engine<F>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let graph = match self.0.get(&examples) {
            Some(Some(graph)) => return engine.device.launch_graph(graph),
            Some(None) => {
                engine.device.begin_capture()?;
                let worked = work(engine);
                let graph = engine.device.end_capture();
                worked?;
                let graph = graph?;
                engine.device.launch_graph(&graph)?;
                Some(graph)
            }
            None => {
                work(engine)?;
                None
            }
        };
        self.0.insert(examples, graph);
        Ok(())
    }
}
