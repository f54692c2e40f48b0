//! Compiled kernels in the user's cache folder, so that only the first start waits for the compiler.
//!
//! A file is named after the hash of all that its content depends on: source, options, compiler. Its
//! first line is the hash of the rest: a damaged file is compiled again.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

/// The hash of these texts.
pub fn key<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hasher = blake3::Hasher::new();
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

/// The folder of compiled kernels; none if neither XDG_CACHE_HOME nor HOME is set.
pub fn folder() -> Option<PathBuf> {
    let named = |name| env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let caches = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")))?;
    Some(caches.join("lastbit").join("kernels"))
}

/// The text cached under a key, or else the text that `make` returns, which is then cached. A folder that
/// cannot be written only costs time at the next start.
pub fn kept<E>(
    folder: Option<&Path>,
    key: &str,
    make: impl FnOnce() -> Result<String, E>,
) -> Result<String, E> {
    let Some(folder) = folder else { return make() };
    let path = folder.join(format!("{key}.ptx"));
    let hash = |text: &str| blake3::hash(text.as_bytes()).to_hex().to_string();
    if let Ok(kept) = fs::read_to_string(&path)
        && let Some((first, text)) = kept.split_once('\n')
        && first == hash(text)
    {
        return Ok(text.to_owned());
    }
    let text = make()?;
    let kept = format!("{}\n{text}", hash(&text));
    // Written under another name first: another process may read at the same moment.
    let draft = folder.join(format!("{key}.{}", process::id()));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&draft, kept));
    if written.and_then(|()| fs::rename(&draft, &path)).is_err() {
        let _ = fs::remove_file(&draft);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_once_and_then_read() {
        let folder = env::temp_dir().join(format!("lastbit-kernels-{}", process::id()));
        let make = |text: &'static str| move || Ok::<_, ()>(text.to_owned());
        let first = key(["source", "options"]);
        assert_ne!(first, key(["sourceoptions", ""]));
        assert_eq!(kept(Some(&folder), &first, make("one")).unwrap(), "one");
        assert_eq!(kept(Some(&folder), &first, make("two")).unwrap(), "one");
        assert_eq!(kept(Some(&folder), &key(["other"]), make("two")).unwrap(), "two");
        assert_eq!(kept(None, &first, make("three")).unwrap(), "three");
        let failed: Result<String, &str> = kept(Some(&folder), &key(["bad"]), || Err("bad"));
        assert_eq!(failed, Err("bad"));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        let path = folder.join(format!("{first}.ptx"));
        for spoilt in ["", "one", "0000\none"] {
            fs::write(&path, spoilt).unwrap();
            assert_eq!(kept(Some(&folder), &first, make("anew")).unwrap(), "anew");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
