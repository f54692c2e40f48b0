// BLAKE3 of each replica's parameters in little-endian order, as the CPU's `hash_of_bits`.
//
// Chunks have 1024 bytes and consist of blocks of 64. A chunk compresses its blocks in sequence; nodes are
// then combined in pairs, level by level, and a last node without a partner moves up unchanged. The
// compression of the root has a flag.
//
// Reference: O'Connor, Aumasson, Neves, Wilcox-O'Hearn, BLAKE3: one function, fast everywhere, Section 2.

struct HashArgs {
    const unsigned* words;  // [replica][word]: the bits of the parameters
    unsigned* nodes;        // [replica][chunk][8]
    u64* hashes;            // the first 128 bits of replica r's hash, at r * row
    u64 count, chunks, row; // words and chunks of a replica
};

enum { CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8 };
enum { WORDS_OF_BLOCK = 16, WORDS_OF_CHUNK = 256, WORDS_OF_NODE = 8, TREE_THREADS = 256 };

__device__ __forceinline__ unsigned rotate_right(unsigned x, int by) { return x >> by | x << (32 - by); }

__device__ __forceinline__ void mix(unsigned& a, unsigned& b, unsigned& c, unsigned& d, unsigned x, unsigned y) {
    a += b + x;
    d = rotate_right(d ^ a, 16);
    c += d;
    b = rotate_right(b ^ c, 12);
    a += b + y;
    d = rotate_right(d ^ a, 8);
    c += d;
    b = rotate_right(b ^ c, 7);
}

// The initial value of every chunk and every parent.
__device__ __forceinline__ void begin_node(unsigned node[8]) {
    const unsigned BEGINNING[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
        0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
#pragma unroll
    for (int i = 0; i < 8; i++) node[i] = BEGINNING[i];
}

// Compresses a block of so many bytes into a node.
__device__ __forceinline__ void compress(unsigned node[8], unsigned block[16], u64 chunk, unsigned bytes, unsigned flags) {
    const int ORDER[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};
    unsigned v[16];
    begin_node(v + 8);
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = node[i];
    v[12] = (unsigned)chunk;
    v[13] = (unsigned)(chunk >> 32);
    v[14] = bytes;
    v[15] = flags;
#pragma unroll
    for (int round = 0; round < 7; round++) {
        // Columns, then diagonals.
#pragma unroll
        for (int i = 0; i < 4; i++) mix(v[i], v[4 + i], v[8 + i], v[12 + i], block[2 * i], block[2 * i + 1]);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            mix(v[i], v[4 + (i + 1) % 4], v[8 + (i + 2) % 4], v[12 + (i + 3) % 4], block[8 + 2 * i], block[9 + 2 * i]);
        }
        unsigned before[16];
#pragma unroll
        for (int i = 0; i < 16; i++) before[i] = block[i];
#pragma unroll
        for (int i = 0; i < 16; i++) block[i] = before[ORDER[i]];
    }
#pragma unroll
    for (int i = 0; i < 8; i++) node[i] = v[i] ^ v[8 + i];
}

// One thread per chunk.
extern "C" __global__ void __launch_bounds__(64) hash_chunks(const HashArgs args) {
    wait_for_previous_kernel();
    u64 chunk = (u64)blockIdx.x * 64 + threadIdx.x, r = blockIdx.y;
    if (chunk >= args.chunks) return;
    const unsigned* words = args.words + args.count * r + chunk * WORDS_OF_CHUNK;
    u64 left = args.count - chunk * WORDS_OF_CHUNK;
    int count = (int)(left < WORDS_OF_CHUNK ? left : WORDS_OF_CHUNK);
    unsigned node[8];
    begin_node(node);
    unsigned end = args.chunks == 1 ? CHUNK_END | ROOT : CHUNK_END;
#pragma unroll 1
    for (int at = 0; at == 0 || at < count; at += WORDS_OF_BLOCK) {
        unsigned block[16];
#pragma unroll
        for (int i = 0; i < WORDS_OF_BLOCK; i++) block[i] = at + i < count ? words[at + i] : 0;
        int here = min(count - at, (int)WORDS_OF_BLOCK);
        unsigned flags = (at == 0 ? CHUNK_START : 0) | (at + WORDS_OF_BLOCK >= count ? end : 0);
        compress(node, block, chunk, 4 * here, flags);
    }
    unsigned* to = args.nodes + (args.chunks * r + chunk) * WORDS_OF_NODE;
#pragma unroll
    for (int i = 0; i < WORDS_OF_NODE; i++) to[i] = node[i];
}

// One block per replica. A parent overwrites its first child, so that the nodes of a level are twice as far
// apart as those below, and a node without a partner is already in place.
extern "C" __global__ void __launch_bounds__(TREE_THREADS) hash_tree(const HashArgs args) {
    wait_for_previous_kernel();
    u64 r = blockIdx.x;
    unsigned* nodes = args.nodes + args.chunks * r * WORDS_OF_NODE;
    for (u64 gap = 1; gap < args.chunks; gap *= 2) {
        unsigned flags = 2 * gap >= args.chunks ? PARENT | ROOT : PARENT;
        for (u64 at = threadIdx.x * 2 * gap; at + gap < args.chunks; at += TREE_THREADS * 2 * gap) {
            unsigned* first = nodes + at * WORDS_OF_NODE;
            const unsigned* second = nodes + (at + gap) * WORDS_OF_NODE;
            unsigned node[8], block[16];
            begin_node(node);
#pragma unroll
            for (int i = 0; i < WORDS_OF_NODE; i++) {
                block[i] = first[i];
                block[WORDS_OF_NODE + i] = second[i];
            }
            compress(node, block, 0, 64, flags);
#pragma unroll
            for (int i = 0; i < WORDS_OF_NODE; i++) first[i] = node[i];
        }
        __syncthreads();
    }
    if (threadIdx.x > 0) return;
    u64* hash = args.hashes + args.row * r;
    hash[0] = nodes[0] | (u64)nodes[1] << 32;
    hash[1] = nodes[2] | (u64)nodes[3] << 32;
}
