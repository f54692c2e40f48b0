// Convolutions from one channel to one channel, stride 1. A block computes an image: its activated values
// are written to shared memory with zero padding, and each thread sums over all taps for its pixels.
//
// The gradient by the weights: a block sums over a chunk of images. A thread sums over its pixels of each,
// then the lanes of a warp are added pairwise, the warps in their order, and plane_finish adds the chunks.
// The gradient of the bias, the sum of dz, is computed in the same way.

const int TILE = 2048;  // largest size of an image with its zero padding

// A tile of rows x cols whose first pixel is (top, left) of an image of height x width.
template <class Read>
__device__ __forceinline__ void fill_tile(
    T* tile, int rows, int cols, int top, int left, int height, int width, Read read) {
    for (int i = threadIdx.x; i < rows * cols; i += 256) {
        int y = i / cols + top, x = i % cols + left;
        bool inside = y >= 0 && y < height && x >= 0 && x < width;
        tile[i] = inside ? read(y * width + x) : T(0);
    }
}

// The same for numbers and their tangents.
template <class Read>
__device__ __forceinline__ void fill_tiles(
    T* tile, T* tile_dot, int rows, int cols, int top, int left, int height, int width, Read read) {
    for (int i = threadIdx.x; i < rows * cols; i += 256) {
        int y = i / cols + top, x = i % cols + left;
        Dual both = {T(0), T(0)};
        if (y >= 0 && y < height && x >= 0 && x < width) both = read(y * width + x);
        tile[i] = both.value;
        tile_dot[i] = both.dot;
    }
}

// The values of an image that a convolution reads, and their tangents, which the network's input lacks.
__device__ __forceinline__ void fill_values(T* tile, T* tile_dot, int rows, int cols, const ConvArgs& args,
    const TangentReader& in, const ChannelTangent& own, int image) {
    int height = args.input.height, width = args.input.width;
    const T* z = in.z + (u64)image * height * width;
    if (in.z_dot) {
        const T* z_dot = in.z_dot + (u64)image * height * width;
        fill_tiles(tile, tile_dot, rows, cols, -args.above, -args.left, height, width,
            [&](int at) { return own.value_and_dot(z[at], z_dot[at]); });
    } else {
        fill_tile(tile, rows, cols, -args.above, -args.left, height, width, [&](int at) { return own.value(z[at]); });
    }
}

// sum + w * tile at (y, x), or with the filter rotated by 180 degrees.
template <int K, bool ROTATED>
__device__ __forceinline__ T taps(const T* tile, int cols, int y, int x, const T* w, T sum) {
#pragma unroll
    for (int i = 0; i < K; i++) {
#pragma unroll
        for (int j = 0; j < K; j++) {
            int at = ROTATED ? K * K - 1 - (i * K + j) : i * K + j;
            sum = fma_rn(tile[(y + i) * cols + x + j], w[at], sum);
        }
    }
    return sum;
}

template <int K>
__device__ __forceinline__ void load_weights(T* w, const T* from) {
    if (threadIdx.x < K * K) w[threadIdx.x] = from[threadIdx.x];
}

template <int K>
__device__ __forceinline__ void plane_forward(const ConvArgs& args) {
    __shared__ T tile[TILE], w[K * K];
    int image = blockIdx.x, r = blockIdx.y, height = args.input.height, width = args.input.width;
    int rows = args.output.height, cols = args.output.width, wide = cols + K - 1;
    Reader in(args.input, r);
    Channel own(in, 0);
    const T* theta = args.theta + args.parameters * r;
    load_weights<K>(w, theta + args.weight);
    const T* z = in.z + (u64)image * height * width;
    fill_tile(tile, rows + K - 1, wide, -args.above, -args.left, height, width, [&](int at) { return own.value(z[at]); });
    __syncthreads();
    T start = args.has_bias ? theta[args.bias] : T(0);
    T* out = (T*)args.output.z + args.output.stride * r + (u64)image * rows * cols;
    for (int p = threadIdx.x; p < rows * cols; p += 256) {
        out[p] = taps<K, false>(tile, wide, p / cols, p % cols, w, start);
    }
}

template <int K>
__device__ __forceinline__ void plane_forward_tangent(const ConvTangentArgs& both) {
    const ConvArgs& args = both.conv;
    __shared__ T tile[TILE], tile_dot[TILE], w[K * K], w_dot[K * K];
    int image = blockIdx.x, r = blockIdx.y;
    int rows = args.output.height, cols = args.output.width, wide = cols + K - 1;
    TangentReader in(args.input, both.input, r);
    ChannelTangent own = in.channel(0);
    const T* direction = both.direction + args.parameters * r;
    load_weights<K>(w, args.theta + args.parameters * r + args.weight);
    load_weights<K>(w_dot, direction + args.weight);
    fill_values(tile, tile_dot, rows + K - 1, wide, args, in, own, image);
    __syncthreads();
    T start = args.has_bias ? direction[args.bias] : T(0);
    T* out = (T*)both.output.z + args.output.stride * r + (u64)image * rows * cols;
    for (int p = threadIdx.x; p < rows * cols; p += 256) {
        T sum = taps<K, false>(tile, wide, p / cols, p % cols, w_dot, start);
        if (in.z_dot) sum = taps<K, false>(tile_dot, wide, p / cols, p % cols, w, sum);
        out[p] = sum;
    }
}

template <int K>
__device__ __forceinline__ void plane_data(const ConvArgs& args) {
    __shared__ T tile[TILE], w[K * K];
    int image = blockIdx.x, r = blockIdx.y, height = args.output.height, width = args.output.width;
    int rows = args.input.height, cols = args.input.width, wide = cols + K - 1;
    Reader out(args.output, r);
    Channel own(out, 0);
    load_weights<K>(w, args.theta + args.parameters * r + args.weight);
    const T* z = out.z + (u64)image * height * width;
    const T* u = out.u + (u64)image * height * width;
    fill_tile(tile, rows + K - 1, wide, args.above - K + 1, args.left - K + 1, height, width,
        [&](int at) { return own.gradient(z[at], u[at]); });
    __syncthreads();
    T* result = args.input.u + args.input.stride * r + (u64)image * rows * cols;
    for (int p = threadIdx.x; p < rows * cols; p += 256) {
        T sum = taps<K, true>(tile, wide, p / cols, p % cols, w, T(0));
        result[p] = args.add ? result[p] + sum : sum;
    }
}

template <int K>
__device__ __forceinline__ void plane_data_tangent(const ConvTangentArgs& both) {
    const ConvArgs& args = both.conv;
    __shared__ T tile[TILE], tile_dot[TILE], w[K * K], w_dot[K * K];
    int image = blockIdx.x, r = blockIdx.y, height = args.output.height, width = args.output.width;
    int rows = args.input.height, cols = args.input.width, wide = cols + K - 1;
    TangentReader out(args.output, both.output, r);
    ChannelTangent own = out.channel(0);
    load_weights<K>(w, args.theta + args.parameters * r + args.weight);
    load_weights<K>(w_dot, both.direction + args.parameters * r + args.weight);
    u64 first = (u64)image * height * width;
    const T *z = out.z + first, *u = out.u + first, *z_dot = out.z_dot + first, *u_dot = out.u_dot + first;
    fill_tiles(tile, tile_dot, rows + K - 1, wide, args.above - K + 1, args.left - K + 1, height, width,
        [&](int at) { return own.gradient_and_dot(z[at], z_dot[at], u[at], u_dot[at]); });
    __syncthreads();
    T* result = both.input.u + args.input.stride * r + (u64)image * rows * cols;
    for (int p = threadIdx.x; p < rows * cols; p += 256) {
        T sum = taps<K, true>(tile_dot, wide, p / cols, p % cols, w, T(0));
        sum = taps<K, true>(tile, wide, p / cols, p % cols, w_dot, sum);
        result[p] = args.add ? result[p] + sum : sum;
    }
}

// Sums over the threads of a block for each tap and for the bias, and writes the block's partial sums.
template <int K>
__device__ __forceinline__ void write_partials(const ConvArgs& args, T (&sum)[K * K + 1]) {
    __shared__ T part[8][K * K + 1];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int t = 0; t <= K * K; t++) {
        T x = sum[t];
#pragma unroll
        for (int gap = 16; gap > 0; gap /= 2) x += __shfl_xor_sync(0xffffffffu, x, gap);
        if (lane == 0) part[warp][t] = x;
    }
    __syncthreads();
    int t = threadIdx.x;
    if (t > K * K) return;
    T total = part[0][t];
    for (int other = 1; other < 8; other++) total += part[other][t];
    args.partials[((u64)blockIdx.y * args.chunks + blockIdx.x) * (K * K + 1) + t] = total;
}

// sum[tap] += tile at (y, x) + tap, times d
template <int K>
__device__ __forceinline__ void add_taps(const T* tile, int cols, int y, int x, T d, T (&sum)[K * K + 1]) {
#pragma unroll
    for (int i = 0; i < K; i++) {
#pragma unroll
        for (int j = 0; j < K; j++) sum[i * K + j] = fma_rn(tile[(y + i) * cols + x + j], d, sum[i * K + j]);
    }
}

template <int K>
__device__ __forceinline__ void plane_weights(const ConvArgs& args) {
    __shared__ T tile[TILE];
    int chunk = blockIdx.x, r = blockIdx.y, height = args.input.height, width = args.input.width;
    int rows = args.output.height, cols = args.output.width, wide = cols + K - 1;
    Reader in(args.input, r), out(args.output, r);
    Channel from(in, 0), to(out, 0);
    T sum[K * K + 1] = {};
    int end = min(args.images, (chunk + 1) * args.images_per_chunk);
    for (int image = chunk * args.images_per_chunk; image < end; image++) {
        const T* z = in.z + (u64)image * height * width;
        __syncthreads();
        fill_tile(tile, rows + K - 1, wide, -args.above, -args.left, height, width,
            [&](int at) { return from.value(z[at]); });
        __syncthreads();
        u64 first = (u64)image * rows * cols;
        for (int p = threadIdx.x; p < rows * cols; p += 256) {
            T d = to.gradient(out.z[first + p], out.u[first + p]);
            add_taps<K>(tile, wide, p / cols, p % cols, d, sum);
            sum[K * K] += d;
        }
    }
    write_partials<K>(args, sum);
}

template <int K>
__device__ __forceinline__ void plane_weights_tangent(const ConvTangentArgs& both) {
    const ConvArgs& args = both.conv;
    __shared__ T tile[TILE], tile_dot[TILE];
    int chunk = blockIdx.x, r = blockIdx.y;
    int rows = args.output.height, cols = args.output.width, wide = cols + K - 1;
    TangentReader in(args.input, both.input, r), out(args.output, both.output, r);
    ChannelTangent from = in.channel(0), to = out.channel(0);
    T sum[K * K + 1] = {};
    int end = min(args.images, (chunk + 1) * args.images_per_chunk);
    for (int image = chunk * args.images_per_chunk; image < end; image++) {
        __syncthreads();
        fill_values(tile, tile_dot, rows + K - 1, wide, args, in, from, image);
        __syncthreads();
        u64 first = (u64)image * rows * cols;
        for (int p = threadIdx.x; p < rows * cols; p += 256) {
            u64 at = first + p;
            Dual d = to.gradient_and_dot(out.z[at], out.z_dot[at], out.u[at], out.u_dot[at]);
            add_taps<K>(tile, wide, p / cols, p % cols, d.dot, sum);
            if (in.z_dot) add_taps<K>(tile_dot, wide, p / cols, p % cols, d.value, sum);
            sum[K * K] += d.dot;
        }
    }
    write_partials<K>(args, sum);
}

// One block per replica, one warp per sum: over the chunks, in double precision.
extern "C" __global__ void __launch_bounds__(256) plane_finish(const ConvArgs args) {
    wait_for_previous_kernel();
    int r = blockIdx.x, taps = args.rows * args.cols, sums = taps + 1;
    for (int t = threadIdx.x / 32; t < taps + args.has_bias; t += 8) {
        const T* own = args.partials + (u64)r * args.chunks * sums + t;
        double sum = 0.0;
#pragma unroll 8
        for (int chunk = threadIdx.x % 32; chunk < args.chunks; chunk += 32) sum += (double)own[chunk * sums];
        sum = sum_of_warp(sum);
        u64 place = t < taps ? args.weight + t : args.bias;
        if (threadIdx.x % 32 == 0) args.gradient[args.parameters * r + place] = (T)sum;
    }
}

#define PLANE(K) \
    extern "C" __global__ void __launch_bounds__(256) plane_forward_##K(const ConvArgs args) { wait_for_previous_kernel(); plane_forward<K>(args); } \
    extern "C" __global__ void __launch_bounds__(256) plane_data_##K(const ConvArgs args) { wait_for_previous_kernel(); plane_data<K>(args); } \
    extern "C" __global__ void __launch_bounds__(256) plane_weights_##K(const ConvArgs args) { wait_for_previous_kernel(); plane_weights<K>(args); } \
    extern "C" __global__ void __launch_bounds__(256) plane_forward_tangent_##K(const ConvTangentArgs args) { wait_for_previous_kernel(); plane_forward_tangent<K>(args); } \
    extern "C" __global__ void __launch_bounds__(256) plane_data_tangent_##K(const ConvTangentArgs args) { wait_for_previous_kernel(); plane_data_tangent<K>(args); } \
    extern "C" __global__ void __launch_bounds__(256) plane_weights_tangent_##K(const ConvTangentArgs args) { wait_for_previous_kernel(); plane_weights_tangent<K>(args); }
PLANE(3)
PLANE(5)
PLANE(7)
