// Tiles of a layer in shared memory, and who works with them, for the 3x3 convolutions.
//
// A block is WORKERS threads that compute and as many FILLERS that read: these keep up to three tiles
// ahead, batch norm and ReLU already applied. Tile n lies in place n mod STAGES; a place has
// two barriers, one where workers wait until it is full, one where fillers wait until it is empty.

// ROOM is how many bytes a block's tiles may have, BLOCKS_AT_A_TIME how many blocks a multiprocessor then has:
// one in double precision, whose sums take twice the registers.

const int WORKERS = 128, FILLERS = 128;
enum { EVERYBODY, FULL, EMPTY = FULL + 3, AMONG_WORKERS = EMPTY + 3, AMONG_FILLERS };

// Places for tiles of so many bytes.
__host__ __device__ constexpr int stages(int bytes) { return bytes > ROOM / 2 ? 1 : bytes > ROOM / 3 ? 2 : 3; }

// Fillers leave registers to workers, where the device can do that: 256 for one of each. In double precision
// there are as many for each.
template <int COUNT>
__device__ __forceinline__ void take_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && SINGLE
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
#endif
}

template <int COUNT>
__device__ __forceinline__ void leave_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && SINGLE
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
#endif
}

// Waits at a barrier until so many threads have come.
__device__ __forceinline__ void meet(int barrier, int threads) {
    __syncwarp();
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Comes to a barrier without waiting there; what was written before can be seen by those who wait.
__device__ __forceinline__ void come(int barrier, int threads) {
    __threadfence_block();
    __syncwarp();
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ T rounded(T x) {
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

// Reads 16 x 8 numbers of shared memory for it: lane l names the address of four of them.
__device__ __forceinline__ void read_factor(unsigned (&a)[4], unsigned from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(from));
}
#endif

// Copies 16 bytes to shared memory in the background, until arrived() says that all are there.
__device__ __forceinline__ void copy16(Unit* shared, const Unit* from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}

__device__ __forceinline__ void arrived() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// What is read of a layer: values, dL/dz, dL/dz of a layer of half the size with zeros between its
// pixels (the transposed convolution of stride 2), or the network's input of 1 to 3 channels.
enum { VALUES, GRADIENTS, SPREAD_GRADIENTS, IMAGE_OF_FEW };

// Where a unit of a pixel in column `col` lies among its four, such that those of eight neighbouring
// pixels lie in different banks.
__device__ __forceinline__ int turned(int unit, int col) { return unit ^ (col / 2 & 3); }

// max(x, least), and a NaN stays visible
__device__ __forceinline__ float at_least(float x, float least) {
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(least));
    return y;
}

__device__ __forceinline__ double at_least(double x, double least) { return x <= least ? least : x; }

// What a filler has on its way into a tile: four channels of every NEAR-th pixel, in rounds of at most
// MOST, as many as there are registers for; the next round is read before this one is put. The tile
// has IMAGES times HIGH x WIDTH pixels, PIXEL numbers apart, of 4 * GROUPS channels. Filled are ROWS of
// its rows from row TOP on, SIZE columns from column LEFT on: all columns of images of SIZE x SIZE. What
// lies beside them was set to zero once and for all, and so were rows beyond the image, unless CHECKED
// says that a tile has part of an image's rows. The layer has ReLU or no activation: values and slopes of
// others were computed before, and are read as they are.
template <int WHAT, bool TURNED, int GROUPS, int IMAGES, int SIZE, int ROWS, int TOP, int LEFT, int HIGH, int WIDTH,
    int PIXEL, bool CHECKED, int MOST>
struct Filling {
    static const bool GRADIENT = WHAT == GRADIENTS || WHAT == SPREAD_GRADIENTS;
    static const int NEAR = FILLERS / GROUPS, DOWN = NEAR / SIZE, EACH = IMAGES * ROWS / DOWN;
    static const int ROUNDS = (EACH + MOST - 1) / MOST, BATCH = (EACH + ROUNDS - 1) / ROUNDS;
    static_assert(NEAR % SIZE == 0 && ROWS % DOWN == 0, "a filler keeps its channels and its column");
    static_assert(IMAGES == 1 || ROWS == SIZE, "whole images");

    struct Round {
        T4 z[BATCH], u[GRADIENT ? BATCH : 1];
        bool inside[BATCH];
    };
    Round even;
    T4 scale, shift, b, c;
    T least;

    // Begins to read the first round; `y` is the row of the image in row TOP of the tile.
    __device__ __forceinline__ void begin(const Reader& from, int channel, int image, int images, int y) {
        Four own(from, WHAT == IMAGE_OF_FEW ? 0 : channel + 4 * ((threadIdx.x - WORKERS) % GROUPS), GRADIENT);
        scale = own.scale;
        shift = own.shift;
        b = own.b;
        c = own.c;
        least = own.activation == RELU ? T(0) : -T(__int_as_float(0x7f800000));
        read(even, from, channel, image, images, y, 0);
    }

    __device__ __forceinline__ void read(
        Round& to, const Reader& from, int channel, int image, int images, int y, int round) const {
        int thread = threadIdx.x - WORKERS, group = thread % GROUPS, pixel = thread / GROUPS;
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
            to.z[j] = four(0, 0, 0, 0);
            if (GRADIENT) to.u[j] = four(0, 0, 0, 0);
            if (!to.inside[j]) continue;
            if (WHAT == SPREAD_GRADIENTS) {
                int place = ((image * (SIZE / 2) + own_y / 2) * (SIZE / 2) + col / 2) * from.channels + first;
                to.z[j] = *(const T4*)(from.z + place);
                to.u[j] = *(const T4*)(from.u + place);
            } else if (WHAT == IMAGE_OF_FEW) {
                const T* own = start + n * step;
                int channels = from.channels;
                if (group == 0) to.z[j] = four(own[0], channels > 1 ? own[1] : T(0), channels > 2 ? own[2] : T(0), T(0));
            } else {
                to.z[j] = *(const T4*)(start + n * step);
                if (GRADIENT) to.u[j] = *(const T4*)(start + (from.u - from.z) + n * step);
            }
        }
    }

    // What is put for a number that was read, with the coefficients of its channel.
    __device__ __forceinline__ T made(T z, T u, T scale, T shift, T b, T c) const {
        T n = fused(z, scale, shift);
        if (!GRADIENT) return rounded(at_least(n, least));
        T g = n <= least ? T(0) : u;
        return rounded(fused(scale, g, fused(b, z, c)));
    }

    // Puts what was read into the tile.
    __device__ __forceinline__ void put(const Round& from, T* tile, int round) const {
        int thread = threadIdx.x - WORKERS, group = thread % GROUPS, pixel = thread / GROUPS;
        int row = pixel / SIZE, col = LEFT + pixel % SIZE;
        const int UNITS = 4 / UNIT;
        Unit* start[UNITS];
#pragma unroll
        for (int i = 0; i < UNITS; i++) {
            int unit = group * UNITS + i;
            start[i] = (Unit*)(tile + ((TOP + row) * WIDTH + col) * PIXEL) + (TURNED ? turned(unit, col) : unit);
        }
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            int n = round * BATCH + j;
            if (n >= EACH) break;
            T4 x = from.z[j], y = from.u[GRADIENT ? j : 0];
            T4 v = four(made(x.x, y.x, scale.x, shift.x, b.x, c.x), made(x.y, y.y, scale.y, shift.y, b.y, c.y),
                made(x.z, y.z, scale.z, shift.z, b.z, c.z), made(x.w, y.w, scale.w, shift.w, b.w, c.w));
            if (!from.inside[j]) v = four(0, 0, 0, 0);
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

    // All that is still to be read and put after begin().
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

// Sets all tiles to zero, before anything is put into them.
__device__ __forceinline__ void clear(T* tiles, int numbers) {
    for (int at = (threadIdx.x - WORKERS) * 4; at < numbers; at += FILLERS * 4) *(T4*)(tiles + at) = four(0, 0, 0, 0);
    meet(AMONG_FILLERS, FILLERS);
}
