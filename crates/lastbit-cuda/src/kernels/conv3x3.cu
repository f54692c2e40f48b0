// 3x3 convolutions to images of 32x32, 16x16 and 8x8.
//
// A tile holds what a block reads for some of its results: pixels with their border, 64 bytes of channels at
// a time (16, or 8 in double precision), and the weights of these channels. A block computes several parts of
// the results, one after the other. The transposed convolution is the same loop over dL/dz with filters
// rotated by 180 degrees.
//
//   order of the sum: chunks of channels, columns of the filter, units of channels (16 bytes), rows of the
//   filter, channels of a unit; one chain per result
//
// On tensor cores (TF32) the factors are rounded to 10 bits after the point, sums stay in single
// precision, and a product takes 8 channels at a time.

struct Conv3x3Args {
    View from;         // the layer that is read
    T* result;         // [replica][image][pixel][channel]
    const T* added;    // laid out as the result, which it may be: is added to it; null: nothing
    const T* kernels;  // packed by pack_kernels
    const T* bias;     // null: no bias
    T* sums;           // moments of each part of the results; null: not computed
    u64 result_stride, kernels_stride, bias_stride;
    int channels, images, replicas, unused;
};

// A layer's weights, packed.
struct PackedLayer {
    T* forward;   // [replica][tap][ci][co], padded with zeros to `rows` input channels
    T* backward;  // [replica][8 - tap][co][ci]
    u64 weight, stride;
    int inputs, outputs, rows, unused;  // rows: inputs, rounded up to a multiple of 16
};

struct PackArgs {
    const T* theta;
    u64 parameters;
    PackedLayer layers[LAYERS_AT_ONCE];
};

// Index of the weight (row k, column n) of `tap` among rows x columns: row by row or, for tensor cores, in the
// order of a warp's lanes: 8 rows and 16 columns are 32 lanes of 4 numbers.
__device__ __forceinline__ int packed_at(int tap, int k, int n, int rows, int columns) {
#if TENSOR
    int lane = (n % 8) * 4 + k % 4, number = (n % 16 / 8) * 2 + k % 8 / 4;
    int block = (tap * (rows / 8) + k / 8) * (columns / 16) + n / 16;
    return (block * 32 + lane) * 4 + number;
#else
    return (tap * rows + k) * columns + n;
#endif
}

extern "C" __global__ void pack_kernels(const PackArgs args) {
    wait_for_previous_kernel();
    const PackedLayer& own = args.layers[blockIdx.z];
    int at = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (at >= 9 * own.rows * own.outputs) return;
    int tap = at % 9, ci = at / 9 % own.rows, co = at / 9 / own.rows;
    const T* weights = args.theta + args.parameters * r + own.weight;
    T w = ci < own.inputs ? round_factor(weights[(co * own.inputs + ci) * 9 + tap]) : T(0);
    own.forward[own.stride * r + packed_at(tap, ci, co, own.rows, own.outputs)] = w;
    own.backward[own.stride * r + packed_at(8 - tap, co, ci, own.outputs, own.rows)] = w;
}

// SIZE: height and width of the result. A part of the results has IMAGES x TH x SIZE pixels and CO channels;
// parts with the same weights are consecutive, and a block computes consecutive parts.
template <int WHAT, int STRIDE, int SIZE, int TH, int IMAGES, int CO>
struct Conv3x3 {
    static const int CI = 4 * UNIT, HIGH = (TH - 1) * STRIDE + 3, WIDTH = (SIZE - 1) * STRIDE + 3;
    static const int ROW = WIDTH * CI, IMAGE = HIGH * ROW, X = IMAGES * IMAGE, TILE = X + 9 * CI * CO;
    static const int STAGES = stages(TILE * sizeof(T)), PIXELS = IMAGES * TH * SIZE, TILES = SIZE / TH;

    const Conv3x3Args& args;
    int parts, inputs, rows, first, end;  // rows: of the packed weights, including padding

    __device__ __forceinline__ Conv3x3(const Conv3x3Args& args) : args(args) {
        parts = (args.images + IMAGES - 1) / IMAGES * TILES;
        inputs = (args.from.channels + CI - 1) / CI * CI;
        rows = (args.from.channels + 15) / 16 * 16;
        u64 all = (u64)parts * (args.channels / CO) * args.replicas;
        first = all * blockIdx.x / gridDim.x;
        end = all * (blockIdx.x + 1) / gridDim.x;
    }

    __device__ __forceinline__ void produce(T* memory) const {
        const bool BACK = WHAT == GRADIENTS || WHAT == SPREAD_GRADIENTS, WHOLE = TILES == 1;
        const int EDGE = SIZE * STRIDE, MOST = TENSOR ? (BACK ? 3 : 5) : BACK ? 2 : 3;
        TileLoader<WHAT, true, CI / 4, IMAGES, EDGE, WHOLE ? EDGE : HIGH, WHOLE, 1, HIGH, WIDTH, CI, !WHOLE, MOST> loader;
        int thread = threadIdx.x - CONSUMERS, tile = 0;
        clear(memory, STAGES * TILE);
        for (int item = first; item < end; item++) {
            int part = item % parts, co0 = item / parts % (args.channels / CO) * CO;
            int r = item / parts / (args.channels / CO);
            int image = part / TILES * IMAGES, y = WHOLE ? 0 : part % TILES * TH * STRIDE - 1;
            Reader from(args.from, r);
            const T* kernels = args.kernels + args.kernels_stride * r;
            for (int ci0 = 0; ci0 < inputs; ci0 += CI, tile++) {
                T* x = memory + tile % STAGES * TILE;
                loader.begin(from, ci0, image, args.images, y);
                if (tile >= STAGES) barrier_sync(EMPTY + tile % STAGES, CONSUMERS + PRODUCERS);
#if TENSOR
                // CO channels of 8 rows are CO * 8 numbers.
                const int BLOCK = CO * 8 / 4;
                for (int at = thread; at < 9 * CI / 8 * BLOCK; at += PRODUCERS) {
                    int row = at / BLOCK, tap = row / (CI / 8), k8 = ci0 / 8 + row % (CI / 8);
                    const float* source = kernels + (tap * (rows / 8) + k8) * args.channels * 8 + co0 * 8;
                    cp_async16((Unit*)(x + X) + at, (const Unit*)source + at % BLOCK);
                }
#else
                for (int at = thread; at < 9 * CI * CO / UNIT; at += PRODUCERS) {
                    int row = at / (CO / UNIT), tap = row / CI, k = ci0 + row % CI;
                    const T* source = kernels + (tap * rows + k) * args.channels + co0;
                    cp_async16((Unit*)(x + X) + at, (const Unit*)source + at % (CO / UNIT));
                }
#endif
                loader.finish(x, from, ci0, image, args.images, y);
                cp_async_wait();
                barrier_arrive(FULL + tile % STAGES, CONSUMERS + PRODUCERS);
            }
        }
    }

    __device__ __forceinline__ void consume(const T* memory) const;
};

template <int WHAT, int STRIDE, int SIZE, int TH, int IMAGES, int CO>
__device__ __forceinline__ void Conv3x3<WHAT, STRIDE, SIZE, TH, IMAGES, CO>::consume(const T* memory) const {
    const bool BACK = WHAT == GRADIENTS || WHAT == SPREAD_GRADIENTS;
    int thread = threadIdx.x, tile = 0, last = (end - first) * (inputs / CI);
    // With spread gradients, every other line of a tile is zero.
    auto is_zero = [](int line) { return WHAT == SPREAD_GRADIENTS && line % 2 == 0; };
    // Pixels of a thread or warp are below each other: what is read for one tap serves the next.
#if TENSOR
    // A warp has LINES lines of HALVES times 16 pixels and CW channels. A line of images of 8x8 is one
    // of each of two images. For ldmatrix a lane names pixel lane % 16, channels 4 (lane / 16) on.
    const int HALVES = SIZE < 32 ? 1 : 2, CW = CO < 32 ? CO : 32, ACROSS = CO / CW, DOWN = CONSUMERS / 32 / ACROSS;
    const int LINES = PIXELS / (16 * HALVES * DOWN), READ = STRIDE == 1 ? LINES + 2 : LINES;
    static_assert(SIZE > 8 ? IMAGES == 1 : IMAGES == 2, "lines of 16 pixels");
    int lane = thread % 32, down = thread / 32 % DOWN, across = thread / 32 / DOWN;
    int line = down * LINES, col = lane % (SIZE < 16 ? 8 : 16);
    const float* corner = memory + (SIZE < 16 ? lane % 16 / 8 * IMAGE : 0) + (line * ROW + col * CI) * STRIDE;
    unsigned base = (unsigned)__cvta_generic_to_shared(corner);
    // Channels of a thread, pixels per channel, and the other lanes and warps with pixels of these channels.
    const int NV = CW / 4, ROWS = 2 * LINES * HALVES, LANES = 32, LANE = 4, PARTS = DOWN;
    int own_part = down;
    bool is_first = lane < 4;
    // Neighbouring channels of a thread.
    const int WIDE = 2;
    typedef float2 Near;
    auto column = [&](int v) { return across * CW + v / 2 * 8 + lane % 4 * 2 + v % 2; };
    auto place = [&](int row, int& x, int& y, int& n) {
        x = SIZE < 16 ? lane / 4 : row / 2 % HALVES * 16 + row % 2 * 8 + lane / 4;
        y = line + row / 2 / HALVES;
        n = SIZE < 16 ? row % 2 : 0;
    };
#else
    // A thread has 8 pixels and NV channels.
    const int TM = PIXELS / 8, NV = TM * CO / CONSUMERS, READ = STRIDE == 1 ? 10 : 8;
    static_assert(TH % 8 == 0 && NV % 4 == 0, "8 pixels in a column, 4 or 8 channels");
    int tm = thread % TM, tn = thread / TM, line = tm / SIZE * 8, col = tm % SIZE;
    const T* corner = memory + line / TH * IMAGE + (line % TH * ROW + col * CI) * STRIDE;
    const int ROWS = 8, LANES = TM < 32 ? TM : 32, LANE = 1, PARTS = TM / LANES;
    int own_part = tm / LANES;
    bool is_first = tm % LANES == 0;
    const int WIDE = 4;
    typedef T4 Near;
    auto column = [&](int v) { return tn * NV + v; };
    auto place = [&](int row, int& x, int& y, int& n) {
        x = col;
        y = line % TH + row;
        n = line / TH;
    };
#endif
#pragma unroll 1
    for (int item = first; item < end; item++) {
        int part = item % parts, co0 = item / parts % (args.channels / CO) * CO;
        int r = item / parts / (args.channels / CO);
        int image = part / TILES * IMAGES, y0 = part % TILES * TH;
        T sum[ROWS][NV];
#pragma unroll
        for (int row = 0; row < ROWS; row++)
#pragma unroll
            for (int v = 0; v < NV; v++) sum[row][v] = T(0);
#pragma unroll 1
        for (int ci0 = 0; ci0 < inputs; ci0 += CI, tile++) {
            barrier_sync(FULL + tile % STAGES, CONSUMERS + PRODUCERS);
            int start = tile % STAGES * TILE;
            const T* w = memory + start + X;
#if TENSOR
#pragma unroll 1
            for (int kx = 0; kx < 3; kx++)
#pragma unroll
                for (int k8 = 0; k8 < CI / 8; k8++) {
                    unsigned a[READ][HALVES][4];
                    unsigned from = base + (start + kx * CI + 4 * swizzle(2 * k8 + lane / 16, col * STRIDE + kx)) * 4;
                    auto read = [&](int l, int row) {
#pragma unroll
                        for (int h = 0; h < HALVES; h++)
                            read_factor(a[l][h], from + (row * ROW + h * 16 * STRIDE * CI) * 4);
                    };
#pragma unroll
                    for (int l = 0; l < READ; l++)
                        if (STRIDE == 1) read(l, l);
#pragma unroll
                    for (int ky = 0; ky < 3; ky++) {
#pragma unroll
                        for (int l = 0; l < READ; l++)
                            if (STRIDE == 2) read(l, 2 * l + ky);
#pragma unroll
                        for (int j = 0; j < CW / 8; j++) {
                            int block = ((ky * 3 + kx) * (CI / 8) + k8) * (CO / 16) + across * (CW / 16) + j / 2;
                            const uint2 b = ((const uint2*)w)[(block * 32 + lane) * 2 + j % 2];
#pragma unroll
                            for (int l = 0; l < LINES; l++)
#pragma unroll
                                for (int h = 0; h < HALVES && !is_zero(l + ky); h++) {
                                    float(*c)[NV] = sum + 2 * (l * HALVES + h);
                                    multiply(c[0][2 * j], c[0][2 * j + 1], c[1][2 * j], c[1][2 * j + 1],
                                        a[STRIDE == 1 ? l + ky : l][h], b.x, b.y);
                                }
                        }
                    }
                }
#else
#pragma unroll 1
            for (int kx = 0; kx < 3; kx++)
#pragma unroll 1
                for (int c = 0; c < CI; c += UNIT) {
                    alignas(16) T a[READ][UNIT];
                    const T* from = corner + start + kx * CI + UNIT * swizzle(c / UNIT, col * STRIDE + kx);
                    const T* kernel = w + (kx * CI + c) * CO + tn * NV;
#pragma unroll
                    for (int l = 0; l < READ; l++)
                        if (STRIDE == 1) *(Unit*)a[l] = *(const Unit*)(from + l * ROW);
                    // Weights of the next step are read while this one is computed.
                    alignas(16) T b[NV], next[NV];
                    auto read = [&](int step) {
#pragma unroll
                        for (int j = 0; j < NV; j += UNIT)
                            *(Unit*)(next + j) = *(const Unit*)(kernel + (step / UNIT * 3 * CI + step % UNIT) * CO + j);
                    };
                    read(0);
#pragma unroll
                    for (int step = 0; step < 3 * UNIT; step++) {
                        const int ky = step / UNIT, k = step % UNIT;
#pragma unroll
                        for (int l = 0; l < READ; l++)
                            if (STRIDE == 2 && k == 0) *(Unit*)a[l] = *(const Unit*)(from + (2 * l + ky) * ROW);
#pragma unroll
                        for (int j = 0; j < NV; j++) b[j] = next[j];
                        if (step < 3 * UNIT - 1) read(step + 1);
#pragma unroll
                        for (int i = 0; i < 8; i++) {
                            if (is_zero(i + ky)) continue;
#pragma unroll
                            for (int j = 0; j < NV; j++)
                                sum[i][j] = fma_rn(a[STRIDE == 1 ? i + ky : i][k], b[j], sum[i][j]);
                        }
                    }
                }
#endif
            if (tile + STAGES < last) barrier_arrive(EMPTY + tile % STAGES, CONSUMERS + PRODUCERS);
        }

        if (args.bias) {
            const T* bias = args.bias + args.bias_stride * r + co0;
#pragma unroll
            for (int v = 0; v < NV; v++) {
                T b = bias[column(v)];
#pragma unroll
                for (int row = 0; row < ROWS; row++) sum[row][v] += b;
            }
        }
        // Whether a pixel's image is in the batch.
        auto is_there = [&](int row) {
            int x, y, n;
            place(row, x, y, n);
            return image + n < args.images;
        };
        u64 start = args.result_stride * r + co0;
        auto at = [&](int row, int v) {
            int x, y, n;
            place(row, x, y, n);
            return start + (((image + n) * SIZE + y0 + y) * SIZE + x) * args.channels + column(v);
        };
        // All reads come before the first write, so that they need not wait for each other.
        if (args.added) {
#pragma unroll
            for (int row = 0; row < ROWS; row++) {
                if (!is_there(row)) continue;
#pragma unroll
                for (int v = 0; v < NV; v += WIDE) {
                    const Near old = *(const Near*)(args.added + at(row, v));
#pragma unroll
                    for (int i = 0; i < WIDE; i++) sum[row][v + i] += ((const T*)&old)[i];
                }
            }
        }
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            if (!is_there(row)) continue;
#pragma unroll
            for (int v = 0; v < NV; v += WIDE) {
                Near now;
#pragma unroll
                for (int i = 0; i < WIDE; i++) ((T*)&now)[i] = sum[row][v + i];
                *(Near*)(args.result + at(row, v)) = now;
            }
        }
        if (BACK || !args.sums) continue;

        // Moments: sums over the pixels of a thread, the lanes of a warp, the warps.
        __shared__ T among[CO * PARTS];
        auto sum_up = [&](T(&own)[NV]) {
#pragma unroll
            for (int v = 0; v < NV; v++) {
#pragma unroll
                for (int gap = LANE; gap < LANES; gap *= 2) own[v] += __shfl_xor_sync(0xffffffffu, own[v], gap);
            }
            barrier_sync(CONSUMERS_ONLY, CONSUMERS);
#pragma unroll
            for (int v = 0; v < NV; v++)
                if (is_first) among[column(v) * PARTS + own_part] = own[v];
            barrier_sync(CONSUMERS_ONLY, CONSUMERS);
#pragma unroll
            for (int v = 0; v < NV; v++) {
                own[v] = among[column(v) * PARTS];
#pragma unroll
                for (int other = 1; other < PARTS; other++) own[v] += among[column(v) * PARTS + other];
            }
        };
        T mean[NV], squares[NV];
        // One over the number of pixels, a power of two.
        const T share = image + IMAGES <= args.images ? T(1) / PIXELS : T(1) / (TH * SIZE);
        static_assert(IMAGES <= 2 && (PIXELS & (PIXELS - 1)) == 0, "one image or two");
#pragma unroll
        for (int v = 0; v < NV; v++) mean[v] = squares[v] = T(0);
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            if (!is_there(row)) continue;
#pragma unroll
            for (int v = 0; v < NV; v++) mean[v] += sum[row][v];
        }
        sum_up(mean);
#pragma unroll
        for (int v = 0; v < NV; v++) mean[v] *= share;
#pragma unroll
        for (int row = 0; row < ROWS; row++) {
            if (!is_there(row)) continue;
#pragma unroll
            for (int v = 0; v < NV; v++) {
                T off = sum[row][v] - mean[v];
                squares[v] = fma_rn(off, off, squares[v]);
            }
        }
        sum_up(squares);
        T* out = args.sums + ((u64)r * parts + part) * 2 * args.channels + co0;
        if (is_first && own_part == 0) {
#pragma unroll
            for (int v = 0; v < NV; v++) {
                out[column(v)] = mean[v];
                out[args.channels + column(v)] = squares[v];
            }
        }
    }
}

template <int WHAT, int STRIDE, int SIZE, int TH, int IMAGES, int CO>
__device__ __forceinline__ void conv3x3(const Conv3x3Args& args) {
    wait_for_previous_kernel();
    extern __shared__ T4 memory[];
    Conv3x3<WHAT, STRIDE, SIZE, TH, IMAGES, CO> conv(args);
    if (threadIdx.x < CONSUMERS) {
        raise_register_limit<TENSOR ? 144 : 168>();
        conv.consume((T*)memory);
    } else {
        lower_register_limit<TENSOR ? 112 : 88>();
        conv.produce((T*)memory);
    }
}

extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM) conv3x3_forward_32(const Conv3x3Args args) { conv3x3<VALUES, 1, 32, 16, 1, 16>(args); }
extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM) conv3x3_image_32(const Conv3x3Args args) { conv3x3<IMAGE_OF_FEW, 1, 32, 16, 1, 16>(args); }
extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM) conv3x3_forward_16(const Conv3x3Args args) { conv3x3<VALUES, 1, 16, 16, 1, 32>(args); }
extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM) conv3x3_forward_8(const Conv3x3Args args) { conv3x3<VALUES, 1, 8, 8, 2, 32>(args); }
extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM) conv3x3_halve_16(const Conv3x3Args args) { conv3x3<VALUES, 2, 16, 16, 1, 32>(args); }
extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM) conv3x3_halve_8(const Conv3x3Args args) { conv3x3<VALUES, 2, 8, 8, 2, 32>(args); }
extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM) conv3x3_data_32(const Conv3x3Args args) { conv3x3<GRADIENTS, 1, 32, 16, 1, 16>(args); }
extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM) conv3x3_data_16(const Conv3x3Args args) { conv3x3<GRADIENTS, 1, 16, 16, 1, 32>(args); }
extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM) conv3x3_data_8(const Conv3x3Args args) { conv3x3<GRADIENTS, 1, 8, 8, 2, 32>(args); }
extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM) conv3x3_double_32(const Conv3x3Args args) { conv3x3<SPREAD_GRADIENTS, 1, 32, 16, 1, 16>(args); }
extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM) conv3x3_double_16(const Conv3x3Args args) { conv3x3<SPREAD_GRADIENTS, 1, 16, 16, 1, 32>(args); }
