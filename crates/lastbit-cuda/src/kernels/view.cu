// Reading a layer: batch norm and activation are applied to the stored raw values, as on the CPU.
//
//   value      v = r(n),                   n = scale z + shift
//   gradient   dL/dz = scale g + b z + c,  g = r'(n) u,  u = dL/dv
//
// Memory layout: [replica][image][row][column][channel].

struct View {
    const T* z;
    T* u;
    const T* norm;    // [replica][scale, shift, mean, b, c][channel]; null without batch norm
    const int* slot;  // index of the z that a replica reads; null: its own
    u64 stride;       // numbers from one replica to the next
    int height, width, channels, activation;
    double beta;
};

// The view of one replica.
struct Reader {
    const T* __restrict__ z;
    T* u;
    const T* norm;
    int channels, activation;
    T beta;

    __device__ Reader(const View& view, int replica) {
        int slot = view.slot ? view.slot[replica] : replica;
        z = view.z + view.stride * slot;
        u = view.u ? view.u + view.stride * replica : nullptr;
        channels = view.channels;
        norm = view.norm ? view.norm + (u64)replica * 5 * channels : nullptr;
        activation = view.activation;
        beta = (T)view.beta;
    }

    __device__ __forceinline__ T value(int at, int c) const;
    __device__ __forceinline__ T slope(int at, int c) const;
    __device__ __forceinline__ T gradient(int at, int c) const;
};

// One channel of a reader.
struct Channel {
    T scale, shift, b, c, beta;
    int activation;
    bool normed;

    __device__ __forceinline__ Channel(const Reader& reader, int channel) {
        normed = reader.norm;
        scale = normed ? reader.norm[channel] : T(1);
        shift = normed ? reader.norm[reader.channels + channel] : T(0);
        b = normed ? reader.norm[3 * reader.channels + channel] : T(0);
        c = normed ? reader.norm[4 * reader.channels + channel] : T(0);
        activation = reader.activation;
        beta = reader.beta;
    }

    __device__ __forceinline__ T n(T z) const { return normed ? fma_rn(z, scale, shift) : z; }

    __device__ __forceinline__ T value(T z) const { return act(activation, beta, n(z)); }

    // r'(n) u
    __device__ __forceinline__ T slope(T z, T u) const { return act_slope(activation, beta, n(z)) * u; }

    __device__ __forceinline__ T gradient(T z, T u) const {
        T g = slope(z, u);
        return normed ? fma_rn(scale, g, fma_rn(b, z, c)) : g;
    }
};

__device__ __forceinline__ T Reader::value(int at, int c) const { return Channel(*this, c).value(z[at]); }

__device__ __forceinline__ T Reader::slope(int at, int c) const { return Channel(*this, c).slope(z[at], u[at]); }

__device__ __forceinline__ T Reader::gradient(int at, int c) const {
    return Channel(*this, c).gradient(z[at], u[at]);
}

// Numbers in 16 bytes, the largest access of a thread.
const int UNIT = 16 / sizeof(T);
struct alignas(16) Unit {
    T x[UNIT];
};

// Four neighbouring numbers.
struct alignas(16) T4 {
    T x, y, z, w;
};

__device__ __forceinline__ T4 vec4(T x, T y, T z, T w) {
    T4 all;
    all.x = x;
    all.y = y;
    all.z = z;
    all.w = w;
    return all;
}

__device__ __forceinline__ T4 operator+(T4 a, T4 b) { return vec4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w); }
__device__ __forceinline__ T4 operator-(T4 a, T4 b) { return vec4(a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w); }

// a b + c, rounded once
__device__ __forceinline__ T4 fma_rn(T4 a, T4 b, T4 c) {
    return vec4(fma_rn(a.x, b.x, c.x), fma_rn(a.y, b.y, c.y), fma_rn(a.z, b.z, c.z), fma_rn(a.w, b.w, c.w));
}

// Four neighbouring channels of a reader. Not SMOOTH: with ReLU or no activation, which takes few instructions.
template <bool SMOOTH = true>
struct Channel4 {
    T4 scale, shift, b, c;
    int activation;
    T beta;

    __device__ Channel4(const Reader& reader, int channel, bool gradient) {
        scale = vec4(1, 1, 1, 1);
        shift = b = c = vec4(0, 0, 0, 0);
        if (reader.norm) {
            scale = *(const T4*)(reader.norm + channel);
            shift = *(const T4*)(reader.norm + reader.channels + channel);
            if (gradient) {
                b = *(const T4*)(reader.norm + 3 * reader.channels + channel);
                c = *(const T4*)(reader.norm + 4 * reader.channels + channel);
            }
        }
        activation = reader.activation;
        beta = reader.beta;
    }

    // x, or with ReLU 0 where n is not positive; NaN is kept.
    __device__ __forceinline__ T4 rectified(T4 n, T4 x) const {
        bool cut = activation == RELU;
        return vec4(cut && n.x <= T(0) ? T(0) : x.x, cut && n.y <= T(0) ? T(0) : x.y, cut && n.z <= T(0) ? T(0) : x.z,
            cut && n.w <= T(0) ? T(0) : x.w);
    }

    __device__ __forceinline__ T4 value(T4 z) const {
        T4 n = fma_rn(z, scale, shift);
        if (!SMOOTH || activation <= RELU) return rectified(n, n);
        return vec4(act(activation, beta, n.x), act(activation, beta, n.y), act(activation, beta, n.z),
            act(activation, beta, n.w));
    }

    // r'(n) u
    __device__ __forceinline__ T4 slope(T4 z, T4 u) const {
        T4 n = fma_rn(z, scale, shift);
        if (!SMOOTH || activation <= RELU) return rectified(n, u);
        return vec4(act_slope(activation, beta, n.x) * u.x, act_slope(activation, beta, n.y) * u.y,
            act_slope(activation, beta, n.z) * u.z, act_slope(activation, beta, n.w) * u.w);
    }

    __device__ __forceinline__ T4 gradient(T4 z, T4 u) const {
        return fma_rn(scale, slope(z, u), fma_rn(b, z, c));
    }
};
