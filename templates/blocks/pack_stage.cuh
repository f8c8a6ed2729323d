// Moves a contiguous run of whole matrices between global memory and a tile in shared memory.
//
// Parameters: M, N rows and columns; LD, MS strides of the tile in floats (row, matrix: entry (i, c) of matrix b is at
// b MS + i LD + c); THREADS of the block; IN, OUT layouts ("row" | "col").
// All threads of the block call; the caller synchronises. Needs no shared memory of its own.
// Fast path: 16-byte accesses, where the addresses allow (a minor extent that is a multiple of 4 with aligned strides, or
// matrices that follow one another without gaps). Anything else moves entry by entry, still in address order.
template <bool COL> struct pack_order {
    static constexpr int MINOR = COL ? ${M} : ${N};
    static constexpr int SIZE = ${M * N};

    // Where entry e (counted in storage order over the run of matrices) lies in the tile.
    QRS_DEV static int tile(int e)
    {
        int b = e / SIZE, r = e - b * SIZE, major = r / MINOR, minor = r - major * MINOR;
        return b * ${MS} + (COL ? minor * ${LD} + major : major * ${LD} + minor);
    }
    QRS_DEV static i64 global(int e, i64 ld, i64 stride)
    {
        int b = e / SIZE, r = e - b * SIZE, major = r / MINOR, minor = r - major * MINOR;
        return b * stride + major * ld + minor;
    }
    QRS_DEV static bool dense(i64 ld, i64 stride) { return (ld == MINOR || SIZE == MINOR) && stride == SIZE; }
    QRS_DEV static bool wide(const float *a, i64 ld, i64 stride)
    {
        bool pitch = MINOR % 4 == 0 ? ((ld | stride) & 3) == 0 : dense(ld, stride);
        return pitch && ((u64)a & 15) == 0;
    }
};

// a: first matrix of the run; count matrices of it exist, the tile's others stay as they are.
QRS_DEV void pack_load(float *tile, const float *a, i64 ld, i64 stride, int count)
{
    using order = pack_order<${IN == "col" and "true" or "false"}>;
    const int total = count * order::SIZE;
    int done = 0;
    if (order::wide(a, ld, stride)) {
        done = total & ~3;
        #pragma unroll 4
        for (int e = 4 * (int)threadIdx.x; e < done; e += ${4 * THREADS}) {
            i64 at = order::MINOR % 4 == 0 ? order::global(e, ld, stride) : (i64)e;
            f32x4 v = *(const f32x4 *)(a + at);
            tile[order::tile(e)] = v.x;
            tile[order::tile(e + 1)] = v.y;
            tile[order::tile(e + 2)] = v.z;
            tile[order::tile(e + 3)] = v.w;
        }
    }
    #pragma unroll 4
    for (int e = done + (int)threadIdx.x; e < total; e += ${THREADS})
        tile[order::tile(e)] = a[order::global(e, ld, stride)];
}

QRS_DEV void pack_store(float *h, i64 ld, i64 stride, const float *tile, int count)
{
    using order = pack_order<${OUT == "col" and "true" or "false"}>;
    const int total = count * order::SIZE;
    int done = 0;
    if (order::wide(h, ld, stride)) {
        done = total & ~3;
        #pragma unroll 4
        for (int e = 4 * (int)threadIdx.x; e < done; e += ${4 * THREADS}) {
            i64 at = order::MINOR % 4 == 0 ? order::global(e, ld, stride) : (i64)e;
            f32x4 v;
            v.x = tile[order::tile(e)];
            v.y = tile[order::tile(e + 1)];
            v.z = tile[order::tile(e + 2)];
            v.w = tile[order::tile(e + 3)];
            *(f32x4 *)(h + at) = v;
        }
    }
    #pragma unroll 4
    for (int e = done + (int)threadIdx.x; e < total; e += ${THREADS})
        h[order::global(e, ld, stride)] = tile[order::tile(e)];
}
