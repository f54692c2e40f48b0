// Everything between convolutions: sums, pooling, the shortcut without parameters, the mean.
// Backward, a number gathers from all that read it, in the order in which the CPU scatters.

struct OpJob {
    View in, out;
    int rows, cols, stride, largest;  // of a window; largest: maxima, else means
    int add;                          // to what is there already
    int images;
};

__device__ __forceinline__ void put(T* at, int add, T x) { *at = add ? *at + x : x; }

extern "C" __global__ void add_forward(const OpJob job) {
    in_turn();
    int at = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y, channels = job.out.channels;
    if (at >= job.images * job.out.height * job.out.width * channels) return;
    Reader in(job.in, r);
    put((T*)job.out.z + job.out.stride * r + at, job.add, in.value(at, at % channels));
}

extern "C" __global__ void add_backward(const OpJob job) {
    in_turn();
    int at = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y, channels = job.out.channels;
    if (at >= job.images * job.out.height * job.out.width * channels) return;
    Reader out(job.out, r);
    put(job.in.u + job.in.stride * r + at, job.add, out.gradient(at, at % channels));
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

extern "C" __global__ void pool_forward(const OpJob job) {
    in_turn();
    int at = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y, channels = job.out.channels;
    int pixels = job.out.height * job.out.width;
    if (at >= job.images * pixels * channels) return;
    Reader in(job.in, r);
    int c = at % channels, pixel = at / channels % pixels, image = at / channels / pixels;
    int y = pixel / job.out.width * job.stride, x = pixel % job.out.width * job.stride;
    int corner = ((image * job.in.height + y) * job.in.width + x) * channels + c;
    T result;
    if (job.largest) {
        result = in.value(largest(job, in, corner, c), c);
    } else {
        T sum = T(0);
        for (int i = 0; i < job.rows; i++) {
            for (int j = 0; j < job.cols; j++) {
                sum += in.value(corner + (i * job.in.width + j) * channels, c);
            }
        }
        result = sum * (T)(1.0 / (job.rows * job.cols));
    }
    ((T*)job.out.z)[job.out.stride * r + at] = result;
}

extern "C" __global__ void pool_backward(const OpJob job) {
    in_turn();
    int at = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y, channels = job.in.channels;
    int pixels = job.in.height * job.in.width;
    if (at >= job.images * pixels * channels) return;
    Reader in(job.in, r), out(job.out, r);
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
                sum += out.gradient(place, c) * share;
            } else if (largest(job, in, corner, c) == at) {
                sum += out.gradient(place, c);
            }
        }
    }
    put(job.in.u + job.in.stride * r + at, job.add, sum);
}

extern "C" __global__ void subsample_forward(const OpJob job) {
    in_turn();
    int at = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y, channels = job.out.channels;
    int pixels = job.out.height * job.out.width, kept = job.in.channels;
    if (at >= job.images * pixels * channels) return;
    Reader in(job.in, r);
    int pixel = at / channels % pixels, image = at / channels / pixels;
    int c = at % channels - (channels - kept) / 2;
    int y = pixel / job.out.width * job.stride, x = pixel % job.out.width * job.stride;
    bool inside = c >= 0 && c < kept;
    T value = inside ? in.value(((image * job.in.height + y) * job.in.width + x) * kept + c, c) : T(0);
    ((T*)job.out.z)[job.out.stride * r + at] = value;
}

extern "C" __global__ void subsample_backward(const OpJob job) {
    in_turn();
    int at = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y, kept = job.in.channels;
    int pixels = job.in.height * job.in.width, channels = job.out.channels;
    if (at >= job.images * pixels * kept) return;
    Reader out(job.out, r);
    int pixel = at / kept % pixels, image = at / kept / pixels;
    int y = pixel / job.in.width, x = pixel % job.in.width;
    T d = T(0);
    if (y % job.stride == 0 && x % job.stride == 0) {
        int c = at % kept + (channels - kept) / 2;
        int place = (image * job.out.height + y / job.stride) * job.out.width + x / job.stride;
        d = out.gradient(place * channels + c, c);
    }
    put(job.in.u + job.in.stride * r + at, job.add, d);
}

extern "C" __global__ void mean_forward(const OpJob job) {
    in_turn();
    int image = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (image >= job.images) return;
    Reader in(job.in, r);
    int len = job.in.height * job.in.width * job.in.channels;
    T sum = T(0);
    for (int i = 0; i < len; i++) sum += in.value(image * len + i, i % job.in.channels);
    ((T*)job.out.z)[job.out.stride * r + image] = sum * (T)(1.0 / len);
}

extern "C" __global__ void mean_backward(const OpJob job) {
    in_turn();
    int at = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    int len = job.in.height * job.in.width * job.in.channels;
    if (at >= job.images * len) return;
    Reader out(job.out, r);
    put(job.in.u + job.in.stride * r + at, job.add, out.gradient(at / len, 0) * (T)(1.0 / len));
}
