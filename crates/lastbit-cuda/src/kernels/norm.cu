// Batch norm: sums over the pixels of each image, then over the images in double precision.
// The formulas are those of the CPU's `norm`.

struct Tally {
    double last_loss, loss;
    u64 right, examples;
    u64 ended;  // the step, counted from 1, after which the replica had diverged; 0 before
};

struct NormArgs {
    View layer;
    T* norm;          // [replica][scale, shift, mean, b, c][channel]
    T* sums;          // [replica][part][2][channel]: a part is an image, or what a block of a 3x3 convolution computes
    double* moments;  // [replica][mean, s, m1, m2, mean_dot, t][channel]
    const T* theta;
    T* gradient;
    T* buffers;
    const Tally* tally;
    u64 parameters, statistics;         // numbers of theta and of buffers per replica
    u64 scale, shift, mean, variance;  // offsets into them
    int images, settle, parts, pixels;  // pixels: per part; the last one may have fewer
    int running, slopes;                // whether the running statistics are used, which are constant; whether g replaces u
};

const int MOMENTS = 6;

// Sums `term(pixel, channel)` over the pixels of an image for each channel. Threads share the
// pixels of a channel; their sums are added in the order of the threads.
template <class Term, class Store>
__device__ __forceinline__ void sum_pixels(int pixels, int channels, Term term, Store store) {
    __shared__ T part[256];
    int thread = threadIdx.x;
    for (int first = 0; first < channels; first += 256) {
        int wide = min(channels - first, 256), shares = 256 / wide;
        int share = thread / wide, c = first + thread % wide;
        T sum = T(0);
        if (share < shares) {
            for (int pixel = share; pixel < pixels; pixel += shares) sum += term(pixel, c);
        }
        __syncthreads();
        part[thread] = sum;
        __syncthreads();
        if (thread < wide) {
            for (int other = 1; other < shares; other++) sum += part[thread + other * wide];
            store(c, sum);
        }
    }
    __syncthreads();
}

// Mean of each image and channel, and the sum of squared deviations from it.
extern "C" __global__ void __launch_bounds__(256) norm_moments(const NormArgs args) {
    wait_for_previous_kernel();
    int image = blockIdx.x, r = blockIdx.y, channels = args.layer.channels;
    int pixels = args.layer.height * args.layer.width;
    const T* z = args.layer.z + args.layer.stride * r + (u64)image * pixels * channels;
    T* out = args.sums + ((u64)r * args.images + image) * 2 * channels;
    sum_pixels(pixels, channels, [=](int p, int c) { return z[p * channels + c]; },
        [=](int c, T sum) { out[c] = sum / T(pixels); });
    sum_pixels(pixels, channels,
        [=](int p, int c) {
            T off = z[p * channels + c] - out[c];
            return off * off;
        },
        [=](int c, T sum) { out[channels + c] = sum; });
}

// Sum over the lanes of a warp, the same in all of them.
__device__ __forceinline__ double sum_of_warp(double x) {
#pragma unroll
    for (int gap = 16; gap > 0; gap /= 2) x += __shfl_xor_sync(0xffffffffu, x, gap);
    return x;
}

// Sum over the threads of a block of 256, the same in all of them: warp by warp, then the warps in
// their order.
__device__ __forceinline__ double sum_of_256(double x) {
    __shared__ double warps[8];
    x = sum_of_warp(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
    __syncthreads();
    double sum = warps[0];
#pragma unroll
    for (int i = 1; i < 8; i++) sum += warps[i];
    return sum;
}

// Parameters of a channel.
struct ScaleAndShift {
    double gamma, beta;

    __device__ __forceinline__ ScaleAndShift(const NormArgs& args, int r, int c) {
        const T* theta = args.theta + args.parameters * r;
        gamma = theta[args.scale + c];
        beta = theta[args.shift + c];
    }
};

__device__ __forceinline__ void set_value(
    const NormArgs& args, ScaleAndShift own, int r, int c, double mean, double variance) {
    int channels = args.layer.channels;
    double s = 1.0 / sqrt(variance + 1e-5);
    T* norm = args.norm + (u64)r * 5 * channels;
    norm[c] = (T)(own.gamma * s);
    norm[channels + c] = (T)(own.beta - mean * (own.gamma * s));
    norm[2 * channels + c] = (T)mean;
    double* moments = args.moments + (u64)r * MOMENTS * channels;
    moments[c] = mean;
    moments[channels + c] = s;
}

// Parts that a lane reads before it adds the first: a warp waits for memory once and not for each.
const int PARTS_AT_ONCE = 8;

// Two sums of a channel over some parts of a lane, every 32nd from `first` on. A part that does not exist is that of
// the last one, so that no read depends on a condition.
struct PartSums {
    T first[PARTS_AT_ONCE], second[PARTS_AT_ONCE];

    __device__ __forceinline__ PartSums(const T* sums, int channels, int first_part, int parts) {
        const T* part = sums + (u64)first_part * 2 * channels;
        const T* last = sums + (u64)(parts - 1) * 2 * channels;
#pragma unroll
        for (int j = 0; j < PARTS_AT_ONCE; j++) {
            const T* at = first_part + 32 * j < parts ? part + 64 * j * channels : last;
            first[j] = at[0];
            second[j] = at[channels];
        }
    }
};

// One warp per channel: from the parts' moments to the coefficients; updates the running statistics.
extern "C" __global__ void __launch_bounds__(128) norm_forward(const NormArgs args) {
    wait_for_previous_kernel();
    int c = blockIdx.x * 4 + threadIdx.x / 32, r = blockIdx.y, lane = threadIdx.x % 32;
    int channels = args.layer.channels, parts = args.parts;
    if (c >= channels) return;
    const T* own = args.sums + (u64)r * parts * 2 * channels + c;
    // What is needed at the end is read at the beginning, too: a warp waits for all of it once.
    ScaleAndShift parameters(args, r, c);
    T* buffers = args.buffers + args.statistics * r;
    bool settles = args.settle && !args.tally[r].ended;
    double running_mean = settles ? (double)buffers[args.mean + c] : 0.0;
    double running_variance = settles ? (double)buffers[args.variance + c] : 0.0;
    int all = args.images * args.layer.height * args.layer.width;
    double count = all, sum = 0.0, squares = 0.0;
    // Pixels of a part; none of a part that does not exist, which adds 0.
    int rest = all - (parts - 1) * args.pixels;
    auto pixels = [&](int part) { return part < parts - 1 ? args.pixels : part == parts - 1 ? rest : 0; };
    for (int first = lane; first < parts; first += 32 * PARTS_AT_ONCE) {
        PartSums some(own, channels, first, parts);
#pragma unroll
        for (int j = 0; j < PARTS_AT_ONCE; j++) sum += (double)some.first[j] * pixels(first + 32 * j);
    }
    double mean = sum_of_warp(sum) / count;
    for (int first = lane; first < parts; first += 32 * PARTS_AT_ONCE) {
        PartSums some(own, channels, first, parts);
#pragma unroll
        for (int j = 0; j < PARTS_AT_ONCE; j++) {
            int part = first + 32 * j;
            double off = (double)some.first[j] - mean;
            if (part < parts) squares += (double)some.second[j] + pixels(part) * (off * off);
        }
    }
    double variance = sum_of_warp(squares) / count;
    if (lane) return;
    set_value(args, parameters, r, c, mean, variance);
    if (!settles) return;
    double unbiased = count / (count < 2.0 ? 1.0 : count - 1.0);
    buffers[args.mean + c] = (T)((1.0 - 0.1) * running_mean + 0.1 * mean);
    buffers[args.variance + c] = (T)((1.0 - 0.1) * running_variance + 0.1 * (variance * unbiased));
}

// The coefficients from the running statistics.
extern "C" __global__ void norm_running(const NormArgs args) {
    wait_for_previous_kernel();
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (c >= args.layer.channels) return;
    const T* buffers = args.buffers + args.statistics * r;
    double mean = buffers[args.mean + c], variance = buffers[args.variance + c];
    set_value(args, ScaleAndShift(args, r, c), r, c, mean, variance);
}

// Per image and channel: sum of g and of g (z - mean). If g is to replace u, so that the activation's slope
// is not computed again, the second sum writes it: its threads have the same numbers as those of the first.
extern "C" __global__ void __launch_bounds__(256) norm_gradient_sums(const NormArgs args) {
    wait_for_previous_kernel();
    int image = blockIdx.x, r = blockIdx.y, channels = args.layer.channels;
    int pixels = args.layer.height * args.layer.width;
    Reader reader(args.layer, r);
    int first = image * pixels * channels;
    T* out = args.sums + ((u64)r * args.images + image) * 2 * channels;
    bool slopes = args.slopes;
    sum_pixels(pixels, channels,
        [=](int p, int c) { return reader.slope(first + p * channels + c, c); },
        [=](int c, T sum) { out[c] = sum; });
    sum_pixels(pixels, channels,
        [=](int p, int c) {
            int at = first + p * channels + c;
            T g = reader.slope(at, c);
            if (slopes) reader.u[at] = g;
            return g * (reader.z[at] - reader.norm[2 * channels + c]);
        },
        [=](int c, T sum) { out[channels + c] = sum; });
}

// One warp per channel: from the parts' sums to the coefficients of the gradient.
extern "C" __global__ void __launch_bounds__(128) norm_backward(const NormArgs args) {
    wait_for_previous_kernel();
    int c = blockIdx.x * 4 + threadIdx.x / 32, r = blockIdx.y, lane = threadIdx.x % 32;
    int channels = args.layer.channels;
    if (c >= channels) return;
    const T* own = args.sums + (u64)r * args.parts * 2 * channels + c;
    double* moments = args.moments + (u64)r * MOMENTS * channels;
    double mean = moments[c], s = moments[channels + c];
    double gamma = args.theta[args.parameters * r + args.scale + c];
    double first = 0.0, second = 0.0;
    for (int i = lane; i < args.parts; i += 32 * PARTS_AT_ONCE) {
        PartSums some(own, channels, i, args.parts);
#pragma unroll
        for (int j = 0; j < PARTS_AT_ONCE; j++) {
            if (i + 32 * j >= args.parts) break;
            first += (double)some.first[j];
            second += (double)some.second[j];
        }
    }
    first = sum_of_warp(first);
    second = sum_of_warp(second);
    if (lane) return;
    double count = (double)args.images * (args.layer.height * args.layer.width);
    double m1 = first / count, m2 = s * second / count;
    T* gradient = args.gradient + args.parameters * r;
    gradient[args.scale + c] = (T)(count * m2);
    gradient[args.shift + c] = (T)(count * m1);
    moments[2 * channels + c] = m1;
    moments[3 * channels + c] = m2;
    double b = args.running ? 0.0 : -gamma * s * s * m2;
    T* norm = args.norm + (u64)r * 5 * channels;
    norm[3 * channels + c] = (T)b;
    norm[4 * channels + c] = args.running ? T(0) : (T)(-gamma * s * m1 - b * mean);
}

// The gradient of a bias: per image and channel the sum of dL/dz, ...
extern "C" __global__ void __launch_bounds__(256) bias_sums(const NormArgs args) {
    wait_for_previous_kernel();
    int image = blockIdx.x, r = blockIdx.y, channels = args.layer.channels;
    int pixels = args.layer.height * args.layer.width;
    Reader reader(args.layer, r);
    int first = image * pixels * channels;
    T* out = args.sums + ((u64)r * args.images + image) * channels;
    sum_pixels(pixels, channels,
        [=](int p, int c) { return reader.gradient(first + p * channels + c, c); },
        [=](int c, T sum) { out[c] = sum; });
}

// ... and over the images, one block per channel; `shift` is the offset of the bias.
extern "C" __global__ void __launch_bounds__(256) bias_finish(const NormArgs args) {
    wait_for_previous_kernel();
    int c = blockIdx.x, r = blockIdx.y, channels = args.layer.channels;
    const T* own = args.sums + (u64)r * args.images * channels;
    double sum = 0.0;
#pragma unroll 4
    for (int i = threadIdx.x; i < args.images; i += 256) sum += (double)own[i * channels + c];
    sum = sum_of_256(sum);
    if (threadIdx.x == 0) args.gradient[args.parameters * r + args.shift + c] = (T)sum;
}
