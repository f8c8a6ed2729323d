// First launch of family blocked: A in its layout becomes the working matrix H in its own, each column multiplied by the power of two that
// brings its largest finite magnitude to [1, 2). A CTA of 256 threads takes 32 columns of one matrix; in place is safe, since it reads
// and writes the same columns, tile by tile.
//
// Parameters: M, N; ROW_IN, ROW_OUT: layouts; STATS: whether to record which columns are concentrated (for the choice of products).
// Writes exponents [batch][N], concentrated [batch][N] (1: few rows carry the column's weight), sets bit 1 of flags [batch] on NaN or Inf.
QRS_KERNEL(prologue, 256, 0)
(const float *a_all, i64 lda, i64 stride_a, float *h_all, i64 ldh, i64 stride_h, int *exponents, int *concentrated, int *flags) {
    constexpr int M = ${M}, N = ${N}, TILES = (N + 31) / 32;
    u8 *smem = dynamic_smem();
    float *tile = reinterpret_cast<float *>(smem);                 // [32][33]
    float *first = tile + 32 * 33, *second = first + 32;           // [32] each: the scale in two factors
    float *l1 = second + 32, *l2 = l1 + 32;
    const int t = threadIdx.x, c_tile = (blockIdx.x % TILES) * 32;
    const i64 matrix = blockIdx.x / TILES;
    const float *a = a_all + matrix * stride_a;
    float *h = h_all + matrix * stride_h;
    // Entry k of this thread in a 32 x 32 tile, consecutive threads along the layout's contiguous direction.
% local function place(layout) return layout == "row" and "const int r = (t >> 5) + 8 * k, c = t & 31;" or "const int r = t & 31, c = (t >> 5) + 8 * k;" end
    float largest[4] = {0.f, 0.f, 0.f, 0.f};
    bool finite = true;
    for (int r0 = 0; r0 < M; r0 += 32) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            ${place(shape.layout_in)}
            if (r0 + r < M && c_tile + c < N) {
                const float x = fabsf(a[${shape.layout_in == "row" and "(i64)(r0 + r) * lda + c_tile + c" or "(i64)(c_tile + c) * lda + r0 + r"}]);
                if (is_finite(x)) largest[k] = fmaxf(largest[k], x);
                else finite = false;
            }
        }
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        ${place(shape.layout_in)}
        tile[r * 33 + c] = largest[k];
    }
    if (block_any(!finite) && t == 0) atomic_or(flags + matrix, 1);
    if (t < 32) {
        float x = 0.f;
        for (int r = 0; r < 32; r++) x = fmaxf(x, tile[r * 33 + t]);
        const int e = x > 0.f ? pow2_exponent(x) : 0;
        // 2^149 is no float: two factors. The second is 1 but for subnormal columns.
        const int f = -e > 127 ? 127 : -e;
        first[t] = scale_pow2(1.f, f);
        second[t] = scale_pow2(1.f, -e - f);
        if (c_tile + t < N) exponents[matrix * N + c_tile + t] = e;
        l1[t] = l2[t] = 0.f;
    }
    block_sync();
    for (int r0 = 0; r0 < M; r0 += 32) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            ${place(shape.layout_in)}
            float x = 0.f;
            if (r0 + r < M && c_tile + c < N)
                x = a[${shape.layout_in == "row" and "(i64)(r0 + r) * lda + c_tile + c" or "(i64)(c_tile + c) * lda + r0 + r"}] * first[c] * second[c];
            tile[r * 33 + c] = x;
        }
        block_sync();
#pragma unroll
        for (int k = 0; k < 4; k++) {
            ${place(shape.layout_out)}
            if (r0 + r < M && c_tile + c < N)
                h[${shape.layout_out == "row" and "(i64)(r0 + r) * ldh + c_tile + c" or "(i64)(c_tile + c) * ldh + r0 + r"}] = tile[r * 33 + c];
        }
% if STATS then
        if (t < 32) {
            float s1 = l1[t], s2 = l2[t];
            for (int r = 0; r < 32; r++) {
                const float x = tile[r * 33 + t];
                s1 += fabsf(x);
                s2 = fmaf(x, x, s2);
            }
            l1[t] = s1, l2[t] = s2;
        }
% end
        block_sync();
    }
% if STATS then
    // ||a||_1 / (sqrt(m) ||a||_2) is 0.80 for normal entries, 0.34 and 0.20 for graded rows and bands. Zero columns need nothing.
    if (t < 32 && c_tile + t < N) concentrated[matrix * N + c_tile + t] = !(l1[t] * l1[t] >= ${0.36 * M} * l2[t]);
% end
}
QRS_ENTRY(prologue)
