//! `lastbit completions`.

use clap::Args;
use clap_complete::Shell;
use serde_json::json;

use super::{Cli, CommandOutput};

/// Which shell.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  lastbit completions bash > ~/.local/share/bash-completion/completions/lastbit")]
pub struct Completions {
    /// Shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// The script.
    pub fn answer(&self) -> CommandOutput {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command_line(), "lastbit", &mut script);
        let text = String::from_utf8_lossy(&script).into_owned();
        let json = json!({"shell": self.shell.to_string(), "script": text});
        CommandOutput::new(text, json)
    }
}
