// Batches from a data set in device memory, with the bits of those that the CPU forms.

struct BatchJob {
    const unsigned char* bytes;  // stored pixels, [example][row][column][channel]; null where numbers are stored
    const double* numbers;       // stored numbers
    const T* table;              // [place][256]: what a byte becomes
    const double* mean;          // [place]
    const double* deviation;     // [place]
    const int* labels;           // [example]; null where targets are numbers
    const T* values;             // [example][width]
    const int* chosen;           // the examples of the batch
    const u64* stream;           // of the epoch's draws
    T* inputs;
    int* classes;
    T* reals;
    u64 seed;
    int height, width, channels;
    int places;                  // of the normalization: they follow each other again and again
    int padding, flip;           // how examples are varied
    int targets;                 // numbers to an example
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

// A block to an example.
extern "C" __global__ void __launch_bounds__(256) batch_form(const BatchJob job) {
    in_turn();
    __shared__ int drawn[3];  // rows down, columns to the right, whether mirrored
    int i = blockIdx.x, example = job.chosen[i];
    if (threadIdx.x < 3) {
        int which = threadIdx.x;
        u64 counter = 3 * (u64)example + which, bound = which == 2 ? 2 : 2 * job.padding + 1;
        bool needed = which == 2 ? job.flip : job.padding > 0;
        int draw = needed ? random_below(job.seed, *job.stream, counter, bound) : 0;
        drawn[which] = which == 2 ? draw : draw - (needed ? job.padding : 0);
    }
    __syncthreads();
    int down = drawn[0], right = drawn[1], mirrored = drawn[2];
    int len = job.height * job.width * job.channels;
    u64 first = (u64)example * len;
    T* inputs = job.inputs + (u64)i * len;
    for (int at = threadIdx.x; at < len; at += 256) {
        int pixel = at / job.channels, channel = at % job.channels;
        int row = pixel / job.width, column = pixel % job.width;
        column = (mirrored ? job.width - 1 - column : column) + right;
        row += down;
        bool seen = 0 <= row && row < job.height && 0 <= column && column < job.width;
        u64 from = first + (row * job.width + column) * job.channels + channel;
        int place = at % job.places;
        if (job.bytes) {
            inputs[at] = job.table[place * 256 + (seen ? job.bytes[from] : 0)];
        } else {
            double value = seen ? job.numbers[from] : 0.0;
            inputs[at] = (T)over(minus(value, job.mean[place]), job.deviation[place]);
        }
    }
    if (job.labels) {
        if (threadIdx.x == 0) job.classes[i] = job.labels[example];
        return;
    }
    for (int at = threadIdx.x; at < job.targets; at += 256) {
        job.reals[(u64)i * job.targets + at] = job.values[(u64)example * job.targets + at];
    }
}
