//! The command of a run: what the user gave, through the launcher where that is Python, in the folder of the run.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::Error;

/// What stands for the folder of the run in an argument.
pub const PLACE: &str = "{run}";

/// The module that perturbs the optimizers of PyTorch.
pub const LAUNCHER: &str = "lastbit.torch.launch";

/// Options of `python` that take the next argument.
const WITH_VALUE: [&str; 3] = ["-W", "-X", "--check-hash-based-pycs"];

/// The command with the launcher, if it is one of Python that has a script or a module and no launcher yet.
pub fn launched(command: &[String]) -> Result<Option<Vec<String>>, Error> {
    let is_ours = command.iter().any(|word| word == LAUNCHER);
    let Some(python) = command.first().filter(|word| is_python(word) && !is_ours) else {
        return Ok(None);
    };
    let mut at = 1;
    while let Some(word) = command.get(at) {
        if WITH_VALUE.contains(&word.as_str()) {
            at += 1;
        } else if word == "-m" || !word.starts_with('-') {
            let mut launched = command[..at].to_vec();
            launched.extend(["-m".to_owned(), LAUNCHER.to_owned()]);
            launched.extend_from_slice(&command[at..]);
            return Ok(Some(launched));
        } else if word == "-c" || word == "-" {
            break;
        } else if is_cluster(word) {
            let expected = "each option by itself, as in -u -m MODULE; --no-launcher takes any";
            return Err(Error::setting("PROGRAM", format!("{python} {word}"), expected));
        }
        at += 1;
    }
    Ok(None)
}

/// `python`, `python3`, `/usr/bin/python3.12`.
fn is_python(word: &str) -> bool {
    let name = Path::new(word).file_name().and_then(|name| name.to_str()).unwrap_or("");
    let version = name.strip_suffix(".exe").unwrap_or(name).strip_prefix("python");
    version.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// Several short options in one word, one of which names what is run.
fn is_cluster(word: &str) -> bool {
    let is_short = !word.starts_with("--") && !word.starts_with("-W") && !word.starts_with("-X");
    is_short && word.len() > 2 && word.contains(['m', 'c'])
}

/// The process to start for a run, with its folder in place of `{run}`.
pub fn for_run(words: &[String], folder: &Path, seed: u64, kind: &str) -> Command {
    let folder = folder.display().to_string();
    let mut command = Command::new(words[0].replace(PLACE, &folder));
    command.args(words[1..].iter().map(|word| word.replace(PLACE, &folder)));
    command.env("LASTBIT_PERTURB", seed.to_string());
    command.env("LASTBIT_PERTURB_KIND", kind);
    command.env("LASTBIT_RUN", folder);
    command.stdin(Stdio::null());
    command
}

/// Fails where the Python of the command does not have the launcher.
pub fn check_launcher(words: &[String]) -> Result<(), Error> {
    let mut command = Command::new(&words[0]);
    command.args(["-c", "import lastbit.torch.launch"]).stdin(Stdio::null());
    let refuse = |found: String| {
        let expected = "one that can: `pip install lastbit` there; or --no-launcher, if the program reads \
                        LASTBIT_PERTURB itself";
        Error::setting("PROGRAM", found, expected)
    };
    match command.output() {
        Err(error) => Err(refuse(format!("{}, which cannot be started ({error})", words[0]))),
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last().unwrap_or("no message").to_owned();
            Err(refuse(format!("{}, which cannot import {LAUNCHER} ({last})", words[0])))
        }
    }
}

/// The command as one would type it.
pub fn shown(words: &[String]) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_=+./:,@{}%".contains(c);
    let word = |word: &String| {
        if !word.is_empty() && word.chars().all(is_plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(command: &str) -> Option<String> {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        launched(&words).unwrap().map(|words| words.join(" "))
    }

    #[test]
    fn scripts_and_modules_of_python_go_through_the_launcher() {
        for (command, expected) in [
            ("python train.py --lr 0.1", "python -m lastbit.torch.launch train.py --lr 0.1"),
            ("/usr/bin/python3.12 -u t.py", "/usr/bin/python3.12 -u -m lastbit.torch.launch t.py"),
            ("python3 -m a.b -m c", "python3 -m lastbit.torch.launch -m a.b -m c"),
            (
                "python -X dev -W error -I t.py",
                "python -X dev -W error -I -m lastbit.torch.launch t.py",
            ),
            ("python -Xdev t.py -c x", "python -Xdev -m lastbit.torch.launch t.py -c x"),
        ] {
            assert_eq!(through(command).as_deref(), Some(expected));
        }
        for command in [
            "torchrun train.py",
            "./train.py",
            "python -c pass",
            "python -",
            "python",
            "pythonic train.py",
            "python -m lastbit.torch.launch train.py",
            "torchrun -m lastbit.torch.launch train.py",
        ] {
            assert_eq!(through(command), None);
        }
        let message = launched(&["python".into(), "-um".into(), "a".into()]).unwrap_err();
        assert!(message.to_string().contains("found python -um, expected each option by itself"));
    }

    #[test]
    fn commands_are_shown_so_that_a_shell_takes_them() {
        let words = ["python", "a b.py", "it's", "--lr=0.1", ""].map(str::to_owned);
        assert_eq!(shown(&words), r"python 'a b.py' 'it'\''s' --lr=0.1 ''");
    }
}
