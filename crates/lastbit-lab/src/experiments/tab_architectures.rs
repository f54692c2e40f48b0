//! # Other networks and data sets show the same effect
//!
//! ## Claim
//! Rounding changes test accuracy as much as the batches do, for VGG-16 as for residual networks,
//! and on Fashion-MNIST as on CIFAR-10.
//!
//! ## Method
//! The table of tab-swish for three more combinations: VGG-16 with batch norm on Fashion-MNIST and
//! on CIFAR-10, and the residual network on Fashion-MNIST. VGG halves its images five times, so
//! images of 28 x 28 are padded with two zero pixels per side.
//!
//! ## Reference
//! The paper, Section 4.2 and Appendix C, table on the right.
//!
//! ## Differences
//! - desk: ResNet-8 and a VGG-16 with 8 to 64 channels (instead of 64 to 512) on the embedded
//!   images (1200 for training; 300 of CIFAR-10 or 600 of Fashion-MNIST for testing), three seeds,
//!   otherwise the settings of tab-relu at this scale.
//! - smoke: 48 images, 9 steps, two seeds, three values of `k`.
//! - The paper does not say how Fashion-MNIST was normalized and enlarged. Ours is normalized by
//!   its own mean and standard deviation and padded with zeros, and is cropped and flipped like
//!   CIFAR-10.

use super::Exhibit;
use super::perturbed::grid::{Grid, TOO_SHORT};
use super::perturbed::paper::{Printed, Summary};
use super::perturbed::training_plan;
use crate::record::Scale;

pub const EXHIBIT: Exhibit = Exhibit {
    id: ID,
    source: include_str!("tab_architectures.rs"),
    plan: |scale| {
        training_plan(ID, scale, GRIDS.iter().flat_map(|grid| grid.cells(scale)).collect())
    },
    not_tested_at_smoke: Some(TOO_SHORT),
    checks: |record| GRIDS.iter().flat_map(|grid| grid.checks(record)).collect(),
    figures: |record| GRIDS.iter().flat_map(|grid| grid.figures(record)).collect(),
    shows_parts: true,
    ..Exhibit::EMPTY
};

const ID: &str = "tab-architectures";

/// VGG-16 on Fashion-MNIST, on CIFAR-10, and the residual network on Fashion-MNIST.
pub const GRIDS: [Grid; 3] = [
    Grid {
        id: ID,
        prefix: "vgg-fashion-",
        title: "VGG-16 on Fashion-MNIST",
        changes: |scale| vec![vgg(scale), fashion(scale), "data.border=2"],
        desk_seeds: 3,
        paper: printed(94.81, 0.09, 0.10),
    },
    Grid {
        id: ID,
        prefix: "vgg-cifar-",
        title: "VGG-16 on CIFAR-10",
        changes: |scale| vec![vgg(scale)],
        desk_seeds: 3,
        paper: printed(93.76, 0.13, 0.09),
    },
    Grid {
        id: ID,
        prefix: "resnet-fashion-",
        title: "ResNet on Fashion-MNIST",
        changes: |scale| vec!["network.activation={ swish = 1.0 }", fashion(scale)],
        desk_seeds: 3,
        paper: printed(94.81, 0.12, 0.10),
    },
];

const fn printed(mean: f64, std_over_k: f64, std_over_seeds: f64) -> Printed {
    Printed::Summary(Summary { mean, std_over_k, std_over_seeds })
}

fn vgg(scale: Scale) -> &'static str {
    match scale {
        Scale::Smoke | Scale::Desk => {
            "network={ kind = \"vgg\", depth = 16, width = 8, activation = { swish = 1.0 } }"
        }
        Scale::Paper => "network={ kind = \"vgg\", depth = 16, activation = { swish = 1.0 } }",
    }
}

fn fashion(scale: Scale) -> &'static str {
    match scale {
        Scale::Smoke => {
            "data={ name = \"fashion-mnist-small\", augment = { padding = 4, flip = true }, \
             limit = 96, test-limit = 60 }"
        }
        Scale::Desk => {
            "data={ name = \"fashion-mnist-small\", augment = { padding = 4, flip = true } }"
        }
        Scale::Paper => "data={ name = \"fashion-mnist\", augment = { padding = 4, flip = true } }",
    }
}
