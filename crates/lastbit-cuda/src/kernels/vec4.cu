// Batch norm's sums and the sum of two layers, four channels at a time, where the number of channels
// is 4, 8, 16, … up to 1024. A block computes an image: each thread sums in the order of its pixels, then
// the threads are added pairwise.

const int THREADS = 256;

// Sum over the threads of each group of four channels.
__device__ __forceinline__ T4 sum_of_block(T4 sum, int groups) {
    __shared__ T4 part[THREADS];
    __syncthreads();
    part[threadIdx.x] = sum;
    for (int gap = THREADS / 2; gap >= groups; gap /= 2) {
        __syncthreads();
        if (threadIdx.x < gap) part[threadIdx.x] = part[threadIdx.x] + part[threadIdx.x + gap];
    }
    __syncthreads();
    return part[threadIdx.x % groups];
}

// KEPT: how many vectors a thread keeps in registers; 0 where an image has too many.
template <int KEPT>
__device__ __forceinline__ void moments(const NormArgs& args) {
    int image = blockIdx.x, r = blockIdx.y, channels = args.layer.channels, groups = channels / 4;
    int pixels = args.layer.height * args.layer.width, count = pixels * groups;
    const T4* z = (const T4*)(args.layer.z + args.layer.stride * r + (u64)image * pixels * channels);
    T* out = args.sums + ((u64)r * args.images + image) * 2 * channels;
    T4 kept[KEPT ? KEPT : 1], sum = vec4(0, 0, 0, 0);
    if (KEPT) {
#pragma unroll
        for (int i = 0; i < KEPT; i++) kept[i] = z[threadIdx.x + i * THREADS];
#pragma unroll
        for (int i = 0; i < KEPT; i++) sum = sum + kept[i];
    } else {
        for (int at = threadIdx.x; at < count; at += THREADS) sum = sum + z[at];
    }
    sum = sum_of_block(sum, groups);
    T many = T(pixels);
    T4 mean = vec4(sum.x / many, sum.y / many, sum.z / many, sum.w / many);
    T4 squares = vec4(0, 0, 0, 0);
    if (KEPT) {
#pragma unroll
        for (int i = 0; i < KEPT; i++) {
            T4 off = kept[i] - mean;
            squares = fma_rn(off, off, squares);
        }
    } else {
        for (int at = threadIdx.x; at < count; at += THREADS) {
            T4 off = z[at] - mean;
            squares = fma_rn(off, off, squares);
        }
    }
    squares = sum_of_block(squares, groups);
    if (threadIdx.x < groups) {
        ((T4*)out)[threadIdx.x] = mean;
        ((T4*)(out + channels))[threadIdx.x] = squares;
    }
}

extern "C" __global__ void __launch_bounds__(256) norm_moments_vec4(const NormArgs args) {
    wait_for_previous_kernel();
    int count = args.layer.height * args.layer.width * args.layer.channels / 4;
    if (count == 16 * THREADS) moments<16>(args);
    else if (count == 8 * THREADS) moments<8>(args);
    else if (count == 4 * THREADS) moments<4>(args);
    else moments<0>(args);
}

extern "C" __global__ void __launch_bounds__(256) norm_gradient_sums_vec4(const NormArgs args) {
    wait_for_previous_kernel();
    int image = blockIdx.x, r = blockIdx.y, channels = args.layer.channels, groups = channels / 4;
    int pixels = args.layer.height * args.layer.width, count = pixels * groups;
    Reader reader(args.layer, r);
    const T4* z = (const T4*)(reader.z + (u64)image * pixels * channels);
    T4* u = (T4*)(reader.u + (u64)image * pixels * channels);
    int channel = threadIdx.x % groups * 4;
    Channel4 own(reader, channel, false);
    bool slopes = args.slopes;
    T4 mean = *(const T4*)(reader.norm + 2 * channels + channel);
    T4 first = vec4(0, 0, 0, 0), second = first;
#pragma unroll 4
    for (int at = threadIdx.x; at < count; at += THREADS) {
        T4 x = z[at], g = own.slope(x, u[at]);
        if (slopes) u[at] = g;
        first = first + g;
        second = fma_rn(g, x - mean, second);
    }
    first = sum_of_block(first, groups);
    second = sum_of_block(second, groups);
    T* out = args.sums + ((u64)r * args.images + image) * 2 * channels;
    if (threadIdx.x < groups) {
        ((T4*)out)[threadIdx.x] = first;
        ((T4*)(out + channels))[threadIdx.x] = second;
    }
}

// The sum of two layers.
struct AddArgs {
    View first, second, sum;
    T* sums;  // backward: sums of the first input's batch norm; null if it has none
    int images, unused;
};

extern "C" __global__ void __launch_bounds__(256) sum_forward_vec4(const AddArgs args) {
    wait_for_previous_kernel();
    int at = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y, channels = args.sum.channels;
    if (at >= args.images * args.sum.height * args.sum.width * channels / 4) return;
    Reader a(args.first, r), b(args.second, r);
    int channel = at % (channels / 4) * 4;
    Channel4 first(a, channel, false), second(b, channel, false);
    T4 sum = first.value(((const T4*)a.z)[at]) + second.value(((const T4*)b.z)[at]);
    ((T4*)(args.sum.z + args.sum.stride * r))[at] = sum;
}

// The gradient by both inputs, which overwrites that by the sum, and the sums that the batch norm of the
// first input needs.
extern "C" __global__ void __launch_bounds__(256) sum_backward_vec4(const AddArgs args) {
    wait_for_previous_kernel();
    int image = blockIdx.x, r = blockIdx.y, channels = args.sum.channels, groups = channels / 4;
    int pixels = args.sum.height * args.sum.width, count = pixels * groups;
    Reader sum_reader(args.sum, r), first_reader(args.first, r);
    u64 start = (u64)image * pixels * channels;
    const T4* z = (const T4*)(sum_reader.z + start);
    T4* u = (T4*)(sum_reader.u + start);
    int channel = threadIdx.x % groups * 4;
    Channel4 own(sum_reader, channel, true);
    if (!args.sums) {
#pragma unroll 4
        for (int at = threadIdx.x; at < count; at += THREADS) u[at] = own.gradient(z[at], u[at]);
        return;
    }
    Channel4 first(first_reader, channel, false);
    const T4* z_first = (const T4*)(first_reader.z + start);
    T4 mean = *(const T4*)(first_reader.norm + 2 * channels + channel);
    T4 total = vec4(0, 0, 0, 0), products = total;
#pragma unroll 4
    for (int at = threadIdx.x; at < count; at += THREADS) {
        T4 d = own.gradient(z[at], u[at]), x = z_first[at];
        u[at] = d;
        T4 g = first.slope(x, d);
        total = total + g;
        products = fma_rn(g, x - mean, products);
    }
    total = sum_of_block(total, groups);
    products = sum_of_block(products, groups);
    T* out = args.sums + ((u64)r * args.images + image) * 2 * channels;
    if (threadIdx.x < groups) {
        ((T4*)out)[threadIdx.x] = total;
        ((T4*)(out + channels))[threadIdx.x] = products;
    }
}
