//! Winograd convolutions ([`crate::nn::winograd`]) of layers with many weights.
//!
//! The transformed kernels of such a layer exceed the cache of a core (a mebibyte in `f32` for 128×128 channels), and a weight
//! gradient for each chunk of images would take more memory than the images. So threads divide the channels among
//! themselves, not the images. Outputs and input gradients: images are transformed into patches; each thread
//! transforms the kernels of some channels and multiplies all patches with them; results are copied to where the channels of a
//! pixel lie one after the other. Weight gradients: each thread sums over all images for some output channels.

use std::mem::take;
use std::ops::Range;

use super::backward::{Pass, Turn, add_biases};
use super::dense::{Gathered, scatter};
use super::{Work, grow};
use crate::Real;
use crate::nn::conv::{pack_tiles, pack_tiles_transposed, unpack_tiles};
use crate::nn::geometry::{Geometry, Placement, Tiles};
use crate::nn::kernel::{Pixel, Start};
use crate::nn::network::{Conv, Layer, Network};
use crate::nn::parallel;
use crate::nn::products::{STRIP, panel_group};
use crate::nn::read::{Reading, pixel_sums};
use crate::nn::winograd::{self, Grid, OUTPUTS, PATCH, Patches, Summed, Transform};

/// Tiles whose patches lie in memory at a time, if a group of images has no more.
const TILES: usize = 1024;

/// Patches of many images: parts of a group of images each.
#[derive(Clone, Copy)]
struct Parts<'a, F> {
    values: &'a [F],
    channels: usize,
    /// Tiles of a whole part, and of all.
    part: usize,
    tiles: usize,
}

impl<'a, F: Real> Parts<'a, F> {
    fn count(self) -> usize {
        self.tiles.div_ceil(self.part)
    }

    fn get(self, part: usize) -> Patches<'a, F> {
        let len = part_len::<F>(self.channels, self.part);
        let tiles = self.part.min(self.tiles - part * self.part);
        let values = &self.values[part * len..(part + 1) * len];
        Patches::of(values, self.channels, tiles, self.part.next_multiple_of(STRIP))
    }
}

fn part_len<F: Real>(channels: usize, tiles: usize) -> usize {
    Patches::<F>::len_of(channels, tiles.next_multiple_of(STRIP))
}

/// Which patches: those of a layer's values or gradients, and how they are read.
#[derive(Clone, Copy)]
struct Source<'a> {
    layer: usize,
    place: Placement,
    grid: Grid,
    transform: Transform,
    /// Those of a group of images.
    tiles: &'a [Pixel],
}

/// Images whose patches lie in memory together.
struct Batch<'a> {
    network: &'a Network,
    geometry: &'a Geometry,
    images: Range<usize>,
}

/// Patches times kernels: those of `parameters`.
type Term<'a, F> = (Parts<'a, F>, &'a [F]);

/// Where a convolution writes: a layer, its channels and the tiles of a group of images.
struct Target<'a> {
    layer: &'a Layer,
    tiles: &'a [Pixel],
    /// Images of a group.
    group: usize,
}

impl<F: Real> Work<F> {
    /// Raw values of a layer, or their derivatives along a direction.
    pub(super) fn forward_wide(
        &mut self,
        network: &Network,
        l: usize,
        conv: &Conv,
        theta: &[F],
        direction: Option<&[F]>,
        out: &mut [F],
    ) {
        let mut gathered = take(&mut self.gathered);
        let layer = &network.layers[l];
        let (geometry, tiles) = self.wide(l);
        let source = source_of_inputs(layer.inputs[0], geometry, tiles);
        let target = Target { layer, tiles: &tiles.forward, group: geometry.group };
        let parameters = direction.unwrap_or(theta);
        let start = match &conv.bias {
            Some(bias) => Start::Bias(&parameters[bias.clone()]),
            None => Start::Zero,
        };
        for images in self.images_at_a_time(geometry, tiles) {
            let batch = Batch { network, geometry, images: images.clone() };
            let Gathered { x, x_dot, out: result, .. } = &mut gathered;
            let x = self.patches(&batch, Reading::Value, source, x);
            let mut terms = vec![(x, parameters)];
            if direction.is_some() && source.layer > 0 {
                let x_dot = self.patches(&batch, Reading::ValueDot, source, x_dot);
                terms.push((x_dot, theta));
            }
            let pack = |theta: &[F], outputs, values: &mut [F]| {
                pack_tiles(conv, geometry, theta, outputs, values);
            };
            self.convolve_wide(&terms, start, &target, images.len(), pack, result);
            let out = &mut out[images.start * layer.len()..images.end * layer.len()];
            let len = group_len::<F>(layer, images.len());
            scatter(result, len, layer.shape[2], out, |of, out| out.copy_from_slice(of));
        }
        self.gathered = gathered;
    }

    /// Hands the gradient of a layer to its input, and computes those of its weights and bias.
    #[expect(clippy::too_many_arguments, reason = "a layer, its input and what comes of both")]
    pub(super) fn backward_wide(
        &mut self,
        pass: &Pass<F>,
        l: usize,
        conv: &Conv,
        input: usize,
        turn: Turn,
        u: &mut [F],
        out: &mut [F],
    ) {
        let (mut gathered, mut partials) = (take(&mut self.gathered), take(&mut self.partials));
        let mut bias_sums = take(&mut self.bias_sums);
        let network = pass.network;
        let from = &network.layers[input];
        let (geometry, tiles) = self.wide(l);
        let outputs = geometry.output_channels;
        let inputs = source_of_inputs(input, geometry, tiles);
        let gradients = Source {
            layer: l,
            place: geometry.output,
            grid: geometry.output_grid(),
            transform: Transform::Output,
            tiles: &tiles.outer,
        };
        let to_input =
            Source { transform: Transform::Input, tiles: &tiles.transposed, ..gradients };
        let target = Target { layer: from, tiles: &tiles.transposed, group: geometry.group };
        let sums_len = geometry.block_len() * (outputs / OUTPUTS);
        grow(&mut partials, sums_len);
        partials[..sums_len].fill(F::default());
        let d_reading =
            if pass.direction.is_some() { Reading::GradientDot } else { Reading::Gradient };
        if conv.bias.is_some() {
            grow(&mut bias_sums, self.examples * outputs);
            let sums = &mut bias_sums[..self.examples * outputs];
            self.sums_of_pixels(network, d_reading, gradients, sums);
            add_biases(conv, sums, out);
        }
        for images in self.images_at_a_time(geometry, tiles) {
            let batch = Batch { network, geometry, images: images.clone() };
            let Gathered { x, x_dot, d, d_dot, out: result } = &mut gathered;
            let mut terms = vec![(
                self.patches(&batch, Reading::Value, inputs, x),
                self.patches(&batch, d_reading, gradients, d_dot),
            )];
            if pass.direction.is_some() && input > 0 {
                terms.push((
                    self.patches(&batch, Reading::ValueDot, inputs, x_dot),
                    self.patches(&batch, Reading::Gradient, gradients, d),
                ));
            }
            let summed: Vec<_> = terms
                .iter()
                .flat_map(|(x, d)| (0..x.count()).map(|n| Summed { x: x.get(n), d: d.get(n) }))
                .collect();
            let blocks = [(&mut partials[..sums_len], geometry.block_len())];
            parallel::zipped(blocks, |block, [sums]| {
                winograd::outer(&summed, block * OUTPUTS, sums);
            });
            if input == 0 {
                continue;
            }
            let mut terms = vec![(self.patches(&batch, d_reading, to_input, d_dot), pass.theta)];
            if let Some(v) = pass.direction {
                terms.push((self.patches(&batch, Reading::Gradient, to_input, d), v));
            }
            let pack = |theta: &[F], inputs, values: &mut [F]| {
                pack_tiles_transposed(conv, geometry, theta, inputs, values);
            };
            self.convolve_wide(&terms, Start::Zero, &target, images.len(), pack, result);
            let u = &mut u[images.start * from.len()..images.end * from.len()];
            let (len, channels) = (group_len::<F>(from, images.len()), from.shape[2]);
            if turn.first {
                scatter(result, len, channels, u, |of, u| u.copy_from_slice(of));
            } else {
                scatter(result, len, channels, u, |of, u| {
                    u.iter_mut().zip(of).for_each(|(u, of)| *u += *of);
                });
            }
        }
        let weights = &mut out[conv.weight.clone()];
        let fan_in = weights.len() / outputs;
        let blocks =
            [(&mut partials[..sums_len], geometry.block_len()), (weights, OUTPUTS * fan_in)];
        parallel::zipped(blocks, |_, [sums, weights]| unpack_tiles(geometry, sums, weights));
        self.gathered = gathered;
        self.partials = partials;
        self.bias_sums = bias_sums;
    }

    fn wide(&self, l: usize) -> (&Geometry, &Tiles) {
        let geometry = self.geometries[l].as_ref().expect("a convolution has one");
        (geometry, geometry.tiles.as_ref().expect("a wide layer is computed by patches"))
    }

    /// Ranges of images whose patches lie in memory together: whole groups.
    fn images_at_a_time(
        &self,
        geometry: &Geometry,
        tiles: &Tiles,
    ) -> impl Iterator<Item = Range<usize>> + use<F> {
        let step = geometry.group * (TILES / tiles.forward.len()).max(1);
        let examples = self.examples;
        (0..examples).step_by(step).map(move |first| first..examples.min(first + step))
    }

    /// Reads images, and transforms them into patches.
    fn patches<'a>(
        &self,
        batch: &Batch,
        reading: Reading,
        source: Source,
        values: &'a mut Vec<F>,
    ) -> Parts<'a, F> {
        let Batch { network, geometry, images } = batch;
        let Source { layer, place, grid, transform, tiles } = source;
        let (group, part) = (geometry.group, tiles.len());
        let (len, room) = (part_len::<F>(grid.channels, part), part.next_multiple_of(STRIP));
        let count = images.len().div_ceil(group);
        grow(values, count * len);
        parallel::zipped([(&mut values[..count * len], len)], |index, [values]| {
            let first = images.start + index * group;
            let images = first..images.end.min(first + group);
            self.scratch.lend(|scratch| {
                scratch.x.prepare(group, place);
                let read = scratch.x.images(images.len(), place);
                self.read(network, reading, layer, &images, place, read);
                let tiles = geometry.part(tiles, images.len());
                Patches::gather(transform, read, grid, tiles, room, values);
            });
        });
        let tiles = part / group * images.len();
        Parts { values: &values[..count * len], channels: grid.channels, part, tiles }
    }

    /// Sums of a layer's gradient over the pixels of each image.
    fn sums_of_pixels(&self, network: &Network, reading: Reading, source: Source, sums: &mut [F]) {
        let Source { layer, place, grid: Grid { channels, .. }, .. } = source;
        parallel::zipped([(sums, self.chunk * channels)], |index, [sums]| {
            self.scratch.lend(|scratch| {
                scratch.x.prepare(1, place);
                for (image, sums) in sums.chunks_exact_mut(channels).enumerate() {
                    let image = index * self.chunk + image;
                    let read = scratch.x.images(1, place);
                    self.read(network, reading, layer, &(image..image + 1), place, read);
                    pixel_sums(channels, place, read, &mut scratch.rows, sums);
                }
            });
        });
    }

    /// `result = start + Σ patches · kernels` over the terms: group of panels after group, all pixels of each.
    fn convolve_wide(
        &self,
        terms: &[Term<F>],
        start: Start<F>,
        target: &Target,
        images: usize,
        pack: impl Fn(&[F], Range<usize>, &mut [F]) + Sync,
        result: &mut Vec<F>,
    ) {
        let group = panel_group::<F>();
        let [rows, cols, columns] = target.layer.shape;
        let len = group_len::<F>(target.layer, images);
        let groups = columns.div_ceil(group);
        let to = Grid { stride: cols * group, channels: group };
        let tiles: Vec<_> = target
            .tiles
            .iter()
            .map(|tile| Pixel { to: tile.to / columns * group, ..*tile })
            .collect();
        let kernel_rows = PATCH * terms[0].0.channels;
        grow(result, groups * len);
        parallel::zipped([(&mut result[..groups * len], len)], |index, [result]| {
            let channels = index * group..columns.min((index + 1) * group);
            let start = match start {
                Start::Bias(bias) => Start::Bias(&bias[channels.clone()]),
                other => other,
            };
            self.scratch.lend(|scratch| {
                let (kernels, sums) = scratch.work.split(kernel_rows * channels.len(), terms.len());
                let kernels: Vec<&[F]> = kernels
                    .zip(terms)
                    .map(|(kernels, (_, parameters))| {
                        pack(parameters, channels.clone(), kernels);
                        &*kernels
                    })
                    .collect();
                let part = target.group * rows * cols * group;
                for (part, out) in result.chunks_mut(part).enumerate() {
                    let terms: Vec<_> = terms
                        .iter()
                        .zip(&kernels)
                        .map(|((parts, _), kernels)| (parts.get(part), *kernels))
                        .collect();
                    let tiles = &tiles[..terms[0].0.shape.rows];
                    winograd::multiply(&terms, tiles, start, out, to, sums);
                }
            });
        });
    }
}

fn source_of_inputs<'a>(layer: usize, geometry: &Geometry, tiles: &'a Tiles) -> Source<'a> {
    Source {
        layer,
        place: geometry.input,
        grid: geometry.input_grid(),
        transform: Transform::Input,
        tiles: &tiles.forward,
    }
}

/// Numbers of a group of panels for so many images of a layer.
fn group_len<F: Real>(layer: &Layer, images: usize) -> usize {
    images * layer.shape[0] * layer.shape[1] * panel_group::<F>()
}
