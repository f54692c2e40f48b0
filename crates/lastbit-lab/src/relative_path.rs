//! Names that were read from a file and become paths.
//!
//! A record may come from anybody. A name in it leads to a file below the folder of the record and nowhere else:
//!
//! ```text
//! one to four components, divided by "/"; none is "." or ".."
//! no control character, no "\", no ":" (a drive), no "/" at the start or the end
//! at most 512 bytes
//! ```
//!
//! A name that breaks this is refused when the file is parsed, so no other code has to look. Links can still lead
//! elsewhere: [`RelativePath::below`] follows them and refuses what lies outside the folder.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;

const MOST_COMPONENTS: usize = 4;
const MOST_BYTES: usize = 512;

/// A path below a folder that is not known yet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct RelativePath(String);

impl TryFrom<String> for RelativePath {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let fault = if name.is_empty() {
            "is empty"
        } else if name.len() > MOST_BYTES {
            "is longer than 512 bytes"
        } else if name.chars().any(|c| c.is_control() || "\\:".contains(c)) {
            "holds a control character, a \"\\\" or a \":\""
        } else if name.split('/').count() > MOST_COMPONENTS {
            "has more than 4 components"
        } else if name.split('/').any(|part| ["", ".", ".."].contains(&part)) {
            "is no path below its folder"
        } else {
            return Ok(Self(name));
        };
        let shown: String = name.chars().take(80).collect();
        Err(format!("the file name {shown:?} {fault}"))
    }
}

impl RelativePath {
    /// A name that the program made itself.
    ///
    /// # Panics
    ///
    /// If it is none: a defect of its caller.
    pub fn new(name: impl Into<String>) -> Self {
        Self::try_from(name.into()).unwrap_or_else(|fault| panic!("{fault}"))
    }

    /// Its place below a folder, links followed; refused where that is outside the folder. What is not there is
    /// the caller's to find out.
    pub fn below(&self, folder: &Path) -> Result<PathBuf, Error> {
        let path = folder.join(&self.0);
        let (Ok(whole), Ok(target)) = (folder.canonicalize(), path.canonicalize()) else {
            return Ok(path);
        };
        if target.starts_with(whole) {
            return Ok(path);
        }
        let message = format!("found a link to {}, outside {}", target.display(), folder.display());
        let advice = "put the file itself there".to_owned();
        Err(Error::Damaged { path, message, advice })
    }
}

impl Deref for RelativePath {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Maps with such keys are searched by names.
impl Borrow<str> for RelativePath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RelativePath {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialEq<str> for RelativePath {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for RelativePath {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_name_stays_below_its_folder() {
        for name in [
            "a",
            "only <cell>",
            "series/dt-0.4-u.csv",
            "runs/0123-2-threads",
            "a/b/c/d",
            "..a",
            "é",
        ] {
            assert!(RelativePath::try_from(name.to_owned()).is_ok(), "{name}");
        }
        let long = "x".repeat(513);
        for name in [
            "",
            ".",
            "..",
            "/",
            "/etc/passwd",
            "../x",
            "a/../b",
            "a/..",
            "./a",
            "a//b",
            "a/",
            "a\0b",
            "a\nb",
            "\u{1b}[2J",
            "C:x",
            "..\\x",
            "a/b/c/d/e",
            &long,
        ] {
            let fault = RelativePath::try_from(name.to_owned()).unwrap_err();
            assert!(fault.starts_with("the file name \""), "{name:?}: {fault}");
        }
        let read = |json: &str| serde_json::from_str::<RelativePath>(json);
        assert_eq!(read("\"a/b\"").unwrap(), RelativePath::new("a/b"));
        assert!(read("\"../b\"").unwrap_err().to_string().contains("\"../b\""));
    }

    #[test]
    #[cfg(unix)]
    fn a_link_within_the_folder_is_followed_and_one_that_leads_out_is_refused() {
        let outside = tempfile::tempdir().unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret.csv"), "x\n1\n").unwrap();
        fs::write(folder.path().join("own.csv"), "x\n1\n").unwrap();
        let link = |target: &Path, name: &str| {
            std::os::unix::fs::symlink(target, folder.path().join(name)).unwrap();
        };
        link(&outside.path().join("secret.csv"), "file");
        link(outside.path(), "folder");
        link(Path::new("own.csv"), "within");
        let below = |name: &str| RelativePath::new(name).below(folder.path());
        for name in ["file", "folder/secret.csv"] {
            let message = below(name).unwrap_err().to_string();
            assert!(message.contains(name) && message.contains("outside"), "{message}");
        }
        for name in ["within", "own.csv", "not-there"] {
            assert_eq!(below(name).unwrap(), folder.path().join(name));
        }
    }
}
