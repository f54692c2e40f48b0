// How far each replica's parameters are from those of the first: sums of terms that are rounded as on
// the CPU (`divergence`, `comparison`, `reduce`), in the order of its `sum_by`:
//
//     lane_j = x_j + x_{j+8} + x_{j+16} + ...      j = 0 ... 7, each from left to right
//     sum    = ((lane_0 + lane_1) + lane_2) + ...
//
// A block makes one sum. Its first eight threads add the terms of a tile, a lane each, while all warps
// but theirs make the terms of the next.

struct CompareJob {
    const T* theta;     // [replica][parameter]
    const u64* ranges;  // [range]: the first parameter and that after the last; range 0 is all of them
    u64* results;       // [replica][row]: the bits of the sums, then the most ulps
    u64 parameters, row;
};

// The sums: these four of all parameters, then the first two of each tensor.
enum { REL_L1, AGREEING_BITS, DIFFERENCE, NORM, OF_ALL };
enum { ADDERS = 32, MAKERS = 256, SUM_LANES = 8, EACH = 4, TERMS = MAKERS * EACH };

// log2 of a normal number or of infinity, operation by operation as in the CPU's `log2`.
__device__ __forceinline__ double logarithm(double x) {
    const long long ROOT_OF_HALF = 0x3fe6a09e667f3bcdLL, INFINITE = 0x7ff0000000000000LL;
    const double FIRST = 2.0 * 1.4426950408889634;
    long long bits = __double_as_longlong(x);
    if (bits == INFINITE) return x;
    long long k = (bits - ROOT_OF_HALF) >> 52;
    double m = __longlong_as_double(bits - k * (1LL << 52));
    double s = over(minus(m, 1.0), plus(m, 1.0)), z = times(s, s), sum = FIRST / 21.0;
    const double coefficients[10] = {FIRST / 19.0, FIRST / 17.0, FIRST / 15.0, FIRST / 13.0,
        FIRST / 11.0, FIRST / 9.0, FIRST / 7.0, FIRST / 5.0, FIRST / 3.0, FIRST};
#pragma unroll
    for (int i = 0; i < 10; i++) sum = plus(times(sum, z), coefficients[i]);
    return plus((double)k, times(s, sum));
}

// Significant bits on which two numbers agree. Where they differ, that is by 2^-53 of the larger at
// least: the logarithm is of a normal number, or infinite where the difference overflows.
__device__ __forceinline__ double agreeing_bits(double a, double b) {
    const double PRECISION = sizeof(T) == 4 ? 24.0 : 53.0;
    if (!(a - a == 0.0 && b - b == 0.0)) return 0.0;
    if (a == b) return PRECISION;
    double bits = -logarithm(over(fabs(minus(a, b)), fmax(fabs(a), fabs(b))));
    return bits < 0.0 ? 0.0 : bits > PRECISION ? PRECISION : bits;
}

__device__ __forceinline__ double term_of(int quantity, double a, double b) {
    if (quantity == REL_L1) return a == b ? 0.0 : over(fabs(minus(a, b)), plus(fabs(a), fabs(b)));
    if (quantity == AGREEING_BITS) return agreeing_bits(a, b);
    double side = quantity == DIFFERENCE ? minus(a, b) : a;
    return times(side, side);
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

// The sum of `len` terms in that order: `make(at, count, terms)` makes a maker's share of `count` terms
// from term `at` on.
template <class Make>
__device__ __forceinline__ double sum_in_order(u64 len, Make make) {
    __shared__ double terms[2][TERMS];
    __shared__ double lanes_of_sum[SUM_LANES];
    int thread = threadIdx.x;
    u64 tiles = (len + TERMS - 1) / TERMS;
    double lane = 0.0, sum = 0.0;
    for (u64 tile = 0; tile <= tiles; tile++) {
        if (thread >= ADDERS && tile < tiles) {
            u64 at = tile * TERMS;
            make(at, (int)(len - at < TERMS ? len - at : TERMS), terms[tile % 2]);
        } else if (thread < SUM_LANES && tile > 0) {
            u64 at = (tile - 1) * TERMS;
            int count = (int)(len - at < TERMS ? len - at : TERMS);
#pragma unroll 8
            for (int i = thread; i < count; i += SUM_LANES) lane = plus(lane, terms[(tile - 1) % 2][i]);
        }
        __syncthreads();
    }
    if (thread < SUM_LANES) lanes_of_sum[thread] = lane;
    __syncthreads();
    for (int j = 0; j < SUM_LANES; j++) sum = plus(sum, lanes_of_sum[j]);
    return sum;
}

extern "C" __global__ void __launch_bounds__(ADDERS + MAKERS) compare_sums(const CompareJob job) {
    in_turn();
    __shared__ u64 most[MAKERS];
    int which = blockIdx.x, r = blockIdx.y, maker = threadIdx.x - ADDERS;
    int quantity = which < OF_ALL ? which : which % 2;
    // The others' norms are nobody's reference.
    if (quantity == NORM && r > 0) return;
    const u64* range = job.ranges + 2 * (which < OF_ALL ? 0 : (which - OF_ALL) / 2 + 1);
    u64 start = range[0], apart = 0;
    const T* first = job.theta + start;
    const T* other = first + job.parameters * r;
    double sum = sum_in_order(range[1] - start, [&](u64 at, int count, double* terms) {
        // All are read before the first is used; past the end, the last once more.
        T a[EACH], b[EACH];
#pragma unroll
        for (int n = 0; n < EACH; n++) {
            int i = min(maker + n * MAKERS, count - 1);
            a[n] = first[at + i];
            b[n] = other[at + i];
        }
#pragma unroll
        for (int n = 0; n < EACH; n++) {
            if (maker + n * MAKERS >= count) break;
            terms[maker + n * MAKERS] = term_of(quantity, (double)a[n], (double)b[n]);
            if (quantity == DIFFERENCE) {
                u64 ulps = ulps_between(a[n], b[n]);
                apart = ulps > apart ? ulps : apart;
            }
        }
    });
    if (maker >= 0) most[maker] = apart;
    __syncthreads();
    if (threadIdx.x > 0) return;
    u64* row = job.results + job.row * r;
    row[which] = (u64)__double_as_longlong(sum);
    if (quantity != DIFFERENCE) return;
    for (int i = 0; i < MAKERS; i++) apart = most[i] > apart ? most[i] : apart;
    row[gridDim.x] = apart;
}
