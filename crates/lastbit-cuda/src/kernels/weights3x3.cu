// The gradient by the weights of the same convolutions.
//
//   dW[tap][ci][co] = sum over images and pixels of value[pixel + tap][ci] dz[pixel][co]
//
// A block has CI x CO weights and a chunk of the images, of which it keeps a tile in shared memory,
// batch norm and activation already applied. Its threads (or warps) are GROUPS that share the rows
// of a tile; the groups' sums are added in their order, and the chunks by conv_weights_finish.

#if SINGLE
struct WeightsJob {
    View in, out;
    float* partials;  // [replica][chunk][tap][ci][co]
    int images, chunks, images_per_chunk, rows;  // rows: inputs, rounded up to a multiple of 16
};

template <int WHAT, int STRIDE, int SIZE, int TH, int IMAGES, int CI, int CO>
__device__ __forceinline__ void weights3x3(const WeightsJob& job) {
    extern __shared__ T4 memory[];
    const int HIGH = (TH - 1) * STRIDE + 3, WIDTH = (SIZE - 1) * STRIDE + 3;
#if TENSOR
    // Pixels 8 numbers apart modulo 32 banks: 4 pixels of 8 channels hit all banks.
    const int COUNT = 256, XP = CI + 8, DP = CO + 8, XR = WIDTH * XP;
    const int COMBINATIONS = CI / 16 * (CO / 16), GROUPS = 8 / COMBINATIONS;
#else
    const int COUNT = 192, XP = CI, DP = CO, XR = WIDTH * XP + (CI == 16 ? 16 : 0);
    const int SHARE = 3 * (CI / 4) * (CO / 8), GROUPS = COUNT / SHARE;
#endif
    const int XI = HIGH * XR, DR = SIZE * DP, DI = TH * DR, TILES = SIZE / TH;
    const int ROWS = IMAGES * TH / GROUPS;
    static_assert(IMAGES * TH % GROUPS == 0, "each group has as many rows");
    float* x = (float*)memory;
    float* d = x + IMAGES * XI;
    int r = blockIdx.z, chunk = blockIdx.y, thread = threadIdx.x;
    int tiles_co = job.out.channels / CO;
    int ci0 = blockIdx.x / tiles_co * CI, co0 = blockIdx.x % tiles_co * CO;
    Reader in(job.in, r), out(job.out, r);
    int first = chunk * job.images_per_chunk;
    int end = min(first + job.images_per_chunk, job.images);
#if TENSOR
    int lane = thread % 32, warp = thread / 32;
    int group = warp / COMBINATIONS, combination = warp % COMBINATIONS;
    int ci = combination / (CO / 16) * 16, co = combination % (CO / 16) * 16;
    int g = lane / 4, t = lane % 4;
    float sum[9][2][4];
#pragma unroll
    for (int tap = 0; tap < 9; tap++)
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) sum[tap][j][e] = 0.f;
#else
    // A thread has a row of taps, 4 input and 8 output channels.
    int group = thread / SHARE, own = thread % SHARE;
    int co = own % (CO / 8) * 4, ci = own / (CO / 8) % (CI / 4) * 4, ky = own / (CO / 8) / (CI / 4);
    float sum[3][4][8];
#pragma unroll
    for (int kx = 0; kx < 3; kx++)
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 8; j++) sum[kx][i][j] = 0.f;
#endif
    for (int image = first; image < end; image += IMAGES) {
#pragma unroll 1
        for (int tile = 0; tile < TILES; tile++) {
            __syncthreads();
            fill<WHAT, TENSOR ? 4 : 5, COUNT, CI / 4, IMAGES, HIGH, WIDTH, XP, XR, XI>(
                x, in, SIZE * STRIDE, ci0, image, end, tile * TH * STRIDE - 1, -1);
            fill<GRADIENTS, TENSOR ? 2 : 3, COUNT, CO / 4, IMAGES, TH, SIZE, DP, DR, DI>(
                d, out, SIZE, co0, image, end, tile * TH, 0);
            __syncthreads();
#if TENSOR
#pragma unroll 1
            for (int i = 0; i < ROWS; i++) {
                int row = group * ROWS + i;
                const float* d_row = d + row / TH * DI + row % TH * DR + t * DP + co + g;
                const float* x_row = x + row / TH * XI + (row % TH * XR + t * XP) * STRIDE + ci + g;
#pragma unroll 1
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
                            asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                                "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                                : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[j][0]), "r"(b[j][1]));
                        }
                    }
                }
            }
#else
#pragma unroll 1
            for (int i = 0; i < ROWS; i++) {
                int row = group * ROWS + i;
                const float* x_row = x + row / TH * XI + (row % TH * STRIDE + ky) * XR + ci;
                const float* d_row = d + row / TH * DI + row % TH * DR + co;
                float window[3][4];
                *(T4*)window[0] = *(const T4*)x_row;
                if (STRIDE == 1) *(T4*)window[1] = *(const T4*)(x_row + XP);
#pragma unroll 2
                for (int col = 0; col < SIZE; col++) {
                    if (STRIDE == 2) *(T4*)window[1] = *(const T4*)(x_row + (2 * col + 1) * XP);
                    *(T4*)window[2] = *(const T4*)(x_row + (col * STRIDE + 2) * XP);
                    float b[8];
                    *(T4*)b = *(const T4*)(d_row + col * DP);
                    *(T4*)(b + 4) = *(const T4*)(d_row + col * DP + CO / 2);
#pragma unroll
                    for (int kx = 0; kx < 3; kx++)
#pragma unroll
                        for (int i = 0; i < 4; i++)
#pragma unroll
                            for (int j = 0; j < 8; j++) sum[kx][i][j] = fused(window[kx][i], b[j], sum[kx][i][j]);
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        window[0][i] = window[STRIDE][i];
                        window[1][i] = window[2][i];
                    }
                }
            }
#endif
        }
    }
    // The groups' sums, [group][tap][ci][co], in the tile's place.
    __syncthreads();
    float* all = (float*)memory + group * (9 * CI * CO);
#if TENSOR
#pragma unroll
    for (int tap = 0; tap < 9; tap++)
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                int row = ci + g + e / 2 * 8, column = co + j * 8 + 2 * t + e % 2;
                all[(tap * CI + row) * CO + column] = sum[tap][j][e];
            }
#else
#pragma unroll
    for (int kx = 0; kx < 3; kx++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float* at = all + ((ky * 3 + kx) * CI + ci + i) * CO + co;
            *(T4*)at = *(const T4*)sum[kx][i];
            *(T4*)(at + CO / 2) = *(const T4*)(sum[kx][i] + 4);
        }
#endif
    __syncthreads();
    int inputs = job.rows, outputs = job.out.channels;
    float* result = job.partials + (u64)(r * job.chunks + chunk) * 9 * inputs * outputs;
    for (int at = thread; at < 9 * CI * CO; at += COUNT) {
        float total = ((float*)memory)[at];
        for (int other = 1; other < GROUPS; other++) total += ((float*)memory)[other * 9 * CI * CO + at];
        int row = at / CO, tap = row / CI;
        result[(u64)(tap * inputs + ci0 + row % CI) * outputs + co0 + at % CO] = total;
    }
}

#if TENSOR
extern "C" __global__ void __launch_bounds__(256, 2) weights3x3_halve_16(const WeightsJob job) { in_turn(); weights3x3<VALUES, 2, 16, 8, 1, 16, 32>(job); }
extern "C" __global__ void __launch_bounds__(256, 2) weights3x3_halve_8(const WeightsJob job) { in_turn(); weights3x3<VALUES, 2, 8, 8, 1, 32, 32>(job); }
extern "C" __global__ void __launch_bounds__(256, 2) weights3x3_image_32(const WeightsJob job) { in_turn(); weights3x3<IMAGE_OF_FEW, 1, 32, 16, 1, 16, 16>(job); }
extern "C" __global__ void __launch_bounds__(256, 2) weights3x3_32(const WeightsJob job) { in_turn(); weights3x3<VALUES, 1, 32, 16, 1, 16, 16>(job); }
extern "C" __global__ void __launch_bounds__(256, 2) weights3x3_16(const WeightsJob job) { in_turn(); weights3x3<VALUES, 1, 16, 16, 1, 32, 32>(job); }
extern "C" __global__ void __launch_bounds__(256, 2) weights3x3_8(const WeightsJob job) { in_turn(); weights3x3<VALUES, 1, 8, 8, 2, 64, 32>(job); }
#else
extern "C" __global__ void __launch_bounds__(192, 2) weights3x3_halve_16(const WeightsJob job) { in_turn(); weights3x3<VALUES, 2, 16, 8, 1, 16, 32>(job); }
extern "C" __global__ void __launch_bounds__(192, 2) weights3x3_halve_8(const WeightsJob job) { in_turn(); weights3x3<VALUES, 2, 8, 8, 1, 32, 32>(job); }
extern "C" __global__ void __launch_bounds__(192, 2) weights3x3_image_32(const WeightsJob job) { in_turn(); weights3x3<IMAGE_OF_FEW, 1, 32, 16, 1, 16, 16>(job); }
extern "C" __global__ void __launch_bounds__(192, 2) weights3x3_32(const WeightsJob job) { in_turn(); weights3x3<VALUES, 1, 32, 16, 1, 16, 16>(job); }
extern "C" __global__ void __launch_bounds__(192, 2) weights3x3_16(const WeightsJob job) { in_turn(); weights3x3<VALUES, 1, 16, 16, 1, 32, 32>(job); }
extern "C" __global__ void __launch_bounds__(192, 2) weights3x3_8(const WeightsJob job) { in_turn(); weights3x3<VALUES, 1, 8, 8, 2, 64, 32>(job); }
#endif
#endif
