// The gradient by the weights of the same convolutions.
//
//   dW[tap][ci][co] = sum over images and pixels of value[pixel + tap][ci] dz[pixel][co]
//
// A block computes CI x CO weights over a chunk of images. GROUPS of consumers share the rows of a tile; the
// groups' sums are added in their order, and the chunks by conv_weights_finish.

struct Weights3x3Args {
    View input, output;
    T* partials;  // [replica][chunk][tap][ci][co]
    int images, chunks, images_per_chunk, rows;  // rows: inputs, rounded up to a multiple of 16
};

// Two neighbouring numbers.
struct alignas(2 * sizeof(T)) T2 {
    T x, y;
};

template <int WHAT, int STRIDE, int SIZE, int TH, int IMAGES, int CI, int CO>
struct Weights3x3 {
    static const int HIGH = (TH - 1) * STRIDE + 3, WIDTH = (SIZE - 1) * STRIDE + 3;
    // For tensor cores pixels are 8 numbers apart modulo 32 banks: 4 pixels of 8 channels hit all banks.
    static const int XP = CI + (TENSOR ? 8 : 0), DP = CO + (TENSOR ? 8 : 0), XR = WIDTH * XP, DR = SIZE * DP;
    static const int XI = HIGH * XR, DI = TH * DR, TILES = SIZE / TH, TILE = IMAGES * (XI + DI);
    static const int STAGES = stages(TILE * sizeof(T));
    // On tensor cores a warp computes 16 x 16 channels; else a thread 2 input and 4 output channels.
    static const int SHARE = TENSOR ? CI / 16 * (CO / 16) * 32 : CI / 2 * (CO / 4), GROUPS = CONSUMERS / SHARE;
    static const int ROWS = IMAGES * TH / GROUPS;
    static_assert(IMAGES * TH % GROUPS == 0 && GROUPS > 0, "each group has as many rows");

    const Weights3x3Args& args;
    int r, chunk, ci0, co0, begin, end, last;

    __device__ __forceinline__ Weights3x3(const Weights3x3Args& args) : args(args) {
        r = blockIdx.z;
        chunk = blockIdx.y;
        int tiles_co = args.output.channels / CO;
        ci0 = blockIdx.x / tiles_co * CI;
        co0 = blockIdx.x % tiles_co * CO;
        begin = chunk * args.images_per_chunk;
        end = min(begin + args.images_per_chunk, args.images);
        last = (end - begin + IMAGES - 1) / IMAGES * TILES;
    }

    __device__ __forceinline__ void produce(T* memory) const {
        const int EDGE = SIZE * STRIDE;
        const bool WHOLE = TILES == 1;
        TileLoader<WHAT, false, CI / 4, IMAGES, EDGE, WHOLE ? EDGE : HIGH, WHOLE, 1, HIGH, WIDTH, XP, !WHOLE, TENSOR ? 4 : 3>
            values;
        TileLoader<GRADIENTS, false, CO / 4, IMAGES, SIZE, TH, 0, 0, TH, SIZE, DP, false, TENSOR ? 3 : 2> gradients;
        Reader in(args.input, r), out(args.output, r);
        clear(memory, STAGES * TILE);
        for (int tile = 0; tile < last; tile++) {
            T* x = memory + tile % STAGES * TILE;
            int image = begin + tile / TILES * IMAGES, y = tile % TILES * TH, above = WHOLE ? 0 : y * STRIDE - 1;
            values.begin(in, ci0, image, end, above);
            gradients.begin(out, co0, image, end, y);
            if (tile >= STAGES) barrier_sync(EMPTY + tile % STAGES, CONSUMERS + PRODUCERS);
            values.finish(x, in, ci0, image, end, above);
            gradients.finish(x + IMAGES * XI, out, co0, image, end, y);
            barrier_arrive(FULL + tile % STAGES, CONSUMERS + PRODUCERS);
        }
    }

    __device__ __forceinline__ void consume(T* memory) const;
};

template <int WHAT, int STRIDE, int SIZE, int TH, int IMAGES, int CI, int CO>
__device__ __forceinline__ void Weights3x3<WHAT, STRIDE, SIZE, TH, IMAGES, CI, CO>::consume(T* memory) const {
    int thread = threadIdx.x;
    int group = thread / SHARE;
#if TENSOR
    int lane = thread % 32, combination = thread % SHARE / 32;
    int ci = combination / (CO / 16) * 16, co = combination % (CO / 16) * 16;
    int g = lane / 4, t = lane % 4;
#else
    int co = thread % SHARE % (CO / 4) * 4, ci = thread % SHARE / (CO / 4) * 2;
#endif
    alignas(16) T sum[9][2][4];
#pragma unroll
    for (int tap = 0; tap < 9; tap++)
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) sum[tap][i][j] = T(0);
#pragma unroll 1
    for (int tile = 0; tile < last; tile++) {
        barrier_sync(FULL + tile % STAGES, CONSUMERS + PRODUCERS);
        const T* x = memory + tile % STAGES * TILE;
        const T* d = x + IMAGES * XI;
#pragma unroll 1
        for (int i = 0; i < ROWS; i++) {
            int row = group * ROWS + i;
#if TENSOR
            const float* d_row = d + row / TH * DI + row % TH * DR + t * DP + co + g;
            const float* x_row = x + row / TH * XI + (row % TH * XR + t * XP) * STRIDE + ci + g;
#pragma unroll 2
            for (int col = 0; col < SIZE; col += 8) {
                unsigned b[2][2];
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    b[j][0] = __float_as_uint(d_row[col * DP + j * 8]);
                    b[j][1] = __float_as_uint(d_row[(col + 4) * DP + j * 8]);
                }
#pragma unroll
                for (int tap = 0; tap < 9; tap++) {
                    const float* at = x_row + tap / 3 * XR + (col * STRIDE + tap % 3) * XP;
                    unsigned a[4] = {__float_as_uint(at[0]), __float_as_uint(at[8]),
                        __float_as_uint(at[4 * STRIDE * XP]), __float_as_uint(at[4 * STRIDE * XP + 8])};
#pragma unroll
                    for (int j = 0; j < 2; j++) {
                        float* c = sum[tap][j];
                        multiply(c[0], c[1], c[2], c[3], a, b[j][0], b[j][1]);
                    }
                }
            }
#else
            const T* x_row = x + row / TH * XI + row % TH * STRIDE * XR + ci;
            const T* d_row = d + row / TH * DI + row % TH * DR + co;
            alignas(2 * sizeof(T)) T window[3][3][2];
#pragma unroll
            for (int ky = 0; ky < 3; ky++) {
                *(T2*)window[ky][0] = *(const T2*)(x_row + ky * XR);
                if (STRIDE == 1) *(T2*)window[ky][1] = *(const T2*)(x_row + ky * XR + XP);
            }
#pragma unroll 8
            for (int col = 0; col < SIZE; col++) {
                alignas(16) T b[4];
                *(T4*)b = *(const T4*)(d_row + col * DP);
#pragma unroll
                for (int ky = 0; ky < 3; ky++) {
                    const T* at = x_row + ky * XR + col * STRIDE * XP;
                    if (STRIDE == 2) *(T2*)window[ky][1] = *(const T2*)(at + XP);
                    *(T2*)window[ky][2] = *(const T2*)(at + 2 * XP);
#pragma unroll
                    for (int kx = 0; kx < 3; kx++)
#pragma unroll
                        for (int i = 0; i < 2; i++)
#pragma unroll
                            for (int j = 0; j < 4; j++)
                                sum[ky * 3 + kx][i][j] = fma_rn(window[ky][kx][i], b[j], sum[ky * 3 + kx][i][j]);
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        window[ky][0][i] = window[ky][STRIDE][i];
                        window[ky][1][i] = window[ky][2][i];
                    }
                }
            }
#endif
        }
        if (tile + STAGES < last) barrier_arrive(EMPTY + tile % STAGES, CONSUMERS + PRODUCERS);
    }
    // The groups' sums, [group][tap][ci][co], overwrite the tiles.
    barrier_sync(CONSUMERS_ONLY, CONSUMERS);
    T* all = memory + group * (9 * CI * CO);
#pragma unroll
    for (int tap = 0; tap < 9; tap++) {
#if TENSOR
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int row = ci + g + e / 2 * 8, column = co + j * 8 + 2 * t + e % 2;
                all[(tap * CI + row) * CO + column] = sum[tap][j][e];
            }
#else
#pragma unroll
        for (int i = 0; i < 2; i++) *(T4*)(all + (tap * CI + ci + i) * CO + co) = *(const T4*)sum[tap][i];
#endif
    }
    barrier_sync(CONSUMERS_ONLY, CONSUMERS);
    int inputs = args.rows, outputs = args.output.channels;
    T* result = args.partials + (u64)(r * args.chunks + chunk) * 9 * inputs * outputs;
    for (int at = thread; at < 9 * CI * CO; at += CONSUMERS) {
        T total = memory[at];
        for (int other = 1; other < GROUPS; other++) total += memory[other * 9 * CI * CO + at];
        int row = at / CO, tap = row / CI;
        result[(u64)(tap * inputs + ci0 + row % CI) * outputs + co0 + at % CO] = total;
    }
}

template <int WHAT, int STRIDE, int SIZE, int TH, int IMAGES, int CI, int CO>
__device__ __forceinline__ void weights3x3(const Weights3x3Args& args) {
    wait_for_previous_kernel();
    extern __shared__ T4 memory[];
    Weights3x3<WHAT, STRIDE, SIZE, TH, IMAGES, CI, CO> weights(args);
    if (threadIdx.x < CONSUMERS) {
        raise_register_limit<144>();
        weights.consume((T*)memory);
    } else {
        lower_register_limit<112>();
        weights.produce((T*)memory);
    }
}

extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM) weights3x3_halve_16(const Weights3x3Args args) { weights3x3<VALUES, 2, 16, 4, 1, 16, 32>(args); }
extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM) weights3x3_halve_8(const Weights3x3Args args) { weights3x3<VALUES, 2, 8, 8, 1, 32, 32>(args); }
extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM) weights3x3_image_32(const Weights3x3Args args) { weights3x3<IMAGE_OF_FEW, 1, 32, 8, 1, 16, 16>(args); }
extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM) weights3x3_32(const Weights3x3Args args) { weights3x3<VALUES, 1, 32, 8, 1, 16, 16>(args); }
extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM) weights3x3_16(const Weights3x3Args args) { weights3x3<VALUES, 1, 16, 8, 1, 32, 32>(args); }
extern "C" __global__ void __launch_bounds__(256, BLOCKS_PER_SM) weights3x3_8(const Weights3x3Args args) { weights3x3<VALUES, 1, 8, 8, 2, 32, 32>(args); }
