// Batch norm's sums and the sum of two layers, four channels at a time, where the number of channels
// is 4, 8, 16, … up to 1024. A block computes an image: each thread sums in the order of its pixels, then
// the threads are added pairwise.

const int THREADS = 256;

// Sums over the threads of each group of four channels, of COUNT numbers at once.
template <int COUNT>
__device__ __forceinline__ void sum_of_block(T4 (&sums)[COUNT], int groups) {
    __shared__ T4 part[COUNT][THREADS];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < COUNT; k++) part[k][threadIdx.x] = sums[k];
    for (int gap = THREADS / 2; gap >= groups; gap /= 2) {
        __syncthreads();
        if (threadIdx.x >= gap) continue;
#pragma unroll
        for (int k = 0; k < COUNT; k++) part[k][threadIdx.x] = part[k][threadIdx.x] + part[k][threadIdx.x + gap];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < COUNT; k++) sums[k] = part[k][threadIdx.x % groups];
}

// Calls `use(at, numbers)` for each position of a thread, in their order, where `numbers` are the vectors at this
// position of COUNT arrays. AT_ONCE positions are read before the first is used: what `use` writes may be in one of
// these arrays, so that the compiler would not read ahead by itself.
template <int COUNT, int AT_ONCE, class Use>
__device__ __forceinline__ void each_vec4(const T4* const (&arrays)[COUNT], int count, Use use) {
    for (int first = threadIdx.x; first < count; first += THREADS * AT_ONCE) {
        T4 numbers[AT_ONCE][COUNT];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            int at = first + j * THREADS;
#pragma unroll
            for (int k = 0; k < COUNT; k++) {
                if (at < count) numbers[j][k] = arrays[k][at];
            }
        }
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {
            int at = first + j * THREADS;
            if (at < count) use(at, numbers[j]);
        }
    }
}

// Vectors that a thread reads at once: as many as there are registers for.
const int VECTORS = 64 / sizeof(T);

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
    T4 total[1] = {sum};
    sum_of_block(total, groups);
    T many = T(pixels);
    T4 mean = vec4(total[0].x / many, total[0].y / many, total[0].z / many, total[0].w / many);
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
    total[0] = squares;
    sum_of_block(total, groups);
    if (threadIdx.x < groups) {
        ((T4*)out)[threadIdx.x] = mean;
        ((T4*)(out + channels))[threadIdx.x] = total[0];
    }
}

// Writes COUNT sums of each channel of an image.
template <int COUNT>
__device__ __forceinline__ void store_sums(T4 (&sums)[COUNT], T* out, int channels) {
    sum_of_block(sums, channels / 4);
    if (threadIdx.x >= channels / 4) return;
#pragma unroll
    for (int k = 0; k < COUNT; k++) ((T4*)(out + k * channels))[threadIdx.x] = sums[k];
}

extern "C" __global__ void __launch_bounds__(256) norm_moments_vec4(const NormArgs args) {
    wait_for_previous_kernel();
    int count = args.layer.height * args.layer.width * args.layer.channels / 4;
    if (count == 16 * THREADS) moments<16>(args);
    else if (count == 8 * THREADS) moments<8>(args);
    else if (count == 4 * THREADS) moments<4>(args);
    else moments<0>(args);
}

__device__ __forceinline__ bool is_smooth(const View& layer) { return layer.activation > RELU; }

template <bool SMOOTH>
__device__ __forceinline__ void gradient_sums(const NormArgs& args) {
    int image = blockIdx.x, r = blockIdx.y, channels = args.layer.channels, groups = channels / 4;
    int pixels = args.layer.height * args.layer.width, count = pixels * groups;
    Reader reader(args.layer, r);
    const T4* z = (const T4*)(reader.z + (u64)image * pixels * channels);
    T4* u = (T4*)(reader.u + (u64)image * pixels * channels);
    int channel = threadIdx.x % groups * 4;
    Channel4<SMOOTH> own(reader, channel, false);
    bool slopes = args.slopes;
    T4 mean = *(const T4*)(reader.norm + 2 * channels + channel);
    T4 sums[2] = {vec4(0, 0, 0, 0), vec4(0, 0, 0, 0)};
    each_vec4<2, VECTORS / 2>({z, u}, count, [&](int at, const T4 (&at_once)[2]) {
        T4 g = own.slope(at_once[0], at_once[1]);
        if (slopes) u[at] = g;
        sums[0] = sums[0] + g;
        sums[1] = fma_rn(g, at_once[0] - mean, sums[1]);
    });
    store_sums(sums, args.sums + ((u64)r * args.images + image) * 2 * channels, channels);
}

extern "C" __global__ void __launch_bounds__(256) norm_gradient_sums_vec4(const NormArgs args) {
    wait_for_previous_kernel();
    if (is_smooth(args.layer)) gradient_sums<true>(args);
    else gradient_sums<false>(args);
}

// The sum of two layers.
struct AddArgs {
    View first, second, sum;
    T* sums;  // backward: sums of the first input's batch norm; null if it has none
    int images, unused;
};

template <bool SMOOTH>
__device__ __forceinline__ void sum_forward(const AddArgs& args) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y, channels = args.sum.channels;
    if (at >= args.images * args.sum.height * args.sum.width * channels / 4) return;
    Reader a(args.first, r), b(args.second, r);
    int channel = at % (channels / 4) * 4;
    Channel4<SMOOTH> first(a, channel, false), second(b, channel, false);
    T4 sum = first.value(((const T4*)a.z)[at]) + second.value(((const T4*)b.z)[at]);
    ((T4*)(args.sum.z + args.sum.stride * r))[at] = sum;
}

extern "C" __global__ void __launch_bounds__(256) sum_forward_vec4(const AddArgs args) {
    wait_for_previous_kernel();
    if (is_smooth(args.first) || is_smooth(args.second)) sum_forward<true>(args);
    else sum_forward<false>(args);
}

// The gradient by both inputs, which overwrites that by the sum, and the sums that the batch norm of the
// first input needs.
template <bool SMOOTH>
__device__ __forceinline__ void sum_backward(const AddArgs& args) {
    int image = blockIdx.x, r = blockIdx.y, channels = args.sum.channels, groups = channels / 4;
    int pixels = args.sum.height * args.sum.width, count = pixels * groups;
    Reader sum_reader(args.sum, r), first_reader(args.first, r);
    u64 start = (u64)image * pixels * channels;
    const T4* z = (const T4*)(sum_reader.z + start);
    T4* u = (T4*)(sum_reader.u + start);
    int channel = threadIdx.x % groups * 4;
    Channel4<SMOOTH> own(sum_reader, channel, true);
    if (!args.sums) {
        each_vec4<2, VECTORS / 2>({z, u}, count,
            [&](int at, const T4 (&at_once)[2]) { u[at] = own.gradient(at_once[0], at_once[1]); });
        return;
    }
    Channel4<SMOOTH> first(first_reader, channel, false);
    const T4* z_first = (const T4*)(first_reader.z + start);
    T4 mean = *(const T4*)(first_reader.norm + 2 * channels + channel);
    T4 sums[2] = {vec4(0, 0, 0, 0), vec4(0, 0, 0, 0)};
    each_vec4<3, VECTORS / 4>({z, u, z_first}, count, [&](int at, const T4 (&at_once)[3]) {
        T4 d = own.gradient(at_once[0], at_once[1]), g = first.slope(at_once[2], d);
        u[at] = d;
        sums[0] = sums[0] + g;
        sums[1] = fma_rn(g, at_once[2] - mean, sums[1]);
    });
    store_sums(sums, args.sums + ((u64)r * args.images + image) * 2 * channels, channels);
}

extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM) sum_backward_vec4(const AddArgs args) {
    wait_for_previous_kernel();
    if (is_smooth(args.sum) || is_smooth(args.first)) sum_backward<true>(args);
    else sum_backward<false>(args);
}
