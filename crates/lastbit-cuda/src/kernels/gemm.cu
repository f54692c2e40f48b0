// Convolutions of any shape as matrix products, without storing the patches (implicit GEMM).
//
//   forward    z[pixel][co]      = bias[co] + sum over (tap, ci) value[pixel + tap][ci] W[co][ci][tap]
//   data       u[pixel][ci]      = sum over (tap, co) dz[pixel - tap][co] W[co][ci][tap]
//   weights    dW[(tap, ci)][co] = sum over pixels value[pixel + tap][ci] dz[pixel][co]
//
// Values and gradients (dz, by raw values) are read without batch norm and activation: these were applied
// before, because the tiles of a product read each number many times.
//
// A thread computes 4 x 4 or, with many columns in single precision, 8 x 4 results, each by one chain of
// fused multiply-adds in the order of the sum: their number does not change a bit. The gradient by data is
// computed by residue classes of the stride: pixels of a class have the same taps, and none is skipped.
// The sum over pixels is divided into chunks of images, which conv_weights_finish adds.

// LAYERS_AT_ONCE: layers that one launch of conv_weights_finish or pack_kernels works on, at most.

struct ConvArgs {
    View input, output;
    const T* theta;
    T* packed;    // weights in the order of a forward product [replica][(tap, ci)][co]
    T* partials;  // sums over chunks of images [replica][chunk][(tap, ci)][co]
    T* gradient;
    u64 parameters;
    u64 weight, bias;  // offsets into theta
    int has_bias, add;  // add: whether to add to u
    int rows, cols, stride, above, left;
    int images, chunks, images_per_chunk;
    int inputs;  // input channels of the partial sums: those of the layer, or more with padding
};

const int BK = 16;  // terms per tile
const int PAD = UNIT;  // padding of rows in shared memory, against bank conflicts
const int TALL = 512 / sizeof(T);  // rows of a tile of 64 columns

// A row of the first matrix: a patch of an image, whose first pixel is (y, x). A column: a channel of the
// patch's pixel (y + dy, x + dx).
struct Patch {
    int image, y, x;  // image < 0: no such row
};

template <class Product, int BM>
struct Patches {
    Patch patch[BM / 16];
    T next[BM / 16];

    __device__ Patches(const Product& product, int m0) {
#pragma unroll
        for (int i = 0; i < BM / 16; i++) {
            int m = m0 + threadIdx.x / 16 + 16 * i;
            patch[i].image = -1;
            if (m < product.M) patch[i] = product.patch(m);
        }
    }

    // A thread reads one column of its rows.
    __device__ void fetch(const Product& product, int k0) {
        int k = threadIdx.x % 16;
        bool there = k0 + k < product.K;
        int dy, dx, c;
        product.column(there ? k0 + k : 0, dy, dx, c);
#pragma unroll
        for (int i = 0; i < BM / 16; i++) {
            int y = patch[i].y + dy, x = patch[i].x + dx;
            bool inside = there && patch[i].image >= 0 && y >= 0 && y < product.height && x >= 0 && x < product.width;
            T value = T(0);
            if (inside) {
                int at = ((patch[i].image * product.height + y) * product.width + x) * product.from.channels + c;
                value = product.read(at);
            }
            next[i] = value;
        }
    }

    __device__ void put(T (*a)[BM + PAD]) const {
#pragma unroll
        for (int i = 0; i < BM / 16; i++) a[threadIdx.x % 16][threadIdx.x / 16 + 16 * i] = next[i];
    }
};

// The second matrix of a convolution: its weights.
template <class Product, int BN>
struct Kernels {
    T next[BN / 16];

    __device__ void fetch(const Product& product, int k0, int n0) {
        int n = n0 + threadIdx.x % BN;
#pragma unroll
        for (int i = 0; i < BN / 16; i++) {
            int k = k0 + threadIdx.x / BN + i * (256 / BN);
            next[i] = n < product.N && k < product.K ? product.weight(k, n) : T(0);
        }
    }

    __device__ void put(T (*b)[BN + PAD]) const {
#pragma unroll
        for (int i = 0; i < BN / 16; i++) b[threadIdx.x / BN + i * (256 / BN)][threadIdx.x % BN] = next[i];
    }
};

// The terms of a product: one; a tangent has two, one after the other.
struct OneTerm {
    enum { terms = 1 };
    __device__ void select_term(int) {}
};

// Packs weights in the order in which a forward product reads them.
extern "C" __global__ void conv_pack(const ConvArgs args) {
    wait_for_previous_kernel();
    int taps = args.rows * args.cols, inputs = args.input.channels, outputs = args.output.channels;
    int at = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y, count = taps * inputs * outputs;
    if (at >= count) return;
    int n = at % outputs, k = at / outputs, tap = k / inputs, ci = k % inputs;
    const T* w = args.theta + args.parameters * r + args.weight;
    args.packed[(u64)r * count + at] = w[(n * inputs + ci) * taps + tap];
}

struct Forward : OneTerm {
    template <int BN> using Second = Kernels<Forward, BN>;
    template <int BM> using Loader = Patches<Forward, BM>;
    const ConvArgs& args;
    Reader from;
    const T* w;
    int M, N, K, height, width, taps;
    __device__ Forward(const ConvArgs& j, int r, int) : args(j), from(j.input, r) {
        taps = j.rows * j.cols;
        height = j.input.height;
        width = j.input.width;
        M = j.images * j.output.height * j.output.width;
        N = j.output.channels;
        K = taps * j.input.channels;
        w = j.packed + (u64)r * K * N;
    }
    __device__ Patch patch(int m) const {
        int x = m % args.output.width, y = m / args.output.width % args.output.height;
        return {m / (args.output.width * args.output.height), y * args.stride - args.above, x * args.stride - args.left};
    }
    __device__ void column(int k, int& dy, int& dx, int& c) const {
        int tap = k / from.channels;
        c = k - tap * from.channels;
        dy = tap / args.cols;
        dx = tap % args.cols;
    }
    __device__ T read(int at) const { return from.z[at]; }
    __device__ T weight(int k, int n) const { return w[k * N + n]; }
    __device__ T start(int r, int n) const {
        return args.has_bias ? args.theta[args.parameters * r + args.bias + n] : T(0);
    }
    __device__ void store(int r, int, int m, int n, T sum) const {
        ((T*)args.output.z)[args.output.stride * r + (u64)m * N + n] = sum;
    }
};

struct Data : OneTerm {
    template <int BN> using Second = Kernels<Data, BN>;
    template <int BM> using Loader = Patches<Data, BM>;
    const ConvArgs& args;
    Reader from;
    const T* w;
    int M, N, K, height, width;
    // Pixels (first_y + stride i, first_x + stride j) with taps (tap_y + stride i, tap_x + stride j).
    int first_y, first_x, rows, cols, tap_y, tap_x, taps_x;
    __device__ Data(const ConvArgs& j, int r, int residue) : args(j), from(j.output, r) {
        first_y = residue / j.stride;
        first_x = residue % j.stride;
        rows = max(0, (j.input.height - first_y + j.stride - 1) / j.stride);
        cols = max(0, (j.input.width - first_x + j.stride - 1) / j.stride);
        tap_y = (first_y + j.above) % j.stride;
        tap_x = (first_x + j.left) % j.stride;
        int taps_y = max(0, (j.rows - tap_y + j.stride - 1) / j.stride);
        taps_x = max(0, (j.cols - tap_x + j.stride - 1) / j.stride);
        height = j.output.height;
        width = j.output.width;
        M = j.images * rows * cols;
        N = j.input.channels;
        K = taps_y * taps_x * j.output.channels;
        w = j.theta + j.parameters * r + j.weight;
    }
    __device__ Patch patch(int m) const {
        int x = first_x + m % cols * args.stride, y = first_y + m / cols % rows * args.stride;
        return {m / (cols * rows), (y + args.above - tap_y) / args.stride, (x + args.left - tap_x) / args.stride};
    }
    __device__ void column(int k, int& dy, int& dx, int& c) const {
        int tap = k / from.channels;
        c = k - tap * from.channels;
        dy = -(tap / taps_x);
        dx = -(tap % taps_x);
    }
    __device__ T read(int at) const { return from.u[at]; }
    __device__ T weight(int k, int n) const {
        int tap = k / from.channels, co = k - tap * from.channels;
        int ky = tap_y + tap / taps_x * args.stride, kx = tap_x + tap % taps_x * args.stride;
        return w[((co * N + n) * args.rows + ky) * args.cols + kx];
    }
    __device__ T start(int, int) const { return T(0); }
    // Offset of the channels of a pixel.
    __device__ u64 offset(int m) const {
        int x = first_x + m % cols * args.stride, y = first_y + m / cols % rows * args.stride;
        int image = m / (cols * rows);
        return (u64)((image * args.input.height + y) * args.input.width + x) * N;
    }
    __device__ void store(int r, int, int m, int n, T sum) const {
        T* at = args.input.u + args.input.stride * r + offset(m) + n;
        *at = args.add ? *at + sum : sum;
    }
};

// The first matrix of a gradient by weights: rows are (tap, ci), columns pixels. A thread reads one
// row, pixel after pixel.
template <class Product, int BM>
struct Pixels {
    static const int STEP = 256 / BM;
    int dy, dx, c, image, y, x;
    bool there;
    T next[BM / 16];

    __device__ Pixels(const Product& product, int m0) {
        int m = m0 + threadIdx.x % BM, k = threadIdx.x / BM, tap = m / product.in.channels;
        there = m < product.M;
        c = m - tap * product.in.channels;
        dy = tap / product.args.cols - product.args.above;
        dx = tap % product.args.cols - product.args.left;
        x = k % product.args.output.width;
        y = k / product.args.output.width % product.args.output.height;
        image = k / (product.args.output.width * product.args.output.height);
    }

    __device__ void fetch(const Product& product, int k0) {
        const ConvArgs& args = product.args;
        int stride = args.stride;
#pragma unroll
        for (int i = 0; i < BM / 16; i++) {
            int k = threadIdx.x / BM + i * STEP;
            int row = y * stride + dy, col = x * stride + dx;
            bool inside = there && k0 + k < product.K && row >= 0 && row < args.input.height && col >= 0 && col < args.input.width;
            T value = T(0);
            if (inside) {
                int at = (((product.first + image) * args.input.height + row) * args.input.width + col) * product.in.channels + c;
                value = product.input(at);
            }
            next[i] = value;
            if (product.pixels == 1) {
                image += STEP;
                continue;
            }
            for (x += STEP; x >= args.output.width; x -= args.output.width) {
                if (++y == args.output.height) {
                    y = 0;
                    image++;
                }
            }
        }
    }

    __device__ void put(T (*a)[BM + PAD]) const {
#pragma unroll
        for (int i = 0; i < BM / 16; i++) a[threadIdx.x / BM + i * STEP][threadIdx.x % BM] = next[i];
    }
};

// The second matrix of a gradient by weights: pixels and output channels.
template <class Product, int BN>
struct Gradients {
    T next[BN / 16];

    __device__ void fetch(const Product& product, int k0, int n0) {
        int n = n0 + threadIdx.x % BN;
#pragma unroll
        for (int i = 0; i < BN / 16; i++) {
            int k = k0 + threadIdx.x / BN + i * (256 / BN);
            int at = (product.first * product.pixels + k) * product.out.channels + n;
            next[i] = n < product.N && k < product.K ? product.output(at) : T(0);
        }
    }

    __device__ void put(T (*b)[BN + PAD]) const {
#pragma unroll
        for (int i = 0; i < BN / 16; i++) b[threadIdx.x / BN + i * (256 / BN)][threadIdx.x % BN] = next[i];
    }
};

struct Weights : OneTerm {
    template <int BN> using Second = Gradients<Weights, BN>;
    template <int BM> using Loader = Pixels<Weights, BM>;
    const ConvArgs& args;
    Reader in, out;
    int M, N, K, pixels, first;
    __device__ Weights(const ConvArgs& j, int r, int chunk) : args(j), in(j.input, r), out(j.output, r) {
        pixels = j.output.height * j.output.width;
        M = j.rows * j.cols * j.input.channels;
        N = j.output.channels;
        first = chunk * j.images_per_chunk;
        K = max(min(j.images_per_chunk, j.images - first), 0) * pixels;
    }
    __device__ T input(int at) const { return in.z[at]; }
    __device__ T output(int at) const { return out.u[at]; }
    __device__ T start(int, int) const { return T(0); }
    __device__ void store(int r, int chunk, int m, int n, T sum) const {
        args.partials[((u64)(r * args.chunks + chunk) * M + m) * N + n] = sum;
    }
};

// Index of a thread's i-th row or column of a tile that COUNT threads share: neighbouring units belong to
// neighbouring threads, which then read different banks.
template <int COUNT>
__device__ __forceinline__ int nth(int thread, int i) {
    return (i / UNIT * COUNT + thread) * UNIT + i % UNIT;
}

// A block of 256 threads computes BM x BN results, a thread DOWN x 4.
template <class Product, int BM, int BN, class Job>
__device__ __forceinline__ void multiply(const Job& args) {
    const int DOWN = BM * BN / 1024;
    static_assert(DOWN % UNIT == 0 && 4 % UNIT == 0, "units are read at once");
    alignas(16) __shared__ T a[BK][BM + PAD], b[BK][BN + PAD];
    int replica = blockIdx.z, part = blockIdx.y;
    Product product(args, replica, part);
    int tiles_n = (product.N + BN - 1) / BN;
    int m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
    // No tap reaches these pixels.
    bool adds_nothing = product.K == 0 && product.args.add;
    if (m0 >= product.M || adds_nothing) return;
    const int ROWS = BM / DOWN, COLUMNS = BN / 4;
    int tm = threadIdx.x / COLUMNS, tn = threadIdx.x % COLUMNS;
    T sum[DOWN][4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        int n = n0 + nth<COLUMNS>(tn, j);
        T start = n < product.N ? product.start(replica, n) : T(0);
#pragma unroll
        for (int i = 0; i < DOWN; i++) sum[i][j] = start;
    }
    for (int term = 0; term < product.terms; term++) {
        product.select_term(term);
        typename Product::template Loader<BM> loader(product, m0);
        typename Product::template Second<BN> second;
        if (product.K > 0) {
            loader.fetch(product, 0);
            second.fetch(product, 0, n0);
        }
        for (int k0 = 0; k0 < product.K; k0 += BK) {
            loader.put(a);
            second.put(b);
            __syncthreads();
            // The next tile is fetched while this one is added.
            if (k0 + BK < product.K) {
                loader.fetch(product, k0 + BK);
                second.fetch(product, k0 + BK, n0);
            }
            int left = min(BK, product.K - k0);
#pragma unroll 4
            for (int k = 0; k < left; k++) {
                alignas(16) T x[DOWN], y[4];
#pragma unroll
                for (int i = 0; i < DOWN; i += UNIT) *(Unit*)(x + i) = *(const Unit*)(a[k] + nth<ROWS>(tm, i));
#pragma unroll
                for (int j = 0; j < 4; j += UNIT) *(Unit*)(y + j) = *(const Unit*)(b[k] + nth<COLUMNS>(tn, j));
#pragma unroll
                for (int i = 0; i < DOWN; i++) {
#pragma unroll
                    for (int j = 0; j < 4; j++) sum[i][j] = fma_rn(x[i], y[j], sum[i][j]);
                }
            }
            __syncthreads();
        }
    }
#pragma unroll
    for (int i = 0; i < DOWN; i++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int m = m0 + nth<ROWS>(tm, i), n = n0 + nth<COLUMNS>(tn, j);
            if (m < product.M && n < product.N) product.store(replica, part, m, n, sum[i][j]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) conv_forward_16(const ConvArgs args) { wait_for_previous_kernel(); multiply<Forward, 256, 16>(args); }
extern "C" __global__ void __launch_bounds__(256) conv_forward_32(const ConvArgs args) { wait_for_previous_kernel(); multiply<Forward, 128, 32>(args); }
extern "C" __global__ void __launch_bounds__(256) conv_forward_64(const ConvArgs args) { wait_for_previous_kernel(); multiply<Forward, TALL, 64>(args); }
extern "C" __global__ void __launch_bounds__(256) conv_data_16(const ConvArgs args) { wait_for_previous_kernel(); multiply<Data, 256, 16>(args); }
extern "C" __global__ void __launch_bounds__(256) conv_data_32(const ConvArgs args) { wait_for_previous_kernel(); multiply<Data, 128, 32>(args); }
extern "C" __global__ void __launch_bounds__(256) conv_data_64(const ConvArgs args) { wait_for_previous_kernel(); multiply<Data, TALL, 64>(args); }
extern "C" __global__ void __launch_bounds__(256) conv_weights_16(const ConvArgs args) { wait_for_previous_kernel(); multiply<Weights, 256, 16>(args); }
extern "C" __global__ void __launch_bounds__(256) conv_weights_32(const ConvArgs args) { wait_for_previous_kernel(); multiply<Weights, 128, 32>(args); }
extern "C" __global__ void __launch_bounds__(256) conv_weights_64(const ConvArgs args) { wait_for_previous_kernel(); multiply<Weights, TALL, 64>(args); }

// Sums of a layer's weights over chunks of images.
struct WeightSums {
    const T* partials;  // [replica][chunk][tap][row][output]
    u64 weight;         // offset into the gradient
    int chunks, taps, rows, inputs, outputs, unused;  // rows: inputs, or more with padding
};

struct FinishArgs {
    T* gradient;
    u64 parameters;
    WeightSums layers[LAYERS_AT_ONCE];
};

// Adds the chunks of each layer and writes the gradient in PyTorch's layout: each of eight threads per weight adds
// every eighth chunk, then the eight sums are added in their order. A block has 32 pairs of channels with all taps,
// which are neighbours in the gradient.
extern "C" __global__ void __launch_bounds__(256) conv_weights_finish(const FinishArgs args) {
    wait_for_previous_kernel();
    // Chunks of a tap that a thread reads before it adds the first.
    const int TAPS = 9, AT_ONCE = 6;
    __shared__ T part[TAPS][8][32];
    const WeightSums& own = args.layers[blockIdx.z];
    int count = own.rows * own.outputs, r = blockIdx.y;
    int lane = threadIdx.x % 32, share = threadIdx.x / 32, start = blockIdx.x * 32;
    if (start >= count) return;
    T* gradient = args.gradient + args.parameters * r + own.weight;
    for (int first = 0; first < own.taps; first += TAPS) {
        int taps = min(TAPS, own.taps - first);
        if (first > 0) __syncthreads();
        if (start + lane < count) {
            const T* from = own.partials + ((u64)r * own.chunks * own.taps + first) * count + start + lane;
#pragma unroll 3
            for (int tap = 0; tap < taps; tap++) {
                T sum = T(0);
                for (int chunk = share; chunk < own.chunks; chunk += 8 * AT_ONCE) {
                    T some[AT_ONCE];
#pragma unroll
                    for (int j = 0; j < AT_ONCE; j++) {
                        int at = chunk + 8 * j;
                        some[j] = at < own.chunks ? from[((u64)at * own.taps + tap) * count] : T(0);
                    }
#pragma unroll
                    for (int j = 0; j < AT_ONCE; j++) sum += some[j];
                }
                part[tap][share][lane] = sum;
            }
        }
        __syncthreads();
        for (int i = threadIdx.x; i < 32 * taps; i += 256) {
            int pair = i / taps, tap = i % taps, at = start + pair, ci = at / own.outputs, co = at % own.outputs;
            if (at >= count || ci >= own.inputs) continue;
            T sum = part[tap][0][pair];
#pragma unroll
            for (int other = 1; other < 8; other++) sum += part[tap][other][pair];
            gradient[(co * own.inputs + ci) * own.taps + first + tap] = sum;
        }
    }
}
