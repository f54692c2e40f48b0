// Tangents of batch norm, of a bias and of the loss. The formulas are those of the CPU's `norm` and `loss`;
// `_dot` stands for the tangent.

struct NormTangentArgs {
    NormArgs norm;       // `gradient` is the Hessian-vector product
    Tangents layer;
    T* coefficients;    // [replica][mean_dot, q, r, b_dot, c_dot][channel]
    const T* direction;
};

// Sums `term(index, channel)` over the pixels of a block's image for each channel, one kind of sum after the
// other.
struct ImageTangent {
    TangentReader reader;
    int channels, pixels, first;
    T* out;

    __device__ __forceinline__ ImageTangent(const NormTangentArgs& args, int kinds)
        : reader(args.norm.layer, args.layer, blockIdx.y) {
        channels = args.norm.layer.channels;
        pixels = args.norm.layer.height * args.norm.layer.width;
        first = blockIdx.x * pixels * channels;
        out = args.norm.sums + ((u64)blockIdx.y * args.norm.images + blockIdx.x) * kinds * channels;
    }

    // Groups of four neighbouring channels in all.
    __device__ __forceinline__ int vectors() const { return pixels * channels / 4; }

    template <class Term>
    __device__ __forceinline__ void sum(int kind, Term term) const {
        int start = first, wide = channels;
        T* to = out + kind * channels;
        sum_pixels(pixels, channels, [=](int p, int c) { return term(start + p * wide + c, c); },
            [=](int c, T sum) { to[c] = sum; });
    }
};

// Per image and channel: sum of z' and of (z - mean) z'.
extern "C" __global__ void __launch_bounds__(256) norm_moments_tangent(const NormTangentArgs args) {
    wait_for_previous_kernel();
    ImageTangent image(args, 2);
    const TangentReader& reader = image.reader;
    image.sum(0, [&](int at, int) { return reader.z_dot[at]; });
    image.sum(1, [&](int at, int c) { return (reader.z[at] - reader.norm[2 * reader.channels + c]) * reader.z_dot[at]; });
}

// The same four channels at a time, where their number is a power of two from 4 to 1024 (`vec4.cu`).
extern "C" __global__ void __launch_bounds__(256) norm_moments_tangent_vec4(const NormTangentArgs args) {
    wait_for_previous_kernel();
    ImageTangent image(args, 2);
    const TangentReader& reader = image.reader;
    int channel = threadIdx.x % (image.channels / 4) * 4;
    T4 mean = *(const T4*)(reader.norm + 2 * image.channels + channel);
    T4 sums[2] = {vec4(0, 0, 0, 0), vec4(0, 0, 0, 0)};
    each_vec4<2, VECTORS / 2>({(const T4*)(reader.z + image.first), (const T4*)(reader.z_dot + image.first)}, image.vectors(),
        [&](int, const T4 (&at_once)[2]) {
            sums[0] = sums[0] + at_once[1];
            sums[1] = fma_rn(at_once[0] - mean, at_once[1], sums[1]);
        });
    store_sums(sums, image.out, image.channels);
}

// What a channel of a batch norm and its tangent depend on.
struct NormChannel {
    double gamma, gamma_dot, beta_dot, count, mean, s, m1, m2;
    double* moments;
    T* coefficients;
    int channels;

    __device__ NormChannel(const NormTangentArgs& args, int r, int c) {
        const NormArgs& norm = args.norm;
        channels = norm.layer.channels;
        gamma = norm.theta[norm.parameters * r + norm.scale + c];
        gamma_dot = args.direction[norm.parameters * r + norm.scale + c];
        beta_dot = args.direction[norm.parameters * r + norm.shift + c];
        count = (double)norm.images * (norm.layer.height * norm.layer.width);
        moments = norm.moments + (u64)r * MOMENTS * channels + c;
        mean = moments[0];
        s = moments[channels];
        m1 = moments[2 * channels];
        m2 = moments[3 * channels];
        coefficients = args.coefficients + (u64)r * 5 * channels + c;
    }

    __device__ double& mean_dot() { return moments[4 * channels]; }
    __device__ double& t() { return moments[5 * channels]; }
};

// Sum over the images of one of `kinds` sums, by a warp.
__device__ __forceinline__ double sum_of_images(const NormTangentArgs& args, int r, int c, int kind, int kinds) {
    int channels = args.norm.layer.channels;
    const T* own = args.norm.sums + ((u64)r * args.norm.images * kinds + kind) * channels + c;
    double sum = 0.0;
    for (int first = threadIdx.x % 32; first < args.norm.images; first += 32 * PARTS_AT_ONCE) {
        T some[PARTS_AT_ONCE];
#pragma unroll
        for (int j = 0; j < PARTS_AT_ONCE; j++) {
            int i = first + 32 * j;
            some[j] = i < args.norm.images ? own[(u64)i * kinds * channels] : T(0);
        }
#pragma unroll
        for (int j = 0; j < PARTS_AT_ONCE; j++) sum += (double)some[j];
    }
    return sum_of_warp(sum);
}

// One warp per channel: the coefficients of the value's tangent.
extern "C" __global__ void __launch_bounds__(128) norm_forward_tangent(const NormTangentArgs args) {
    wait_for_previous_kernel();
    int c = blockIdx.x * 4 + threadIdx.x / 32, r = blockIdx.y;
    if (c >= args.norm.layer.channels) return;
    NormChannel own(args, r, c);
    double mean_dot = 0.0, t = 0.0;
    if (!args.norm.running) {
        mean_dot = sum_of_images(args, r, c, 0, 2) / own.count;
        t = own.s * sum_of_images(args, r, c, 1, 2) / own.count;
    }
    if (threadIdx.x % 32) return;
    own.mean_dot() = mean_dot;
    own.t() = t;
    double q = own.gamma_dot * own.s - own.gamma * own.s * own.s * t;
    own.coefficients[0] = (T)mean_dot;
    own.coefficients[own.channels] = (T)q;
    own.coefficients[2 * own.channels] = (T)(own.beta_dot - q * own.mean - own.gamma * own.s * mean_dot);
}

// Per image and channel: sum of g', of g' (z - mean) and of g (z' - mean_dot).
extern "C" __global__ void __launch_bounds__(256) norm_gradient_sums_tangent(const NormTangentArgs args) {
    wait_for_previous_kernel();
    ImageTangent image(args, 3);
    const TangentReader& reader = image.reader;
    auto slope = [&](int at, int c) {
        return reader.channel(c).slope_and_dot(reader.z[at], reader.z_dot[at], reader.u[at], reader.u_dot[at]);
    };
    image.sum(0, [&](int at, int c) { return slope(at, c).dot; });
    image.sum(1, [&](int at, int c) { return slope(at, c).dot * (reader.z[at] - reader.norm[2 * reader.channels + c]); });
    image.sum(2, [&](int at, int c) { return slope(at, c).value * (reader.z_dot[at] - reader.norm_dot[c]); });
}

template <bool SMOOTH>
__device__ __forceinline__ void gradient_sums_tangent(const NormTangentArgs& args) {
    ImageTangent image(args, 3);
    const TangentReader& reader = image.reader;
    int channel = threadIdx.x % (image.channels / 4) * 4;
    ChannelTangent4<SMOOTH> own(reader, reader.norm_dot, channel);
    T4 mean = *(const T4*)(reader.norm + 2 * image.channels + channel), mean_dot = *(const T4*)(reader.norm_dot + channel);
    T4 sums[3] = {vec4(0, 0, 0, 0), vec4(0, 0, 0, 0), vec4(0, 0, 0, 0)};
    int first = image.first;
    each_vec4<4, VECTORS / 4>(
        {(const T4*)(reader.z + first), (const T4*)(reader.z_dot + first), (const T4*)(reader.u + first), (const T4*)(reader.u_dot + first)},
        image.vectors(), [&](int, const T4 (&at_once)[4]) {
            T4 g, g_dot;
            own.slope_and_dot(at_once[0], at_once[1], at_once[2], at_once[3], g, g_dot);
            sums[0] = sums[0] + g_dot;
            sums[1] = fma_rn(g_dot, at_once[0] - mean, sums[1]);
            sums[2] = fma_rn(g, at_once[1] - mean_dot, sums[2]);
        });
    store_sums(sums, image.out, image.channels);
}

extern "C" __global__ void __launch_bounds__(256) norm_gradient_sums_tangent_vec4(const NormTangentArgs args) {
    wait_for_previous_kernel();
    if (is_smooth(args.norm.layer)) gradient_sums_tangent<true>(args);
    else gradient_sums_tangent<false>(args);
}

// One warp per channel: the coefficients of the gradient's tangent, and the tangents of the gradients by
// scale and shift.
extern "C" __global__ void __launch_bounds__(128) norm_backward_tangent(const NormTangentArgs args) {
    wait_for_previous_kernel();
    int c = blockIdx.x * 4 + threadIdx.x / 32, r = blockIdx.y;
    const NormArgs& norm = args.norm;
    if (c >= norm.layer.channels) return;
    NormChannel own(args, r, c);
    double sums[3];
#pragma unroll
    for (int kind = 0; kind < 3; kind++) sums[kind] = sum_of_images(args, r, c, kind, 3);
    if (threadIdx.x % 32) return;
    double s = own.s, gamma = own.gamma, m1 = own.m1, m2 = own.m2, t = own.t(), count = own.count;
    double m1_dot = sums[0] / count;
    double m2_dot = s * sums[1] / count + s * (sums[2] / count - t * m2);
    T* gradient = norm.gradient + norm.parameters * r;
    gradient[norm.scale + c] = (T)(count * m2_dot);
    gradient[norm.shift + c] = (T)(count * m1_dot);
    double b_dot = 0.0, c_dot = 0.0;
    if (!norm.running) {
        double scale = gamma * s, s_dot = -s * s * t;
        double q = own.gamma_dot * s + gamma * s_dot;
        double b = -gamma * s * s * m2;
        b_dot = -(own.gamma_dot * s * s * m2 + 2.0 * gamma * s * s_dot * m2 + gamma * s * s * m2_dot);
        c_dot = -(q * m1 + scale * m1_dot) - (b_dot * own.mean + b * own.mean_dot());
    }
    own.coefficients[3 * own.channels] = (T)b_dot;
    own.coefficients[4 * own.channels] = (T)c_dot;
}

// The tangent of a bias's gradient: per image and channel; bias_finish adds the images.
extern "C" __global__ void __launch_bounds__(256) bias_sums_tangent(const NormTangentArgs args) {
    wait_for_previous_kernel();
    ImageTangent image(args, 1);
    image.sum(0, [&](int at, int c) { return image.reader.back(at, c); });
}

struct LossTangentArgs {
    LossArgs loss;
    Tangents output;
};

// One thread per example: the tangent of the gradient by the outputs.
extern "C" __global__ void loss_examples_tangent(const LossTangentArgs both) {
    wait_for_previous_kernel();
    const LossArgs& args = both.loss;
    int i = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (i >= args.images) return;
    TangentReader out(args.output, both.output, r);
    int n = args.outputs, first = i * n;
    double share = 1.0 / args.images;
    auto value = [=](int c) { return (double)out.value(first + c, c % out.channels); };
    auto value_dot = [=](int c) { return (double)out.forth(first + c, c % out.channels); };
    if (args.kind == CROSS_ENTROPY) {
        double largest = -__longlong_as_double(0x7ff0000000000000LL), total = 0.0, mean = 0.0;
        for (int c = 0; c < n; c++) largest = fmax(largest, value(c));
        for (int c = 0; c < n; c++) total += exp(value(c) - largest);
        for (int c = 0; c < n; c++) mean += exp(value(c) - largest) / total * value_dot(c);
        for (int c = 0; c < n; c++) {
            double p = exp(value(c) - largest) / total;
            out.u_dot[first + c] = (T)(p * (value_dot(c) - mean) * share);
        }
    } else if (args.kind == BINARY_CROSS_ENTROPY) {
        for (int c = 0; c < n; c++) {
            double s = 1.0 / (1.0 + exp(-value(c)));
            out.u_dot[first + c] = (T)(s * (1.0 - s) * value_dot(c) * (share / n));
        }
    } else {
        for (int c = 0; c < n; c++) out.u_dot[first + c] = (T)(value_dot(c) * share);
    }
}
