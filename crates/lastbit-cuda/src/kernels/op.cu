// Everything between convolutions: sums, pooling, the shortcut without parameters, the mean.
// Backward, a number gathers from all that read it, in the order in which the CPU scatters.
//
// All of them are linear once it is known where the largest numbers stand: what is carried is a value
// and a gradient here, and their derivatives along a direction in dot.cu.

struct OpJob {
    View in, out;
    int rows, cols, stride, largest;  // of a window; largest: maxima, else means
    int add;                          // to what is there already
    int images;
};

__device__ __forceinline__ void put(T* at, int add, T x) { *at = add ? *at + x : x; }

// What is carried forward and back.
struct Values : Reader {
    using Reader::Reader;
    __device__ __forceinline__ T forth(int at, int c) const { return value(at, c); }
    __device__ __forceinline__ T back(int at, int c) const { return gradient(at, c); }
};

template <class From>
__device__ __forceinline__ void add_to(const OpJob& job, const From& in, T* result) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, channels = job.out.channels;
    if (at >= job.images * job.out.height * job.out.width * channels) return;
    put(result + at, job.add, in.forth(at, at % channels));
}

template <class From>
__device__ __forceinline__ void add_back(const OpJob& job, const From& out, T* result) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, channels = job.out.channels;
    if (at >= job.images * job.out.height * job.out.width * channels) return;
    put(result + at, job.add, out.back(at, at % channels));
}

// Place of the largest value of a window; of equal ones the first, and a NaN counts as largest.
__device__ __forceinline__ int largest(const OpJob& job, const Reader& in, int corner, int c) {
    int best = corner;
    T most = in.value(corner, c);
    for (int y = 0; y < job.rows; y++) {
        for (int x = 0; x < job.cols; x++) {
            int at = corner + (y * job.in.width + x) * in.channels;
            T value = in.value(at, c);
            if (value > most || (is_nan(value) && !is_nan(most))) {
                best = at;
                most = value;
            }
        }
    }
    return best;
}

template <class From>
__device__ __forceinline__ void pool_to(const OpJob& job, const From& in, T* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, channels = job.out.channels;
    int pixels = job.out.height * job.out.width;
    if (at >= job.images * pixels * channels) return;
    int c = at % channels, pixel = at / channels % pixels, image = at / channels / pixels;
    int y = pixel / job.out.width * job.stride, x = pixel % job.out.width * job.stride;
    int corner = ((image * job.in.height + y) * job.in.width + x) * channels + c;
    T result;
    if (job.largest) {
        result = in.forth(largest(job, in, corner, c), c);
    } else {
        T sum = T(0);
        for (int i = 0; i < job.rows; i++) {
            for (int j = 0; j < job.cols; j++) {
                sum += in.forth(corner + (i * job.in.width + j) * channels, c);
            }
        }
        result = sum * (T)(1.0 / (job.rows * job.cols));
    }
    out[at] = result;
}

template <class From>
__device__ __forceinline__ void pool_back(const OpJob& job, const Reader& in, const From& out, T* result) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, channels = job.in.channels;
    int pixels = job.in.height * job.in.width;
    if (at >= job.images * pixels * channels) return;
    int c = at % channels, pixel = at / channels % pixels, image = at / channels / pixels;
    int y = pixel / job.in.width, x = pixel % job.in.width;
    int first_y = max(0, (y - job.rows + job.stride) / job.stride);
    int first_x = max(0, (x - job.cols + job.stride) / job.stride);
    T share = (T)(1.0 / (job.rows * job.cols)), sum = T(0);
    for (int oy = first_y; oy < job.out.height && oy * job.stride <= y; oy++) {
        for (int ox = first_x; ox < job.out.width && ox * job.stride <= x; ox++) {
            if (oy * job.stride + job.rows <= y || ox * job.stride + job.cols <= x) continue;
            int place = ((image * job.out.height + oy) * job.out.width + ox) * channels + c;
            int corner = ((image * job.in.height + oy * job.stride) * job.in.width + ox * job.stride) * channels + c;
            if (!job.largest) {
                sum += out.back(place, c) * share;
            } else if (largest(job, in, corner, c) == at) {
                sum += out.back(place, c);
            }
        }
    }
    put(result + at, job.add, sum);
}

template <class From>
__device__ __forceinline__ void subsample_to(const OpJob& job, const From& in, T* out) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, channels = job.out.channels;
    int pixels = job.out.height * job.out.width, kept = job.in.channels;
    if (at >= job.images * pixels * channels) return;
    int pixel = at / channels % pixels, image = at / channels / pixels;
    int c = at % channels - (channels - kept) / 2;
    int y = pixel / job.out.width * job.stride, x = pixel % job.out.width * job.stride;
    bool inside = c >= 0 && c < kept;
    out[at] = inside ? in.forth(((image * job.in.height + y) * job.in.width + x) * kept + c, c) : T(0);
}

template <class From>
__device__ __forceinline__ void subsample_back(const OpJob& job, const From& out, T* result) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, kept = job.in.channels;
    int pixels = job.in.height * job.in.width, channels = job.out.channels;
    if (at >= job.images * pixels * kept) return;
    int pixel = at / kept % pixels, image = at / kept / pixels;
    int y = pixel / job.in.width, x = pixel % job.in.width;
    T d = T(0);
    if (y % job.stride == 0 && x % job.stride == 0) {
        int c = at % kept + (channels - kept) / 2;
        int place = (image * job.out.height + y / job.stride) * job.out.width + x / job.stride;
        d = out.back(place * channels + c, c);
    }
    put(result + at, job.add, d);
}

// A warp to an image.
template <class From>
__device__ __forceinline__ void mean_to(const OpJob& job, const From& in, T* out) {
    int image = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (image >= job.images) return;
    int len = job.in.height * job.in.width * job.in.channels;
    T sum = T(0);
    for (int i = lane; i < len; i += 32) sum += in.forth(image * len + i, i % job.in.channels);
#pragma unroll
    for (int gap = 16; gap > 0; gap /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, gap);
    if (lane == 0) out[image] = sum * (T)(1.0 / len);
}

template <class From>
__device__ __forceinline__ void mean_back(const OpJob& job, const From& out, T* result) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    int len = job.in.height * job.in.width * job.in.channels;
    if (at >= job.images * len) return;
    put(result + at, job.add, out.back(at / len, 0) * (T)(1.0 / len));
}

// Where a replica's results go.
__device__ __forceinline__ T* raw_of(const View& view) { return (T*)view.z + view.stride * blockIdx.y; }
__device__ __forceinline__ T* gradient_of(const View& view) { return view.u + view.stride * blockIdx.y; }

extern "C" __global__ void add_forward(const OpJob job) {
    in_turn();
    add_to(job, Values(job.in, blockIdx.y), raw_of(job.out));
}

extern "C" __global__ void add_backward(const OpJob job) {
    in_turn();
    add_back(job, Values(job.out, blockIdx.y), gradient_of(job.in));
}

// The same four channels at a time, where their number is a multiple of four; nothing is there yet.
extern "C" __global__ void __launch_bounds__(256) add_forward_fours(const OpJob job) {
    in_turn();
    int at = blockIdx.x * blockDim.x + threadIdx.x, fours = job.out.channels / 4;
    if (at >= job.images * job.out.height * job.out.width * fours) return;
    Reader in(job.in, blockIdx.y);
    Four own(in, at % fours * 4, false);
    ((T4*)raw_of(job.out))[at] = own.value(((const T4*)in.z)[at]);
}

extern "C" __global__ void __launch_bounds__(256) add_backward_fours(const OpJob job) {
    in_turn();
    int at = blockIdx.x * blockDim.x + threadIdx.x, fours = job.out.channels / 4;
    if (at >= job.images * job.out.height * job.out.width * fours) return;
    Reader out(job.out, blockIdx.y);
    Four own(out, at % fours * 4, true);
    T4 z = ((const T4*)out.z)[at], u = ((const T4*)out.u)[at];
    ((T4*)gradient_of(job.in))[at] = out.norm ? own.gradient(z, u) : own.slope(z, u);
}

extern "C" __global__ void pool_forward(const OpJob job) {
    in_turn();
    pool_to(job, Values(job.in, blockIdx.y), raw_of(job.out));
}

extern "C" __global__ void pool_backward(const OpJob job) {
    in_turn();
    pool_back(job, Reader(job.in, blockIdx.y), Values(job.out, blockIdx.y), gradient_of(job.in));
}

extern "C" __global__ void subsample_forward(const OpJob job) {
    in_turn();
    subsample_to(job, Values(job.in, blockIdx.y), raw_of(job.out));
}

extern "C" __global__ void subsample_backward(const OpJob job) {
    in_turn();
    subsample_back(job, Values(job.out, blockIdx.y), gradient_of(job.in));
}

extern "C" __global__ void mean_forward(const OpJob job) {
    in_turn();
    mean_to(job, Values(job.in, blockIdx.y), raw_of(job.out));
}

extern "C" __global__ void mean_backward(const OpJob job) {
    in_turn();
    mean_back(job, Values(job.out, blockIdx.y), gradient_of(job.in));
}
