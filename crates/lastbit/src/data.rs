//! Examples in memory: inputs with their labels or target values.
//!
//! Inputs are example-major, then row, column, channel (NHWC); vectors are images of one pixel with
//! as many channels as they have components. Bytes stay bytes until a batch is formed, so that a
//! data set takes no more memory than its file.

/// A set of examples.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Height, width and channels of one input.
    pub shape: [usize; 3],
    /// All inputs, one after the other.
    pub inputs: Inputs,
    /// What belongs to each.
    pub targets: Targets,
}

/// The numbers of the inputs.
#[derive(Debug, Clone, PartialEq)]
pub enum Inputs {
    /// Pixels of 0 to 255; they mean `byte/255`.
    Bytes(Vec<u8>),
    /// Numbers as they are.
    Reals(Vec<f64>),
}

/// What a network is to answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Targets {
    /// One class per example.
    Classes {
        /// Number of classes; every label is below it.
        count: usize,
        /// The classes.
        labels: Vec<u32>,
    },
    /// `width` numbers per example.
    Reals {
        /// Numbers per example.
        width: usize,
        /// All of them.
        values: Vec<f64>,
    },
}

impl Dataset {
    /// Number of examples.
    pub fn len(&self) -> usize {
        match &self.targets {
            Targets::Classes { labels, .. } => labels.len(),
            Targets::Reals { width, values } => values.len() / width,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Numbers in one input.
    pub fn input_len(&self) -> usize {
        self.shape.iter().product()
    }
}
