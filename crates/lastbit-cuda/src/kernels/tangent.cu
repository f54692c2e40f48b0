// Tangents, the derivatives along a direction, beside the values and gradients of the same point:
//
//   value       v' = r'(n) n',                               n' = scale z' + q z + r
//   gradient       = scale g' + q g + b z' + b' z + c',      g' = r'(n) u' + r''(n) u n'
//
// (a dash after z, u, n, g, b, c, v stands for the tangent, `_dot` in the code). The coefficients are those
// of the CPU's `norm`. This file has the reading of layers, the convolutions and the ops between them.

// The tangents of a layer. z is null for the network's input, which has none.
struct Tangents {
    const T* z;
    T* u;
    const T* norm;  // [replica][mean_dot, q, r, b_dot, c_dot][channel]; null without batch norm
};

// A number and its tangent.
struct Dual {
    T value, dot;
};

// r(n), r'(n), r''(n), consistent with act and act_slope; the compiler removes what is not used. Not SMOOTH: with ReLU or
// no activation, which takes few instructions.
template <bool SMOOTH>
struct Curve {
    T value, slope, curvature;
    bool is_smooth;

    __device__ __forceinline__ Curve(int kind, T beta, T n) {
        is_smooth = SMOOTH && kind >= TANH;
        if (!is_smooth) {
            value = kind == RELU && n <= T(0) ? T(0) : n;
            slope = kind == RELU && n <= T(0) ? T(0) : T(1);
            curvature = T(0);
        } else if (kind == TANH) {
            double r = hyperbolic((double)n), rest = 1.0 - r * r;
            value = (T)r;
            slope = (T)rest;
            curvature = (T)(-2.0 * r * rest);
        } else if (kind == SIGMOID) {
            value = logistic(n);
            slope = value * (T(1) - value);
            curvature = slope * (T(1) - T(2) * value);
        } else {
            T s = logistic(beta * n), rest = s * (T(1) - s);
            value = n * s;
            slope = s + beta * n * rest;
            curvature = beta * rest * (T(2) + beta * n * (T(1) - T(2) * s));
        }
    }
};

// One channel with its tangents.
struct ChannelTangent : Channel {
    T mean_dot, q, r, b_dot, c_dot;

    __device__ __forceinline__ ChannelTangent(const Reader& reader, const T* tangents, int channel) : Channel(reader, channel) {
        int channels = reader.channels;
        mean_dot = normed ? tangents[channel] : T(0);
        q = normed ? tangents[channels + channel] : T(0);
        r = normed ? tangents[2 * channels + channel] : T(0);
        b_dot = normed ? tangents[3 * channels + channel] : T(0);
        c_dot = normed ? tangents[4 * channels + channel] : T(0);
    }

    __device__ __forceinline__ T n_dot(T z, T z_dot) const {
        return normed ? fma_rn(scale, z_dot, fma_rn(q, z, r)) : z_dot;
    }

    template <bool SMOOTH = true>
    __device__ __forceinline__ Dual value_and_dot(T z, T z_dot) const {
        Curve<SMOOTH> curve(activation, beta, n(z));
        return {curve.value, curve.slope * n_dot(z, z_dot)};
    }

    // g and g'
    template <bool SMOOTH = true>
    __device__ __forceinline__ Dual slope_and_dot(T z, T z_dot, T u, T u_dot) const {
        Curve<SMOOTH> curve(activation, beta, n(z));
        T g_dot = curve.slope * u_dot;
        if (curve.is_smooth) g_dot = fma_rn(curve.slope, u_dot, curve.curvature * u * n_dot(z, z_dot));
        return {curve.slope * u, g_dot};
    }

    template <bool SMOOTH = true>
    __device__ __forceinline__ Dual gradient_and_dot(T z, T z_dot, T u, T u_dot) const {
        Dual g = slope_and_dot<SMOOTH>(z, z_dot, u, u_dot);
        if (!normed) return g;
        T rest = fma_rn(b, z_dot, fma_rn(b_dot, z, c_dot));
        return {fma_rn(scale, g.value, fma_rn(b, z, c)), fma_rn(scale, g.dot, fma_rn(q, g.value, rest))};
    }

    template <bool SMOOTH = true>
    __device__ __forceinline__ T value_dot(T z, T z_dot) const { return value_and_dot<SMOOTH>(z, z_dot).dot; }

    template <bool SMOOTH = true>
    __device__ __forceinline__ T gradient_dot(T z, T z_dot, T u, T u_dot) const {
        return gradient_and_dot<SMOOTH>(z, z_dot, u, u_dot).dot;
    }
};

// Four neighbouring channels with their tangents.
template <bool SMOOTH>
struct ChannelTangent4 {
    ChannelTangent x, y, z, w;

    __device__ __forceinline__ ChannelTangent4(const Reader& reader, const T* tangents, int channel)
        : x(reader, tangents, channel), y(reader, tangents, channel + 1), z(reader, tangents, channel + 2),
          w(reader, tangents, channel + 3) {}

    __device__ __forceinline__ T4 value_dot(T4 a, T4 a_dot) const {
        return vec4(x.template value_dot<SMOOTH>(a.x, a_dot.x), y.template value_dot<SMOOTH>(a.y, a_dot.y),
            z.template value_dot<SMOOTH>(a.z, a_dot.z), w.template value_dot<SMOOTH>(a.w, a_dot.w));
    }

    __device__ __forceinline__ T4 gradient_dot(T4 a, T4 a_dot, T4 u, T4 u_dot) const {
        return vec4(x.template gradient_dot<SMOOTH>(a.x, a_dot.x, u.x, u_dot.x), y.template gradient_dot<SMOOTH>(a.y, a_dot.y, u.y, u_dot.y),
            z.template gradient_dot<SMOOTH>(a.z, a_dot.z, u.z, u_dot.z), w.template gradient_dot<SMOOTH>(a.w, a_dot.w, u.w, u_dot.w));
    }

    // g and g'
    __device__ __forceinline__ void slope_and_dot(T4 a, T4 a_dot, T4 u, T4 u_dot, T4& g, T4& g_dot) const {
        Dual of_x = x.template slope_and_dot<SMOOTH>(a.x, a_dot.x, u.x, u_dot.x);
        Dual of_y = y.template slope_and_dot<SMOOTH>(a.y, a_dot.y, u.y, u_dot.y);
        Dual of_z = z.template slope_and_dot<SMOOTH>(a.z, a_dot.z, u.z, u_dot.z);
        Dual of_w = w.template slope_and_dot<SMOOTH>(a.w, a_dot.w, u.w, u_dot.w);
        g = vec4(of_x.value, of_y.value, of_z.value, of_w.value);
        g_dot = vec4(of_x.dot, of_y.dot, of_z.dot, of_w.dot);
    }
};

// The tangents of one replica, beside its values; the ops pass the tangents on.
struct TangentReader : Reader {
    const T* __restrict__ z_dot;
    T* u_dot;
    const T* norm_dot;

    __device__ TangentReader(const View& view, const Tangents& tangents, int replica) : Reader(view, replica) {
        u64 start = view.stride * replica;
        z_dot = tangents.z ? tangents.z + start : nullptr;
        u_dot = tangents.u ? tangents.u + start : nullptr;
        norm_dot = tangents.norm ? tangents.norm + (u64)replica * 5 * channels : nullptr;
    }

    __device__ __forceinline__ ChannelTangent channel(int c) const { return ChannelTangent(*this, norm_dot, c); }

    __device__ __forceinline__ T forth(int at, int c) const {
        return z_dot ? channel(c).value_dot(z[at], z_dot[at]) : T(0);
    }

    __device__ __forceinline__ T back(int at, int c) const {
        return channel(c).gradient_dot(z[at], z_dot[at], u[at], u_dot[at]);
    }
};

// A convolution's tangent. Matrix products read tangents without batch norm and activation, too; plane.cu
// applies these itself.
struct ConvTangentArgs {
    ConvArgs conv;
    Tangents input, output;
    const T* direction;  // laid out as theta
    T* packed;           // the direction's packed weights
};

// z' = bias' + sum of value W' and of value' W
struct ForwardTangent : Forward {
    template <int BN> using Second = Kernels<ForwardTangent, BN>;
    template <int BM> using Loader = Patches<ForwardTangent, BM>;
    const T *z_dot, *direction, *packed, *packed_dot;
    T* result;
    int terms;
    bool use_tangent;
    __device__ ForwardTangent(const ConvTangentArgs& j, int r, int part) : Forward(j.conv, r, part) {
        z_dot = j.input.z + args.input.stride * r;
        direction = j.direction + args.parameters * r;
        packed = w;
        packed_dot = j.packed + (u64)r * K * N;
        result = (T*)j.output.z + args.output.stride * r;
        terms = j.input.z ? 2 : 1;
    }
    __device__ void select_term(int term) {
        use_tangent = term == 1;
        w = use_tangent ? packed : packed_dot;
    }
    __device__ T read(int at) const { return use_tangent ? z_dot[at] : from.z[at]; }
    __device__ T start(int, int n) const { return args.has_bias ? direction[args.bias + n] : T(0); }
    __device__ void store(int, int, int m, int n, T sum) const { result[(u64)m * N + n] = sum; }
};

// u' = sum of dz' W and of dz W'
struct DataTangent : Data {
    template <int BN> using Second = Kernels<DataTangent, BN>;
    template <int BM> using Loader = Patches<DataTangent, BM>;
    enum { terms = 2 };
    const T *u_dot, *direction;
    T* result;
    bool use_tangent;
    __device__ DataTangent(const ConvTangentArgs& j, int r, int part) : Data(j.conv, r, part) {
        u_dot = j.output.u + args.output.stride * r;
        direction = j.direction + args.parameters * r;
        result = j.input.u + args.input.stride * r;
    }
    __device__ void select_term(int term) {
        use_tangent = term == 0;
        w = (use_tangent ? args.theta + args.parameters * blockIdx.z : direction) + args.weight;
    }
    __device__ T read(int at) const { return use_tangent ? u_dot[at] : from.u[at]; }
    __device__ void store(int, int, int m, int n, T sum) const {
        T* at = result + offset(m) + n;
        *at = args.add ? *at + sum : sum;
    }
};

// dW' = sum of value dz' and of value' dz
struct WeightsTangent : Weights {
    template <int BN> using Second = Gradients<WeightsTangent, BN>;
    template <int BM> using Loader = Pixels<WeightsTangent, BM>;
    const T *z_dot, *u_dot;
    int terms;
    bool use_tangent;  // of the input; else of the gradient
    __device__ WeightsTangent(const ConvTangentArgs& j, int r, int chunk) : Weights(j.conv, r, chunk) {
        z_dot = j.input.z + args.input.stride * r;
        u_dot = j.output.u + args.output.stride * r;
        terms = j.input.z ? 2 : 1;
    }
    __device__ void select_term(int term) { use_tangent = term == 1; }
    __device__ T input(int at) const { return use_tangent ? z_dot[at] : in.z[at]; }
    __device__ T output(int at) const { return use_tangent ? out.u[at] : u_dot[at]; }
};

extern "C" __global__ void __launch_bounds__(256) conv_forward_tangent_16(const ConvTangentArgs args) { wait_for_previous_kernel(); multiply<ForwardTangent, 256, 16>(args); }
extern "C" __global__ void __launch_bounds__(256) conv_forward_tangent_32(const ConvTangentArgs args) { wait_for_previous_kernel(); multiply<ForwardTangent, 128, 32>(args); }
extern "C" __global__ void __launch_bounds__(256) conv_forward_tangent_64(const ConvTangentArgs args) { wait_for_previous_kernel(); multiply<ForwardTangent, TALL, 64>(args); }
extern "C" __global__ void __launch_bounds__(256) conv_data_tangent_16(const ConvTangentArgs args) { wait_for_previous_kernel(); multiply<DataTangent, 256, 16>(args); }
extern "C" __global__ void __launch_bounds__(256) conv_data_tangent_32(const ConvTangentArgs args) { wait_for_previous_kernel(); multiply<DataTangent, 128, 32>(args); }
extern "C" __global__ void __launch_bounds__(256) conv_data_tangent_64(const ConvTangentArgs args) { wait_for_previous_kernel(); multiply<DataTangent, TALL, 64>(args); }
extern "C" __global__ void __launch_bounds__(256) conv_weights_tangent_16(const ConvTangentArgs args) { wait_for_previous_kernel(); multiply<WeightsTangent, 256, 16>(args); }
extern "C" __global__ void __launch_bounds__(256) conv_weights_tangent_32(const ConvTangentArgs args) { wait_for_previous_kernel(); multiply<WeightsTangent, 128, 32>(args); }
extern "C" __global__ void __launch_bounds__(256) conv_weights_tangent_64(const ConvTangentArgs args) { wait_for_previous_kernel(); multiply<WeightsTangent, TALL, 64>(args); }

struct OpTangentArgs {
    OpArgs op;
    Tangents input, output;
};

__device__ __forceinline__ TangentReader in_of(const OpTangentArgs& args) { return TangentReader(args.op.input, args.input, blockIdx.y); }
__device__ __forceinline__ TangentReader out_of(const OpTangentArgs& args) { return TangentReader(args.op.output, args.output, blockIdx.y); }
__device__ __forceinline__ T* raw_of(const OpTangentArgs& args) { return (T*)args.output.z + args.op.output.stride * blockIdx.y; }
__device__ __forceinline__ T* gradient_of(const OpTangentArgs& args) { return args.input.u + args.op.input.stride * blockIdx.y; }

extern "C" __global__ void add_forward_tangent(const OpTangentArgs args) { wait_for_previous_kernel(); add_to(args.op, in_of(args), raw_of(args)); }
extern "C" __global__ void add_backward_tangent(const OpTangentArgs args) { wait_for_previous_kernel(); add_back(args.op, out_of(args), gradient_of(args)); }

// The same four channels at a time, where their number is a power of two from 4 to 1024. A thread has the same channels
// at each of its positions.
const int POSITIONS = 4;

// Calls `made(at)` for each position of a thread, and puts the results there.
template <class Made>
__device__ __forceinline__ void put_each_vec4(const OpTangentArgs& args, T* to, Made made) {
    const View& output = args.op.output;
    int count = args.op.images * output.height * output.width * (output.channels / 4);
    int start = blockIdx.x * THREADS * POSITIONS + threadIdx.x;
    T4 numbers[POSITIONS];
#pragma unroll
    for (int j = 0; j < POSITIONS; j++) {
        int at = start + j * THREADS;
        if (at < count) numbers[j] = made(at);
    }
#pragma unroll
    for (int j = 0; j < POSITIONS; j++) {
        int at = start + j * THREADS;
        if (at < count) ((T4*)to)[at] = args.op.add ? ((const T4*)to)[at] + numbers[j] : numbers[j];
    }
}

template <bool SMOOTH>
__device__ __forceinline__ void add_forward_tangent4(const OpTangentArgs& args) {
    TangentReader in = in_of(args);
    ChannelTangent4<SMOOTH> own(in, in.norm_dot, threadIdx.x % (in.channels / 4) * 4);
    put_each_vec4(args, raw_of(args), [&](int at) {
        if (!in.z_dot) return vec4(0, 0, 0, 0);
        return own.value_dot(((const T4*)in.z)[at], ((const T4*)in.z_dot)[at]);
    });
}

template <bool SMOOTH>
__device__ __forceinline__ void add_backward_tangent4(const OpTangentArgs& args) {
    TangentReader out = out_of(args);
    ChannelTangent4<SMOOTH> own(out, out.norm_dot, threadIdx.x % (out.channels / 4) * 4);
    put_each_vec4(args, gradient_of(args), [&](int at) {
        return own.gradient_dot(((const T4*)out.z)[at], ((const T4*)out.z_dot)[at], ((const T4*)out.u)[at], ((const T4*)out.u_dot)[at]);
    });
}

extern "C" __global__ void __launch_bounds__(256) add_forward_tangent_vec4(const OpTangentArgs args) {
    wait_for_previous_kernel();
    if (is_smooth(args.op.input)) add_forward_tangent4<true>(args);
    else add_forward_tangent4<false>(args);
}

extern "C" __global__ void __launch_bounds__(256) add_backward_tangent_vec4(const OpTangentArgs args) {
    wait_for_previous_kernel();
    if (is_smooth(args.op.output)) add_backward_tangent4<true>(args);
    else add_backward_tangent4<false>(args);
}

extern "C" __global__ void pool_forward_tangent(const OpTangentArgs args) { wait_for_previous_kernel(); pool_to(args.op, in_of(args), raw_of(args)); }
extern "C" __global__ void pool_backward_tangent(const OpTangentArgs args) { wait_for_previous_kernel(); pool_back(args.op, in_of(args), out_of(args), gradient_of(args)); }
extern "C" __global__ void subsample_forward_tangent(const OpTangentArgs args) { wait_for_previous_kernel(); subsample_to(args.op, in_of(args), raw_of(args)); }
extern "C" __global__ void subsample_backward_tangent(const OpTangentArgs args) { wait_for_previous_kernel(); subsample_back(args.op, out_of(args), gradient_of(args)); }
extern "C" __global__ void mean_forward_tangent(const OpTangentArgs args) { wait_for_previous_kernel(); mean_to(args.op, in_of(args), raw_of(args)); }
extern "C" __global__ void mean_backward_tangent(const OpTangentArgs args) { wait_for_previous_kernel(); mean_back(args.op, out_of(args), gradient_of(args)); }
