// The loss, and the step of the optimizer with every rounding where the CPU has it.

struct LossJob {
    View out;
    const int* classes;  // [slot][example]; null where targets are numbers
    const T* reals;      // [slot][example][output]
    const int* slot;     // which targets a replica has
    double* losses;      // [replica][example]
    double* mean;        // [replica]: of the losses
    int* answers;        // [replica][example]: class answered
    int* right;          // [replica][example]
    int kind, outputs, images, capacity;
};

enum { CROSS_ENTROPY, BINARY_CROSS_ENTROPY, HALF_MSE };

// The target of output c: of a class, its indicator, or with one output the class itself.
__device__ __forceinline__ double target_of(const LossJob& job, int example, int c) {
    if (!job.classes) return (double)job.reals[(u64)example * job.outputs + c];
    int answer = job.classes[example];
    return (job.outputs == 1 ? answer == 1 : answer == c) ? 1.0 : 0.0;
}

// A thread to an example: its loss, the gradient by the outputs, the class answered.
extern "C" __global__ void loss_examples(const LossJob job) {
    in_turn();
    int i = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (i >= job.images) return;
    Reader out(job.out, r);
    int n = job.outputs, first = i * n;
    int example = job.slot[r] * job.capacity + i;
    double share = 1.0 / job.images, loss = 0.0;
    if (job.kind == CROSS_ENTROPY) {
        double largest = -__longlong_as_double(0x7ff0000000000000LL), total = 0.0;
        // fmax passes over a NaN, as the CPU's maximum does.
        for (int c = 0; c < n; c++) largest = fmax(largest, (double)out.value(first + c, c % out.channels));
        for (int c = 0; c < n; c++) total += exp((double)out.value(first + c, c % out.channels) - largest);
        int answer = job.classes[example];
        for (int c = 0; c < n; c++) {
            double p = exp((double)out.value(first + c, c % out.channels) - largest) / total;
            out.u[first + c] = (T)((p - (c == answer ? 1.0 : 0.0)) * share);
        }
        loss = largest + log(total) - (double)out.value(first + answer, answer % out.channels);
    } else if (job.kind == BINARY_CROSS_ENTROPY) {
        for (int c = 0; c < n; c++) {
            double x = out.value(first + c, c % out.channels), y = target_of(job, example, c);
            loss += fmax(x, 0.0) - x * y + log1p(exp(-fabs(x)));
            out.u[first + c] = (T)((1.0 / (1.0 + exp(-x)) - y) * (share / n));
        }
        loss /= n;
    } else {
        for (int c = 0; c < n; c++) {
            double off = (double)out.value(first + c, c % out.channels) - target_of(job, example, c);
            loss += off * off;
            out.u[first + c] = (T)(off * share);
        }
        loss /= 2.0;
    }
    int best = 0;
    bool finite = true;
    for (int c = 0; c < n; c++) {
        T x = out.value(first + c, c % out.channels);
        finite = finite && x - x == T(0);
        if (x > out.value(first + best, best % out.channels)) best = c;
    }
    if (n == 1) best = (double)out.value(first, 0) > (job.kind == HALF_MSE ? 0.5 : 0.0);
    u64 at = (u64)r * job.capacity + i;
    job.losses[at] = loss;
    job.answers[at] = best;
    job.right[at] = job.classes && finite && best == job.classes[example];
}

// The mean loss of each replica, a block to each.
extern "C" __global__ void __launch_bounds__(256) loss_mean(const LossJob job) {
    in_turn();
    int r = blockIdx.x;
    double sum = 0.0;
#pragma unroll 4
    for (int i = threadIdx.x; i < job.images; i += 256) sum += job.losses[(u64)r * job.capacity + i];
    sum = sum_of_256(sum);
    if (threadIdx.x == 0) job.mean[r] = sum / job.images;
}

// What a replica's step depends on besides its state; written by the host before each step.
struct Step {
    T k, rate, e1, e2;  // factor of the perturbation, fl(dt/k) or fl(dt k), corrections of Adam
    int released;       // which form the perturbation has
    int flip;           // whether a last bit is to be flipped,
    u64 flipped;        // and whose
    u64 number;         // the step, counted from 1
    int new_epoch, unused;
};

struct StepJob {
    T* theta;
    T* gradient;
    T* memory;
    Tally* tally;
    const Step* steps;
    const double* losses;
    const int* right;
    double* largest;      // [replica][block]
    const double* scale;  // [replica]
    u64 parameters;
    int method, images, capacity, blocks;
    double alpha, mu, beta1, beta2, c1, c2, epsilon, blow_up;
};

enum { SGD, HEAVY_BALL, NESTEROV, ADAM, NESTEROV_PDE };

// Before the gradient: a new epoch's tally, the flip of a bit, the look ahead.
extern "C" __global__ void step_prepare(const StepJob job) {
    in_turn();
    u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y;
    const Step& step = job.steps[r];
    if (at == 0 && step.new_epoch) {
        Tally& tally = job.tally[r];
        tally.last_loss = tally.loss = 0.0;
        tally.right = tally.examples = 0;
    }
    if (at >= job.parameters || job.tally[r].ended) return;
    T* theta = job.theta + job.parameters * r + at;
    if (step.flip && step.flipped == at) {
        if (sizeof(T) == 4) *(unsigned*)theta ^= 1u;
        else *(u64*)theta ^= 1ull;
    }
    if (job.method == NESTEROV_PDE) {
        T* before = job.memory + job.parameters * r + at;
        T now = *theta;
        *theta = plus(now, times((T)job.mu, minus(now, *before)));
        *before = now;
    }
}

// theta <- theta - dt d, rounded as the CPU's `direction` and `perturbation` say.
extern "C" __global__ void __launch_bounds__(256) step_descend(const StepJob job) {
    in_turn();
    __shared__ double most[256];
    u64 at = (u64)blockIdx.x * 256 + threadIdx.x;
    int r = blockIdx.y;
    const Step& step = job.steps[r];
    double size = 0.0;
    if (at < job.parameters && !job.tally[r].ended) {
        u64 place = job.parameters * r + at;
        T theta = job.theta[place], g = job.gradient[place];
        if (job.alpha != 0.0) g = plus(g, times((T)job.alpha, theta));
        if (job.method == HEAVY_BALL || job.method == NESTEROV) {
            T mu = (T)job.mu, b = plus(times(mu, job.memory[place]), g);
            job.memory[place] = b;
            g = job.method == HEAVY_BALL ? b : plus(g, times(mu, b));
        } else if (job.method == ADAM) {
            T* m = job.memory + 2 * job.parameters * r + at;
            T* v = m + job.parameters;
            *m = plus(times((T)job.beta1, *m), times((T)job.c1, g));
            *v = plus(times((T)job.beta2, *v), times(times((T)job.c2, g), g));
            g = over(over(*m, step.e1), plus(over(root(*v), step.e2), (T)job.epsilon));
        }
        T scaled = step.released ? over(g, step.k) : times(step.k, g);
        theta = minus(theta, times(step.rate, scaled));
        job.theta[place] = theta;
        // What is not a number counts as infinite.
        size = is_nan(theta) ? __longlong_as_double(0x7ff0000000000000LL) : fabs((double)theta);
    }
    most[threadIdx.x] = size;
    for (int gap = 128; gap > 0; gap /= 2) {
        __syncthreads();
        if (threadIdx.x < gap) most[threadIdx.x] = fmax(most[threadIdx.x], most[threadIdx.x + gap]);
    }
    if (threadIdx.x == 0) job.largest[(u64)r * job.blocks + blockIdx.x] = most[0];
}

// A block to a replica: its tally, and whether it has diverged.
extern "C" __global__ void __launch_bounds__(256) step_finish(const StepJob job) {
    in_turn();
    __shared__ double most[256];
    int r = blockIdx.x, thread = threadIdx.x;
    double size = 0.0;
    for (int i = thread; i < job.blocks; i += 256) size = fmax(size, job.largest[(u64)r * job.blocks + i]);
    most[thread] = size;
    for (int gap = 128; gap > 0; gap /= 2) {
        __syncthreads();
        if (thread < gap) most[thread] = fmax(most[thread], most[thread + gap]);
    }
    double sum = 0.0, right = 0.0;
#pragma unroll 4
    for (int i = thread; i < job.images; i += 256) {
        sum += job.losses[(u64)r * job.capacity + i];
        right += job.right[(u64)r * job.capacity + i];
    }
    sum = sum_of_256(sum);
    right = sum_of_256(right);
    Tally& tally = job.tally[r];
    if (thread || tally.ended) return;
    tally.last_loss = sum / job.images;
    tally.loss += tally.last_loss * job.images;
    tally.right += (u64)right;
    tally.examples += job.images;
    bool finite = most[0] - most[0] == 0.0;
    if (!finite || most[0] > job.blow_up * job.scale[r]) tally.ended = job.steps[r].number;
}
