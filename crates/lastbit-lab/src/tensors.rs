//! Files of tensors: the safetensors format of `lastbit_formats::tensors`, by path.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use lastbit_formats::Malformed;
pub use lastbit_formats::tensors::{Dtype, Tensor, TensorFile, Values};
use lastbit_formats::tensors::{Fault, parse};

use crate::error::Error;
use crate::files::write_atomically_with;
use crate::memory;

/// How PyTorch's names of batch norm's running statistics end, which are no parameters.
pub const RUNNING_STATISTICS: [&str; 3] = ["running_mean", "running_var", "num_batches_tracked"];

/// Reads the tensors of a file.
pub fn read(path: &Path) -> Result<TensorFile, Error> {
    let unreadable = |source| Error::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        let expected = "a safetensors file: its length must be known";
        return Err(Error::input(path, Malformed::new("a folder, pipe or device", expected)));
    }
    let length = metadata.len();
    memory::require(&path.display().to_string(), length, "give a shorter file")?;
    parse(BufReader::new(file), length).map_err(|fault| match fault {
        Fault::Unreadable(source) => unreadable(source),
        Fault::Wrong(malformed) => Error::input(path, malformed),
    })
}

/// Writes a file; one that was there stays as it is until the new one is complete.
///
/// # Panics
///
/// If a shape does not fit its values, or two tensors have one name.
pub fn write(path: &Path, file: &TensorFile) -> Result<(), Error> {
    write_atomically_with(path, |out| lastbit_formats::tensors::write(file, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn what_has_no_length_or_too_much_of_it_is_refused() {
        for path in ["/dev/zero", "/dev/urandom"] {
            let message = read(Path::new(path)).unwrap_err().to_string();
            assert!(message.contains("found a folder, pipe or device"), "{message}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large.safetensors");
        File::create(&path).unwrap().set_len(1 << 43).unwrap();
        let message = read(&path).unwrap_err().to_string();
        assert!(message.contains("large.safetensors: needs at least 8.8 TB"), "{message}");
    }

    #[test]
    #[cfg(unix)]
    fn a_full_disk_leaves_the_old_file() {
        const PATH: &str = "LASTBIT_TEST_FULL_DISK";
        let large = TensorFile {
            tensors: vec![Tensor {
                name: "x".to_owned(),
                shape: vec![50_000],
                values: Values::F32(vec![1.0; 50_000]),
            }],
            ..TensorFile::default()
        };
        // The child, under the limit.
        if let Some(path) = std::env::var_os(PATH) {
            let message = write(Path::new(&path), &large).unwrap_err().to_string();
            assert!(
                message.contains("x.safetensors: cannot be written: File too large"),
                "{message}"
            );
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        write(&path, &TensorFile::default()).unwrap();
        let before = std::fs::read(&path).unwrap();
        // This test again, with 8 KiB a file at most. Without the trap the system would end the
        // process instead of letting the write fail, as a full disk does.
        let test = "tensors::tests::a_full_disk_leaves_the_old_file";
        let output = std::process::Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" --exact \"$1\""])
            .arg(std::env::current_exe().unwrap())
            .arg(test)
            .env(PATH, &path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }
}
