// The relative gradient fluctuation of each replica, rounded as the CPU's (`training::Fluctuation`):
//
//     (1/M) sum of |x_i - y_i| / |x_i|,   x the mean of some gradients, y one more, M components x_i != 0

struct FluctuationJob {
    const T* gradient;  // [replica][parameter]
    double* sums;       // [replica][parameter]: of the gradients so far
    double* results;    // [replica][2]: the sum, and M
    u64 parameters;
    double count;       // gradients in the sums
};

// One gradient more; `count` are there already.
extern "C" __global__ void fluctuation_add(const FluctuationJob job) {
    in_turn();
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, at = job.parameters * blockIdx.y + i;
    if (i >= job.parameters) return;
    job.sums[at] = plus(job.count == 0.0 ? 0.0 : job.sums[at], (double)job.gradient[at]);
}

// A block to a replica.
extern "C" __global__ void __launch_bounds__(ADDERS + MAKERS) fluctuation_sum(const FluctuationJob job) {
    in_turn();
    __shared__ int of_maker[MAKERS];
    int r = blockIdx.x, maker = threadIdx.x - ADDERS, counted = 0;
    const T* gradient = job.gradient + job.parameters * r;
    const double* sums = job.sums + job.parameters * r;
    double sum = sum_in_order(job.parameters, [&](u64 at, int count, double* terms) {
#pragma unroll 4
        for (int i = maker; i < count; i += MAKERS) {
            double x = over(sums[at + i], job.count), y = (double)gradient[at + i];
            terms[i] = x == 0.0 ? 0.0 : over(fabs(minus(x, y)), fabs(x));
            counted += x != 0.0;
        }
    });
    if (maker >= 0) of_maker[maker] = counted;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int i = 0; i < MAKERS; i++) counted += of_maker[i];
    job.results[2 * r] = sum;
    job.results[2 * r + 1] = counted;
}
