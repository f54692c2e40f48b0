//! How much memory there is, and whether something fits.
//!
//! ```text
//! /proc/meminfo              what the machine has left
//! cgroups (v1 and v2)        what a container or a job has left: limit − usage + file cache that is not in use
//! ulimit -v                  address space − what is taken of it
//! ```
//!
//! The least of these counts. Where the system does not say, everything fits: a refusal needs a number.
//! An allocation that fails ends a process without a word, so what is large is asked for here first.

use std::fs;
use std::path::Path;

use crate::error::Error;

/// Refuses what needs more bytes than there are; `advice` says what would need fewer.
pub fn require(what: &str, needed: u64, advice: &str) -> Result<(), Error> {
    match available() {
        Some(available) if needed > available => Err(Error::Memory {
            what: what.to_owned(),
            needed: in_words(needed),
            available: in_words(available),
            advice: advice.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Bytes that this process can still take, as far as the system says.
pub fn available() -> Option<u64> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").and_then(|text| value_of(&text, "MemAvailable:"));
    let machine = machine.map(|kilobytes| kilobytes << 10);
    let address_space = read("/proc/self/limits").zip(read("/proc/self/status"));
    let address_space = address_space.and_then(|(limits, status)| left_of_limit(&limits, &status));
    let groups = read("/proc/self/cgroup");
    let groups = groups.and_then(|text| left_of_groups(&text, Path::new("/sys/fs/cgroup")));
    [machine, address_space, groups].into_iter().flatten().min()
}

/// The number behind a word at the beginning of a line.
fn value_of(text: &str, word: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(word)?.split_whitespace().next()?.parse().ok())
}

/// What `ulimit -v` leaves.
fn left_of_limit(limits: &str, status: &str) -> Option<u64> {
    let limit = value_of(limits, "Max address space")?;
    Some(limit.saturating_sub(value_of(status, "VmSize:")? << 10))
}

/// What the groups of the process leave, each with the groups around it. A line of `/proc/self/cgroup` is
/// `0::PATH` (version 2) or `NUMBER:memory:PATH` (version 1).
fn left_of_groups(lines: &str, root: &Path) -> Option<u64> {
    let left = lines.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, kinds, path) = (fields.next()?, fields.next()?, fields.next()?);
        let (root, files) = match kinds {
            "" => (root.to_owned(), ["memory.max", "memory.current", "inactive_file"]),
            _ if kinds.split(',').any(|kind| kind == "memory") => (
                root.join("memory"),
                ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"],
            ),
            _ => return None,
        };
        let group = root.join(path.trim_start_matches('/'));
        let around = group.ancestors().take_while(|folder| folder.starts_with(&root));
        around.filter_map(|folder| left_of_group(folder, files)).min()
    });
    left.min()
}

fn left_of_group(folder: &Path, [limit, usage, cache]: [&str; 3]) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok();
    let (limit, usage): (u64, u64) = (number(limit)?, number(usage)?);
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let cache = value_of(&stat, &format!("{cache} ")).unwrap_or(0);
    Some(limit.saturating_sub(usage.saturating_sub(cache)))
}

/// Bytes with a unit: `37.4 GB`.
pub fn in_words(bytes: u64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    match units.into_iter().find(|(size, _)| bytes as f64 >= *size) {
        Some((size, unit)) => format!("{:.1} {unit}", bytes as f64 / size),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn too_much_is_refused_with_both_numbers() {
        assert!(available().unwrap() > 1 << 20);
        require("a.npy", 0, "").unwrap();
        let message = require("a.npy", 37 << 50, "shorten it").unwrap_err().to_string();
        assert!(message.starts_with("a.npy: needs at least 41658.3 TB of memory, "), "{message}");
        assert!(message.ends_with("B are available; shorten it"), "{message}");
    }

    #[test]
    fn numbers_have_units() {
        for (bytes, text) in [
            (999, "999 bytes"),
            (1_500, "1.5 kB"),
            (37_400_000_000, "37.4 GB"),
            (2 << 40, "2.2 TB"),
        ] {
            assert_eq!(in_words(bytes), text);
        }
    }

    #[test]
    fn an_address_limit_counts_what_is_taken() {
        let limits =
            "Limit  Soft Limit  Hard Limit\nMax address space   1048576   unlimited  bytes\n";
        assert_eq!(left_of_limit(limits, "VmSize:\t  24 kB\n"), Some((1 << 20) - (24 << 10)));
        assert_eq!(left_of_limit(limits, "VmSize:\t  2000 kB\n"), Some(0));
        let none = "Max address space    unlimited            unlimited            bytes\n";
        assert_eq!(left_of_limit(none, "VmSize:\t  24 kB\n"), None);
    }

    #[test]
    fn the_tightest_group_counts_and_its_cache_is_free() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("job/memory.max", "1000\n");
        write("job/memory.current", "700\n");
        write("job/memory.stat", "anon 1\ninactive_file 200\n");
        write("job/step/memory.max", "max\n");
        write("job/step/memory.current", "300\n");
        let left = |lines: &str| left_of_groups(lines, root.path());
        assert_eq!(left("0::/job/step\n"), Some(500));
        assert_eq!(left("0::/elsewhere\n"), None);
        write("memory/old/memory.limit_in_bytes", "600\n");
        write("memory/old/memory.usage_in_bytes", "550\n");
        assert_eq!(left("5:cpu:/x\n4:hugetlb,memory:/old\n0::/job\n"), Some(50));
    }
}
