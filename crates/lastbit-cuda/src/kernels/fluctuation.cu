// The relative gradient fluctuation of each replica, rounded as on the CPU (`training::Fluctuation`):
//
//     (1/M) sum of |x_i - y_i| / |x_i|,   x the mean of some gradients, y one more, M components x_i != 0

struct FluctuationArgs {
    const T* gradient;  // [replica][parameter]
    double* sums;       // [replica][parameter]: of the gradients so far
    double* results;    // [replica][2]: the sum, and M
    u64 parameters;
    double count;       // gradients in the sums
};

// Adds a gradient to the `count` before.
extern "C" __global__ void fluctuation_add(const FluctuationArgs args) {
    wait_for_previous_kernel();
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, at = args.parameters * blockIdx.y + i;
    if (i >= args.parameters) return;
    args.sums[at] = add_rn(args.count == 0.0 ? 0.0 : args.sums[at], (double)args.gradient[at]);
}

// One block per replica.
extern "C" __global__ void __launch_bounds__(SUM_THREADS + TERM_THREADS) fluctuation_sum(const FluctuationArgs args) {
    wait_for_previous_kernel();
    __shared__ int of_maker[TERM_THREADS];
    int r = blockIdx.x, term_thread = threadIdx.x - SUM_THREADS, counted = 0;
    const T* gradient = args.gradient + args.parameters * r;
    const double* sums = args.sums + args.parameters * r;
    double sum = sum_in_order(args.parameters, [&](u64 at, int count, double* terms) {
#pragma unroll 4
        for (int i = term_thread; i < count; i += TERM_THREADS) {
            double x = div_rn(sums[at + i], args.count), y = (double)gradient[at + i];
            terms[i] = x == 0.0 ? 0.0 : div_rn(fabs(sub_rn(x, y)), fabs(x));
            counted += x != 0.0;
        }
    });
    if (term_thread >= 0) of_maker[term_thread] = counted;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int i = 0; i < TERM_THREADS; i++) counted += of_maker[i];
    args.results[2 * r] = sum;
    args.results[2 * r + 1] = counted;
}
