// The loss, and the step of the optimizer, rounded operation by operation as on the CPU.

struct LossArgs {
    View output;
    const int* classes;  // [slot][example]; null where targets are numbers
    const T* reals;      // [slot][example][output]
    const int* slot;     // index of a replica's targets
    double* losses;      // [replica][example]
    double* mean;        // [replica]: of the losses
    int* answers;        // [replica][example]: predicted class
    int* right;          // [replica][example]
    int kind, outputs, images, capacity;
};

enum { CROSS_ENTROPY, BINARY_CROSS_ENTROPY, HALF_MSE };

// The target of output c: for classes its indicator, or with one output the class itself.
__device__ __forceinline__ double target_of(const LossArgs& args, int example, int c) {
    if (!args.classes) return (double)args.reals[(u64)example * args.outputs + c];
    int answer = args.classes[example];
    return (args.outputs == 1 ? answer == 1 : answer == c) ? 1.0 : 0.0;
}

// One thread per example: its loss, the gradient by the outputs, the predicted class.
extern "C" __global__ void loss_examples(const LossArgs args) {
    wait_for_previous_kernel();
    int i = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y;
    if (i >= args.images) return;
    Reader out(args.output, r);
    int n = args.outputs, first = i * n;
    int example = args.slot[r] * args.capacity + i;
    double share = 1.0 / args.images, loss = 0.0;
    if (args.kind == CROSS_ENTROPY) {
        double largest = -__longlong_as_double(0x7ff0000000000000LL), total = 0.0;
        // fmax ignores NaN, as the CPU's maximum does.
        for (int c = 0; c < n; c++) largest = fmax(largest, (double)out.value(first + c, c % out.channels));
        for (int c = 0; c < n; c++) total += exp((double)out.value(first + c, c % out.channels) - largest);
        int answer = args.classes[example];
        for (int c = 0; c < n; c++) {
            double p = exp((double)out.value(first + c, c % out.channels) - largest) / total;
            out.u[first + c] = (T)((p - (c == answer ? 1.0 : 0.0)) * share);
        }
        loss = largest + log(total) - (double)out.value(first + answer, answer % out.channels);
    } else if (args.kind == BINARY_CROSS_ENTROPY) {
        for (int c = 0; c < n; c++) {
            double x = out.value(first + c, c % out.channels), y = target_of(args, example, c);
            loss += fmax(x, 0.0) - x * y + log1p(exp(-fabs(x)));
            out.u[first + c] = (T)((1.0 / (1.0 + exp(-x)) - y) * (share / n));
        }
        loss /= n;
    } else {
        for (int c = 0; c < n; c++) {
            double off = (double)out.value(first + c, c % out.channels) - target_of(args, example, c);
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
    if (n == 1) best = (double)out.value(first, 0) > (args.kind == HALF_MSE ? 0.5 : 0.0);
    u64 at = (u64)r * args.capacity + i;
    args.losses[at] = loss;
    args.answers[at] = best;
    args.right[at] = args.classes && finite && best == args.classes[example];
}

// The mean loss of each replica, one block each.
extern "C" __global__ void __launch_bounds__(256) loss_mean(const LossArgs args) {
    wait_for_previous_kernel();
    int r = blockIdx.x;
    double sum = 0.0;
#pragma unroll 4
    for (int i = threadIdx.x; i < args.images; i += 256) sum += args.losses[(u64)r * args.capacity + i];
    sum = sum_of_256(sum);
    if (threadIdx.x == 0) args.mean[r] = sum / args.images;
}

// What a replica's step depends on besides its state; written by the host before each step.
struct Step {
    T k, rate, e1, e2;  // factor of the perturbation, fl(dt/k) or fl(dt k), corrections of Adam
    int released;       // which form the perturbation has
    int flip;           // whether to flip the last bit of a parameter,
    u64 flipped;        // and of which
    u64 number;         // the step, counted from 1
    int new_epoch, unused;
};

struct StepArgs {
    T* theta;
    T* gradient;
    T* memory;
    Tally* tally;
    const Step* steps;
    const double* losses;
    const int* right;
    double* block_max;    // [replica][block]: largest absolute parameter
    const double* scale;  // [replica]
    u64 parameters;
    int method, images, capacity, blocks;
    double alpha, mu, beta1, beta2, c1, c2, epsilon, blow_up;
};

enum { SGD, HEAVY_BALL, NESTEROV, ADAM, NESTEROV_PDE };

// Before the gradient: a new epoch's tally, the flip of a bit, the look ahead.
extern "C" __global__ void step_prepare(const StepArgs args) {
    wait_for_previous_kernel();
    u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y;
    const Step& step = args.steps[r];
    if (at == 0 && step.new_epoch) {
        Tally& tally = args.tally[r];
        tally.last_loss = tally.loss = 0.0;
        tally.right = tally.examples = 0;
    }
    if (at >= args.parameters || args.tally[r].ended) return;
    T* theta = args.theta + args.parameters * r + at;
    if (step.flip && step.flipped == at) {
        if (sizeof(T) == 4) *(unsigned*)theta ^= 1u;
        else *(u64*)theta ^= 1ull;
    }
    if (args.method == NESTEROV_PDE) {
        T* before = args.memory + args.parameters * r + at;
        T now = *theta;
        *theta = add_rn(now, mul_rn((T)args.mu, sub_rn(now, *before)));
        *before = now;
    }
}

// theta <- theta - dt d, rounded as in the CPU's `direction` and `perturbation`.
extern "C" __global__ void __launch_bounds__(256) step_descend(const StepArgs args) {
    wait_for_previous_kernel();
    __shared__ double most[256];
    u64 at = (u64)blockIdx.x * 256 + threadIdx.x;
    int r = blockIdx.y;
    const Step& step = args.steps[r];
    double size = 0.0;
    if (at < args.parameters && !args.tally[r].ended) {
        u64 place = args.parameters * r + at;
        T theta = args.theta[place], g = args.gradient[place];
        if (args.alpha != 0.0) g = add_rn(g, mul_rn((T)args.alpha, theta));
        if (args.method == HEAVY_BALL || args.method == NESTEROV) {
            T mu = (T)args.mu, b = add_rn(mul_rn(mu, args.memory[place]), g);
            args.memory[place] = b;
            g = args.method == HEAVY_BALL ? b : add_rn(g, mul_rn(mu, b));
        } else if (args.method == ADAM) {
            T* m = args.memory + 2 * args.parameters * r + at;
            T* v = m + args.parameters;
            *m = add_rn(mul_rn((T)args.beta1, *m), mul_rn((T)args.c1, g));
            *v = add_rn(mul_rn((T)args.beta2, *v), mul_rn(mul_rn((T)args.c2, g), g));
            g = div_rn(div_rn(*m, step.e1), add_rn(div_rn(sqrt_rn(*v), step.e2), (T)args.epsilon));
        }
        T scaled = step.released ? div_rn(g, step.k) : mul_rn(step.k, g);
        theta = sub_rn(theta, mul_rn(step.rate, scaled));
        args.theta[place] = theta;
        // NaN counts as infinite.
        size = is_nan(theta) ? __longlong_as_double(0x7ff0000000000000LL) : fabs((double)theta);
    }
    most[threadIdx.x] = size;
    for (int gap = 128; gap > 0; gap /= 2) {
        __syncthreads();
        if (threadIdx.x < gap) most[threadIdx.x] = fmax(most[threadIdx.x], most[threadIdx.x + gap]);
    }
    if (threadIdx.x == 0) args.block_max[(u64)r * args.blocks + blockIdx.x] = most[0];
}

// One block per replica: its tally, and whether it has diverged.
extern "C" __global__ void __launch_bounds__(256) step_finish(const StepArgs args) {
    wait_for_previous_kernel();
    __shared__ double most[256];
    int r = blockIdx.x, thread = threadIdx.x;
    double size = 0.0;
    for (int i = thread; i < args.blocks; i += 256) size = fmax(size, args.block_max[(u64)r * args.blocks + i]);
    most[thread] = size;
    for (int gap = 128; gap > 0; gap /= 2) {
        __syncthreads();
        if (thread < gap) most[thread] = fmax(most[thread], most[thread + gap]);
    }
    double sum = 0.0, right = 0.0;
#pragma unroll 4
    for (int i = thread; i < args.images; i += 256) {
        sum += args.losses[(u64)r * args.capacity + i];
        right += args.right[(u64)r * args.capacity + i];
    }
    sum = sum_of_256(sum);
    right = sum_of_256(right);
    Tally& tally = args.tally[r];
    if (thread || tally.ended) return;
    tally.last_loss = sum / args.images;
    tally.loss += tally.last_loss * args.images;
    tally.right += (u64)right;
    tally.examples += args.images;
    bool finite = most[0] - most[0] == 0.0;
    if (!finite || most[0] > args.blow_up * args.scale[r]) tally.ended = args.steps[r].number;
}
