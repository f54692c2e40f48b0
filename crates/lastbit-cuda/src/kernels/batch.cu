// Batches from a data set in device memory, bit-identical to those of the CPU.

struct BatchArgs {
    const unsigned char* bytes;  // stored pixels, [example][row][column][channel]; null where numbers are stored
    const double* numbers;       // stored numbers
    const T* table;              // [position][256]: normalized value of each byte
    const double* mean;          // [position]
    const double* deviation;     // [position]
    const int* labels;           // [example]; null where targets are numbers
    const T* values;             // [example][width]
    const int* chosen;           // the examples of the batch
    const u64* stream;           // of the epoch's draws
    T* inputs;
    int* classes;
    T* reals;
    u64 seed;
    int height, width, channels;
    int positions;               // of the normalization: number i of an example has position i mod positions
    int padding, flip;           // augmentation by crops and flips
    int targets, unused;         // numbers per example
};

// Four random words at a counter: Philox4x32-10.
__device__ __forceinline__ uint4 random_block(u64 seed, u64 stream, u64 counter) {
    uint4 c = make_uint4((unsigned)counter, (unsigned)(counter >> 32), (unsigned)stream, (unsigned)(stream >> 32));
    unsigned key0 = (unsigned)seed, key1 = (unsigned)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned high0 = __umulhi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
        unsigned high1 = __umulhi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
        c = make_uint4(high1 ^ c.y ^ key0, low1, high0 ^ c.w ^ key1, low0);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return c;
}

// Uniform among 0, 1, ..., bound - 1, as `Stream::below`.
__device__ __forceinline__ int random_below(u64 seed, u64 stream, u64 counter, u64 bound) {
    u64 excess = (0 - bound) % bound;
    while (true) {
        uint4 words = random_block(seed, stream, counter);
        u64 draw = (u64)words.x << 32 | words.y;
        if (draw * bound >= excess) return (int)__umul64hi(draw, bound);
        counter += 1ull << 48;
    }
}

// One block per example.
extern "C" __global__ void __launch_bounds__(256) batch_form(const BatchArgs args) {
    wait_for_previous_kernel();
    __shared__ int drawn[3];  // shift down, shift to the right, whether flipped
    int i = blockIdx.x, example = args.chosen[i];
    if (threadIdx.x < 3) {
        int which = threadIdx.x;
        u64 counter = 3 * (u64)example + which, bound = which == 2 ? 2 : 2 * args.padding + 1;
        bool needed = which == 2 ? args.flip : args.padding > 0;
        int draw = needed ? random_below(args.seed, *args.stream, counter, bound) : 0;
        drawn[which] = which == 2 ? draw : draw - (needed ? args.padding : 0);
    }
    __syncthreads();
    int down = drawn[0], right = drawn[1], mirrored = drawn[2];
    int len = args.height * args.width * args.channels;
    u64 first = (u64)example * len;
    T* inputs = args.inputs + (u64)i * len;
    for (int at = threadIdx.x; at < len; at += 256) {
        int pixel = at / args.channels, channel = at % args.channels;
        int row = pixel / args.width, column = pixel % args.width;
        column = (mirrored ? args.width - 1 - column : column) + right;
        row += down;
        bool seen = 0 <= row && row < args.height && 0 <= column && column < args.width;
        u64 from = first + (row * args.width + column) * args.channels + channel;
        int place = at % args.positions;
        if (args.bytes) {
            inputs[at] = args.table[place * 256 + (seen ? args.bytes[from] : 0)];
        } else {
            double value = seen ? args.numbers[from] : 0.0;
            inputs[at] = (T)div_rn(sub_rn(value, args.mean[place]), args.deviation[place]);
        }
    }
    if (args.labels) {
        if (threadIdx.x == 0) args.classes[i] = args.labels[example];
        return;
    }
    for (int at = threadIdx.x; at < args.targets; at += 256) {
        args.reals[(u64)i * args.targets + at] = args.values[(u64)example * args.targets + at];
    }
}
