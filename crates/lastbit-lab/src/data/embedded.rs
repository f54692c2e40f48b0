//! Small parts of real data sets that are always there, within the program.
//!
//! ```text
//! asset = xz( labels of train and test | images of train and test )
//! ```
//!
//! Images are stored as bytes, or as differences from a guess ([`super::predict`]) where that is
//! smaller: it is for photographs in colour (CIFAR-10), and is not for images on an empty ground, whose
//! zeros xz stores best as they are (Fashion-MNIST: 676 KB, as differences 700 KB). The assets are
//! made from the full data sets by the hidden command `lastbit data embed`.

use std::io::{Read, Write};

use lastbit::data::{Dataset, Inputs, Targets};
use lzma_rust2::{LzmaOptions, XzOptions, XzReader, XzWriter};

use super::Split;
use super::predict::{differences, pixels};
use super::select::select;

/// An embedded data set.
#[derive(Debug, Clone, Copy)]
pub struct Embedded {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// The full data set it is a part of.
    pub part_of: &'static str,
    /// Names of its classes.
    pub classes: &'static [&'static str],
    /// Height, width and channels.
    pub shape: [usize; 3],
    /// Examples to train on and to test on.
    pub sizes: [usize; 2],
    /// Whether the images are stored as differences from a guess.
    predicted: bool,
    /// Content hash.
    pub content_hash: &'static str,
    asset: &'static [u8],
}

/// All that is embedded.
pub const EMBEDDED: [Embedded; 3] = [
    Embedded {
        name: "mnist01",
        title: "all zeros and ones of MNIST",
        part_of: "mnist",
        classes: &["0", "1"],
        shape: [28, 28, 1],
        sizes: [12_665, 2_115],
        predicted: false,
        content_hash: "3694986c172430bff59d879628f484433bfcc4139641e232b0984ddf914bfffb",
        asset: include_bytes!("../../assets/mnist01.xz"),
    },
    Embedded {
        name: "cifar10-small",
        title: "the first 1200 training and 300 test images of CIFAR-10",
        part_of: "cifar10",
        classes: &super::known::KNOWN[2].classes,
        shape: [32, 32, 3],
        sizes: [1_200, 300],
        predicted: true,
        content_hash: "dc3281e340bdfbed7a07a95499da6cb4c94f05c6a611ba1dd75bf7e48fa2f978",
        asset: include_bytes!("../../assets/cifar10-small.xz"),
    },
    Embedded {
        name: "fashion-mnist-small",
        title: "the first 1200 training and 600 test images of Fashion-MNIST",
        part_of: "fashion-mnist",
        classes: &super::known::KNOWN[1].classes,
        shape: [28, 28, 1],
        sizes: [1_200, 600],
        predicted: false,
        content_hash: "fe8f162435b4de84feffd542968710fb67322a230a3434983c3829dc177ed3de",
        asset: include_bytes!("../../assets/fashion-mnist-small.xz"),
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
        XzReader::new(self.asset, false).read_to_end(&mut bytes).expect("the asset is whole");
        let [train, test] = self.sizes;
        let (labels, images) = bytes.split_at(train + test);
        let (train_images, test_images) = images.split_at(train * self.input_len());
        Split {
            train: self.part(&labels[..train], train_images),
            test: self.part(&labels[train..], test_images),
            name: self.name.to_owned(),
            content_hash: self.content_hash.to_owned(),
        }
    }

    fn part(&self, labels: &[u8], images: &[u8]) -> Dataset {
        let image = |stored: &[u8]| {
            if self.predicted { pixels(stored, self.shape) } else { stored.to_vec() }
        };
        Dataset {
            shape: self.shape,
            inputs: Inputs::Bytes(images.chunks(self.input_len()).flat_map(image).collect()),
            targets: Targets::Classes {
                count: self.classes.len(),
                labels: labels.iter().copied().map(u32::from).collect(),
            },
        }
    }

    fn input_len(&self) -> usize {
        self.shape.iter().product()
    }

    /// The part of the full data set that is embedded: its first examples of these classes.
    pub fn of(&self, full: &Split) -> (Dataset, Dataset) {
        let [train, test] = self.sizes;
        (self.first(&full.train, train), self.first(&full.test, test))
    }

    fn first(&self, full: &Dataset, examples: usize) -> Dataset {
        let labels = labels(full);
        let ours = (0..full.len()).filter(|i| (labels[*i] as usize) < self.classes.len());
        let mut part = select(full, &ours.take(examples).collect::<Vec<_>>());
        if let Targets::Classes { count, .. } = &mut part.targets {
            *count = self.classes.len();
        }
        part
    }

    /// The asset that holds this.
    pub fn pack(&self, train: &Dataset, test: &Dataset) -> Vec<u8> {
        let mut options = LzmaOptions::with_preset(9);
        // Nothing is repeated over a longer distance than the data has, and memory is reserved
        // for this much when the asset is read.
        options.dict_size = 16 << 20;
        options.lc = 4;
        options.pb = 0;
        options.nice_len = 273;
        let mut xz_options = XzOptions::with_preset(9);
        xz_options.lzma_options = options;
        let failed = "writing to memory does not fail";
        let mut writer = XzWriter::new(Vec::new(), xz_options).expect(failed);
        for set in [train, test] {
            let labels: Vec<u8> = labels(set).iter().map(|label| *label as u8).collect();
            writer.write_all(&labels).expect(failed);
        }
        for set in [train, test] {
            let Inputs::Bytes(images) = &set.inputs else { panic!("images are bytes") };
            for image in images.chunks(self.input_len()) {
                let stored =
                    if self.predicted { differences(image, self.shape) } else { image.to_vec() };
                writer.write_all(&stored).expect(failed);
            }
        }
        writer.finish().expect(failed)
    }
}

fn labels(set: &Dataset) -> &[u32] {
    match &set.targets {
        Targets::Classes { labels, .. } => labels,
        Targets::Reals { .. } => panic!("images have labels"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::hash::content_hash;

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

    #[test]
    fn packing_and_unpacking_lose_nothing() {
        for set in &EMBEDDED {
            let split = set.load();
            let few: Vec<usize> = (0..20).collect();
            let (train, test) = (select(&split.train, &few), select(&split.test, &few[..7]));
            let asset = set.pack(&train, &test).leak();
            let small = Embedded { sizes: [20, 7], asset, ..*set };
            let back = small.load();
            assert_eq!((back.train, back.test), (train, test), "{}", set.name);
        }
    }
}
