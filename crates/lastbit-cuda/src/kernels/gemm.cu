// Convolutions of any shape as matrix products whose matrices are read in place.
//
//   forward    z[pixel][co]      = bias[co] + sum over (tap, ci) value[pixel + tap][ci] W[co][ci][tap]
//   data       u[pixel][ci]      = sum over (tap, co) dz[pixel - tap][co] W[co][ci][tap]
//   weights    dW[(tap, ci)][co] = sum over pixels value[pixel + tap][ci] dz[pixel][co]
//
// One thread sums 4 x 4 results, each one chain of fused multiply-adds in the order of the sum. The
// sum over pixels is cut into chunks of images, which weights_finish adds in their order.

struct ConvJob {
    View in, out;
    const T* theta;
    T* partials;  // sums over chunks of images [replica][chunk][(tap, ci)][co]
    T* gradient;
    u64 parameters;
    u64 weight, bias;  // places in theta
    int has_bias, add;  // add: to what u holds already
    int rows, cols, stride, above, left;
    int images, chunks, images_per_chunk;
};

struct Forward {
    const ConvJob& job;
    Reader in;
    const T* w;
    int M, N, K, fan_in, taps, pixels;
    __device__ Forward(const ConvJob& j, int r, int) : job(j), in(j.in, r) {
        taps = j.rows * j.cols;
        fan_in = taps * j.in.channels;
        pixels = j.out.height * j.out.width;
        M = j.images * pixels;
        N = j.out.channels;
        K = fan_in;
        w = j.theta + j.parameters * r + j.weight;
    }
    __device__ T a(int m, int k) const {
        int tap = k / in.channels, ci = k - tap * in.channels;
        int image = m / pixels, pixel = m - image * pixels;
        int oy = pixel / job.out.width, ox = pixel - oy * job.out.width;
        int y = oy * job.stride + tap / job.cols - job.above;
        int x = ox * job.stride + tap % job.cols - job.left;
        bool inside = y >= 0 && y < job.in.height && x >= 0 && x < job.in.width;
        return inside ? in.value(((image * job.in.height + y) * job.in.width + x) * in.channels + ci, ci)
                      : T(0);
    }
    __device__ T b(int k, int n) const {
        int tap = k / in.channels, ci = k - tap * in.channels;
        return w[n * fan_in + ci * taps + tap];
    }
    __device__ T start(int r, int n) const {
        return job.has_bias ? job.theta[job.parameters * r + job.bias + n] : T(0);
    }
    __device__ void store(int r, int, int m, int n, T sum) const {
        ((T*)job.out.z)[job.out.stride * r + (u64)m * N + n] = sum;
    }
};

struct Data {
    const ConvJob& job;
    Reader out;
    const T* w;
    int M, N, K, fan_in, taps, pixels;
    __device__ Data(const ConvJob& j, int r, int) : job(j), out(j.out, r) {
        taps = j.rows * j.cols;
        fan_in = taps * j.in.channels;
        pixels = j.in.height * j.in.width;
        M = j.images * pixels;
        N = j.in.channels;
        K = taps * j.out.channels;
        w = j.theta + j.parameters * r + j.weight;
    }
    __device__ T a(int m, int k) const {
        int tap = k / out.channels, co = k - tap * out.channels;
        int image = m / pixels, pixel = m - image * pixels;
        int y = pixel / job.in.width, x = pixel - y * job.in.width;
        int oy = y + job.above - tap / job.cols, ox = x + job.left - tap % job.cols;
        if (oy < 0 || ox < 0 || oy % job.stride || ox % job.stride) return T(0);
        oy /= job.stride;
        ox /= job.stride;
        if (oy >= job.out.height || ox >= job.out.width) return T(0);
        return out.gradient(((image * job.out.height + oy) * job.out.width + ox) * out.channels + co, co);
    }
    __device__ T b(int k, int n) const {
        int tap = k / out.channels, co = k - tap * out.channels;
        return w[co * fan_in + n * taps + tap];
    }
    __device__ T start(int, int) const { return T(0); }
    __device__ void store(int r, int, int m, int n, T sum) const {
        T* at = job.in.u + job.in.stride * r + (u64)m * N + n;
        *at = job.add ? *at + sum : sum;
    }
};

struct Weights {
    const ConvJob& job;
    Reader in, out;
    int M, N, K, pixels, first;
    __device__ Weights(const ConvJob& j, int r, int chunk) : job(j), in(j.in, r), out(j.out, r) {
        pixels = j.out.height * j.out.width;
        M = j.rows * j.cols * j.in.channels;
        N = j.out.channels;
        first = chunk * j.images_per_chunk;
        int images = min(j.images_per_chunk, j.images - first);
        K = max(images, 0) * pixels;
    }
    __device__ T a(int m, int k) const {
        int tap = m / in.channels, ci = m - tap * in.channels;
        int image = k / pixels, pixel = k - image * pixels;
        image += first;
        int oy = pixel / job.out.width, ox = pixel - oy * job.out.width;
        int y = oy * job.stride + tap / job.cols - job.above;
        int x = ox * job.stride + tap % job.cols - job.left;
        bool inside = y >= 0 && y < job.in.height && x >= 0 && x < job.in.width;
        return inside ? in.value(((image * job.in.height + y) * job.in.width + x) * in.channels + ci, ci)
                      : T(0);
    }
    __device__ T b(int k, int n) const {
        return out.gradient((first * pixels + k) * out.channels + n, n);
    }
    __device__ T start(int, int) const { return T(0); }
    __device__ void store(int r, int chunk, int m, int n, T sum) const {
        job.partials[((u64)(r * job.chunks + chunk) * M + m) * N + n] = sum;
    }
};

// BM x BN results to a block of 256 threads, 16 summands at a time. A's numbers lie next to each
// other along k (ALONG_K) or along m.
template <class Product, int BM, int BN, bool ALONG_K>
__device__ __forceinline__ void multiply(const ConvJob& job) {
    const int BK = 16;
    static_assert(BM * BN == 4096, "256 threads of 4 x 4");
    __shared__ T a[BK][BM + 1], b[BK][BN + 1];
    int replica = blockIdx.z, chunk = blockIdx.y;
    Product product(job, replica, chunk);
    int tiles_n = (product.N + BN - 1) / BN;
    int m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
    int thread = threadIdx.x, tm = thread / (BN / 4), tn = thread % (BN / 4);
    T sum[4][4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        int n = n0 + tn + j * (BN / 4);
        T start = n < product.N ? product.start(replica, n) : T(0);
#pragma unroll
        for (int i = 0; i < 4; i++) sum[i][j] = start;
    }
    for (int k0 = 0; k0 < product.K; k0 += BK) {
        for (int at = thread; at < BM * BK; at += 256) {
            int m = ALONG_K ? at / BK : at % BM, k = ALONG_K ? at % BK : at / BM;
            bool there = m0 + m < product.M && k0 + k < product.K;
            a[k][m] = there ? product.a(m0 + m, k0 + k) : T(0);
        }
        for (int at = thread; at < BN * BK; at += 256) {
            int n = at % BN, k = at / BN;
            bool there = n0 + n < product.N && k0 + k < product.K;
            b[k][n] = there ? product.b(k0 + k, n0 + n) : T(0);
        }
        __syncthreads();
        int left = min(BK, product.K - k0);
        for (int k = 0; k < left; k++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                T x = a[k][tm + i * (BM / 4)];
#pragma unroll
                for (int j = 0; j < 4; j++) sum[i][j] = fused(x, b[k][tn + j * (BN / 4)], sum[i][j]);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int m = m0 + tm + i * (BM / 4), n = n0 + tn + j * (BN / 4);
            if (m < product.M && n < product.N) product.store(replica, chunk, m, n, sum[i][j]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(256) conv_forward_16(const ConvJob job) { multiply<Forward, 256, 16, true>(job); }
extern "C" __global__ void __launch_bounds__(256) conv_forward_32(const ConvJob job) { multiply<Forward, 128, 32, true>(job); }
extern "C" __global__ void __launch_bounds__(256) conv_forward_64(const ConvJob job) { multiply<Forward, 64, 64, true>(job); }
extern "C" __global__ void __launch_bounds__(256) conv_data_16(const ConvJob job) { multiply<Data, 256, 16, true>(job); }
extern "C" __global__ void __launch_bounds__(256) conv_data_32(const ConvJob job) { multiply<Data, 128, 32, true>(job); }
extern "C" __global__ void __launch_bounds__(256) conv_data_64(const ConvJob job) { multiply<Data, 64, 64, true>(job); }
extern "C" __global__ void __launch_bounds__(256) conv_weights_16(const ConvJob job) { multiply<Weights, 256, 16, false>(job); }
extern "C" __global__ void __launch_bounds__(256) conv_weights_32(const ConvJob job) { multiply<Weights, 128, 32, false>(job); }
extern "C" __global__ void __launch_bounds__(256) conv_weights_64(const ConvJob job) { multiply<Weights, 64, 64, false>(job); }

// Adds the chunks in their order and writes the gradient in PyTorch's layout.
extern "C" __global__ void conv_weights_finish(const ConvJob job) {
    int taps = job.rows * job.cols, inputs = job.in.channels, outputs = job.out.channels;
    int count = taps * inputs * outputs;
    int at = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (at >= count) return;
    const T* own = job.partials + (u64)r * job.chunks * count + at;
    T sum = own[0];
    for (int chunk = 1; chunk < job.chunks; chunk++) sum += own[(u64)chunk * count];
    int co = at % outputs, row = at / outputs, tap = row / inputs, ci = row % inputs;
    job.gradient[job.parameters * r + job.weight + (co * inputs + ci) * taps + tap] = sum;
}
