//! Compiles the kernels' source to PTX.

use cudarc::nvrtc::{CompileError, CompileOptions, Ptx, compile_ptx_with_opts};

use crate::cache;
use crate::conv3x3_plan::{MathMode, SharedMemory};
use crate::device::{DeviceReal, compiler_version};
use crate::error::Error;
use crate::kernel_args::*;

macro_rules! sources {
    ($($name:literal)+) => { &[$(($name, include_str!(concat!("kernels/", $name)))),+] };
}
/// The kernels' source files; each uses those before it.
pub const SOURCES: &[(&str, &str)] = sources!(
    "real.cu" "batch.cu" "view.cu" "gemm.cu" "norm.cu" "vec4.cu" "tiles.cu" "conv3x3.cu" "weights3x3.cu" "op.cu"
    "step.cu" "tangent.cu" "tangent_norm.cu" "plane.cu" "compare.cu" "hash.cu"
);

/// Assertions that the structs of the host have the sizes and fields of those of the kernels.
fn struct_assertions(is_single: bool) -> String {
    let mut text = String::new();
    let mut add = |name: &str, size: usize, fields: &[(&str, usize)]| {
        text += &format!("static_assert(sizeof({name}) == {size}, \"size of {name}\");\n");
        for (field, offset) in fields {
            // What `offsetof` expands to in headers, which NVRTC does not have.
            let found = format!("__INTADDR__(&((({name}*)0)->{field}))");
            text += &format!("static_assert({found} == {offset}, \"{name}.{field}\");\n");
        }
    };
    macro_rules! add_all {
        ($($name:ident),+) => { $(add(stringify!($name), size_of::<$name>(), $name::FIELDS);)+ };
    }
    with_all_kernel_args!(add_all);
    add("View", size_of::<View>(), View::FIELDS);
    add("Tally", size_of::<Tally>(), Tally::FIELDS);
    add("Tangents", size_of::<Tangents>(), Tangents::FIELDS);
    add("PackedLayer", size_of::<PackedLayer>(), PackedLayer::FIELDS);
    add("WeightSums", size_of::<WeightSums>(), WeightSums::FIELDS);
    match is_single {
        true => add("Step", size_of::<Step<f32>>(), Step::<f32>::FIELDS),
        false => add("Step", size_of::<Step<f64>>(), Step::<f64>::FIELDS),
    }
    text
}

/// Compiles all kernels for a precision and a compute capability, or takes them from the cache. The
/// compiler also checks that the structs of host and kernels have the same sizes and offsets of fields.
pub fn compile(
    real: &str,
    math: MathMode,
    shared: SharedMemory,
    major: i32,
    minor: i32,
) -> Result<Ptx, Error> {
    let single = u8::from(real == f32::KERNEL_NAME);
    let tensor = u8::from(math == MathMode::Tf32);
    let mut source = format!(
        "#define REAL {real}\n#define SINGLE {single}\n#define TENSOR {tensor}\n\
         #define TILE_BYTES {}\n#define BLOCKS_PER_SM {}\n#define LAYERS_AT_ONCE {LAYERS_AT_ONCE}\n",
        shared.bytes, shared.blocks
    );
    for (name, text) in SOURCES {
        source += &format!("#line 1 \"{name}\"\n{text}");
    }
    source += &struct_assertions(single == 1);
    let numbers = [
        ("SUM_THREADS + TERM_THREADS", ORDERED_SUM_THREADS as usize),
        ("MOMENTS", MOMENTS),
        ("POSITIONS", POSITIONS),
        ("TALL * sizeof(T)", GEMM_TILE_BYTES),
    ];
    for (name, number) in numbers {
        source += &format!("static_assert({name} == {number}, \"{name}\");\n");
    }
    // Warps can hand registers to each other on compute capability 9.0 only, as the feature set "a".
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
    fn the_kernels_compile_in_each_precision_and_for_other_compute_capabilities() {
        if !has_compiler() {
            println!("skipped: no NVRTC here");
            return;
        }
        let [single, double] = [(f32::KERNEL_NAME, 4), (f64::KERNEL_NAME, 8)];
        let ways = [(single, MathMode::Fma), (single, MathMode::Tf32), (double, MathMode::Fma)];
        let compile = |((real, number), math), ((major, minor), kilobytes): (_, usize)| {
            let shared = SharedMemory::of(number, kilobytes << 10).expect("enough");
            if let Err(error) = compile(real, math, shared, major, minor) {
                panic!("{real}, {math:?}: {error}");
            }
        };
        std::thread::scope(|scope| {
            // Compute capabilities with the KiB of shared memory that a block may have.
            for target in [((8, 6), 99), ((9, 0), 227)] {
                for way in ways {
                    scope.spawn(move || compile(way, target));
                }
            }
            // As much memory as the first, but other matrix instructions.
            scope.spawn(move || compile((single, MathMode::Tf32), ((12, 0), 99)));
        });
    }
}
