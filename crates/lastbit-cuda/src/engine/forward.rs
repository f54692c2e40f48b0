//! Forward passes: raw values, losses, answers.

use lastbit::nn::{Conv, Op};

use super::job::{by_fours, each_by_fours, goes_by_fours};
use super::{Engine, Look};
use crate::device::{DeviceReal, Grid, Job};
use crate::error::Error;
use crate::jobs::{Address, COLUMN_BYTES, ConvJob, FastJob, NormJob, OpJob, PackJob, SumJob, View};
use crate::plane::Plane;

impl<F: DeviceReal> Engine<F> {
    /// Raw values of all layers, and the values of curved activations.
    pub(crate) fn forward(&mut self, images: usize, look: Look) -> Result<(), Error> {
        self.look = look;
        let network = self.network.clone();
        for (l, layer) in network.nodes().iter().enumerate() {
            let numbers = images * layer.len();
            let each = Grid::each(numbers, self.replicas);
            match &layer.op {
                Op::Input => {}
                Op::Conv(conv) => self.forward_conv(conv, l, images, look)?,
                Op::Add if layer.inputs.len() == 2 && goes_by_fours(layer.shape[2]) => {
                    let grid = Grid::each(numbers / 4, self.replicas);
                    let [first, second] = [0, 1].map(|term| self.values(layer.inputs[term]));
                    let job = SumJob { first, second, ..self.sum(l, images) };
                    self.device.launch("sum_forward_fours", grid, &job)?;
                }
                Op::Add => {
                    for (term, &input) in layer.inputs.iter().enumerate() {
                        let job = OpJob { add: i32::from(term > 0), ..self.op(l, input, images) };
                        self.device.launch("add_forward", each, &job)?;
                    }
                }
                Op::Pool(_) => {
                    let job = self.op(l, layer.inputs[0], images);
                    self.device.launch("pool_forward", each, &job)?;
                }
                Op::Subsample { .. } => {
                    let job = self.op(l, layer.inputs[0], images);
                    self.device.launch("subsample_forward", each, &job)?;
                }
                Op::Mean => {
                    let job = self.op(l, layer.inputs[0], images);
                    let grid = Grid::each(32 * images, self.replicas);
                    self.device.launch("mean_forward", grid, &job)?;
                }
            }
            if layer.norm.is_some() {
                let channels = layer.shape[2];
                let fast = self.fast_of(l);
                let job = NormJob {
                    settle: i32::from(look == Look::Learning),
                    ..self.norm(l, images, fast)
                };
                if look == Look::Running {
                    let grid = Grid::each(channels, self.replicas);
                    self.device.launch("norm_running", grid, &job)?;
                } else {
                    // Fast convolutions make the moments of what they write.
                    if fast.is_none() {
                        let grid = Grid::blocks([images, self.replicas, 1], 256);
                        let name = by_fours(channels, ["norm_moments", "norm_moments_fours"]);
                        self.device.launch(name, grid, &job)?;
                    }
                    let grid = Grid::blocks([channels.div_ceil(4), self.replicas, 1], 128);
                    self.device.launch("norm_forward", grid, &job)?;
                }
            }
            if let Some(values) = self.places.values_of(l) {
                self.make_values(l, images, values)?;
            }
        }
        Ok(())
    }

    fn forward_conv(
        &mut self,
        conv: &Conv,
        l: usize,
        images: usize,
        look: Look,
    ) -> Result<(), Error> {
        let layer = &self.network.nodes()[l];
        let [height, width, channels] = layer.shape;
        if let Some(fast) = self.fast_of(l) {
            let with_sums = layer.norm.is_some() && look != Look::Running;
            let pack = self.pack(conv, l);
            self.pack_kernels(&pack)?;
            let input = self.values(self.network.nodes()[l].inputs[0]);
            let job = FastJob {
                bias: match &conv.bias {
                    Some(bias) => self.theta.address() + (bias.start * size_of::<F>()) as u64,
                    None => 0,
                },
                sums: if with_sums { self.places.sums.address() } else { 0 },
                kernels: pack.forward,
                kernels_stride: pack.stride,
                ..self.fast_job(input, self.view(l).z, [height, width, channels], images)
            };
            let grid = fast.grid(images, channels, self.replicas, self.device.room());
            return self.device.launch(fast.forward, grid, &job);
        }
        let job = self.conv(conv, l, images);
        if let Some(plane) = self.plane_of(l) {
            return self.device.launch(plane.forward, Plane::grid(images, self.replicas), &job);
        }
        let input = self.network.nodes()[l].inputs[0];
        let input = self.value_once(input, images, self.places.value.address())?;
        let job = ConvJob { input, ..job };
        let each = Grid::each(conv.weight.len(), self.replicas);
        self.device.launch("conv_pack", each, &job)?;
        let names = ["conv_forward_16", "conv_forward_32", "conv_forward_64"];
        self.multiply(names, [images * height * width, channels], 1, &job)
    }

    /// Launches products of matrices with so many rows and columns, `parts` for each replica: by the kernel
    /// whose blocks fit the columns best.
    pub(super) fn multiply<J: Job>(
        &mut self,
        names: [&'static str; 3],
        [rows, columns]: [usize; 2],
        parts: usize,
        job: &J,
    ) -> Result<(), Error> {
        let (name, tall, wide) = match columns {
            0..=16 => (names[0], 256, 16),
            17..=32 => (names[1], 128, 32),
            _ => (names[2], COLUMN_BYTES / size_of::<F>(), 64),
        };
        let blocks = rows.div_ceil(tall) * columns.div_ceil(wide);
        self.device.launch(name, Grid::blocks([blocks, parts, self.replicas], 256), job)
    }

    /// Puts kernels into the order in which the fast convolutions read them.
    pub(super) fn pack_kernels(&mut self, job: &PackJob) -> Result<(), Error> {
        let each = Grid::each(job.stride as usize, self.replicas);
        self.device.launch("pack_kernels", each, job)
    }

    /// Computes the values of a layer once, for a product whose tiles read each of them many times.
    pub(super) fn value_once(
        &mut self,
        l: usize,
        images: usize,
        to: Address,
    ) -> Result<View, Error> {
        let values = self.values(l);
        if values.is_as_is() { Ok(values) } else { self.make_values(l, images, to) }
    }

    /// Computes the values of a layer.
    fn make_values(&mut self, l: usize, images: usize, to: Address) -> Result<View, Error> {
        let (layer, input) = (&self.network.nodes()[l], self.view(l));
        let output = View { z: to, slot: 0, ..input };
        let (name, at_once) = each_by_fours(layer.shape[2], ["add_forward", "add_forward_fours"]);
        let each = Grid::each(images * layer.len() / at_once, self.replicas);
        let job = OpJob { input, output, ..self.op(l, l, images) };
        self.device.launch(name, each, &job)?;
        Ok(output.as_is())
    }

    /// Losses, answers, and the gradient by the outputs.
    pub(crate) fn measure(&mut self, images: usize) -> Result<(), Error> {
        let job = self.loss(images);
        self.device.launch("loss_examples", Grid::each(images, self.replicas), &job)
    }
}
