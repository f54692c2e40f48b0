//! The command `lastbit`: arguments -> settings -> cells -> record -> report.
//!
//! A library with one function, so that the Python package can carry the command too.
//!
//! Exit codes: 0 done and no check failed, 1 a check failed, 2 the input or the environment is
//! wrong, 130 interrupted.

mod cli;
mod terminal;

use std::ffi::OsString;
use std::io::{self, Write};
use std::panic;

use clap::FromArgMatches;
use serde_json::json;

use cli::{Cli, CommandOutput};
use lastbit_lab::Error;
use terminal::printable;

/// Runs the command with its arguments, the first of which is its own name; returns the exit code.
pub fn main(arguments: &[OsString]) -> u8 {
    panic::set_hook(Box::new(|info| {
        let info = info.to_string();
        eprintln!(
            "lastbit: internal error: {}\nThis is a defect of lastbit; please report it.",
            printable(&info)
        );
    }));
    // What follows is for another program.
    let mut own = arguments.iter().take_while(|argument| *argument != "--");
    let as_json = own.any(|argument| argument == "--json");
    let outcome = panic::catch_unwind(|| answer(arguments));
    let (answer, code) = match outcome {
        Ok(Ok(answer)) => {
            let code = answer.exit_code();
            (Some(answer), code)
        }
        Ok(Err(Failure::Usage(error))) if !error.use_stderr() => {
            return print(&error.to_string()).map_or(2, |()| 0);
        }
        Ok(Err(failure)) => {
            let message = failure.to_string();
            match failure {
                Failure::Usage(_) => eprintln!("{}", printable(&message)),
                Failure::Error(_) => eprintln!("error: {}", printable(&message)),
            }
            if as_json {
                // Where that fails too, stderr has said it already.
                let _ = print(&format!("{}\n", json!({"error": message, "exit_code": 2})));
            }
            (None, 2)
        }
        Err(_) => {
            if as_json {
                let message = "internal error; stderr says more";
                let _ = print(&format!("{}\n", json!({"error": message, "exit_code": 2})));
            }
            (None, 2)
        }
    };
    if let Some(answer) = answer {
        let text = if as_json { format!("{}\n", answer.json) } else { answer.text };
        if let Err(error) = print(&text) {
            eprintln!("error: the answer cannot be written to stdout: {error}");
            return 2;
        }
    }
    code
}

/// Why there is no answer.
enum Failure {
    /// The command line itself; its message is the parser's.
    Usage(clap::Error),
    /// Anything else.
    Error(Error),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::Usage(error) => f.write_str(error.to_string().trim_end()),
            Self::Error(error) => error.fmt(f),
        }
    }
}

fn answer(arguments: &[OsString]) -> Result<CommandOutput, Failure> {
    let matches = Cli::command_line().try_get_matches_from(arguments).map_err(Failure::Usage)?;
    let cli = Cli::from_arg_matches(&matches).map_err(Failure::Usage)?;
    match cli.run(&matches) {
        // While it waited for another process.
        Err(Error::Stopped(reason)) => {
            Ok(CommandOutput::stopped(reason, "the same command resumes from what is saved."))
        }
        answered => answered.map_err(Failure::Error),
    }
}

/// To stdout; a reader who has gone away is no error.
fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(printable(text).as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
