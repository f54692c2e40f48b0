//! Small parts of real data sets that are always there, within the program.
//!
//! ```text
//! asset = lzma( differences( labels of train and test | images of train and test ) )
//! ```
//!
//! Differences are those of photographs from their neighbours: of bytes a pixel apart, and of the
//! result a row apart, modulo 256. Images on an empty ground are smaller as they are.
//! The assets are made from the full data sets by `reference/embed_data.py`.

use std::io::Read;

use lastbit::data::{Dataset, Inputs, Targets};
use lzma_rust2::LzmaReader;

use super::Split;

/// An embedded data set.
#[derive(Debug, Clone, Copy)]
pub struct Embedded {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// Names of its classes.
    pub classes: &'static [&'static str],
    /// Height, width and channels.
    pub shape: [usize; 3],
    /// Examples to train on and to test on.
    pub sizes: [usize; 2],
    /// Distances over which differences were taken.
    deltas: &'static [usize],
    /// Content hash.
    pub content_hash: &'static str,
    asset: &'static [u8],
}

/// All that is embedded. A constant would put the assets into the program once for each use.
pub static EMBEDDED: [Embedded; 3] = [
    Embedded {
        name: "mnist01",
        title: "all zeros and ones of MNIST",
        classes: &["0", "1"],
        shape: [28, 28, 1],
        sizes: [12_665, 2_115],
        deltas: &[],
        content_hash: "3694986c172430bff59d879628f484433bfcc4139641e232b0984ddf914bfffb",
        asset: include_bytes!("../../assets/mnist01.lzma"),
    },
    Embedded {
        name: "cifar10-small",
        title: "the first 1200 training and 300 test images of CIFAR-10",
        classes: &super::known::KNOWN[2].classes,
        shape: [32, 32, 3],
        sizes: [1_200, 300],
        deltas: &[3, 96],
        content_hash: "dc3281e340bdfbed7a07a95499da6cb4c94f05c6a611ba1dd75bf7e48fa2f978",
        asset: include_bytes!("../../assets/cifar10-small.lzma"),
    },
    Embedded {
        name: "fashion-mnist-small",
        title: "the first 1200 training and 600 test images of Fashion-MNIST",
        classes: &super::known::KNOWN[1].classes,
        shape: [28, 28, 1],
        sizes: [1_200, 600],
        deltas: &[],
        content_hash: "fe8f162435b4de84feffd542968710fb67322a230a3434983c3829dc177ed3de",
        asset: include_bytes!("../../assets/fashion-mnist-small.lzma"),
    },
];

/// The embedded data set of this name.
pub fn find(name: &str) -> Option<&'static Embedded> {
    EMBEDDED.iter().find(|set| set.name == name)
}

impl Embedded {
    /// Unpacks it.
    pub fn load(&self) -> Split {
        let mut bytes = Vec::new();
        LzmaReader::new_mem_limit(self.asset, u32::MAX, None)
            .and_then(|mut reader| reader.read_to_end(&mut bytes))
            .expect("the asset is whole");
        for distance in self.deltas {
            for k in *distance..bytes.len() {
                bytes[k] = bytes[k].wrapping_add(bytes[k - distance]);
            }
        }
        let [train, test] = self.sizes;
        let (labels, images) = bytes.split_at(train + test);
        let (train_images, test_images) = images.split_at(train * self.input_len());
        Split {
            train: self.part(&labels[..train], train_images),
            test: self.part(&labels[train..], test_images),
            name: self.name.to_owned(),
            content_hash: self.content_hash.to_owned(),
            columns: None,
        }
    }

    fn part(&self, labels: &[u8], images: &[u8]) -> Dataset {
        Dataset {
            shape: self.shape,
            inputs: Inputs::Bytes(images.to_vec()),
            targets: Targets::Classes {
                count: self.classes.len(),
                labels: labels.iter().copied().map(u32::from).collect(),
            },
        }
    }

    fn input_len(&self) -> usize {
        self.shape.iter().product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::hash::content_hash;

    fn labels(set: &Dataset) -> &[u32] {
        match &set.targets {
            Targets::Classes { labels, .. } => labels,
            Targets::Reals { .. } => panic!("images have labels"),
        }
    }

    #[test]
    fn the_assets_are_the_data_sets_they_say() {
        for set in &EMBEDDED {
            let split = set.load();
            assert_eq!([split.train.len(), split.test.len()], set.sizes, "{}", set.name);
            assert_eq!(content_hash(&split.train, &split.test), set.content_hash, "{}", set.name);
        }
    }

    fn histogram(set: &Dataset) -> Vec<usize> {
        let mut counts = vec![0; 10];
        labels(set).iter().for_each(|label| counts[*label as usize] += 1);
        counts.into_iter().filter(|count| *count > 0).collect()
    }

    #[test]
    fn zeros_and_ones_are_as_many_as_in_mnist() {
        // Counts of MNIST itself: 5923 and 6742 of 60000, 980 and 1135 of 10000.
        let split = find("mnist01").unwrap().load();
        assert_eq!(histogram(&split.train), [5923, 6742]);
        assert_eq!(histogram(&split.test), [980, 1135]);
        let Inputs::Bytes(pixels) = &split.train.inputs else { panic!() };
        assert_eq!((pixels.iter().min(), pixels.iter().max()), (Some(&0), Some(&255)));
    }

    #[test]
    fn cifar_begins_as_its_first_batch_does() {
        // Frog, truck, truck, deer, automobile; the test set with cat, ship, ship, airplane, frog.
        let split = find("cifar10-small").unwrap().load();
        assert_eq!(labels(&split.train)[..5], [6, 9, 9, 4, 1]);
        assert_eq!(labels(&split.test)[..5], [3, 8, 8, 0, 6]);
        let Inputs::Bytes(pixels) = &split.train.inputs else { panic!() };
        // The first bytes of the red, green and blue planes of data_batch_1.bin.
        assert_eq!(pixels[..6], [59, 62, 63, 43, 46, 45]);
        assert_eq!(histogram(&split.train).len(), 10);
    }

    #[test]
    fn fashion_begins_as_its_files_do() {
        // Ankle boot, T-shirt, T-shirt, dress, T-shirt; the test set with ankle boot, pullover,
        // trouser, trouser, shirt.
        let split = find("fashion-mnist-small").unwrap().load();
        assert_eq!(labels(&split.train)[..5], [9, 0, 0, 3, 0]);
        assert_eq!(labels(&split.test)[..5], [9, 2, 1, 1, 6]);
        // The first boot begins in row 3: the file's bytes after its header of 16.
        let Inputs::Bytes(pixels) = &split.train.inputs else { panic!() };
        assert!(pixels[..96].iter().all(|pixel| *pixel == 0));
        assert_eq!(pixels[96..105], [1, 0, 0, 13, 73, 0, 0, 1, 4]);
        // Counted in the files themselves.
        let counts = [123, 128, 110, 114, 111, 116, 121, 134, 121, 122];
        assert_eq!(histogram(&split.train), counts);
        assert_eq!(histogram(&split.test), [62, 65, 76, 55, 67, 50, 59, 53, 56, 57]);
    }
}
