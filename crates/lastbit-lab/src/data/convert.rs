//! From the values of files to data sets.

use std::path::{Path, PathBuf};

use lastbit::data::{Dataset, Inputs, Targets};
use lastbit_formats::{Malformed, archive, cifar, idx, labels, png, shape_text};

use crate::error::Error;
use crate::input::read;
use crate::memory;
use crate::progress::{Monitor, Progress};

/// More than this no compressed archive may hold. Those of CIFAR hold 184 million bytes.
const MOST_OF_AN_ARCHIVE: usize = 1 << 29;

/// The bytes of a file, with the name that errors say.
pub struct File {
    /// Where it is or came from.
    pub path: PathBuf,
    /// What is in it.
    pub bytes: Vec<u8>,
}

impl File {
    /// Reads a file and decompresses it if it is compressed.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self { path: path.to_owned(), bytes: read(path)? }.inflated()
    }

    /// Decompressed, if it is compressed: as many bytes as an IDX file declares, if memory has them, and of
    /// anything else what an archive may hold.
    pub fn inflated(self) -> Result<Self, Error> {
        if !archive::is_gzip(&self.bytes) {
            return Ok(self);
        }
        let start = archive::gunzip_start(&self.bytes, idx::LONGEST_HEADER);
        let start = start.map_err(|error| self.refuse(error))?;
        let most = idx::declared_size(&start).unwrap_or(MOST_OF_AN_ARCHIVE);
        // Once as bytes, once as a data set.
        let needed = (most as u64).saturating_mul(2);
        memory::require(&self.path.display().to_string(), needed, "give a smaller file")?;
        let bytes = archive::gunzip(&self.bytes, most).map_err(|error| self.refuse(error))?;
        Ok(Self { path: self.path, bytes })
    }

    /// An error about it.
    pub fn refuse(&self, error: Malformed) -> Error {
        Error::input(&self.path, error)
    }
}

/// Labels from numbers: whole, from 0, below `classes`.
pub fn labels(values: &[f64], classes: usize) -> Result<Vec<u32>, Malformed> {
    let label = |(at, value): (usize, &f64)| {
        if value.fract() == 0.0 && *value >= 0.0 && *value < classes as f64 {
            return Ok(*value as u32);
        }
        let found = format!("the label {value} at position {at} (counted from 0)");
        Err(Malformed::new(found, format!("whole numbers from 0, below {classes}")))
    };
    values.iter().enumerate().map(label).collect()
}

/// Images and labels of two IDX files; `classes` is one more than the largest label where it is
/// not given.
pub fn idx_pair(images: &File, labels: &File, classes: Option<usize>) -> Result<Dataset, Error> {
    let pixels = idx::parse(&images.bytes).map_err(|error| images.refuse(error))?;
    let answers = idx::parse(&labels.bytes).map_err(|error| labels.refuse(error))?;
    let shape = match pixels.shape[..] {
        [_, height, width] => [height, width, 1],
        [_, height, width, channels] => [height, width, channels],
        _ => {
            let found = format!("an array of shape {}", shape_text(&pixels.shape));
            return Err(images.refuse(Malformed::new(found, "images: three or four sizes")));
        }
    };
    if answers.shape.len() != 1 || answers.shape[0] != pixels.shape[0] {
        let found = format!("an array of shape {}", shape_text(&answers.shape));
        let expected = format!("a label for each of the {} images", pixels.shape[0]);
        return Err(labels.refuse(Malformed::new(found, expected)));
    }
    let largest = answers.values.iter().max().map_or(0, |label| usize::from(*label));
    let count = classes.unwrap_or(largest + 1);
    let values: Vec<f64> = answers.values.iter().copied().map(f64::from).collect();
    let targets = self::labels(&values, count).map_err(|error| labels.refuse(error))?;
    Ok(Dataset {
        shape,
        inputs: Inputs::Bytes(pixels.values.to_vec()),
        targets: Targets::Classes { count, labels: targets },
    })
}

/// Images of CIFAR files, one after the other.
pub fn cifar(files: &[File], kind: cifar::Kind) -> Result<Dataset, Error> {
    let mut all = cifar::Images::default();
    for file in files {
        let images = cifar::parse(&file.bytes, kind).map_err(|error| file.refuse(error))?;
        all.pixels.extend(images.pixels);
        all.labels.extend(images.labels);
    }
    let labels = all.labels.into_iter().map(u32::from).collect();
    Ok(Dataset {
        shape: cifar::SHAPE,
        inputs: Inputs::Bytes(all.pixels),
        targets: Targets::Classes { count: kind.classes(), labels },
    })
}

/// The files of CIFAR within an archive: `wanted` names, in this order.
pub fn cifar_members(archive: &File, wanted: &[String]) -> Result<Vec<File>, Error> {
    let files = archive::tar_files(&archive.bytes).map_err(|error| archive.refuse(error))?;
    let member = |name: &String| {
        let mut named = files.iter().filter(|(path, _)| Path::new(path).ends_with(name));
        let refuse = |found: &str| {
            archive.refuse(Malformed::new(format!("{found} {name} in it"), "a CIFAR archive"))
        };
        let (path, bytes) = named.next().ok_or_else(|| refuse("no file"))?;
        if named.next().is_some() {
            return Err(refuse("several files"));
        }
        Ok(File { path: archive.path.join(path), bytes: bytes.to_vec() })
    };
    wanted.iter().map(member).collect()
}

/// Images of `shape` that lie row by row in pictures, one row an image, with labels as JSON.
pub fn sprites(
    pictures: &[File],
    answers: &File,
    shape: [usize; 3],
    monitor: &dyn Monitor,
) -> Result<Dataset, Error> {
    let progress = Progress::new(monitor, "reading images", pictures.len() as u64);
    let mut pixels = Vec::new();
    for file in pictures {
        let picture = png::parse(&file.bytes).map_err(|error| file.refuse(error))?;
        let [_, width, channels] = picture.shape;
        if width != shape[0] * shape[1] || channels != shape[2] {
            let found = format!("a picture of shape {}", shape_text(&picture.shape));
            let expected = format!("rows of {} pixels in colour", shape[0] * shape[1]);
            return Err(file.refuse(Malformed::new(found, expected)));
        }
        pixels.extend(picture.pixels);
        progress.advance(1);
    }
    let labels = labels::parse(&answers.bytes).map_err(|error| answers.refuse(error))?;
    let images = pixels.len() / shape.iter().product::<usize>();
    if labels.len() != images || labels.iter().any(|label| *label >= 10) {
        let found = format!("{} labels", labels.len());
        let expected = format!("{images} labels from 0 to 9");
        return Err(answers.refuse(Malformed::new(found, expected)));
    }
    let targets = Targets::Classes { count: 10, labels };
    Ok(Dataset { shape, inputs: Inputs::Bytes(pixels), targets })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;

    fn file(bytes: &[u8]) -> File {
        File { path: "some.file".into(), bytes: bytes.to_vec() }
    }

    #[test]
    fn labels_are_whole_and_in_range() {
        assert_eq!(labels(&[0.0, 2.0], 3).unwrap(), [0, 2]);
        for wrong in [3.0, -1.0, 0.5, f64::NAN, f64::INFINITY] {
            let message = labels(&[0.0, wrong], 3).unwrap_err().to_string();
            assert!(message.contains(&format!("{wrong} at position 1")), "{message}");
        }
    }

    fn gzip(bytes: &[u8]) -> File {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        file(&encoder.finish().unwrap())
    }

    #[test]
    fn a_compressed_file_grows_to_what_it_declares() {
        let images = [0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4];
        assert_eq!(gzip(&images).inflated().unwrap().bytes, images);
        // A million zeros behind them take a thousand bytes and are not unpacked.
        let longer = [&images[..], &[0; 1_000_000]].concat();
        let message = gzip(&longer).inflated().err().unwrap().to_string();
        assert!(message.contains("decompress to more than 20, expected at most 20"), "{message}");
        #[cfg(target_os = "linux")]
        {
            let mut huge = images;
            huge[4..12].fill(0x7f);
            let message = gzip(&huge).inflated().err().unwrap().to_string();
            assert!(message.starts_with("some.file: needs at least 18302347.4 TB"), "{message}");
        }
    }

    #[test]
    fn a_file_in_two_folders_of_an_archive_is_refused() {
        let mut tar = tar::Builder::new(Vec::new());
        for name in ["a/test.bin", "b/test.bin", "b/train.bin"] {
            let mut header = tar::Header::new_gnu();
            header.set_size(4);
            tar.append_data(&mut header, name, &[7; 4][..]).unwrap();
        }
        let archive = file(&tar.into_inner().unwrap());
        let member = |name: &str| cifar_members(&archive, &[name.to_owned()]);
        assert_eq!(member("train.bin").unwrap()[0].bytes, [7; 4]);
        for (name, part) in [("test.bin", "several files test.bin"), ("no.bin", "no file no.bin")] {
            let message = member(name).err().unwrap().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn images_and_labels_must_be_as_many() {
        let images = file(&[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3, 4]);
        let good = file(&[0, 0, 8, 1, 0, 0, 0, 2, 1, 0]);
        let set = idx_pair(&images, &good, None).unwrap();
        assert_eq!((set.shape, set.len()), ([1, 2, 1], 2));
        assert_eq!(set.targets, Targets::Classes { count: 2, labels: vec![1, 0] });
        let three = file(&[0, 0, 8, 1, 0, 0, 0, 3, 1, 0, 1]);
        for (labels, classes, part) in
            [(&three, None, "each of the 2 images"), (&good, Some(1), "the label 1 at position 0")]
        {
            let message = idx_pair(&images, labels, classes).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
        let message = idx_pair(&good, &good, None).unwrap_err().to_string();
        assert!(message.contains("three or four sizes"), "{message}");
    }

    #[test]
    fn a_picture_of_rows_becomes_images() {
        let pixels: Vec<u8> = (0..8).flat_map(|k| [k % 4, k / 4, 9]).collect();
        let rows = png::Picture { shape: [2, 4, 3], pixels: pixels.clone() };
        let png = rows.to_png().unwrap();
        let set =
            sprites(&[file(&png), file(&png)], &file(b"[1,2,3,4]"), [2, 2, 3], &Silent).unwrap();
        assert_eq!(set.len(), 4);
        assert_eq!(set.inputs, Inputs::Bytes([pixels.clone(), pixels].concat()));
        for labels in ["[1,2,3]", "[1,2,3,10]", "no"] {
            assert!(
                sprites(&[file(&png), file(&png)], &file(labels.as_bytes()), [2, 2, 3], &Silent)
                    .is_err()
            );
        }
        assert!(sprites(&[file(&png)], &file(b"[1,2]"), [2, 3, 3], &Silent).is_err());
    }
}
