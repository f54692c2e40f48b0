//! Work that is done again and again: recorded, then replayed with one call of the driver.

use std::collections::BTreeMap;

use crate::device::{DeviceReal, Graph};
use crate::engine::Engine;
use crate::error::Error;

/// Recorded work by its number of examples; none where it was done once and is yet to be recorded (a
/// kernel must have been loaded before it can be recorded).
#[derive(Debug, Default)]
pub struct Recordings(BTreeMap<usize, Option<Graph>>);

impl Recordings {
    /// Puts work on so many examples into the queue, directly the first time.
    pub fn launch<F: DeviceReal>(
        &mut self,
        engine: &mut Engine<F>,
        examples: usize,
        work: impl Fn(&mut Engine<F>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self.0.get(&examples) {
            None => {
                work(engine)?;
                self.0.insert(examples, None);
                Ok(())
            }
            Some(None) => {
                engine.device.begin_recording()?;
                let worked = work(engine);
                let graph = engine.device.end_recording();
                worked?;
                let graph = graph?;
                engine.device.replay(&graph)?;
                self.0.insert(examples, Some(graph));
                Ok(())
            }
            Some(Some(graph)) => engine.device.replay(graph),
        }
    }
}
