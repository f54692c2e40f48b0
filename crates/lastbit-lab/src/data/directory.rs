//! Where data sets are kept.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// `given`, else `LASTBIT_DATA`, else `lastbit` in the user's folder for data
/// (`XDG_DATA_HOME`, by default `~/.local/share`); none for a user without a home.
pub fn find_directory(given: Option<&Path>) -> Option<PathBuf> {
    choose(given, |name| std::env::var_os(name).filter(|value| !value.is_empty()))
}

/// The same for those who need one.
pub fn directory(given: Option<&Path>) -> Result<PathBuf, Error> {
    find_directory(given).ok_or_else(|| {
        let found = "no folder, and neither LASTBIT_DATA nor HOME is set";
        Error::setting("--data", found, "a folder to keep data sets in")
    })
}

fn choose(
    given: Option<&Path>,
    variable: impl Fn(&str) -> Option<std::ffi::OsString>,
) -> Option<PathBuf> {
    let of = |name: &str| variable(name).map(PathBuf::from);
    let share = of("XDG_DATA_HOME").or_else(|| of("HOME").map(|home| home.join(".local/share")));
    let asked = given.map(Path::to_owned).or_else(|| of("LASTBIT_DATA"));
    asked.or_else(|| share.map(|share| share.join("lastbit")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_wins_over_variables_and_those_over_the_home() {
        let variables =
            [("LASTBIT_DATA", "/data"), ("XDG_DATA_HOME", "/share"), ("HOME", "/home/me")];
        let with = |given: Option<&str>, first: usize| {
            let lookup = |name: &str| {
                let known = variables[first..].iter().find(|(known, _)| *known == name);
                known.map(|(_, value)| (*value).into())
            };
            choose(given.map(Path::new), lookup).map(|path| path.display().to_string())
        };
        assert_eq!(with(Some("here"), 0).unwrap(), "here");
        assert_eq!(with(None, 0).unwrap(), "/data");
        assert_eq!(with(None, 1).unwrap(), "/share/lastbit");
        assert_eq!(with(None, 2).unwrap(), "/home/me/.local/share/lastbit");
        assert_eq!(with(None, 3), None);
    }
}
