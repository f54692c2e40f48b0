// Tiles of a layer in shared memory, and who works with them, for the 3x3 convolutions.
//
// A block is WORKERS threads that compute and as many FILLERS that read: these keep up to three tiles
// ahead, batch norm and activation already applied. Tile n lies in place n mod STAGES; a place has
// two barriers, one where workers wait until it is full, one where fillers wait until it is empty.

#if SINGLE
const int WORKERS = 128, FILLERS = 128;
// Reads of a filler on their way at a time, of values and of gradients (two numbers each).
#ifndef V_READS
#define V_READS 11
#define V_GREADS 7
#define V_TAKE "144"
#define V_LEAVE "112"
#endif
const int READS = V_READS, GRADIENT_READS = V_GREADS;
// Bytes of a block's tiles: two blocks to a multiprocessor of 228 KiB.
const int ROOM = 112 * 1024;
enum { EVERYBODY, FULL, EMPTY = FULL + 3, AMONG_WORKERS = EMPTY + 3 };

__host__ __device__ constexpr int stages(int bytes) { return bytes > ROOM / 2 ? 1 : bytes > ROOM / 3 ? 2 : 3; }

// Fillers leave registers to workers, where the device can do that.
__device__ __forceinline__ void take_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("setmaxnreg.inc.sync.aligned.u32 " V_TAKE ";");
#endif
}

__device__ __forceinline__ void leave_registers() {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    asm volatile("setmaxnreg.dec.sync.aligned.u32 " V_LEAVE ";");
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

__device__ __forceinline__ float rounded(float x) {
#if TENSOR
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
#else
    return x;
#endif
}

__device__ __forceinline__ T4 rounded(T4 x) {
    return four(rounded(x.x), rounded(x.y), rounded(x.z), rounded(x.w));
}

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

// Copies 16 bytes to shared memory in the background, until arrived() says that all are there.
__device__ __forceinline__ void copy16(T4* shared, const T4* from) {
    unsigned at = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}

__device__ __forceinline__ void arrived() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// What is read of a layer: values, dL/dz, dL/dz of a layer of half the size with zeros between its
// pixels (the transposed convolution of stride 2), or the network's input of 1 to 3 channels.
enum { VALUES, GRADIENTS, SPREAD_GRADIENTS, IMAGE_OF_FEW };

// Where a group of four channels of a pixel in column `col` lies among the four of 16 channels, such
// that those of eight neighbouring pixels lie in different banks.
__device__ __forceinline__ int turned(int group, int col) { return group ^ (col / 2 & 3); }

// Reads 4 * GROUPS channels from `channel` on of ROWS x COLS pixels of each of IMAGES images, the
// first at (y, x), into shared memory; zeros outside of the image. Pixels lie PIXEL numbers apart. A
// thread has BATCH reads on their way at a time, as many as it has registers for.
template <int WHAT, bool TURNED, int GROUPS, int IMAGES, int ROWS, int COLS, int PIXEL>
__device__ __forceinline__ void fill(float* shared, const Reader& from, int size, int channel,
    int image, int images, int y, int x) {
    const bool GRADIENT = WHAT == GRADIENTS || WHAT == SPREAD_GRADIENTS;
    const int COUNT = IMAGES * ROWS * COLS * GROUPS, EACH = (COUNT + FILLERS - 1) / FILLERS;
    const int MOST = GRADIENT ? GRADIENT_READS : READS, ROUNDS = (EACH + MOST - 1) / MOST;
    const int BATCH = (EACH + ROUNDS - 1) / ROUNDS;
    static_assert(FILLERS % GROUPS == 0, "a thread keeps its channels");
    static_assert(!TURNED || GROUPS == 4, "16 channels");
    int thread = threadIdx.x - WORKERS, group = thread % GROUPS;
    Four channels(from, WHAT == IMAGE_OF_FEW ? 0 : channel + 4 * group, GRADIENT);
#pragma unroll 1
    for (int first = thread; first < COUNT; first += BATCH * FILLERS) {
        T4 z[BATCH], u[BATCH];
        bool inside[BATCH];
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            int pixel = (first + j * FILLERS) / GROUPS;
            int n = pixel / (ROWS * COLS), row = pixel / COLS % ROWS, col = pixel % COLS;
            inside[j] = first + j * FILLERS < COUNT && image + n < images && (unsigned)(y + row) < size
                && (unsigned)(x + col) < size;
            int at = ((image + n) * size + y + row) * size + x + col;
            if (WHAT == SPREAD_GRADIENTS) {
                inside[j] = inside[j] && (y + row) % 2 == 0 && (x + col) % 2 == 0;
                at = ((image + n) * (size / 2) + (y + row) / 2) * (size / 2) + (x + col) / 2;
            }
            at = at * from.channels + channel + 4 * group;
            z[j] = u[j] = four(0, 0, 0, 0);
            if (!inside[j]) continue;
            if (WHAT != IMAGE_OF_FEW) {
                z[j] = *(const T4*)(from.z + at);
                if (GRADIENT) u[j] = *(const T4*)(from.u + at);
            } else if (group == 0) {
                const float* pixel = from.z + at;
                z[j] = four(pixel[0], from.channels > 1 ? pixel[1] : 0.f, from.channels > 2 ? pixel[2] : 0.f, 0.f);
            }
        }
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            if (first + j * FILLERS >= COUNT) break;
            int pixel = (first + j * FILLERS) / GROUPS;
            T4 v = four(0, 0, 0, 0);
            if (inside[j]) v = rounded(GRADIENT ? channels.gradient(z[j], u[j]) : channels.value(z[j]));
            *(T4*)(shared + pixel * PIXEL + 4 * (TURNED ? turned(group, pixel % COLS) : group)) = v;
        }
    }
}
#endif
