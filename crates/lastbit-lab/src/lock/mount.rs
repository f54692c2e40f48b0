//! Which file system a folder lies on.

use std::fs;
use std::path::Path;

/// File systems that several machines share, by their names in `/proc/self/mountinfo`; those of user space, whose names
/// begin with "fuse", are counted among them.
const NETWORK: [&str; 16] = [
    "9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "gpfs", "lustre", "nfs", "nfs4", "ocfs2",
    "orangefs", "panfs", "smb3", "virtiofs", "wekafs",
];

/// Whether other machines may see the folder, where the system tells.
pub fn is_network(folder: &Path) -> bool {
    let (Ok(folder), Ok(mounts)) =
        (folder.canonicalize(), fs::read_to_string("/proc/self/mountinfo"))
    else {
        return false;
    };
    file_system(&folder, &mounts)
        .is_some_and(|name| name.starts_with("fuse") || NETWORK.contains(&name))
}

/// The file system of the longest mount point above a folder, and of the last one mounted there.
fn file_system<'a>(folder: &Path, mounts: &'a str) -> Option<&'a str> {
    let mount = |line: &'a str| {
        let (before, after) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?.replace("\\040", " ");
        folder.starts_with(&point).then_some((point.len(), after.split(' ').next()?))
    };
    mounts.lines().filter_map(mount).max_by_key(|(length, _)| *length).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_and_last_mount_counts() {
        let mounts = "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw\n\
                      40 22 0:30 / /home rw shared:2 - nfs4 server:/home rw\n\
                      41 40 0:31 / /home/a\\040b rw - tmpfs tmpfs rw\n\
                      42 22 0:32 / /scratch rw - ext4 /dev/sdb rw\n\
                      43 42 0:33 / /scratch rw - lustre server:/scratch rw\n";
        for (folder, expected) in [
            ("/", "ext4"),
            ("/homes", "ext4"),
            ("/home/you", "nfs4"),
            ("/home/a b/c", "tmpfs"),
            ("/scratch/x", "lustre"),
        ] {
            assert_eq!(file_system(Path::new(folder), mounts), Some(expected), "{folder}");
        }
    }

    #[test]
    fn a_temporary_folder_is_not_shared() {
        assert!(!is_network(tempfile::tempdir().unwrap().path()));
    }
}
