//! `lastbit export`.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::CommandOutput;
use lastbit_lab::Error;
use lastbit_lab::export::tensorboard;
use lastbit_lab::logged::Choice;
use lastbit_lab::words::counted;

/// A run, and where it goes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  lastbit export run --tensorboard board              a run of `lastbit train`
  lastbit export out/metrics.jsonl --tensorboard board --metric 'loss,eval/*'
  tensorboard --logdir board                          look at it

A RUN is a file of metrics or the folder of a run: of `lastbit train`, of lastbit.torch.Probe, or of any program
that logs JSON lines, CSV or trainer_state.json. Scalars are written over steps, a spectral density as a histogram,
settings as a text. Of several replicas each becomes a run of TensorBoard, DIR/REPLICA. Event files round to float32;
all events have the time at which the log was last written.

Exit codes: 0 done, 2 wrong input or environment.")]
pub struct Export {
    /// A file of metrics, or the folder of a run.
    #[arg(value_name = "RUN")]
    run: PathBuf,

    /// Folder of the event files.
    #[arg(long, value_name = "DIR", required = true)]
    tensorboard: PathBuf,

    /// Metrics to export; * stands for any characters, ? for one [default: all but wall time].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    metric: Vec<String>,

    /// The name under which the run has its steps [default: step, global_step, ...].
    #[arg(long, value_name = "KEY")]
    step_key: Option<String>,
}

impl Export {
    /// Writes the files, and says which.
    pub fn answer(&self) -> Result<CommandOutput, Error> {
        let choice = Choice { metrics: self.metric.clone(), step_key: self.step_key.clone() };
        let exported = tensorboard(&self.run, &choice, &self.tensorboard)?;
        let mut text = String::new();
        for note in &exported.notes {
            text += &format!("Note: {note}\n");
        }
        for file in &exported.files {
            text += &format!("{}\n", file.display());
        }
        text += &format!(
            "{} of {}; `tensorboard --logdir {}` shows them.\n",
            counted(exported.values, "value"),
            counted(exported.metrics, "metric"),
            self.tensorboard.display()
        );
        Ok(CommandOutput::new(text, json!(exported)))
    }
}
