//! From the kernels' source to what a device can load.

use cudarc::nvrtc::{CompileError, CompileOptions, Ptx, compile_ptx_with_opts};

use crate::cache;
use crate::device::{DeviceReal, compiler_version};
use crate::error::Error;
use crate::fast::{Precision, Room};
use crate::jobs::{
    ADDERS_AND_MAKERS, BatchJob, COLUMN_BYTES, CompareJob, ConvDotJob, ConvJob, FastJob,
    FluctuationJob, HashJob, LossDotJob, LossJob, MOMENTS, NormDotJob, NormJob, OpDotJob, OpJob,
    PackJob, Step, StepJob, SumJob, Tally, WeightsJob,
};

/// The kernels; each file uses those before it.
pub const SOURCES: [(&str, &str); 17] = [
    ("real.cu", include_str!("kernels/real.cu")),
    ("batch.cu", include_str!("kernels/batch.cu")),
    ("view.cu", include_str!("kernels/view.cu")),
    ("gemm.cu", include_str!("kernels/gemm.cu")),
    ("norm.cu", include_str!("kernels/norm.cu")),
    ("fours.cu", include_str!("kernels/fours.cu")),
    ("tiles.cu", include_str!("kernels/tiles.cu")),
    ("conv3x3.cu", include_str!("kernels/conv3x3.cu")),
    ("weights3x3.cu", include_str!("kernels/weights3x3.cu")),
    ("op.cu", include_str!("kernels/op.cu")),
    ("step.cu", include_str!("kernels/step.cu")),
    ("dot.cu", include_str!("kernels/dot.cu")),
    ("dot_norm.cu", include_str!("kernels/dot_norm.cu")),
    ("plane.cu", include_str!("kernels/plane.cu")),
    ("compare.cu", include_str!("kernels/compare.cu")),
    ("fluctuation.cu", include_str!("kernels/fluctuation.cu")),
    ("hash.cu", include_str!("kernels/hash.cu")),
];

/// Compiles all kernels for a precision and a generation of devices, or takes them from the cache. The
/// compiler also checks that arguments have the size that the kernels expect.
pub fn compile(
    real: &str,
    precision: Precision,
    room: Room,
    major: i32,
    minor: i32,
) -> Result<Ptx, Error> {
    let single = u8::from(real == f32::KERNEL_NAME);
    let tensor = u8::from(precision == Precision::Tf32);
    let mut source = format!(
        "#define REAL {real}\n#define SINGLE {single}\n#define TENSOR {tensor}\n\
         #define ROOM {}\n#define BLOCKS_AT_A_TIME {}\n",
        room.bytes, room.blocks
    );
    for (name, text) in SOURCES {
        source += &format!("#line 1 \"{name}\"\n{text}");
    }
    let sizes = [
        ("FastJob", size_of::<FastJob>()),
        ("PackJob", size_of::<PackJob>()),
        ("WeightsJob", size_of::<WeightsJob>()),
        ("BatchJob", size_of::<BatchJob>()),
        ("SumJob", size_of::<SumJob>()),
        ("ConvJob", size_of::<ConvJob>()),
        ("NormJob", size_of::<NormJob>()),
        ("OpJob", size_of::<OpJob>()),
        ("LossJob", size_of::<LossJob>()),
        ("Step", if single == 1 { size_of::<Step<f32>>() } else { size_of::<Step<f64>>() }),
        ("StepJob", size_of::<StepJob>()),
        ("Tally", size_of::<Tally>()),
        ("ConvDotJob", size_of::<ConvDotJob>()),
        ("NormDotJob", size_of::<NormDotJob>()),
        ("OpDotJob", size_of::<OpDotJob>()),
        ("LossDotJob", size_of::<LossDotJob>()),
        ("CompareJob", size_of::<CompareJob>()),
        ("FluctuationJob", size_of::<FluctuationJob>()),
        ("HashJob", size_of::<HashJob>()),
    ];
    for (name, size) in sizes {
        source += &format!("static_assert(sizeof({name}) == {size}, \"size of {name}\");\n");
    }
    let numbers = [
        ("ADDERS + MAKERS", ADDERS_AND_MAKERS as usize),
        ("MOMENTS", MOMENTS),
        ("TALL * sizeof(T)", COLUMN_BYTES),
    ];
    for (name, number) in numbers {
        source += &format!("static_assert({name} == {number}, \"{name}\");\n");
    }
    // Threads hand registers to each other on this generation alone, and its own name asks for that.
    let own = if (major, minor) == (9, 0) { "a" } else { "" };
    let target = format!("compute_{major}{minor}{own}");
    let options = CompileOptions {
        fmad: Some(false),
        options: vec![format!("--gpu-architecture={target}"), "--std=c++17".to_owned()],
        ..CompileOptions::default()
    };
    let version = compiler_version();
    let key = cache::key([source.as_str(), &format!("{options:?}"), &version]);
    let text = cache::kept(cache::folder().as_deref(), &key, || {
        let compiled = compile_ptx_with_opts(source, options).map(|ptx| ptx.to_src());
        compiled.map_err(|error| {
            let log = match &error {
                CompileError::CompileError { log, .. } => log.to_string_lossy().into_owned(),
                other => format!("{other:?}"),
            };
            Error::Compile { target, log }
        })
    })?;
    Ok(Ptx::from_src(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::has_compiler;

    #[test]
    fn the_kernels_compile_in_each_precision_and_for_other_generations() {
        if !has_compiler() {
            println!("skipped: no NVRTC here");
            return;
        }
        let [single, double] = [(f32::KERNEL_NAME, 4), (f64::KERNEL_NAME, 8)];
        // With the shared memory that blocks of these generations may have.
        let ways =
            [(single, Precision::Plain), (single, Precision::Tf32), (double, Precision::Plain)];
        let compile = |((real, number), precision), ((major, minor), kilobytes): (_, usize)| {
            let room = Room::of(number, kilobytes << 10).expect("enough");
            if let Err(error) = compile(real, precision, room, major, minor) {
                panic!("{real}, {precision:?}: {error}");
            }
        };
        std::thread::scope(|scope| {
            for generation in [((8, 6), 99), ((9, 0), 227), ((12, 0), 99)] {
                for way in ways {
                    scope.spawn(move || compile(way, generation));
                }
            }
        });
    }
}
