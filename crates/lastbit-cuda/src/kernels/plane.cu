// Convolutions from one channel to one channel, stride 1. A block has an image: its values are
// activated once into shared memory, zeros around, and each thread goes over all taps for its pixels.
//
// The gradient by the weights: a block has a chunk of images; a thread sums over its pixels of each,
// then the lanes of a warp are added pairwise, the warps in their order, and plane_finish adds the
// chunks. The sum for the bias, of the gradient itself, goes along.

const int TILE = 2048;  // numbers of an image with the zeros around it, at most

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

// The same of numbers and their derivatives.
template <class Read>
__device__ __forceinline__ void fill_tiles(
    T* tile, T* tile_dot, int rows, int cols, int top, int left, int height, int width, Read read) {
    for (int i = threadIdx.x; i < rows * cols; i += 256) {
        int y = i / cols + top, x = i % cols + left;
        Both both = {T(0), T(0)};
        if (y >= 0 && y < height && x >= 0 && x < width) both = read(y * width + x);
        tile[i] = both.now;
        tile_dot[i] = both.dot;
    }
}

// The values of an image that a convolution reads, and their derivatives, unless they do not move.
__device__ __forceinline__ void fill_values(T* tile, T* tile_dot, int rows, int cols, const ConvJob& job,
    const DotReader& in, const ChannelDot& own, int image) {
    int height = job.in.height, width = job.in.width;
    const T* z = in.z + (u64)image * height * width;
    if (in.z_dot) {
        const T* z_dot = in.z_dot + (u64)image * height * width;
        fill_tiles(tile, tile_dot, rows, cols, -job.above, -job.left, height, width,
            [&](int at) { return own.value_and_dot(z[at], z_dot[at]); });
    } else {
        fill_tile(tile, rows, cols, -job.above, -job.left, height, width, [&](int at) { return own.value(z[at]); });
    }
}

// sum + w * tile at (y, x); or with the kernel turned by half a turn.
template <int K, bool TURNED>
__device__ __forceinline__ T taps(const T* tile, int cols, int y, int x, const T* w, T sum) {
#pragma unroll
    for (int i = 0; i < K; i++) {
#pragma unroll
        for (int j = 0; j < K; j++) {
            int at = TURNED ? K * K - 1 - (i * K + j) : i * K + j;
            sum = fused(tile[(y + i) * cols + x + j], w[at], sum);
        }
    }
    return sum;
}

template <int K>
__device__ __forceinline__ void load_weights(T* w, const T* from) {
    if (threadIdx.x < K * K) w[threadIdx.x] = from[threadIdx.x];
}

template <int K>
__device__ __forceinline__ void plane_forward(const ConvJob& job) {
    __shared__ T tile[TILE], w[K * K];
    int image = blockIdx.x, r = blockIdx.y, height = job.in.height, width = job.in.width;
    int rows = job.out.height, cols = job.out.width, wide = cols + K - 1;
    Reader in(job.in, r);
    Channel own(in, 0);
    const T* theta = job.theta + job.parameters * r;
    load_weights<K>(w, theta + job.weight);
    const T* z = in.z + (u64)image * height * width;
    fill_tile(tile, rows + K - 1, wide, -job.above, -job.left, height, width, [&](int at) { return own.value(z[at]); });
    __syncthreads();
    T start = job.has_bias ? theta[job.bias] : T(0);
    T* out = (T*)job.out.z + job.out.stride * r + (u64)image * rows * cols;
    for (int p = threadIdx.x; p < rows * cols; p += 256) {
        out[p] = taps<K, false>(tile, wide, p / cols, p % cols, w, start);
    }
}

template <int K>
__device__ __forceinline__ void plane_forward_dot(const ConvDotJob& both) {
    const ConvJob& job = both.conv;
    __shared__ T tile[TILE], tile_dot[TILE], w[K * K], w_dot[K * K];
    int image = blockIdx.x, r = blockIdx.y;
    int rows = job.out.height, cols = job.out.width, wide = cols + K - 1;
    DotReader in(job.in, both.in, r);
    ChannelDot own = in.channel(0);
    const T* direction = both.direction + job.parameters * r;
    load_weights<K>(w, job.theta + job.parameters * r + job.weight);
    load_weights<K>(w_dot, direction + job.weight);
    fill_values(tile, tile_dot, rows + K - 1, wide, job, in, own, image);
    __syncthreads();
    T start = job.has_bias ? direction[job.bias] : T(0);
    T* out = (T*)both.out.z + job.out.stride * r + (u64)image * rows * cols;
    for (int p = threadIdx.x; p < rows * cols; p += 256) {
        T sum = taps<K, false>(tile, wide, p / cols, p % cols, w_dot, start);
        if (in.z_dot) sum = taps<K, false>(tile_dot, wide, p / cols, p % cols, w, sum);
        out[p] = sum;
    }
}

template <int K>
__device__ __forceinline__ void plane_data(const ConvJob& job) {
    __shared__ T tile[TILE], w[K * K];
    int image = blockIdx.x, r = blockIdx.y, height = job.out.height, width = job.out.width;
    int rows = job.in.height, cols = job.in.width, wide = cols + K - 1;
    Reader out(job.out, r);
    Channel own(out, 0);
    load_weights<K>(w, job.theta + job.parameters * r + job.weight);
    const T* z = out.z + (u64)image * height * width;
    const T* u = out.u + (u64)image * height * width;
    fill_tile(tile, rows + K - 1, wide, job.above - K + 1, job.left - K + 1, height, width,
        [&](int at) { return own.gradient(z[at], u[at]); });
    __syncthreads();
    T* result = job.in.u + job.in.stride * r + (u64)image * rows * cols;
    for (int p = threadIdx.x; p < rows * cols; p += 256) {
        T sum = taps<K, true>(tile, wide, p / cols, p % cols, w, T(0));
        result[p] = job.add ? result[p] + sum : sum;
    }
}

template <int K>
__device__ __forceinline__ void plane_data_dot(const ConvDotJob& both) {
    const ConvJob& job = both.conv;
    __shared__ T tile[TILE], tile_dot[TILE], w[K * K], w_dot[K * K];
    int image = blockIdx.x, r = blockIdx.y, height = job.out.height, width = job.out.width;
    int rows = job.in.height, cols = job.in.width, wide = cols + K - 1;
    DotReader out(job.out, both.out, r);
    ChannelDot own = out.channel(0);
    load_weights<K>(w, job.theta + job.parameters * r + job.weight);
    load_weights<K>(w_dot, both.direction + job.parameters * r + job.weight);
    u64 first = (u64)image * height * width;
    const T *z = out.z + first, *u = out.u + first, *z_dot = out.z_dot + first, *u_dot = out.u_dot + first;
    fill_tiles(tile, tile_dot, rows + K - 1, wide, job.above - K + 1, job.left - K + 1, height, width,
        [&](int at) { return own.gradient_and_dot(z[at], z_dot[at], u[at], u_dot[at]); });
    __syncthreads();
    T* result = both.in.u + job.in.stride * r + (u64)image * rows * cols;
    for (int p = threadIdx.x; p < rows * cols; p += 256) {
        T sum = taps<K, true>(tile_dot, wide, p / cols, p % cols, w, T(0));
        sum = taps<K, true>(tile, wide, p / cols, p % cols, w_dot, sum);
        result[p] = job.add ? result[p] + sum : sum;
    }
}

// Adds what the threads of a block have for each tap and for the bias, and writes it to the block's
// part of the partial sums.
template <int K>
__device__ __forceinline__ void write_partials(const ConvJob& job, T (&sum)[K * K + 1]) {
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
    job.partials[((u64)blockIdx.y * job.chunks + blockIdx.x) * (K * K + 1) + t] = total;
}

// sum[tap] += tile at (y, x) + tap, times d
template <int K>
__device__ __forceinline__ void add_taps(const T* tile, int cols, int y, int x, T d, T (&sum)[K * K + 1]) {
#pragma unroll
    for (int i = 0; i < K; i++) {
#pragma unroll
        for (int j = 0; j < K; j++) sum[i * K + j] = fused(tile[(y + i) * cols + x + j], d, sum[i * K + j]);
    }
}

template <int K>
__device__ __forceinline__ void plane_weights(const ConvJob& job) {
    __shared__ T tile[TILE];
    int chunk = blockIdx.x, r = blockIdx.y, height = job.in.height, width = job.in.width;
    int rows = job.out.height, cols = job.out.width, wide = cols + K - 1;
    Reader in(job.in, r), out(job.out, r);
    Channel from(in, 0), to(out, 0);
    T sum[K * K + 1] = {};
    int end = min(job.images, (chunk + 1) * job.images_per_chunk);
    for (int image = chunk * job.images_per_chunk; image < end; image++) {
        const T* z = in.z + (u64)image * height * width;
        __syncthreads();
        fill_tile(tile, rows + K - 1, wide, -job.above, -job.left, height, width,
            [&](int at) { return from.value(z[at]); });
        __syncthreads();
        u64 first = (u64)image * rows * cols;
        for (int p = threadIdx.x; p < rows * cols; p += 256) {
            T d = to.gradient(out.z[first + p], out.u[first + p]);
            add_taps<K>(tile, wide, p / cols, p % cols, d, sum);
            sum[K * K] += d;
        }
    }
    write_partials<K>(job, sum);
}

template <int K>
__device__ __forceinline__ void plane_weights_dot(const ConvDotJob& both) {
    const ConvJob& job = both.conv;
    __shared__ T tile[TILE], tile_dot[TILE];
    int chunk = blockIdx.x, r = blockIdx.y;
    int rows = job.out.height, cols = job.out.width, wide = cols + K - 1;
    DotReader in(job.in, both.in, r), out(job.out, both.out, r);
    ChannelDot from = in.channel(0), to = out.channel(0);
    T sum[K * K + 1] = {};
    int end = min(job.images, (chunk + 1) * job.images_per_chunk);
    for (int image = chunk * job.images_per_chunk; image < end; image++) {
        __syncthreads();
        fill_values(tile, tile_dot, rows + K - 1, wide, job, in, from, image);
        __syncthreads();
        u64 first = (u64)image * rows * cols;
        for (int p = threadIdx.x; p < rows * cols; p += 256) {
            u64 at = first + p;
            Both d = to.gradient_and_dot(out.z[at], out.z_dot[at], out.u[at], out.u_dot[at]);
            add_taps<K>(tile, wide, p / cols, p % cols, d.dot, sum);
            if (in.z_dot) add_taps<K>(tile_dot, wide, p / cols, p % cols, d.now, sum);
            sum[K * K] += d.dot;
        }
    }
    write_partials<K>(job, sum);
}

// A block to a replica, a warp to a sum: over the chunks, in double precision.
extern "C" __global__ void __launch_bounds__(256) plane_finish(const ConvJob job) {
    in_turn();
    int r = blockIdx.x, taps = job.rows * job.cols, sums = taps + 1;
    for (int t = threadIdx.x / 32; t < taps + job.has_bias; t += 8) {
        const T* own = job.partials + (u64)r * job.chunks * sums + t;
        double sum = 0.0;
#pragma unroll 8
        for (int chunk = threadIdx.x % 32; chunk < job.chunks; chunk += 32) sum += (double)own[chunk * sums];
        sum = sum_of_warp(sum);
        u64 place = t < taps ? job.weight + t : job.bias;
        if (threadIdx.x % 32 == 0) job.gradient[job.parameters * r + place] = (T)sum;
    }
}

#define PLANE(K) \
    extern "C" __global__ void __launch_bounds__(256) plane_forward_##K(const ConvJob job) { in_turn(); plane_forward<K>(job); } \
    extern "C" __global__ void __launch_bounds__(256) plane_data_##K(const ConvJob job) { in_turn(); plane_data<K>(job); } \
    extern "C" __global__ void __launch_bounds__(256) plane_weights_##K(const ConvJob job) { in_turn(); plane_weights<K>(job); } \
    extern "C" __global__ void __launch_bounds__(256) plane_forward_dot_##K(const ConvDotJob job) { in_turn(); plane_forward_dot<K>(job); } \
    extern "C" __global__ void __launch_bounds__(256) plane_data_dot_##K(const ConvDotJob job) { in_turn(); plane_data_dot<K>(job); } \
    extern "C" __global__ void __launch_bounds__(256) plane_weights_dot_##K(const ConvDotJob job) { in_turn(); plane_weights_dot<K>(job); }
PLANE(3)
PLANE(5)
PLANE(7)
