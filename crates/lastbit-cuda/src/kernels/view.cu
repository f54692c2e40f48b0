// Reading a layer: batch norm and activation are applied to what is stored, as on the CPU.
//
//   value      v = r(n),                   n = scale z + shift
//   gradient   dL/dz = scale g + b z + c,  g = r'(n) u,  u = dL/dv
//
// Numbers lie as [replica][image][row][column][channel].

struct View {
    const T* z;
    T* u;
    const T* norm;    // [replica][scale, shift, mean, b, c][channel]; null without batch norm
    const int* slot;  // which z a replica reads; null: its own
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

    __device__ __forceinline__ T normed(T z, int c) const {
        return norm ? fused(z, norm[c], norm[channels + c]) : z;
    }

    __device__ __forceinline__ T value(int at, int c) const {
        return act(activation, beta, normed(z[at], c));
    }

    // r'(n) u
    __device__ __forceinline__ T slope(int at, int c) const {
        return act_slope(activation, beta, normed(z[at], c)) * u[at];
    }

    __device__ __forceinline__ T gradient(int at, int c) const {
        T g = slope(at, c);
        if (!norm) return g;
        return fused(norm[c], g, fused(norm[3 * channels + c], z[at], norm[4 * channels + c]));
    }
};
