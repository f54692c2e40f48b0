// Everything between convolutions: sums, pooling, the shortcut without parameters, the mean.
// Backward, each number gathers from all that read it, in the order in which the CPU scatters.
//
// All of them are linear once the positions of the maxima are known. They are applied to values and
// gradients here, and to their tangents in tangent.cu.

struct OpArgs {
    View input, output;
    int rows, cols, stride, is_max;  // of a window; is_max: maximum, else mean
    int add;                         // whether to add to the destination
    int images;
};

__device__ __forceinline__ void put(T* at, int add, T x) { *at = add ? *at + x : x; }

// What the ops pass forward and back: values and gradients.
struct Values : Reader {
    using Reader::Reader;
    __device__ __forceinline__ T forth(int at, int c) const { return value(at, c); }
    __device__ __forceinline__ T back(int at, int c) const { return gradient(at, c); }
};

template <class From>
__device__ __forceinline__ void add_to(const OpArgs& args, const From& in, T* result) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, channels = args.output.channels;
    if (at >= args.images * args.output.height * args.output.width * channels) return;
    put(result + at, args.add, in.forth(at, at % channels));
}

template <class From>
__device__ __forceinline__ void add_back(const OpArgs& args, const From& out, T* result) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, channels = args.output.channels;
    if (at >= args.images * args.output.height * args.output.width * channels) return;
    put(result + at, args.add, out.back(at, at % channels));
}

// Index of the largest value of a window; of equal ones the first, and NaN counts as largest.
__device__ __forceinline__ int argmax(const OpArgs& args, const Reader& in, int corner, int c) {
    int best = corner;
    T most = in.value(corner, c);
    for (int y = 0; y < args.rows; y++) {
        for (int x = 0; x < args.cols; x++) {
            int at = corner + (y * args.input.width + x) * in.channels;
            T value = in.value(at, c);
            if (value > most || (is_nan(value) && !is_nan(most))) {
                best = at;
                most = value;
            }
        }
    }
    return best;
}

template <class From>
__device__ __forceinline__ void pool_to(const OpArgs& args, const From& in, T* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, channels = args.output.channels;
    int pixels = args.output.height * args.output.width;
    if (at >= args.images * pixels * channels) return;
    int c = at % channels, pixel = at / channels % pixels, image = at / channels / pixels;
    int y = pixel / args.output.width * args.stride, x = pixel % args.output.width * args.stride;
    int corner = ((image * args.input.height + y) * args.input.width + x) * channels + c;
    T result;
    if (args.is_max) {
        result = in.forth(argmax(args, in, corner, c), c);
    } else {
        T sum = T(0);
        for (int i = 0; i < args.rows; i++) {
            for (int j = 0; j < args.cols; j++) {
                sum += in.forth(corner + (i * args.input.width + j) * channels, c);
            }
        }
        result = sum * (T)(1.0 / (args.rows * args.cols));
    }
    out[at] = result;
}

template <class From>
__device__ __forceinline__ void pool_back(const OpArgs& args, const Reader& in, const From& out, T* result) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, channels = args.input.channels;
    int pixels = args.input.height * args.input.width;
    if (at >= args.images * pixels * channels) return;
    int c = at % channels, pixel = at / channels % pixels, image = at / channels / pixels;
    int y = pixel / args.input.width, x = pixel % args.input.width;
    int first_y = max(0, (y - args.rows + args.stride) / args.stride);
    int first_x = max(0, (x - args.cols + args.stride) / args.stride);
    T share = (T)(1.0 / (args.rows * args.cols)), sum = T(0);
    for (int oy = first_y; oy < args.output.height && oy * args.stride <= y; oy++) {
        for (int ox = first_x; ox < args.output.width && ox * args.stride <= x; ox++) {
            if (oy * args.stride + args.rows <= y || ox * args.stride + args.cols <= x) continue;
            int place = ((image * args.output.height + oy) * args.output.width + ox) * channels + c;
            int corner = ((image * args.input.height + oy * args.stride) * args.input.width + ox * args.stride) * channels + c;
            if (!args.is_max) {
                sum += out.back(place, c) * share;
            } else if (argmax(args, in, corner, c) == at) {
                sum += out.back(place, c);
            }
        }
    }
    put(result + at, args.add, sum);
}

template <class From>
__device__ __forceinline__ void subsample_to(const OpArgs& args, const From& in, T* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, channels = args.output.channels;
    int pixels = args.output.height * args.output.width, kept = args.input.channels;
    if (at >= args.images * pixels * channels) return;
    int pixel = at / channels % pixels, image = at / channels / pixels;
    int c = at % channels - (channels - kept) / 2;
    int y = pixel / args.output.width * args.stride, x = pixel % args.output.width * args.stride;
    bool inside = c >= 0 && c < kept;
    out[at] = inside ? in.forth(((image * args.input.height + y) * args.input.width + x) * kept + c, c) : T(0);
}

template <class From>
__device__ __forceinline__ void subsample_back(const OpArgs& args, const From& out, T* result) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, kept = args.input.channels;
    int pixels = args.input.height * args.input.width, channels = args.output.channels;
    if (at >= args.images * pixels * kept) return;
    int pixel = at / kept % pixels, image = at / kept / pixels;
    int y = pixel / args.input.width, x = pixel % args.input.width;
    T d = T(0);
    if (y % args.stride == 0 && x % args.stride == 0) {
        int c = at % kept + (channels - kept) / 2;
        int place = (image * args.output.height + y / args.stride) * args.output.width + x / args.stride;
        d = out.back(place * channels + c, c);
    }
    put(result + at, args.add, d);
}

// One warp per image.
template <class From>
__device__ __forceinline__ void mean_to(const OpArgs& args, const From& in, T* out) {
    int image = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (image >= args.images) return;
    int len = args.input.height * args.input.width * args.input.channels;
    T sum = T(0);
    for (int i = lane; i < len; i += 32) sum += in.forth(image * len + i, i % args.input.channels);
#pragma unroll
    for (int gap = 16; gap > 0; gap /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, gap);
    if (lane == 0) out[image] = sum * (T)(1.0 / len);
}

template <class From>
__device__ __forceinline__ void mean_back(const OpArgs& args, const From& out, T* result) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int len = args.input.height * args.input.width * args.input.channels;
    if (at >= args.images * len) return;
    put(result + at, args.add, out.back(at / len, 0) * (T)(1.0 / len));
}

// Destinations of a replica's results.
__device__ __forceinline__ T* raw_of(const View& view) { return (T*)view.z + view.stride * blockIdx.y; }
__device__ __forceinline__ T* gradient_of(const View& view) { return view.u + view.stride * blockIdx.y; }

__device__ __forceinline__ Values in_of(const OpArgs& args) { return Values(args.input, blockIdx.y); }
__device__ __forceinline__ Values out_of(const OpArgs& args) { return Values(args.output, blockIdx.y); }

extern "C" __global__ void add_forward(const OpArgs args) { wait_for_previous_kernel(); add_to(args, in_of(args), raw_of(args.output)); }
extern "C" __global__ void add_backward(const OpArgs args) { wait_for_previous_kernel(); add_back(args, out_of(args), gradient_of(args.input)); }
extern "C" __global__ void pool_forward(const OpArgs args) { wait_for_previous_kernel(); pool_to(args, in_of(args), raw_of(args.output)); }
extern "C" __global__ void pool_backward(const OpArgs args) { wait_for_previous_kernel(); pool_back(args, in_of(args), out_of(args), gradient_of(args.input)); }
extern "C" __global__ void subsample_forward(const OpArgs args) { wait_for_previous_kernel(); subsample_to(args, in_of(args), raw_of(args.output)); }
extern "C" __global__ void subsample_backward(const OpArgs args) { wait_for_previous_kernel(); subsample_back(args, out_of(args), gradient_of(args.input)); }
extern "C" __global__ void mean_forward(const OpArgs args) { wait_for_previous_kernel(); mean_to(args, in_of(args), raw_of(args.output)); }
extern "C" __global__ void mean_backward(const OpArgs args) { wait_for_previous_kernel(); mean_back(args, out_of(args), gradient_of(args.input)); }

// The same four channels at a time, where their number is a multiple of four; does not add.
extern "C" __global__ void __launch_bounds__(256) add_forward_vec4(const OpArgs args) {
    wait_for_previous_kernel();
    int at = blockIdx.x * blockDim.x + threadIdx.x, groups = args.output.channels / 4;
    if (at >= args.images * args.output.height * args.output.width * groups) return;
    Reader in(args.input, blockIdx.y);
    Channel4<> own(in, at % groups * 4, false);
    ((T4*)raw_of(args.output))[at] = own.value(((const T4*)in.z)[at]);
}

extern "C" __global__ void __launch_bounds__(256) add_backward_vec4(const OpArgs args) {
    wait_for_previous_kernel();
    int at = blockIdx.x * blockDim.x + threadIdx.x, groups = args.output.channels / 4;
    if (at >= args.images * args.output.height * args.output.width * groups) return;
    Reader out(args.output, blockIdx.y);
    Channel4<> own(out, at % groups * 4, true);
    T4 z = ((const T4*)out.z)[at], u = ((const T4*)out.u)[at];
    ((T4*)gradient_of(args.input))[at] = out.norm ? own.gradient(z, u) : own.slope(z, u);
}
