// Does compute-sanitizer's racecheck understand the two named barriers with which our 3x3 kernels hand tiles from producer to
// consumer warps?
//
//     nvcc -arch=sm_90 -lineinfo -o named_barriers reference/named_barriers.cu
//     compute-sanitizer --tool racecheck ./named_barriers WAY STAGES TILES
//
// The smallest kernel of that kind: 128 threads write tiles into a ring of STAGES in shared memory, 128 others read them.
//
// WAY is one of
//
//     arrive   bar.arrive to signal, bar.sync to wait: as in crates/lastbit-cuda/src/kernels
//     sync     bar.sync on both sides (1 stage)
//     const    as arrive, with barrier numbers as constants (1 stage)
//     mbarrier cuda::barrier
//
// Exit code 1 if the sums are wrong.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda/barrier>

const int GROUP = 128, MOST = 4;
enum Way { ARRIVE, SYNC, CONST, MBARRIER };

__device__ __forceinline__ void wait(int barrier) {
    __syncwarp();
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(2 * GROUP) : "memory");
}

__device__ __forceinline__ void arrive(int barrier) {
    __threadfence_block();
    __syncwarp();
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(2 * GROUP) : "memory");
}

template <int WAY>
__global__ void ring(const float* in, float* out, int stages, int tiles) {
    __shared__ float stage[MOST][GROUP];
    __shared__ cuda::barrier<cuda::thread_scope_block> barriers[2 * MOST];
    int t = threadIdx.x % GROUP;
    bool produces = threadIdx.x >= GROUP;
    if (WAY == MBARRIER) {
        if (threadIdx.x < 2 * MOST) init(&barriers[threadIdx.x], 2 * GROUP);
        __syncthreads();
    }
    float sum = 0;
    for (int tile = 0; tile < tiles; tile++) {
        int s = tile % stages, full = 1 + s, empty = 1 + MOST + s;
        if (produces) {
            if (tile >= stages) {
                if (WAY == MBARRIER) barriers[empty - 1].arrive_and_wait();
                else if (WAY == CONST) asm volatile("bar.sync 5, 256;" ::: "memory");
                else wait(empty);
            }
            stage[s][t] = in[tile * GROUP + t];
            if (WAY == MBARRIER) (void)barriers[full - 1].arrive();
            else if (WAY == SYNC) wait(full);
            else if (WAY == CONST) { __threadfence_block(); asm volatile("bar.arrive 1, 256;" ::: "memory"); }
            else arrive(full);
        } else {
            if (WAY == MBARRIER) barriers[full - 1].arrive_and_wait();
            else if (WAY == CONST) asm volatile("bar.sync 1, 256;" ::: "memory");
            else wait(full);
            sum += stage[s][(t + 33) % GROUP];
            if (tile + stages < tiles) {
                if (WAY == MBARRIER) (void)barriers[empty - 1].arrive();
                else if (WAY == SYNC) wait(empty);
                else if (WAY == CONST) { __threadfence_block(); asm volatile("bar.arrive 5, 256;" ::: "memory"); }
                else arrive(empty);
            }
        }
    }
    if (!produces) out[t] = sum;
}

int main(int count, char** words) {
    if (count != 4) {
        fprintf(stderr, "usage: %s arrive|sync|const|mbarrier STAGES TILES\n", words[0]);
        return 2;
    }
    const char* names[] = {"arrive", "sync", "const", "mbarrier"};
    int way = 0, stages = atoi(words[2]), tiles = atoi(words[3]);
    while (way < 4 && strcmp(names[way], words[1])) way++;
    if (way == 4 || stages < 1 || stages > MOST || tiles < 1 || ((way == CONST || way == SYNC) && stages != 1)) {
        fprintf(stderr, "no such way, or not 1 to %d stages (sync and const: 1) and at least one tile\n", MOST);
        return 2;
    }
    float *in, *out, *host = new float[tiles * GROUP], found[GROUP];
    for (int i = 0; i < tiles * GROUP; i++) host[i] = i % 1000;
    cudaMalloc(&in, tiles * GROUP * sizeof(float));
    cudaMalloc(&out, GROUP * sizeof(float));
    cudaMemcpy(in, host, tiles * GROUP * sizeof(float), cudaMemcpyHostToDevice);
    void (*kernels[])(const float*, float*, int, int) = {ring<ARRIVE>, ring<SYNC>, ring<CONST>, ring<MBARRIER>};
    kernels[way]<<<1, 2 * GROUP>>>(in, out, stages, tiles);
    cudaError_t error = cudaMemcpy(found, out, sizeof found, cudaMemcpyDeviceToHost);
    if (error != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(error));
        return 1;
    }
    int wrong = 0;
    for (int t = 0; t < GROUP; t++) {
        float sum = 0;
        for (int tile = 0; tile < tiles; tile++) sum += host[tile * GROUP + (t + 33) % GROUP];
        wrong += sum != found[t];
    }
    printf("%s, %d stages, %d tiles: %d sums wrong\n", words[1], stages, tiles, wrong);
    return wrong > 0;
}
