//! Compressed files and archives.

use std::collections::HashSet;
use std::io::Read;

use flate2::read::MultiGzDecoder;

use crate::Malformed;

/// Whether the bytes begin as a gzip file does.
pub fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// Decompresses, but no more than `most` bytes.
pub fn gunzip(bytes: &[u8], most: usize) -> Result<Vec<u8>, Malformed> {
    let inflated = gunzip_start(bytes, most.saturating_add(1))?;
    if inflated.len() > most {
        let found = format!("{} bytes that decompress to more than {most}", bytes.len());
        return Err(Malformed::new(found, format!("at most {most} bytes after decompression")));
    }
    Ok(inflated)
}

/// The first bytes of what is compressed: `most`, or fewer if there are no more.
pub fn gunzip_start(bytes: &[u8], most: usize) -> Result<Vec<u8>, Malformed> {
    let mut inflated = Vec::new();
    MultiGzDecoder::new(bytes)
        .take(most as u64)
        .read_to_end(&mut inflated)
        .map_err(|error| Malformed::new(error, "a whole gzip file"))?;
    Ok(inflated)
}

/// The plain files of a tar archive, in their order: names and contents. Two files of one name are refused:
/// tar would unpack both and keep the last, which nobody who looks at the first expects.
pub fn tar_files(bytes: &[u8]) -> Result<Vec<(String, &[u8])>, Malformed> {
    const EXPECTED: &str = "a whole tar archive";
    let refuse = |error: std::io::Error| Malformed::new(error, EXPECTED);
    let (mut files, mut names) = (Vec::new(), HashSet::new());
    let mut archive = tar::Archive::new(bytes);
    for entry in archive.entries().map_err(refuse)? {
        let entry = entry.map_err(refuse)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let start = usize::try_from(entry.raw_file_position()).ok();
        let end = start.and_then(|start| start.checked_add(entry.size().try_into().ok()?));
        let content = start.zip(end).and_then(|(start, end)| bytes.get(start..end));
        let content = content.ok_or_else(|| Malformed::new(format!("{name} cut off"), EXPECTED))?;
        if !names.insert(name.clone()) {
            let found = format!("two files of the name {name:?}");
            return Err(Malformed::new(found, "a name of its own for each file of an archive"));
        }
        files.push((name, content));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, *content).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn files_come_back_in_their_order() {
        let long = "a/".repeat(80) + "b.bin";
        let archive = tar(&[("z.bin", b"zz"), (&long, b""), ("a.bin", &[7; 1000])]);
        let files = tar_files(&archive).unwrap();
        let expected =
            [("z.bin".to_owned(), &b"zz"[..]), (long, b""), ("a.bin".into(), &[7; 1000])];
        assert_eq!(files, expected);
        assert!(tar_files(&archive[..archive.len() - 2000]).is_err());
    }

    #[test]
    fn two_files_of_one_name_are_refused() {
        let archive = tar(&[("a.bin", b"1"), ("b.bin", b"2"), ("a.bin", b"3")]);
        let message = tar_files(&archive).unwrap_err().to_string();
        assert!(message.contains("two files of the name \"a.bin\""), "{message}");
    }

    #[test]
    fn decompression_stops_at_its_limit() {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&[0; 100_000]).unwrap();
        let file = encoder.finish().unwrap();
        assert!(is_gzip(&file));
        assert_eq!(gunzip(&file, 100_000).unwrap().len(), 100_000);
        let message = gunzip(&file, 99_999).unwrap_err().to_string();
        let expected = format!("found {} bytes that decompress to more than 99999", file.len());
        assert!(message.starts_with(&expected), "{message}");
        assert_eq!(gunzip_start(&file, 7).unwrap(), [0; 7]);
        assert!(gunzip(&file[..file.len() - 9], 100_000).is_err());
    }
}
