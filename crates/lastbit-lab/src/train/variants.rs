//! From the section `replicas` to replicas with names.
//!
//! Each `k` with each combination of seeds, then one replica like the first for each flipped bit
//! and for each permuted order. A name holds what was varied: `k3`, `k3-batch1`,
//! `flip-conv1.weight-0-at0`, `order2`.

use lastbit::nn::Network;
use lastbit::optim::perturbation::Perturbation;
use lastbit::training::{Flip, Variant};

use super::settings::{ConfigFile, FlipBit};
use crate::error::Error;

/// Seeds of one sequence of batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceSeeds {
    /// Of their selection.
    pub batch: u64,
    /// Of crops and mirror images.
    pub augment: u64,
}

/// One replica.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Seed of its first weights.
    pub init: u64,
    /// What makes it differ.
    pub variant: Variant,
}

/// All replicas, and the sequences of batches they see.
#[derive(Debug, Clone, PartialEq)]
pub struct Variants {
    /// Sequences.
    pub sources: Vec<SourceSeeds>,
    /// Replicas; the first is what others are compared with.
    pub named: Vec<Named>,
}

impl Variants {
    /// The place of a replica; a sentence where there is none of this name.
    pub fn position(&self, name: &str) -> Result<usize, String> {
        let place = self.named.iter().position(|named| named.name == name);
        place.ok_or_else(|| format!("no replica is called {name}"))
    }

    /// What replica `i` is, whatever it is called and whichever replicas are beside it.
    pub fn traits(&self, i: usize) -> (u64, SourceSeeds, Variant) {
        let Named { init, variant, .. } = &self.named[i];
        (*init, self.sources[variant.source], Variant { source: 0, ..*variant })
    }
}

/// The replicas of the settings; `steps` is the length of the run.
pub fn of(found: &ConfigFile, network: &Network, steps: usize) -> Result<Variants, Error> {
    let settings = &found.settings.replicas;
    let seeds = &settings.seeds;
    let mut variants = Variants { sources: Vec::new(), named: Vec::new() };
    for init in &seeds.init {
        for batch in &seeds.batch {
            for augment in &seeds.augment {
                let own = SourceSeeds { batch: *batch, augment: *augment };
                let source = variants.sources.iter().position(|known| *known == own);
                let source = source.unwrap_or_else(|| {
                    variants.sources.push(own);
                    variants.sources.len() - 1
                });
                for k in &settings.k {
                    let mut name = format!("k{k}");
                    for (key, list, seed) in [
                        ("init", &seeds.init, init),
                        ("batch", &seeds.batch, batch),
                        ("augment", &seeds.augment, augment),
                    ] {
                        if list.len() > 1 {
                            name += &format!("-{key}{seed}");
                        }
                    }
                    let perturbation = Perturbation { k: *k, form: settings.form };
                    let variant = Variant { source, perturbation, ..Variant::PLAIN };
                    variants.named.push(Named { name, init: *init, variant });
                }
            }
        }
    }
    let first = variants.named[0].clone();
    for bit in &settings.flip_bit {
        let flip = Some(flip(found, network, bit, steps)?);
        let name = format!("flip-{}-{}-at{}", bit.tensor, bit.index, bit.step);
        let variant = Variant { flip, ..first.variant };
        variants.named.push(Named { name, init: first.init, variant });
    }
    for seed in &settings.permute_order {
        let variant = Variant { order: Some(*seed), ..first.variant };
        variants.named.push(Named { name: format!("order{seed}"), init: first.init, variant });
    }
    Ok(variants)
}

fn flip(found: &ConfigFile, network: &Network, bit: &FlipBit, steps: usize) -> Result<Flip, Error> {
    let tensor = network.parameters().iter().find(|parameter| parameter.name == bit.tensor);
    let Some(tensor) = tensor else {
        let names: Vec<&str> = network.parameters().iter().map(|p| p.name.as_str()).collect();
        let expected = format!("one of {}", names.join(", "));
        return Err(found.refuse("replicas.flip-bit.tensor", &bit.tensor, expected));
    };
    let count = tensor.range.len();
    if bit.index >= count {
        let expected = format!("below {count}, the entries of {}", bit.tensor);
        return Err(found.refuse("replicas.flip-bit.index", bit.index, expected));
    }
    if bit.step >= steps {
        let expected = format!("below {steps}, the steps of the run");
        return Err(found.refuse("replicas.flip-bit.step", bit.step, expected));
    }
    Ok(Flip { parameter: tensor.range.start + bit.index, step: bit.step })
}
