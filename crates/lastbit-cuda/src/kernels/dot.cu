// Derivatives along a direction, beside the values and gradients of the same point:
//
//   value       v' = r'(n) n',                               n' = scale z' + q z + r
//   gradient       = scale g' + q g + b z' + b' z + c',      g' = r'(n) u' + r''(n) u n'
//
// (a dash after z, u, n, g, b, c, v stands for the derivative). The coefficients are those of the CPU's
// `norm`; here are the readings, convolutions and everything between them.

// The derivatives of a layer. Null: its values do not move, as those of the network's input.
struct Dots {
    const T* z;
    T* u;
    const T* norm;  // [replica][mean_dot, q, r, b_dot, c_dot][channel]; null without batch norm
};

// A number and its derivative.
struct Both {
    T now, dot;
};

// r(n), r'(n), r''(n), as act and act_slope have them; what is not used is not computed.
struct Curve {
    T value, slope, curvature;
    bool is_curved;

    __device__ __forceinline__ Curve(int kind, T beta, T n) {
        is_curved = kind >= TANH;
        if (kind == TANH) {
            double r = hyperbolic((double)n), rest = 1.0 - r * r;
            value = (T)r;
            slope = (T)rest;
            curvature = (T)(-2.0 * r * rest);
        } else if (kind == SIGMOID) {
            value = logistic(n);
            slope = value * (T(1) - value);
            curvature = slope * (T(1) - T(2) * value);
        } else if (kind == SWISH) {
            T s = logistic(beta * n), rest = s * (T(1) - s);
            value = n * s;
            slope = s + beta * n * rest;
            curvature = beta * rest * (T(2) + beta * n * (T(1) - T(2) * s));
        } else {
            value = act(kind, beta, n);
            slope = act_slope(kind, beta, n);
            curvature = T(0);
        }
    }
};

// One channel with its derivatives.
struct ChannelDot : Channel {
    T mean_dot, q, r, b_dot, c_dot;

    __device__ __forceinline__ ChannelDot(const Reader& reader, const T* dots, int channel) : Channel(reader, channel) {
        int channels = reader.channels;
        mean_dot = normed ? dots[channel] : T(0);
        q = normed ? dots[channels + channel] : T(0);
        r = normed ? dots[2 * channels + channel] : T(0);
        b_dot = normed ? dots[3 * channels + channel] : T(0);
        c_dot = normed ? dots[4 * channels + channel] : T(0);
    }

    __device__ __forceinline__ T n_dot(T z, T z_dot) const {
        return normed ? fused(scale, z_dot, fused(q, z, r)) : z_dot;
    }

    __device__ __forceinline__ Both value_and_dot(T z, T z_dot) const {
        Curve curve(activation, beta, n(z));
        return {curve.value, curve.slope * n_dot(z, z_dot)};
    }

    // g and g'
    __device__ __forceinline__ Both slope_and_dot(T z, T z_dot, T u, T u_dot) const {
        Curve curve(activation, beta, n(z));
        T g_dot = curve.slope * u_dot;
        if (curve.is_curved) g_dot = fused(curve.slope, u_dot, curve.curvature * u * n_dot(z, z_dot));
        return {curve.slope * u, g_dot};
    }

    __device__ __forceinline__ Both gradient_and_dot(T z, T z_dot, T u, T u_dot) const {
        Both g = slope_and_dot(z, z_dot, u, u_dot);
        if (!normed) return g;
        T rest = fused(b, z_dot, fused(b_dot, z, c_dot));
        return {fused(scale, g.now, fused(b, z, c)), fused(scale, g.dot, fused(q, g.now, rest))};
    }

    __device__ __forceinline__ T value_dot(T z, T z_dot) const { return value_and_dot(z, z_dot).dot; }

    __device__ __forceinline__ T gradient_dot(T z, T z_dot, T u, T u_dot) const {
        return gradient_and_dot(z, z_dot, u, u_dot).dot;
    }
};

// The derivatives of one replica, beside its values. What is carried are the derivatives.
struct DotReader : Reader {
    const T* __restrict__ z_dot;
    T* u_dot;
    const T* norm_dot;

    __device__ DotReader(const View& view, const Dots& dots, int replica) : Reader(view, replica) {
        u64 start = view.stride * replica;
        z_dot = dots.z ? dots.z + start : nullptr;
        u_dot = dots.u ? dots.u + start : nullptr;
        norm_dot = dots.norm ? dots.norm + (u64)replica * 5 * channels : nullptr;
    }

    __device__ __forceinline__ ChannelDot channel(int c) const { return ChannelDot(*this, norm_dot, c); }

    __device__ __forceinline__ T forth(int at, int c) const {
        return z_dot ? channel(c).value_dot(z[at], z_dot[at]) : T(0);
    }

    __device__ __forceinline__ T back(int at, int c) const {
        return channel(c).gradient_dot(z[at], z_dot[at], u[at], u_dot[at]);
    }
};

// A convolution's derivative. Products read derivatives, too, as they are; plane.cu computes them itself.
struct ConvDotJob {
    ConvJob conv;
    Dots in, out;
    const T* direction;  // as theta
    T* packed;           // as the convolution's own, of the direction
};

// z' = bias' + sum of value W' and of value' W
struct ForwardDot : Forward {
    template <int BN> using Second = Kernels<ForwardDot, BN>;
    template <int BM> using Loader = Patches<ForwardDot, BM>;
    const T *z_dot, *direction, *packed, *packed_dot;
    T* result;
    int terms;
    bool moves;
    __device__ ForwardDot(const ConvDotJob& j, int r, int part) : Forward(j.conv, r, part) {
        z_dot = j.in.z + job.in.stride * r;
        direction = j.direction + job.parameters * r;
        packed = w;
        packed_dot = j.packed + (u64)r * K * N;
        result = (T*)j.out.z + job.out.stride * r;
        terms = j.in.z ? 2 : 1;
    }
    __device__ void turn_to(int term) {
        moves = term == 1;
        w = moves ? packed : packed_dot;
    }
    __device__ T read(int at) const { return moves ? z_dot[at] : from.z[at]; }
    __device__ T start(int, int n) const { return job.has_bias ? direction[job.bias + n] : T(0); }
    __device__ void store(int, int, int m, int n, T sum) const { result[(u64)m * N + n] = sum; }
};

// u' = sum of dz' W and of dz W'
struct DataDot : Data {
    template <int BN> using Second = Kernels<DataDot, BN>;
    template <int BM> using Loader = Patches<DataDot, BM>;
    enum { terms = 2 };
    const T *u_dot, *direction;
    T* result;
    bool moves;
    __device__ DataDot(const ConvDotJob& j, int r, int part) : Data(j.conv, r, part) {
        u_dot = j.out.u + job.out.stride * r;
        direction = j.direction + job.parameters * r;
        result = j.in.u + job.in.stride * r;
    }
    __device__ void turn_to(int term) {
        moves = term == 0;
        w = (moves ? job.theta + job.parameters * blockIdx.z : direction) + job.weight;
    }
    __device__ T read(int at) const { return moves ? u_dot[at] : from.u[at]; }
    __device__ void store(int, int, int m, int n, T sum) const {
        T* at = result + place(m) + n;
        *at = job.add ? *at + sum : sum;
    }
};

// dW' = sum of value dz' and of value' dz
struct WeightsDot : Weights {
    template <int BN> using Second = Gradients<WeightsDot, BN>;
    template <int BM> using Loader = Pixels<WeightsDot, BM>;
    const T *z_dot, *u_dot;
    int terms;
    bool moves;  // the input; else the gradient
    __device__ WeightsDot(const ConvDotJob& j, int r, int chunk) : Weights(j.conv, r, chunk) {
        z_dot = j.in.z + job.in.stride * r;
        u_dot = j.out.u + job.out.stride * r;
        terms = j.in.z ? 2 : 1;
    }
    __device__ void turn_to(int term) { moves = term == 1; }
    __device__ T input(int at) const { return moves ? z_dot[at] : in.z[at]; }
    __device__ T output(int at) const { return moves ? out.u[at] : u_dot[at]; }
};

extern "C" __global__ void __launch_bounds__(256) conv_forward_dot_16(const ConvDotJob job) { in_turn(); multiply<ForwardDot, 256, 16>(job); }
extern "C" __global__ void __launch_bounds__(256) conv_forward_dot_32(const ConvDotJob job) { in_turn(); multiply<ForwardDot, 128, 32>(job); }
extern "C" __global__ void __launch_bounds__(256) conv_forward_dot_64(const ConvDotJob job) { in_turn(); multiply<ForwardDot, TALL, 64>(job); }
extern "C" __global__ void __launch_bounds__(256) conv_data_dot_16(const ConvDotJob job) { in_turn(); multiply<DataDot, 256, 16>(job); }
extern "C" __global__ void __launch_bounds__(256) conv_data_dot_32(const ConvDotJob job) { in_turn(); multiply<DataDot, 128, 32>(job); }
extern "C" __global__ void __launch_bounds__(256) conv_data_dot_64(const ConvDotJob job) { in_turn(); multiply<DataDot, TALL, 64>(job); }
extern "C" __global__ void __launch_bounds__(256) conv_weights_dot_16(const ConvDotJob job) { in_turn(); multiply<WeightsDot, 256, 16>(job); }
extern "C" __global__ void __launch_bounds__(256) conv_weights_dot_32(const ConvDotJob job) { in_turn(); multiply<WeightsDot, 128, 32>(job); }
extern "C" __global__ void __launch_bounds__(256) conv_weights_dot_64(const ConvDotJob job) { in_turn(); multiply<WeightsDot, TALL, 64>(job); }

struct OpDotJob {
    OpJob op;
    Dots in, out;
};

__device__ __forceinline__ DotReader in_of(const OpDotJob& job) { return DotReader(job.op.in, job.in, blockIdx.y); }
__device__ __forceinline__ DotReader out_of(const OpDotJob& job) { return DotReader(job.op.out, job.out, blockIdx.y); }
__device__ __forceinline__ T* raw_of(const OpDotJob& job) { return (T*)job.out.z + job.op.out.stride * blockIdx.y; }
__device__ __forceinline__ T* gradient_of(const OpDotJob& job) { return job.in.u + job.op.in.stride * blockIdx.y; }

extern "C" __global__ void add_forward_dot(const OpDotJob job) { in_turn(); add_to(job.op, in_of(job), raw_of(job)); }
extern "C" __global__ void add_backward_dot(const OpDotJob job) { in_turn(); add_back(job.op, out_of(job), gradient_of(job)); }
extern "C" __global__ void pool_forward_dot(const OpDotJob job) { in_turn(); pool_to(job.op, in_of(job), raw_of(job)); }
extern "C" __global__ void pool_backward_dot(const OpDotJob job) { in_turn(); pool_back(job.op, in_of(job), out_of(job), gradient_of(job)); }
extern "C" __global__ void subsample_forward_dot(const OpDotJob job) { in_turn(); subsample_to(job.op, in_of(job), raw_of(job)); }
extern "C" __global__ void subsample_backward_dot(const OpDotJob job) { in_turn(); subsample_back(job.op, out_of(job), gradient_of(job)); }
extern "C" __global__ void mean_forward_dot(const OpDotJob job) { in_turn(); mean_to(job.op, in_of(job), raw_of(job)); }
extern "C" __global__ void mean_backward_dot(const OpDotJob job) { in_turn(); mean_back(job.op, out_of(job), gradient_of(job)); }
