// Tiles of a layer in shared memory for the 3x3 convolutions, filled by producer warps and read by consumer
// warps.
//
// A block has CONSUMERS threads that compute and as many PRODUCERS that load tiles, up to three ahead, with
// batch norm and ReLU already applied. Tile n is in stage n mod STAGES. A stage has two barriers: consumers
// wait at one until it is full, producers at the other until it is empty.

// TILE_BYTES: shared memory for the tiles of a block. BLOCKS_PER_SM: resident blocks per multiprocessor, one
// in double precision, whose sums take twice the registers.

const int CONSUMERS = 128, PRODUCERS = 128;
enum { ALL_THREADS, FULL, EMPTY = FULL + 3, CONSUMERS_ONLY = EMPTY + 3, PRODUCERS_ONLY };

// Number of stages for tiles of so many bytes.
__host__ __device__ constexpr int stages(int bytes) { return bytes > TILE_BYTES / 2 ? 1 : bytes > TILE_BYTES / 3 ? 2 : 3; }

// Producers hand registers to consumers, where the device supports it; one of each has 256 in all. In double
// precision both have the same number.
template <int COUNT>
__device__ __forceinline__ void raise_register_limit() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && SINGLE
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
#endif
}

template <int COUNT>
__device__ __forceinline__ void lower_register_limit() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && SINGLE
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
#endif
}

// Waits at a barrier until so many threads have arrived.
__device__ __forceinline__ void barrier_sync(int barrier, int threads) {
    __syncwarp();
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Arrives at a barrier without waiting; earlier writes are visible to those who wait there.
__device__ __forceinline__ void barrier_arrive(int barrier, int threads) {
    __threadfence_block();
    __syncwarp();
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ T round_factor(T x) {
#if TENSOR
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
#else
    return x;
#endif
}

#if TENSOR
// c + a b on tensor cores: 16 x 8 numbers of 8 products each.
__device__ __forceinline__ void multiply(
    float& c0, float& c1, float& c2, float& c3, const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Loads its factor of 16 x 8 numbers from shared memory: each lane gives the address of four of them.
__device__ __forceinline__ void read_factor(unsigned (&a)[4], unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(from));
}
#endif

// Copies 16 bytes to shared memory asynchronously; cp_async_wait() waits for all copies.
__device__ __forceinline__ void cp_async16(Unit* shared, const Unit* from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}

__device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// What is read from a layer: values, dL/dz, dL/dz of a layer of half the size with zeros between its
// pixels (the transposed convolution of stride 2), or the network's input of 1 to 3 channels.
enum { VALUES, GRADIENTS, SPREAD_GRADIENTS, IMAGE_OF_FEW };

// Position of a unit among the four of a pixel in column `col`, such that units of eight neighbouring pixels
// are in different banks.
__device__ __forceinline__ int swizzle(int unit, int col) { return unit ^ (col / 2 & 3); }

// max(x, least), but NaN is kept
__device__ __forceinline__ float max_keep_nan(float x, float least) {
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(least));
    return y;
}

__device__ __forceinline__ double max_keep_nan(double x, double least) { return x <= least ? least : x; }

// A producer's part of a tile: four channels of every NEAR-th pixel, in rounds of at most MOST, as many as
// there are registers for; the next round is read before this one is written. The tile has IMAGES times
// HIGH x WIDTH pixels, PIXEL numbers apart, of 4 * GROUPS channels. ROWS rows are written from row TOP on,
// and SIZE columns from column LEFT on: all columns of images of SIZE x SIZE. The padding around them is set
// to zero once at the start, and so are rows beyond the image, unless CHECKED says that a tile has part of an
// image's rows. The layer has ReLU or no activation: smooth activations were applied before.
template <int WHAT, bool TURNED, int GROUPS, int IMAGES, int SIZE, int ROWS, int TOP, int LEFT, int HIGH, int WIDTH,
    int PIXEL, bool CHECKED, int MOST>
struct TileLoader {
    static const bool GRADIENT = WHAT == GRADIENTS || WHAT == SPREAD_GRADIENTS;
    static const int NEAR = PRODUCERS / GROUPS, DOWN = NEAR / SIZE, EACH = IMAGES * ROWS / DOWN;
    static const int ROUNDS = (EACH + MOST - 1) / MOST, BATCH = (EACH + ROUNDS - 1) / ROUNDS;
    static_assert(NEAR % SIZE == 0 && ROWS % DOWN == 0, "a producer keeps its channels and its column");
    static_assert(IMAGES == 1 || ROWS == SIZE, "whole images");

    struct Round {
        T4 z[BATCH], u[GRADIENT ? BATCH : 1];
        bool inside[BATCH];
    };
    Round even;
    T4 scale, shift, b, c;
    T least;

    // Starts reading the first round; `y` is the row of the image in row TOP of the tile.
    __device__ __forceinline__ void begin(const Reader& from, int channel, int image, int images, int y) {
        Channel4<> own(from, WHAT == IMAGE_OF_FEW ? 0 : channel + 4 * ((threadIdx.x - CONSUMERS) % GROUPS), GRADIENT);
        scale = own.scale;
        shift = own.shift;
        b = own.b;
        c = own.c;
        least = own.activation == RELU ? T(0) : -T(__int_as_float(0x7f800000));
        read(even, from, channel, image, images, y, 0);
    }

    __device__ __forceinline__ void read(
        Round& to, const Reader& from, int channel, int image, int images, int y, int round) const {
        int thread = threadIdx.x - CONSUMERS, group = thread % GROUPS, pixel = thread / GROUPS;
        int row = pixel / SIZE, col = pixel % SIZE;
        int first = WHAT == IMAGE_OF_FEW ? 0 : channel + 4 * group;
        long long at = (long long)((image * SIZE + y + row) * SIZE + col) * from.channels + first;
        long long step = NEAR * from.channels;
        const T* start = from.z + at;
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            int n = round * BATCH + j, own_y = y + row + n * DOWN;
            to.inside[j] = n < EACH;
            if (CHECKED) to.inside[j] = to.inside[j] && (unsigned)own_y < SIZE;
            if (IMAGES > 1) to.inside[j] = to.inside[j] && image + n * DOWN / ROWS < images;
            if (WHAT == SPREAD_GRADIENTS) to.inside[j] = to.inside[j] && own_y % 2 == 0 && col % 2 == 0;
            to.z[j] = vec4(0, 0, 0, 0);
            if (GRADIENT) to.u[j] = vec4(0, 0, 0, 0);
            if (!to.inside[j]) continue;
            if (WHAT == SPREAD_GRADIENTS) {
                int place = ((image * (SIZE / 2) + own_y / 2) * (SIZE / 2) + col / 2) * from.channels + first;
                to.z[j] = *(const T4*)(from.z + place);
                to.u[j] = *(const T4*)(from.u + place);
            } else if (WHAT == IMAGE_OF_FEW) {
                const T* own = start + n * step;
                int channels = from.channels;
                if (group == 0) to.z[j] = vec4(own[0], channels > 1 ? own[1] : T(0), channels > 2 ? own[2] : T(0), T(0));
            } else {
                to.z[j] = *(const T4*)(start + n * step);
                if (GRADIENT) to.u[j] = *(const T4*)(start + (from.u - from.z) + n * step);
            }
        }
    }

    // The number to write for one that was read, with the coefficients of its channel.
    __device__ __forceinline__ T made(T z, T u, T scale, T shift, T b, T c) const {
        T n = fma_rn(z, scale, shift);
        if (!GRADIENT) return round_factor(max_keep_nan(n, least));
        T g = n <= least ? T(0) : u;
        return round_factor(fma_rn(scale, g, fma_rn(b, z, c)));
    }

    // Writes a round into the tile.
    __device__ __forceinline__ void put(const Round& from, T* tile, int round) const {
        int thread = threadIdx.x - CONSUMERS, group = thread % GROUPS, pixel = thread / GROUPS;
        int row = pixel / SIZE, col = LEFT + pixel % SIZE;
        const int UNITS = 4 / UNIT;
        Unit* start[UNITS];
#pragma unroll
        for (int i = 0; i < UNITS; i++) {
            int unit = group * UNITS + i;
            start[i] = (Unit*)(tile + ((TOP + row) * WIDTH + col) * PIXEL) + (TURNED ? swizzle(unit, col) : unit);
        }
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            int n = round * BATCH + j;
            if (n >= EACH) break;
            T4 x = from.z[j], y = from.u[GRADIENT ? j : 0];
            T4 v = vec4(made(x.x, y.x, scale.x, shift.x, b.x, c.x), made(x.y, y.y, scale.y, shift.y, b.y, c.y),
                made(x.z, y.z, scale.z, shift.z, b.z, c.z), made(x.w, y.w, scale.w, shift.w, b.w, c.w));
            if (!from.inside[j]) v = vec4(0, 0, 0, 0);
            const T numbers[4] = {v.x, v.y, v.z, v.w};
            int down = (n * DOWN + n * DOWN / ROWS * (HIGH - ROWS)) * WIDTH * PIXEL / UNIT;
#pragma unroll
            for (int i = 0; i < UNITS; i++) {
                Unit part;
#pragma unroll
                for (int k = 0; k < UNIT; k++) part.x[k] = numbers[i * UNIT + k];
                start[i][down] = part;
            }
        }
    }

    // Reads and writes all that is left after begin().
    __device__ __forceinline__ void finish(T* tile, const Reader& from, int channel, int image, int images, int y) {
#pragma unroll 1
        for (int round = 1; round < ROUNDS; round += 2) {
            Round odd;
            read(odd, from, channel, image, images, y, round);
            put(even, tile, round - 1);
            if (round + 1 < ROUNDS) read(even, from, channel, image, images, y, round + 1);
            put(odd, tile, round);
        }
        if (ROUNDS % 2 == 1) put(even, tile, ROUNDS - 1);
    }
};

// Sets all tiles to zero, before the first write.
__device__ __forceinline__ void clear(T* tiles, int numbers) {
    for (int at = (threadIdx.x - CONSUMERS) * 4; at < numbers; at += PRODUCERS * 4) *(T4*)(tiles + at) = vec4(0, 0, 0, 0);
    barrier_sync(PRODUCERS_ONLY, PRODUCERS);
}
