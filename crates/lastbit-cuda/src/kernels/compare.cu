// Distances of each replica's parameters from those of the first: sums of terms rounded as on the CPU
// (`divergence`, `comparison`, `reduce`), in the order of its `sum_by`:
//
//     lane_j = x_j + x_{j+8} + x_{j+16} + ...      j = 0 ... 7, each from left to right
//     sum    = ((lane_0 + lane_1) + lane_2) + ...
//
// A block computes one sum. Its first eight threads add the terms of a tile, one lane each, while the other
// warps compute the terms of the next tile.

struct CompareArgs {
    const T* theta;     // [replica][parameter]
    const u64* ranges;  // [range]: first parameter, one past the last; range 0 is all of them
    u64* results;       // [replica][row]: the bits of the sums, then the largest distance in ulps
    u64 parameters, row;
};

// The sums: these four of all parameters, then the first two of each tensor.
enum { REL_L1, AGREEING_BITS, DIFFERENCE, NORM, OF_ALL };
enum { SUM_THREADS = 32, TERM_THREADS = 256, SUM_LANES = 8, EACH = 4, TERMS = TERM_THREADS * EACH };

// log2 of a normal number or of infinity, operation by operation as in the CPU's `log2`.
__device__ __forceinline__ double logarithm(double x) {
    const long long ROOT_OF_HALF = 0x3fe6a09e667f3bcdLL, INFINITE = 0x7ff0000000000000LL;
    const double FIRST = 2.0 * 1.4426950408889634;
    long long bits = __double_as_longlong(x);
    if (bits == INFINITE) return x;
    long long k = (bits - ROOT_OF_HALF) >> 52;
    double m = __longlong_as_double(bits - k * (1LL << 52));
    double s = div_rn(sub_rn(m, 1.0), add_rn(m, 1.0)), z = mul_rn(s, s), sum = FIRST / 21.0;
    const double coefficients[10] = {FIRST / 19.0, FIRST / 17.0, FIRST / 15.0, FIRST / 13.0,
        FIRST / 11.0, FIRST / 9.0, FIRST / 7.0, FIRST / 5.0, FIRST / 3.0, FIRST};
#pragma unroll
    for (int i = 0; i < 10; i++) sum = add_rn(mul_rn(sum, z), coefficients[i]);
    return add_rn((double)k, mul_rn(s, sum));
}

// Significant bits on which two numbers agree. If they differ, then by at least 2^-53 of the larger: the
// logarithm is of a normal number, or infinite where the difference overflows.
__device__ __forceinline__ double agreeing_bits(double a, double b) {
    const double PRECISION = sizeof(T) == 4 ? 24.0 : 53.0;
    if (!(a - a == 0.0 && b - b == 0.0)) return 0.0;
    if (a == b) return PRECISION;
    double bits = -logarithm(div_rn(fabs(sub_rn(a, b)), fmax(fabs(a), fabs(b))));
    return bits < 0.0 ? 0.0 : bits > PRECISION ? PRECISION : bits;
}

__device__ __forceinline__ double term_of(int quantity, double a, double b) {
    if (quantity == REL_L1) return a == b ? 0.0 : div_rn(fabs(sub_rn(a, b)), add_rn(fabs(a), fabs(b)));
    if (quantity == AGREEING_BITS) return agreeing_bits(a, b);
    double side = quantity == DIFFERENCE ? sub_rn(a, b) : a;
    return mul_rn(side, side);
}

// Position on the line of all floats, from 0 at the lowest: the CPU's `rank` plus 2^63.
__device__ __forceinline__ u64 position(double x) {
    u64 bits = (u64)__double_as_longlong(x), zero = 1ULL << 63;
    return bits >= zero ? 0 - bits : zero + bits;
}

__device__ __forceinline__ u64 position(float x) {
    u64 bits = (unsigned)__float_as_int(x), zero = 1ULL << 63, sign = 1ULL << 31;
    return bits >= sign ? zero - (bits - sign) : zero + bits;
}

__device__ __forceinline__ u64 ulps_between(T a, T b) {
    u64 x = position(a), y = position(b);
    return x > y ? x - y : y - x;
}

// The sum of `len` terms in that order: `make(at, count, terms)` computes a thread's share of the `count`
// terms from term `at` on.
template <class Make>
__device__ __forceinline__ double sum_in_order(u64 len, Make make) {
    __shared__ double terms[2][TERMS];
    __shared__ double lanes_of_sum[SUM_LANES];
    int thread = threadIdx.x;
    u64 tiles = (len + TERMS - 1) / TERMS;
    double lane = 0.0, sum = 0.0;
    for (u64 tile = 0; tile <= tiles; tile++) {
        if (thread >= SUM_THREADS && tile < tiles) {
            u64 at = tile * TERMS;
            make(at, (int)(len - at < TERMS ? len - at : TERMS), terms[tile % 2]);
        } else if (thread < SUM_LANES && tile > 0) {
            u64 at = (tile - 1) * TERMS;
            int count = (int)(len - at < TERMS ? len - at : TERMS);
#pragma unroll 8
            for (int i = thread; i < count; i += SUM_LANES) lane = add_rn(lane, terms[(tile - 1) % 2][i]);
        }
        __syncthreads();
    }
    if (thread < SUM_LANES) lanes_of_sum[thread] = lane;
    __syncthreads();
    for (int j = 0; j < SUM_LANES; j++) sum = add_rn(sum, lanes_of_sum[j]);
    return sum;
}

extern "C" __global__ void __launch_bounds__(SUM_THREADS + TERM_THREADS) compare_sums(const CompareArgs args) {
    wait_for_previous_kernel();
    __shared__ u64 most[TERM_THREADS];
    int which = blockIdx.x, r = blockIdx.y, term_thread = threadIdx.x - SUM_THREADS;
    int quantity = which < OF_ALL ? which : which % 2;
    // Only the norm of the first replica is needed.
    if (quantity == NORM && r > 0) return;
    const u64* range = args.ranges + 2 * (which < OF_ALL ? 0 : (which - OF_ALL) / 2 + 1);
    u64 start = range[0], apart = 0;
    const T* first = args.theta + start;
    const T* other = first + args.parameters * r;
    double sum = sum_in_order(range[1] - start, [&](u64 at, int count, double* terms) {
        // All reads come before the first use; past the end, the last number is read again.
        T a[EACH], b[EACH];
#pragma unroll
        for (int n = 0; n < EACH; n++) {
            int i = min(term_thread + n * TERM_THREADS, count - 1);
            a[n] = first[at + i];
            b[n] = other[at + i];
        }
#pragma unroll
        for (int n = 0; n < EACH; n++) {
            if (term_thread + n * TERM_THREADS >= count) break;
            terms[term_thread + n * TERM_THREADS] = term_of(quantity, (double)a[n], (double)b[n]);
            if (quantity == DIFFERENCE) {
                u64 ulps = ulps_between(a[n], b[n]);
                apart = ulps > apart ? ulps : apart;
            }
        }
    });
    if (term_thread >= 0) most[term_thread] = apart;
    __syncthreads();
    if (threadIdx.x > 0) return;
    u64* row = args.results + args.row * r;
    row[which] = (u64)__double_as_longlong(sum);
    if (quantity != DIFFERENCE) return;
    for (int i = 0; i < TERM_THREADS; i++) apart = most[i] > apart ? most[i] : apart;
    row[gridDim.x] = apart;
}
