//! References of `conv3x3.cu` and `weights3x3.cu`: 3x3 convolutions between images of 32x32, 16x16 and 8x8.

use super::bound::{Bounded, exactly};
use super::conv::{Shape, exact, shape};
use super::view::LayerView;
use super::{Kind, Launch};
use crate::kernel_args::{Conv3x3Args, PackArgs, Weights3x3Args};

impl Launch {
    /// Index of the weight (row `k`, column `n`) of a tap among rows × columns: row by row, or for tensor
    /// cores in blocks of 8 rows and 16 columns, in the order of a warp's lanes.
    fn index_of_weight(
        &self,
        tap: usize,
        k: usize,
        n: usize,
        rows: usize,
        columns: usize,
    ) -> usize {
        if !self.tensor {
            return (tap * rows + k) * columns + n;
        }
        let (lane, number) = (n % 8 * 4 + k % 4, n % 16 / 8 * 2 + k % 8 / 4);
        let block = (tap * (rows / 8) + k / 8) * (columns / 16) + n / 16;
        (block * 32 + lane) * 4 + number
    }

    pub fn pack_kernels(&mut self, args: &PackArgs) {
        for layer in &args.layers[..self.grid.blocks[2] as usize] {
            let [ci, co, rows] = [layer.inputs, layer.outputs, layer.rows].map(|n| n as usize);
            let start = self.r * args.parameters as usize + layer.weight as usize;
            let w = self.memory.reals(args.theta, start, co * ci * 9);
            let mut both = [vec![Bounded::ZERO; 9 * rows * co], vec![Bounded::ZERO; 9 * rows * co]];
            for (i, w) in w.iter().enumerate() {
                let (tap, from, to) = (i % 9, i / 9 % ci, i / 9 / ci);
                let w = self.factor(exactly(*w));
                both[0][self.index_of_weight(tap, from, to, rows, co)] = w;
                both[1][self.index_of_weight(8 - tap, to, from, co, rows)] = w;
            }
            let [forward, backward] = both;
            self.write(Kind::Real, layer.forward, self.r * layer.stride as usize, forward);
            self.write(Kind::Real, layer.backward, self.r * layer.stride as usize, backward);
        }
    }

    /// Packed weights in the order of the parameters, `[co][ci][tap]`, without padding.
    fn unpacked(&self, args: &Conv3x3Args, ci: usize, co: usize, back: bool) -> Vec<Bounded> {
        let rows = if back { ci } else { ci.next_multiple_of(16) };
        let start = self.r * args.kernels_stride as usize;
        let packed = self.memory.reals(args.kernels, start, 9 * rows * co);
        let weight = |i: usize| {
            let (tap, from, to) = (i % 9, i / 9 % ci, i / 9 / ci);
            let at = match back {
                false => self.index_of_weight(tap, from, to, rows, co),
                true => self.index_of_weight(8 - tap, to, from, co, rows),
            };
            exactly(packed[at])
        };
        (0..9 * ci * co).map(weight).collect()
    }

    /// The factors that a kernel reads from a layer, rounded for tensor cores.
    fn factors_of(
        &self,
        layer: &LayerView,
        read: impl Fn(&LayerView, usize) -> Bounded,
    ) -> Vec<Bounded> {
        layer.all(read).into_iter().map(|x| self.factor(x)).collect()
    }

    pub fn conv3x3_forward(&mut self, args: &Conv3x3Args, stride: usize) {
        let [height, width, ci] = shape(&args.from);
        let to = [height / stride, width / stride, args.channels as usize];
        let shape = Shape::three_by_three(args.images, [height, width, ci], to);
        let values = self.factors_of(&self.layer(&args.from, args.images), LayerView::value);
        let w = self.unpacked(args, ci, to[2], false);
        let bias = exact(&self.reals_if(args.bias, self.r * args.bias_stride as usize, to[2]));
        let bias = (!bias.is_empty()).then_some(&bias[..]);
        let start = self.r * args.result_stride as usize;
        let results = self.forward_sums(&shape, bias, &[(values, w)]);
        let results = self.add_to(args.added, start, results);
        if args.sums != 0 {
            // Moments of the parts of a result: 16 rows of an image, or two images of 8x8. They are
            // computed from the numbers that are written, hence with their errors.
            let pixels = if to[0] == 8 { 128 } else { 16 * to[1] };
            let parts = results.chunks(pixels * to[2]);
            let all: Vec<_> = parts.flat_map(|part| self.moments_of(part, to[2])).collect();
            self.write(Kind::Real, args.sums, self.r * all.len(), all);
        }
        self.write(Kind::Real, args.result, start, results);
    }

    pub fn conv3x3_data(&mut self, args: &Conv3x3Args, stride: usize) {
        let [height, width, co] = shape(&args.from);
        let from = [height * stride, width * stride, args.channels as usize];
        let shape = Shape::three_by_three(args.images, from, [height, width, co]);
        let gradients = self.factors_of(&self.layer(&args.from, args.images), LayerView::gradient);
        let w = self.unpacked(args, from[2], co, true);
        let results = self.data_sums(&shape, &[(gradients, w)]);
        let start = self.r * args.result_stride as usize;
        let results = self.add_to(args.added, start, results);
        self.write(Kind::Real, args.result, start, results);
    }

    pub fn weights3x3(&mut self, args: &Weights3x3Args) {
        let (from, to) = (shape(&args.input), shape(&args.output));
        let shape = Shape::three_by_three(args.images, from, to);
        let (each, rows) = (args.images_per_chunk as usize, args.rows as usize);
        let values = self.factors_of(&self.layer(&args.input, args.images), LayerView::value);
        let output = self.layer(&args.output, args.images);
        let terms = [(values, self.factors_of(&output, LayerView::gradient))];
        // The partial sums may have more chunks than this launch writes.
        let chunks = 0..self.grid.blocks[1] as usize;
        let sums = |chunk| self.weight_sums(&shape, shape.chunk(chunk, each), rows, &terms);
        let all = chunks.flat_map(sums).collect();
        let start = self.r * args.chunks as usize * 9 * rows * to[2];
        self.write(Kind::Real, args.partials, start, all);
    }
}
