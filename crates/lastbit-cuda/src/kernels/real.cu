// Arithmetic. REAL is float or double. The compiler does not contract products and sums (--fmad=false):
// fused multiply-adds are written as fma_rn().

typedef REAL T;
typedef unsigned long long u64;

__device__ __forceinline__ float fma_rn(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ double fma_rn(double a, double b, double c) { return __fma_rn(a, b, c); }
__device__ __forceinline__ float mul_rn(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double mul_rn(double a, double b) { return __dmul_rn(a, b); }
__device__ __forceinline__ float add_rn(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double add_rn(double a, double b) { return __dadd_rn(a, b); }
__device__ __forceinline__ float sub_rn(float a, float b) { return __fsub_rn(a, b); }
__device__ __forceinline__ double sub_rn(double a, double b) { return __dsub_rn(a, b); }
__device__ __forceinline__ float div_rn(float a, float b) { return __fdiv_rn(a, b); }
__device__ __forceinline__ double div_rn(double a, double b) { return __ddiv_rn(a, b); }
__device__ __forceinline__ float sqrt_rn(float a) { return __fsqrt_rn(a); }
__device__ __forceinline__ double sqrt_rn(double a) { return __dsqrt_rn(a); }

// The first statement of every kernel (programmatic dependent launch): blocks of the next kernel may become
// resident as multiprocessors become free, and this one waits until the previous one has ended and its
// results are visible.
__device__ __forceinline__ void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ bool is_nan(T x) { return !(x == x); }

// e^x, operation by operation as in the CPU's `exp`.
__device__ __forceinline__ double exponential(double x) {
    const double ROUND = 6755399441055744.0;
    x = x > 708.0 ? 708.0 : x;
    x = x < -708.0 ? -708.0 : x;
    double shifted = x * 1.4426950408889634 + ROUND;
    double k = shifted - ROUND;
    double r = (x - k * 6.931471803691238e-1) - k * 1.9082149292705877e-10;
    double sum = 1.0 / 6227020800.0;
    const double coefficients[13] = {1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0,
        1.0 / 362880.0, 1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0,
        1.0 / 6.0, 0.5, 1.0, 1.0};
#pragma unroll
    for (int i = 0; i < 13; i++) sum = sum * r + coefficients[i];
    long long power = (__double_as_longlong(shifted) << 52) + (1023LL << 52);
    return sum * __longlong_as_double(power);
}

__device__ __forceinline__ float exponential(float x) {
    const float ROUND = 12582912.0f;
    x = x > 87.0f ? 87.0f : x;
    x = x < -87.0f ? -87.0f : x;
    float shifted = x * 1.44269504088896341f + ROUND;
    float k = shifted - ROUND;
    float r = (x - k * 0.6933594f) - k * -2.1219444e-4f;
    float sum = 1.0f / 5040.0f;
    const float coefficients[7] = {1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f, 0.5f,
        1.0f, 1.0f};
#pragma unroll
    for (int i = 0; i < 7; i++) sum = sum * r + coefficients[i];
    unsigned power = ((unsigned)__float_as_int(shifted) << 23) + (127u << 23);
    return sum * __int_as_float((int)power);
}

enum { IDENTITY, RELU, TANH, SIGMOID, SWISH };

__device__ __forceinline__ T logistic(T x) { return T(1) / (T(1) + exponential(-x)); }

__device__ __forceinline__ double hyperbolic(double x) {
    double q = exponential(-2.0 * fabs(x));
    double small = x - x * x * x / 3.0;
    double large = copysign((1.0 - q) / (1.0 + q), x);
    return fabs(x) < 1e-4 ? small : large;
}

// r(n) and r'(n) of the smooth activations. Not inlined: inlined everywhere they take half a minute to
// compile.
__device__ __noinline__ T smooth(int kind, T beta, T n) {
    if (kind == TANH) return (T)hyperbolic((double)n);
    if (kind == SIGMOID) return logistic(n);
    return n * logistic(beta * n);
}

__device__ __noinline__ T smooth_slope(int kind, T beta, T n) {
    if (kind == TANH) {
        double r = hyperbolic((double)n);
        return (T)(1.0 - r * r);
    }
    T s = logistic(kind == SIGMOID ? n : beta * n);
    return kind == SIGMOID ? s * (T(1) - s) : s + beta * n * (s * (T(1) - s));
}

// r(n)
__device__ __forceinline__ T act(int kind, T beta, T n) {
    switch (kind) {
        case IDENTITY: return n;
        case RELU: return n <= T(0) ? T(0) : n;  // NaN is kept
        default: return smooth(kind, beta, n);
    }
}

// r'(n)
__device__ __forceinline__ T act_slope(int kind, T beta, T n) {
    switch (kind) {
        case IDENTITY: return T(1);
        case RELU: return n <= T(0) ? T(0) : T(1);
        default: return smooth_slope(kind, beta, n);
    }
}
