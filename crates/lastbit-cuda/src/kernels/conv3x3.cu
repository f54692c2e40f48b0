// 3x3 convolutions to images of 32x32, 16x16 and 8x8 in single precision.
//
// A block keeps a tile of pixels with its border in shared memory, 16 channels at a time, batch norm
// and activation already applied, and the kernels of these channels. The transposed convolution is
// the same loop over dL/dz with kernels turned by half a turn.
//
//   sum over chunks of 16 channels, then taps, then channels of a chunk: one chain per result
//
// On tensor cores (TF32) the factors are rounded to 10 bits after the point, sums stay in single
// precision, and a product takes 8 channels at a time.

#if SINGLE
struct FastJob {
    View from;            // the layer that is read
    float* result;        // [replica][image][pixel][channel]
    const float* kernels;  // packed by pack_kernels
    const float* bias;    // null for none
    float* sums;          // moments of the results of each block; null for none
    u64 result_stride, kernels_stride, bias_stride;
    int channels, add, images, unused;
};

struct PackJob {
    const float* theta;
    float* forward;   // [replica][tap][ci][co], zeros where ci is none of the inputs
    float* backward;  // [replica][8 - tap][co][ci]
    u64 parameters, weight, stride;
    int inputs, outputs, rows, unused;  // rows: inputs, rounded up to a multiple of 16
};

__device__ __forceinline__ float rounded(float x) {
#if TENSOR
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
#else
    return x;
#endif
}

// Where kernel (row k, column n) of `tap` lies among rows x columns: row by row or, on tensor
// cores, as the lanes of a warp take it: 8 rows and 16 columns are 32 lanes of 4 numbers.
__device__ __forceinline__ int packed_at(int tap, int k, int n, int rows, int columns) {
#if TENSOR
    int lane = (n % 8) * 4 + k % 4, number = (n % 16 / 8) * 2 + k % 8 / 4;
    int block = (tap * (rows / 8) + k / 8) * (columns / 16) + n / 16;
    return (block * 32 + lane) * 4 + number;
#else
    return (tap * rows + k) * columns + n;
#endif
}

extern "C" __global__ void pack_kernels(const PackJob job) {
    in_turn();
    int at = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (at >= 9 * job.rows * job.outputs) return;
    int tap = at % 9, ci = at / 9 % job.rows, co = at / 9 / job.rows;
    const float* own = job.theta + job.parameters * r + job.weight;
    float w = ci < job.inputs ? rounded(own[(co * job.inputs + ci) * 9 + tap]) : 0.f;
    job.forward[job.stride * r + packed_at(tap, ci, co, job.rows, job.outputs)] = w;
    job.backward[job.stride * r + packed_at(8 - tap, co, ci, job.outputs, job.rows)] = w;
}

// Copies 16 bytes to shared memory in the background, until arrived() says that all are there.
__device__ __forceinline__ void copy16(T4* shared, const T4* from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}

__device__ __forceinline__ void arrived() { asm volatile("cp.async.wait_all;" ::: "memory"); }

__device__ __forceinline__ T4 rounded(T4 x) {
    return four(rounded(x.x), rounded(x.y), rounded(x.z), rounded(x.w));
}

// What is read of a layer: values, dL/dz, dL/dz of a layer of half the size with zeros between its
// pixels (the transposed convolution of stride 2), or the network's input of 1 to 3 channels.
enum { VALUES, GRADIENTS, SPREAD_GRADIENTS, IMAGE_OF_FEW };

// Reads 4 * GROUPS channels from `channel` on of ROWS x COLS pixels of each of IMAGES images, the
// first at (y, x), into shared memory; zeros outside of the image. Pixels lie PIXEL numbers apart,
// rows ROW, images IMAGE. A thread has
// BATCH reads on their way at a time, as many as it has registers for.
template <int WHAT, int BATCH, int THREADS, int GROUPS, int IMAGES, int ROWS, int COLS, int PIXEL, int ROW, int IMAGE>
__device__ __forceinline__ void fill(float* shared, const Reader& from, int size, int channel,
    int image, int images, int y, int x) {
    const int COUNT = IMAGES * ROWS * COLS * GROUPS;
    static_assert(THREADS % GROUPS == 0, "a thread keeps its channels");
    const bool GRADIENT = WHAT == GRADIENTS || WHAT == SPREAD_GRADIENTS;
    int group = threadIdx.x % GROUPS;
    Four channels(from, WHAT == IMAGE_OF_FEW ? 0 : channel + 4 * group, GRADIENT);
    for (int first = threadIdx.x; first < COUNT; first += BATCH * THREADS) {
        T4 z[BATCH], u[BATCH];
        bool inside[BATCH];
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            int pixel = (first + j * THREADS) / GROUPS;
            int n = pixel / (ROWS * COLS), row = pixel / COLS % ROWS, col = pixel % COLS;
            inside[j] = first + j * THREADS < COUNT && image + n < images && y + row >= 0
                && y + row < size && x + col >= 0 && x + col < size;
            int at = ((image + n) * size + y + row) * size + x + col;
            if (WHAT == SPREAD_GRADIENTS) {
                inside[j] = inside[j] && (y + row) % 2 == 0 && (x + col) % 2 == 0;
                at = ((image + n) * (size / 2) + (y + row) / 2) * (size / 2) + (x + col) / 2;
            }
            at = at * from.channels + channel + 4 * group;
            z[j] = u[j] = four(0, 0, 0, 0);
            if (!inside[j]) continue;
            if (WHAT != IMAGE_OF_FEW) {
                z[j] = *(const T4*)(from.z + at);
                if (GRADIENT) u[j] = *(const T4*)(from.u + at);
            } else if (group == 0) {
                const float* pixel = from.z + at;
                z[j] = four(pixel[0], from.channels > 1 ? pixel[1] : 0.f, from.channels > 2 ? pixel[2] : 0.f, 0.f);
            }
        }
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            if (first + j * THREADS >= COUNT) break;
            int pixel = (first + j * THREADS) / GROUPS;
            int n = pixel / (ROWS * COLS), row = pixel / COLS % ROWS, col = pixel % COLS;
            T4 v = four(0, 0, 0, 0);
            if (inside[j]) v = rounded(GRADIENT ? channels.gradient(z[j], u[j]) : channels.value(z[j]));
            *(T4*)(shared + n * IMAGE + row * ROW + col * PIXEL + 4 * group) = v;
        }
    }
}

// SIZE: of the images of the result. A block has IMAGES x TH x SIZE pixels and CO channels.
template <int WHAT, int BATCH, int STRIDE, int SIZE, int TH, int IMAGES, int CO>
__device__ __forceinline__ void conv3x3(const FastJob& job) {
    extern __shared__ T4 memory[];
    const bool BACK = WHAT == GRADIENTS || WHAT == SPREAD_GRADIENTS;
    const int HIGH = (TH - 1) * STRIDE + 3, WIDTH = (SIZE - 1) * STRIDE + 3;
    const int CI = 16, PIXEL = CI + 4, ROW = WIDTH * PIXEL, IMAGE = HIGH * ROW;
    const int PIXELS = IMAGES * TH * SIZE;
    float* x = (float*)memory;
    float* w = x + IMAGES * IMAGE;
    int r = blockIdx.z, co0 = blockIdx.y * CO, thread = threadIdx.x;
    const int TILES = SIZE / TH;
    int image = blockIdx.x / TILES * IMAGES, y0 = blockIdx.x % TILES * TH;
    Reader from(job.from, r);
    const float* kernels = job.kernels + job.kernels_stride * r;
    float* result = job.result + job.result_stride * r;
#if TENSOR
    // A warp has WM pixels and all CO channels.
    const int WM = CO == 64 ? 32 : 64, MT = WM / 16, NT = CO / 8, THREADS = PIXELS / WM * 32;
    int lane = thread % 32, warp = thread / 32;
    float sum[MT][NT][4];
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < NT; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) sum[i][j][e] = 0.f;
    // For ldmatrix a lane names the row lane % 16 of each 16 pixels, channels 4 (lane / 16) on.
    unsigned rows[MT];
#pragma unroll
    for (int i = 0; i < MT; i++) {
        int p = warp * WM + i * 16 + lane % 16;
        int at = p / (TH * SIZE) * IMAGE + (p / SIZE % TH * ROW + p % SIZE * PIXEL) * STRIDE + lane / 16 * 4;
        rows[i] = (unsigned)__cvta_generic_to_shared(x + at);
    }
#else
    // A thread has 8 pixels and 8 channels.
    const int TM = PIXELS / 8, THREADS = TM * CO / 8;
    static_assert(TM % SIZE == 0, "pixels of a thread lie whole rows apart");
    int tm = thread % TM, tn = thread / TM;
    float sum[8][8];
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j++) sum[i][j] = 0.f;
    const float* base = x + (tm / SIZE * ROW + tm % SIZE * PIXEL) * STRIDE;
#endif
    int inputs = (from.channels + CI - 1) / CI * CI;
    for (int ci0 = 0; ci0 < inputs; ci0 += CI) {
        if (ci0) __syncthreads();
#if TENSOR
        // CO channels of 8 rows are CO * 8 numbers.
        const int BLOCK = CO * 8 / 4;
        for (int at = thread; at < 9 * CI / 8 * BLOCK; at += THREADS) {
            int row = at / BLOCK, tap = row / (CI / 8), k8 = ci0 / 8 + row % (CI / 8);
            const float* source = kernels + (u64)(tap * (inputs / 8) + k8) * job.channels * 8 + co0 * 8;
            copy16((T4*)w + at, (const T4*)source + at % BLOCK);
        }
#else
        for (int at = thread; at < 9 * CI * CO / 4; at += THREADS) {
            int row = at / (CO / 4), tap = row / CI, k = ci0 + row % CI;
            const float* source = kernels + (u64)(tap * inputs + k) * job.channels + co0;
            copy16((T4*)w + at, (const T4*)source + at % (CO / 4));
        }
#endif
        fill<WHAT, BATCH, THREADS, CI / 4, IMAGES, HIGH, WIDTH, PIXEL, ROW, IMAGE>(
            x, from, SIZE * STRIDE, ci0, image, job.images, y0 * STRIDE - 1, -1);
        arrived();
        __syncthreads();
#if TENSOR
#pragma unroll
        for (int tap = 0; tap < 9; tap++) {
#pragma unroll
            for (int k8 = 0; k8 < CI / 8; k8++) {
                unsigned a[MT][4];
                const unsigned offset = (tap / 3 * ROW + tap % 3 * PIXEL + k8 * 8) * 4;
#pragma unroll
                for (int i = 0; i < MT; i++) {
                    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                        : "=r"(a[i][0]), "=r"(a[i][1]), "=r"(a[i][2]), "=r"(a[i][3]) : "r"(rows[i] + offset));
                }
#pragma unroll
                for (int j = 0; j < NT; j += 2) {
                    T4 b = ((const T4*)w)[((tap * (CI / 8) + k8) * (CO / 16) + j / 2) * 32 + lane];
#pragma unroll
                    for (int half = 0; half < 2; half++) {
                        unsigned b0 = __float_as_uint(half ? b.z : b.x), b1 = __float_as_uint(half ? b.w : b.y);
#pragma unroll
                        for (int i = 0; i < MT; i++) {
                            float* c = sum[i][j + half];
                            asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                                "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                                : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                                : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b0), "r"(b1));
                        }
                    }
                }
            }
        }
#else
#pragma unroll 1
        for (int tap = 0; tap < 9; tap++) {
            const float* pixel = base + tap / 3 * ROW + tap % 3 * PIXEL;
            const float* column = w + tap * CI * CO + tn * 8;
#pragma unroll
            for (int c = 0; c < CI; c += 4) {
                float a[8][4];
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    const int AT = i * (TM / SIZE);
                    *(T4*)a[i] = *(const T4*)(pixel + AT / TH * IMAGE + AT % TH * STRIDE * ROW + c);
                }
#pragma unroll
                for (int k = 0; k < 4; k++) {
                    float b[8];
                    *(T4*)b = *(const T4*)(column + (c + k) * CO);
                    *(T4*)(b + 4) = *(const T4*)(column + (c + k) * CO + 4);
#pragma unroll
                    for (int i = 0; i < 8; i++)
#pragma unroll
                        for (int j = 0; j < 8; j++) sum[i][j] = fused(a[i][k], b[j], sum[i][j]);
                }
            }
        }
#endif
    }
    // The columns of a thread: NV channels, each with ROWS pixels.
#if TENSOR
    const int NV = 2 * NT, ROWS = 2 * MT, PARTS = THREADS / 32;
#else
    const int NV = 8, ROWS = 8, LANES = TM < 32 ? TM : 32, PARTS = TM / LANES;
#endif
    auto column = [&](int v) {
#if TENSOR
        return v / 2 * 8 + lane % 4 * 2 + v % 2;
#else
        return tn * 8 + v;
#endif
    };
    // Place of a pixel among all; below 0 where its image is none of the batch's.
    auto place = [&](int row) {
#if TENSOR
        int p = warp * WM + row / 2 * 16 + row % 2 * 8 + lane / 4;
#else
        int p = tm + row * TM;
#endif
        int n = image + p / (TH * SIZE);
        return n < job.images ? (n * SIZE + y0 + p / SIZE % TH) * SIZE + p % SIZE : -1;
    };
    auto at = [&](int row, int v) -> float& {
#if TENSOR
        return sum[row / 2][v / 2][row % 2 * 2 + v % 2];
#else
        return sum[row][v];
#endif
    };
    const float* bias = job.bias ? job.bias + job.bias_stride * r + co0 : nullptr;
    if (bias) {
#pragma unroll
        for (int v = 0; v < NV; v++) {
            float b = bias[column(v)];
#pragma unroll
            for (int row = 0; row < ROWS; row++) at(row, v) += b;
        }
    }
    const int WIDE = NV < 4 || TENSOR ? 2 : 4;  // neighbouring channels of a thread
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        int pixel = place(row);
        if (pixel < 0) continue;
        float* line = result + (u64)pixel * job.channels + co0;
#pragma unroll
        for (int v = 0; v < NV; v += WIDE) {
            float* to = line + column(v);
            if (WIDE == 2) {
                if (job.add) {
                    float2 old = *(const float2*)to;
                    at(row, v) += old.x;
                    at(row, v + 1) += old.y;
                }
                *(float2*)to = make_float2(at(row, v), at(row, v + 1));
            } else {
                T4 x = four(at(row, v), at(row, v + 1), at(row, v + 2), at(row, v + 3));
                if (job.add) {
                    x = x + *(const T4*)to;
                    at(row, v) = x.x;
                    at(row, v + 1) = x.y;
                    at(row, v + 2) = x.z;
                    at(row, v + 3) = x.w;
                }
                *(T4*)to = x;
            }
        }
    }
    if (BACK || !job.sums) return;

    // Sums of a block: over the pixels of a thread, the lanes of a warp, the warps.
    float* part = x;
    auto sum_up = [&](float (&own)[NV]) {
#pragma unroll
        for (int v = 0; v < NV; v++) {
#if TENSOR
            for (int gap = 4; gap < 32; gap *= 2) own[v] += __shfl_xor_sync(0xffffffffu, own[v], gap);
#else
            for (int gap = 1; gap < LANES; gap *= 2) own[v] += __shfl_xor_sync(0xffffffffu, own[v], gap);
#endif
        }
        __syncthreads();
#if TENSOR
        if (lane < 4)
#else
        if (tm % LANES == 0)
#endif
        {
#pragma unroll
            for (int v = 0; v < NV; v++) {
#if TENSOR
                part[column(v) * PARTS + warp] = own[v];
#else
                part[column(v) * PARTS + tm / LANES] = own[v];
#endif
            }
        }
        __syncthreads();
#pragma unroll
        for (int v = 0; v < NV; v++) {
            own[v] = part[column(v) * PARTS];
            for (int other = 1; other < PARTS; other++) own[v] += part[column(v) * PARTS + other];
        }
    };
    float first[NV], second[NV];
#pragma unroll
    for (int v = 0; v < NV; v++) first[v] = second[v] = 0.f;
    // The mean, and squares about it.
    int valid = min(job.images - image, IMAGES) * TH * SIZE;
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        if (place(row) < 0) continue;
#pragma unroll
        for (int v = 0; v < NV; v++) first[v] += at(row, v);
    }
    sum_up(first);
#pragma unroll
    for (int v = 0; v < NV; v++) first[v] /= float(valid);
#pragma unroll
    for (int row = 0; row < ROWS; row++) {
        if (place(row) < 0) continue;
#pragma unroll
        for (int v = 0; v < NV; v++) {
            float off = at(row, v) - first[v];
            second[v] = fused(off, off, second[v]);
        }
    }
    sum_up(second);
    float* out = job.sums + ((u64)r * gridDim.x + blockIdx.x) * 2 * job.channels + co0;
#if TENSOR
    if (warp == 0 && lane < 4)
#else
    if (tm == 0)
#endif
    {
#pragma unroll
        for (int v = 0; v < NV; v++) {
            out[column(v)] = first[v];
            out[job.channels + column(v)] = second[v];
        }
    }
}

// Blocks to a multiprocessor, rows to a tile, reads on their way: what was fastest on an H200.
#if TENSOR
#define BOUNDS_32 __launch_bounds__(128, 5)
#define BOUNDS_32_BACK __launch_bounds__(128, 4)
#define HIGH_32 8
#define READS_32 3
#define READS 6
#define BOUNDS_16 __launch_bounds__(128, 3)
#else
#define BOUNDS_32 __launch_bounds__(128, 3)
#define BOUNDS_32_BACK __launch_bounds__(128, 3)
#define HIGH_32 16
#define READS_32 5
#define READS 5
#define BOUNDS_16 __launch_bounds__(128, 3)
#endif
extern "C" __global__ void BOUNDS_32 conv3x3_forward_32(const FastJob job) { in_turn(); conv3x3<VALUES, READS_32, 1, 32, HIGH_32, 1, 16>(job); }
extern "C" __global__ void BOUNDS_32 conv3x3_image_32(const FastJob job) { in_turn(); conv3x3<IMAGE_OF_FEW, READS_32, 1, 32, HIGH_32, 1, 16>(job); }
extern "C" __global__ void BOUNDS_16 conv3x3_forward_16(const FastJob job) { in_turn(); conv3x3<VALUES, READS, 1, 16, 16, 1, 32>(job); }
extern "C" __global__ void BOUNDS_16 conv3x3_forward_8(const FastJob job) { in_turn(); conv3x3<VALUES, READS, 1, 8, 8, 2, 64>(job); }
extern "C" __global__ void __launch_bounds__(128, 2) conv3x3_halve_16(const FastJob job) { in_turn(); conv3x3<VALUES, READS, 2, 16, 16, 1, 32>(job); }
extern "C" __global__ void __launch_bounds__(128, 2) conv3x3_halve_8(const FastJob job) { in_turn(); conv3x3<VALUES, READS, 2, 8, 8, 2, 64>(job); }
extern "C" __global__ void BOUNDS_32_BACK conv3x3_data_32(const FastJob job) { in_turn(); conv3x3<GRADIENTS, 3, 1, 32, HIGH_32, 1, 16>(job); }
extern "C" __global__ void BOUNDS_16 conv3x3_data_16(const FastJob job) { in_turn(); conv3x3<GRADIENTS, 3, 1, 16, 16, 1, 32>(job); }
extern "C" __global__ void BOUNDS_16 conv3x3_data_8(const FastJob job) { in_turn(); conv3x3<GRADIENTS, 3, 1, 8, 8, 2, 64>(job); }
extern "C" __global__ void BOUNDS_32_BACK conv3x3_double_32(const FastJob job) { in_turn(); conv3x3<SPREAD_GRADIENTS, 3, 1, 32, HIGH_32, 1, 16>(job); }
extern "C" __global__ void BOUNDS_16 conv3x3_double_16(const FastJob job) { in_turn(); conv3x3<SPREAD_GRADIENTS, 3, 1, 16, 16, 1, 32>(job); }
#endif
