//! References of `op.cu`, for values and tangents alike, and of the sums of two layers in `vec4.cu`.

use super::bound::{Bounded, Sum, exactly};
use super::view::LayerView;
use super::{Kind, Launch};
use crate::kernel_args::{AddArgs, Address, OpArgs, OpTangentArgs};

type Op = fn(&Launch, &OpArgs, &LayerView, &LayerView) -> Vec<Bounded>;

impl Launch {
    /// Writes the result of an op, or adds it to the destination.
    pub fn write_op(&mut self, add: i32, to: Address, stride: u64, values: Vec<Bounded>) {
        let start = self.r * stride as usize;
        let values = self.add_to(if add == 0 { 0 } else { to }, start, values);
        self.write(Kind::Real, to, start, values);
    }

    fn layers(&self, args: &OpArgs) -> [LayerView; 2] {
        [&args.input, &args.output].map(|view| self.layer(view, args.images))
    }

    pub fn forth(&mut self, args: &OpArgs, op: Op) {
        let [input, output] = self.layers(args);
        let values = op(self, args, &input, &output);
        self.write_op(args.add, args.output.z, args.output.stride, values);
    }

    pub fn back(&mut self, args: &OpArgs, op: Op) {
        let [input, output] = self.layers(args);
        let values = op(self, args, &input, &output);
        self.write_op(args.add, args.input.u, args.input.stride, values);
    }

    pub fn forth_tangent(&mut self, args: &OpTangentArgs, op: Op) {
        let OpTangentArgs { op: own, input, output } = args;
        let [_, plain] = self.layers(own);
        let values = op(self, own, &self.layer_tangent(&own.input, input, own.images), &plain);
        self.write_op(own.add, output.z, own.output.stride, values);
    }

    pub fn back_tangent(&mut self, args: &OpTangentArgs, op: Op) {
        let OpTangentArgs { op: own, input, output } = args;
        let [plain, _] = self.layers(own);
        let values = op(self, own, &plain, &self.layer_tangent(&own.output, output, own.images));
        self.write_op(own.add, input.u, own.input.stride, values);
    }

    pub fn copied(&self, _: &OpArgs, input: &LayerView, _: &LayerView) -> Vec<Bounded> {
        input.all(LayerView::forth)
    }

    pub fn copied_back(&self, _: &OpArgs, _: &LayerView, output: &LayerView) -> Vec<Bounded> {
        output.all(LayerView::back)
    }

    /// One over a count, rounded as on the device.
    fn share(&self, count: usize) -> Bounded {
        self.t.round(self.double.round(exactly(1.0 / count as f64)))
    }

    pub fn pooled(&self, args: &OpArgs, input: &LayerView, _: &LayerView) -> Vec<Bounded> {
        let mut results = Vec::new();
        for_each_window(args, |_, window| {
            results.push(if args.is_max != 0 {
                let (best, others) = largest(input, window);
                let value = input.forth(best);
                let off = others.iter().map(|i| (input.forth(*i).x - value.x).abs());
                Bounded { e: value.e + off.fold(0.0, f64::max), ..value }
            } else {
                let sum = Sum::of(window.iter().map(|i| input.forth(*i)));
                self.t.round(sum.rounded(self.t) * self.share(window.len()))
            });
        });
        results
    }

    pub fn pooled_back(
        &self,
        args: &OpArgs,
        input: &LayerView,
        output: &LayerView,
    ) -> Vec<Bounded> {
        let mut sums = vec![Sum::default(); input.z.len()];
        for_each_window(args, |index, window| {
            let d = output.back(index);
            if args.is_max == 0 {
                let part = self.t.round(d * self.share(window.len()));
                window.iter().for_each(|i| sums[*i].add(part));
                return;
            }
            // Where rounding decides which value is largest, the gradient may go to any of them.
            let (best, others) = largest(input, window);
            let doubt = if others.is_empty() { 0.0 } else { d.x.abs() + d.e };
            sums[best].add(Bounded { e: d.e + doubt, ..d });
            others.iter().for_each(|i| sums[*i].add(Bounded { x: 0.0, e: doubt }));
        });
        sums.iter().map(|sum| sum.rounded(self.t)).collect()
    }

    pub fn subsampled(&self, args: &OpArgs, input: &LayerView, _: &LayerView) -> Vec<Bounded> {
        let mut results = Vec::new();
        subsampled_from(args, |from| results.push(from.map_or(Bounded::ZERO, |i| input.forth(i))));
        results
    }

    pub fn subsampled_back(
        &self,
        args: &OpArgs,
        input: &LayerView,
        output: &LayerView,
    ) -> Vec<Bounded> {
        let mut results = vec![Bounded::ZERO; input.z.len()];
        let mut index = 0;
        subsampled_from(args, |from| {
            if let Some(i) = from {
                results[i] = output.back(index);
            }
            index += 1;
        });
        results
    }

    pub fn averaged(&self, args: &OpArgs, input: &LayerView, _: &LayerView) -> Vec<Bounded> {
        let len = Self::numbers(&args.input, 1);
        let mean = |image: usize| {
            let sum = Sum::of((image * len..(image + 1) * len).map(|i| input.forth(i)));
            self.t.round(sum.rounded(self.t) * self.share(len))
        };
        (0..args.images as usize).map(mean).collect()
    }

    pub fn averaged_back(
        &self,
        args: &OpArgs,
        input: &LayerView,
        output: &LayerView,
    ) -> Vec<Bounded> {
        let len = Self::numbers(&args.input, 1);
        let share = self.share(len);
        (0..input.z.len()).map(|i| self.t.round(output.back(i / len) * share)).collect()
    }

    pub fn sum_forward(&mut self, args: &AddArgs) {
        let first = self.layer(&args.first, args.images);
        let second = self.layer(&args.second, args.images);
        let sum = |i: usize| self.t.round(first.value(i) + second.value(i));
        let values = (0..first.z.len()).map(sum).collect();
        self.write(Kind::Real, args.sum.z, self.r * args.sum.stride as usize, values);
    }

    pub fn sum_backward(&mut self, args: &AddArgs) {
        let gradients = self.layer(&args.sum, args.images).all(LayerView::gradient);
        if args.sums != 0 {
            // The first input's gradient is the one that this kernel writes.
            let mut first = self.layer(&args.first, args.images);
            first.u.clone_from(&gradients);
            self.gradient_sums(&first, args.sums, args.images);
        }
        self.write(Kind::Real, args.sum.u, self.r * args.sum.stride as usize, gradients);
    }
}

/// Calls `each(index of the result, window of the input)`, in the order of the results.
fn for_each_window(args: &OpArgs, mut each: impl FnMut(usize, &[usize])) {
    let [height, width, channels] =
        [args.input.height, args.input.width, args.input.channels].map(|n| n as usize);
    let [rows, cols, stride] = [args.rows, args.cols, args.stride].map(|n| n as usize);
    let [out_rows, out_cols] = [args.output.height, args.output.width].map(|n| n as usize);
    for index in 0..args.images as usize * out_rows * out_cols * channels {
        let (c, pixel) = (index % channels, index / channels);
        let (x, y, image) =
            (pixel % out_cols, pixel / out_cols % out_rows, pixel / out_cols / out_rows);
        let at = |i: usize| {
            let (row, col) = (y * stride + i / cols, x * stride + i % cols);
            ((image * height + row) * width + col) * channels + c
        };
        each(index, &(0..rows * cols).map(at).collect::<Vec<_>>());
    }
}

/// Index of the largest value, of equal ones the first; and of all others that may be largest on the
/// device. Exact values, such as the zeros of ReLU, leave no doubt.
fn largest(input: &LayerView, window: &[usize]) -> (usize, Vec<usize>) {
    let values: Vec<Bounded> = window.iter().map(|i| input.value(*i)).collect();
    let mut best = 0;
    for i in 1..window.len() {
        if values[i].x > values[best].x {
            best = i;
        }
    }
    let most = values[best];
    let in_doubt = |i: &usize| {
        let (own, doubt) = (values[*i], values[*i].e + most.e);
        *i != best && doubt > 0.0 && own.x + doubt >= most.x
    };
    (window[best], (0..window.len()).filter(in_doubt).map(|i| window[i]).collect())
}

/// Calls `each(index of the input)` in the order of the results; `None` for added channels of zeros.
fn subsampled_from(args: &OpArgs, mut each: impl FnMut(Option<usize>)) {
    let [height, width, own] =
        [args.input.height, args.input.width, args.input.channels].map(|n| n as usize);
    let [rows, cols, channels] =
        [args.output.height, args.output.width, args.output.channels].map(|n| n as usize);
    let (stride, before) = (args.stride as usize, (channels - own) / 2);
    for index in 0..args.images as usize * rows * cols * channels {
        let (c, pixel) = (index % channels, index / channels);
        let (x, y, image) =
            (pixel % cols * stride, pixel / cols % rows * stride, pixel / cols / rows);
        let is_kept = (before..before + own).contains(&c);
        each(is_kept.then(|| ((image * height + y) * width + x) * own + c - before));
    }
}
