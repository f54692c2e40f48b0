//! Speed of the PDE steps: 1-D beside loops vectorized by hand, 2-D beside a copy of its fields.
//!
//! ```text
//! cargo bench -p lastbit --bench pde
//! ```
//!
//! The hand-vectorized loops use explicit vectors through pulp, whose interface is safe (the
//! workspace forbids unsafe code, benches included), at both widths of the machine; the faster of
//! the two counts. They do the same operations in the same order, and before anything is timed
//! their bits are compared with ours.

mod rounds;

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Duration;

use lastbit::pde::beltrami::Beltrami;
use lastbit::pde::beltrami_1d::Beltrami1d;
use lastbit::pde::beltrami_2d::Beltrami2d;
use lastbit::pde::heat::{Ends, Heat};
use lastbit::signal::{blocks_and_ramp, shapes};
use lastbit::{Dynamics, Real, hash_of_bits};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;
use rounds::{Rounds, Side};

/// Fields within the first or second level of cache, and beyond it: in the third or in memory.
const LENGTHS: [usize; 2] = [4096, 1 << 20];
/// Images of this many rows and columns.
const SIDES: [usize; 2] = [1024, 2048];
const THREADS: [usize; 2] = [1, 2];
/// Time given to one row of the table.
const ROW_TIME: Duration = Duration::from_millis(1500);

// --- Explicit vectors ---------------------------------------------------------------------------

/// Explicit vectors of a float type, so that a kernel is written once for both precisions.
trait Lanes: Real {
    type Wide<S: Simd>: Copy;
    fn spread<S: Simd>(simd: S, value: Self) -> Self::Wide<S>;
    fn sum_of<S: Simd>(simd: S, a: Self::Wide<S>, b: Self::Wide<S>) -> Self::Wide<S>;
    fn difference<S: Simd>(simd: S, a: Self::Wide<S>, b: Self::Wide<S>) -> Self::Wide<S>;
    fn times<S: Simd>(simd: S, a: Self::Wide<S>, b: Self::Wide<S>) -> Self::Wide<S>;
    fn over<S: Simd>(simd: S, a: Self::Wide<S>, b: Self::Wide<S>) -> Self::Wide<S>;
    fn root<S: Simd>(simd: S, a: Self::Wide<S>) -> Self::Wide<S>;
    /// Whole vectors, at any alignment, and the rest.
    fn split<S: Simd>(slice: &[Self]) -> (&[Self::Wide<S>], &[Self]);
    fn split_mut<S: Simd>(slice: &mut [Self]) -> (&mut [Self::Wide<S>], &mut [Self]);
}

macro_rules! lanes {
    ($float:ident $vector:ident $splat:ident $add:ident $sub:ident $mul:ident $div:ident
     $root:ident $split:ident $split_mut:ident) => {
        impl Lanes for $float {
            type Wide<S: Simd> = S::$vector;

            #[inline(always)]
            fn spread<S: Simd>(simd: S, value: Self) -> S::$vector {
                simd.$splat(value)
            }

            #[inline(always)]
            fn sum_of<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$add(a, b)
            }

            #[inline(always)]
            fn difference<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$sub(a, b)
            }

            #[inline(always)]
            fn times<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$mul(a, b)
            }

            #[inline(always)]
            fn over<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$div(a, b)
            }

            #[inline(always)]
            fn root<S: Simd>(simd: S, a: S::$vector) -> S::$vector {
                simd.$root(a)
            }

            #[inline(always)]
            fn split<S: Simd>(slice: &[Self]) -> (&[S::$vector], &[Self]) {
                S::$split(slice)
            }

            #[inline(always)]
            fn split_mut<S: Simd>(slice: &mut [Self]) -> (&mut [S::$vector], &mut [Self]) {
                S::$split_mut(slice)
            }
        }
    };
}

lanes! {
    f64 f64s splat_f64s add_f64s sub_f64s mul_f64s div_f64s sqrt_f64s as_simd_f64s as_mut_simd_f64s
}
lanes! {
    f32 f32s splat_f32s add_f32s sub_f32s mul_f32s div_f32s sqrt_f32s as_simd_f32s as_mut_simd_f32s
}

/// The instruction sets to compare with.
#[derive(Clone, Copy)]
enum Width {
    #[cfg(target_arch = "x86_64")]
    Avx2(pulp::x86::V3),
    #[cfg(target_arch = "x86_64")]
    Avx512(pulp::x86::V4),
    /// The best that pulp knows elsewhere.
    Native(pulp::Arch),
}

impl Width {
    fn all() -> Vec<Self> {
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            found.extend(pulp::x86::V3::try_new().map(Self::Avx2));
            found.extend(pulp::x86::V4::try_new().map(Self::Avx512));
        }
        if found.is_empty() {
            found.push(Self::Native(pulp::Arch::new()));
        }
        found
    }

    fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "AVX-512",
            Self::Native(_) => "native",
        }
    }

    fn run<K: WithSimd>(self, kernel: K) -> K::Output {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(simd) => Simd::vectorize(simd, kernel),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(simd) => Simd::vectorize(simd, kernel),
            Self::Native(arch) => arch.dispatch(kernel),
        }
    }
}

// --- The schemes by hand ------------------------------------------------------------------------

/// One side of a comparison: something that steps and has a state.
trait Stepper<F> {
    fn step(&mut self);
    fn state(&self) -> &[F];
}

impl<D: Dynamics<Error = Infallible>> Stepper<D::Scalar> for D {
    fn step(&mut self) {
        Dynamics::step(self);
    }

    fn state(&self) -> &[D::Scalar] {
        Dynamics::state(self)
    }
}

/// Heat with no flux through the ends: three unaligned loads and one store per vector.
struct HandHeat<F> {
    width: Width,
    r: F,
    new: Vec<F>,
    old: Vec<F>,
}

struct HeatKernel<'a, F> {
    r: F,
    new: &'a mut [F],
    old: &'a [F],
}

impl<F: Lanes> WithSimd for HeatKernel<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { r, new, old } = self;
        let last = old.len() - 1;
        let scalar = |left: F, here: F, right: F| here + r * ((right - here) - (here - left));
        let all_r = F::spread(simd, r);
        let (outs, out_rest) = F::split_mut::<S>(&mut new[1..last]);
        let (lefts, left_rest) = F::split::<S>(&old[..last - 1]);
        let (heres, here_rest) = F::split::<S>(&old[1..last]);
        let (rights, right_rest) = F::split::<S>(&old[2..]);
        for (((out, &left), &here), &right) in outs.iter_mut().zip(lefts).zip(heres).zip(rights) {
            let bend = F::difference(
                simd,
                F::difference(simd, right, here),
                F::difference(simd, here, left),
            );
            *out = F::sum_of(simd, here, F::times(simd, all_r, bend));
        }
        for (((out, &left), &here), &right) in
            out_rest.iter_mut().zip(left_rest).zip(here_rest).zip(right_rest)
        {
            *out = scalar(left, here, right);
        }
        new[0] = scalar(old[0], old[0], old[1]);
        new[last] = scalar(old[last - 1], old[last], old[last]);
    }
}

impl<F: Lanes> Stepper<F> for HandHeat<F> {
    fn step(&mut self) {
        std::mem::swap(&mut self.new, &mut self.old);
        self.width.run(HeatKernel { r: self.r, new: &mut self.new, old: &self.old });
    }

    fn state(&self) -> &[F] {
        &self.new
    }
}

/// Points whose fluxes are kept at a time, so that they never leave the first-level cache.
const TILE: usize = 768;

/// Beltrami of a signal: per tile, fluxes into a buffer, then the update in place.
struct HandBeltrami<F> {
    width: Width,
    constants: Constants<F>,
    u: Vec<F>,
    signal: Vec<F>,
    flux: Vec<F>,
}

#[derive(Clone, Copy)]
struct Constants<F> {
    dt: F,
    per_dx: F,
    delta_squared: F,
    lambda: F,
}

struct BeltramiKernel<'a, F> {
    constants: Constants<F>,
    u: &'a mut [F],
    signal: &'a [F],
    flux: &'a mut [F],
}

impl<F: Lanes> WithSimd for BeltramiKernel<'_, F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { constants, u, signal, flux } = self;
        let mut start = 0;
        // flux[0] is the one left of the tile, computed by the tile before it.
        flux[0] = F::default();
        while start < u.len() {
            let points = TILE.min(u.len() - start);
            let inner = points.min(u.len() - 1 - start);
            fluxes(simd, constants, &u[start..=start + inner], &mut flux[1..=inner]);
            if inner < points {
                flux[points] = F::default();
            }
            let (u, data) = (&mut u[start..][..points], &signal[start..][..points]);
            update(simd, constants, u, data, &flux[..=points]);
            flux[0] = flux[points];
            start += points;
        }
    }
}

#[inline(always)]
fn fluxes<F: Lanes, S: Simd>(simd: S, constants: Constants<F>, u: &[F], flux: &mut [F]) {
    let Constants { per_dx, delta_squared, .. } = constants;
    let (all_per_dx, all_delta) = (F::spread(simd, per_dx), F::spread(simd, delta_squared));
    let (outs, out_rest) = F::split_mut::<S>(flux);
    let (heres, here_rest) = F::split::<S>(&u[..u.len() - 1]);
    let (rights, right_rest) = F::split::<S>(&u[1..]);
    for ((out, &here), &right) in outs.iter_mut().zip(heres).zip(rights) {
        let p = F::times(simd, F::difference(simd, right, here), all_per_dx);
        let square = F::sum_of(simd, F::times(simd, p, p), all_delta);
        *out = F::over(simd, p, F::root(simd, square));
    }
    for ((out, &here), &right) in out_rest.iter_mut().zip(here_rest).zip(right_rest) {
        let p = (right - here) * per_dx;
        *out = p / (p * p + delta_squared).sqrt();
    }
}

#[inline(always)]
fn update<F: Lanes, S: Simd>(
    simd: S,
    constants: Constants<F>,
    u: &mut [F],
    data: &[F],
    flux: &[F],
) {
    let Constants { dt, per_dx, lambda, .. } = constants;
    let [all_dt, all_per_dx, all_lambda] = [dt, per_dx, lambda].map(|c| F::spread(simd, c));
    let points = u.len();
    let (outs, out_rest) = F::split_mut::<S>(u);
    let (datas, data_rest) = F::split::<S>(data);
    let (lefts, left_rest) = F::split::<S>(&flux[..points]);
    let (rights, right_rest) = F::split::<S>(&flux[1..]);
    for (((u, &data), &left), &right) in outs.iter_mut().zip(datas).zip(lefts).zip(rights) {
        let divergence = F::times(simd, F::difference(simd, right, left), all_per_dx);
        let pull = F::times(simd, all_lambda, F::difference(simd, data, *u));
        *u = F::sum_of(simd, *u, F::times(simd, all_dt, F::sum_of(simd, divergence, pull)));
    }
    for (((u, &data), &left), &right) in
        out_rest.iter_mut().zip(data_rest).zip(left_rest).zip(right_rest)
    {
        *u += dt * ((right - left) * per_dx + lambda * (data - *u));
    }
}

impl<F: Lanes> Stepper<F> for HandBeltrami<F> {
    fn step(&mut self) {
        let Self { width, constants, u, signal, flux } = self;
        width.run(BeltramiKernel { constants: *constants, u, signal, flux });
    }

    fn state(&self) -> &[F] {
        &self.u
    }
}

// --- The pairs to compare -----------------------------------------------------------------------

/// Ours and every hand-vectorized twin, with equal state.
struct Contest<F> {
    scheme: &'static str,
    /// Fields that a step must read or write at least once.
    fields: usize,
    ours: Box<dyn Stepper<F>>,
    by_hand: Vec<(Width, Box<dyn Stepper<F>>)>,
}

impl<F: Lanes> Contest<F> {
    /// Panics unless all sides have the same bits after a few steps.
    fn checked(mut self) -> Self {
        for _ in 0..5 {
            self.ours.step();
            self.by_hand.iter_mut().for_each(|(_, twin)| twin.step());
        }
        let expected = hash_of_bits(self.ours.state());
        for (width, twin) in &self.by_hand {
            let found = hash_of_bits(twin.state());
            assert_eq!(found, expected, "{} by hand, {}, {}", self.scheme, width.name(), F::NAME);
        }
        self
    }
}

fn rounded<F: Real>(values: Vec<f64>) -> Vec<F> {
    values.into_iter().map(F::of).collect()
}

/// The paper's setting at 0.9 of the sharp step size, where the signal stays of order 1.
fn parameters(dimensions: usize) -> Beltrami {
    let unit = Beltrami { dt: 1.0, dx: 1.0, delta: 0.01, lambda: 1.0 };
    Beltrami { dt: 0.9 * unit.dt_sharp(dimensions), ..unit }
}

fn heat<F: Lanes>(n: usize) -> Contest<F> {
    let start = rounded::<F>(blocks_and_ramp(n, 0.05, 1));
    let by_hand = |width| {
        let twin = HandHeat { width, r: F::of(0.4), new: start.clone(), old: start.clone() };
        (width, Box::new(twin) as Box<dyn Stepper<F>>)
    };
    Contest {
        scheme: "heat",
        fields: 2,
        by_hand: Width::all().into_iter().map(by_hand).collect(),
        ours: Box::new(Heat::new(0.4, 1.0, 1.0, Ends::Neumann, start)),
    }
    .checked()
}

fn beltrami<F: Lanes>(n: usize) -> Contest<F> {
    let signal = rounded::<F>(blocks_and_ramp(n, 0.05, 1));
    let Beltrami { dt, dx, delta, lambda } = parameters(1);
    let constants = Constants {
        dt: F::of(dt),
        per_dx: F::of(1.0 / dx),
        delta_squared: F::of(delta) * F::of(delta),
        lambda: F::of(lambda),
    };
    let by_hand = |width| {
        let (u, flux) = (signal.clone(), vec![F::default(); TILE + 1]);
        let twin = HandBeltrami { width, constants, u, signal: signal.clone(), flux };
        (width, Box::new(twin) as Box<dyn Stepper<F>>)
    };
    Contest {
        scheme: "Beltrami 1-D",
        fields: 3,
        by_hand: Width::all().into_iter().map(by_hand).collect(),
        ours: Box::new(Beltrami1d::new(parameters(1), signal)),
    }
    .checked()
}

fn image<F: Real>(side: usize) -> Beltrami2d<F> {
    Beltrami2d::new(parameters(2), side, side, rounded(shapes(side, side, 0.05, 1)))
}

/// The fields of a scheme and room for their copies: one of heat, `u` and the data of Beltrami.
/// Copying two fields moves four through memory, a step of Beltrami at least three: it reads both
/// and writes `u`.
struct FieldCopy<F> {
    from: Vec<Vec<F>>,
    to: Vec<Vec<F>>,
    /// Elements handed to a thread at once.
    band: usize,
}

impl<F: Real> FieldCopy<F> {
    /// Copies of `field`, `count` of them, in rows of `width`.
    fn new(field: &[F], count: usize, width: usize) -> Self {
        let fields = || (0..count).map(|_| field.to_vec()).collect();
        // As in the step: whole rows of at least 2^15 pixels.
        let band = (1_usize << 15).div_ceil(width) * width;
        Self { from: fields(), to: fields(), band }
    }

    /// Bytes read and written.
    fn bytes(&self) -> f64 {
        (2 * self.from.len() * size_of_val(&self.from[0][..])) as f64
    }

    fn run(&mut self) {
        for (from, to) in self.from.iter().zip(&mut self.to) {
            if rayon::current_num_threads() == 1 {
                to.copy_from_slice(from);
            } else {
                to.par_chunks_mut(self.band)
                    .zip(from.par_chunks(self.band))
                    .for_each(|(to, from)| to.copy_from_slice(from));
            }
            black_box(to);
        }
    }
}

// --- Tables -------------------------------------------------------------------------------------

fn main() {
    println!(
        "\n| 1-D | points | precision | ours, steps/s | by hand, steps/s | width \
         | ours / by hand | GB/s | of copy |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    rows_1d::<f64>();
    rows_1d::<f32>();
    println!(
        "\n| 2-D | pixels | precision | threads | steps/s | step / copy time | GB/s | of copy |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    rows_2d::<f64>();
    rows_2d::<f32>();
    println!(
        "\nRatios are medians within rounds. GB/s counts every field a step must read or write \
         once (heat 2, Beltrami 3); \"of copy\" is the share of the rate at which a copy of the \
         scheme's fields (heat 1, Beltrami 2) moves its bytes."
    );
}

fn rows_1d<F: Lanes>() {
    for make in [heat::<F>, beltrami::<F>] {
        for n in LENGTHS {
            let Contest { scheme, fields, mut ours, mut by_hand } = make(n);
            let mut copy = FieldCopy::new(ours.state(), fields - 1, n);
            let copied = copy.bytes();
            let rounds = {
                let mut turns: Vec<Side> = vec![Box::new(|| ours.step())];
                for (_, twin) in &mut by_hand {
                    turns.push(Box::new(|| twin.step()));
                }
                turns.push(Box::new(|| copy.run()));
                Rounds::of(&mut turns, ROW_TIME)
            };
            let best = (1..=by_hand.len())
                .min_by(|&a, &b| rounds.seconds(a).total_cmp(&rounds.seconds(b)))
                .expect("at least one width");
            println!(
                "| {scheme} | {n} | {} | {:.0} | {:.0} | {} | {:.2} | {} |",
                F::NAME,
                1.0 / rounds.seconds(0),
                1.0 / rounds.seconds(best),
                by_hand[best - 1].0.name(),
                rounds.ratio(best, 0),
                traffic::<F>(&rounds, fields, n, copied, by_hand.len() + 1),
            );
        }
    }
}

fn rows_2d<F: Lanes>() {
    for side in SIDES {
        let mut run = image::<F>(side);
        let mut copy = FieldCopy::new(Dynamics::state(&run), 2, side);
        let copied = copy.bytes();
        for threads in THREADS {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let rounds = pool.expect("threads").install(|| {
                let mut turns: [Side; 2] =
                    [Box::new(|| Dynamics::step(&mut run).unwrap()), Box::new(|| copy.run())];
                Rounds::of(&mut turns, ROW_TIME)
            });
            println!(
                "| Beltrami 2-D | {side} x {side} | {} | {threads} | {:.0} | {:.2} | {} |",
                F::NAME,
                1.0 / rounds.seconds(0),
                rounds.ratio(0, 1),
                traffic::<F>(&rounds, 3, side * side, copied, 1),
            );
        }
    }
}

/// Cells for the rate of bytes of side 0 and its share of that of the side `copy`; empty for fields
/// that stay in the near caches, where neither is bound by moving bytes.
fn traffic<F: Real>(
    rounds: &Rounds,
    fields: usize,
    points: usize,
    copied: f64,
    copy: usize,
) -> String {
    if points < 1 << 20 {
        return "| ".to_owned();
    }
    let bytes = (fields * points * size_of::<F>()) as f64;
    let share = bytes / copied * rounds.ratio(copy, 0);
    format!("{:.1} | {:.0} %", bytes / rounds.seconds(0) / 1e9, 100.0 * share)
}
