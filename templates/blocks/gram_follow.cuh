// Passive columns of a Gram recursion (gram_recursion.cuh): 32 that follow the panel's and are only transformed, by four warps of their own, some
// columns behind, so that the chain need not wait for them. Of a passive column c, R[:,c] and M[:,c] come out: the column is now C + P2 M[:,c].
//
// Parameters: B = 32; LD row stride of P1, G, R and M.
% local RW = B // 4
% local PIVOT, SIZE = B * 16, B * 24
% local ROW, G, VECTORS = 4 * B, 8 * B, 12 * B
struct alignas(16) gram_follow_buffer { // one for each parity of the column
    float part[${B}][4]; // dots by column and warp
    f32x2 pivot[${B}];   // row j of the column's top and of G
};
static_assert(sizeof(gram_follow_buffer) == ${SIZE}, "offsets below");

// Threads 128..255 call while 0..127 are in gram_recursion, whose s, kept, ready and steps these are. first: column 0 of P1; p1, gram_in: the passive columns' top and Gram
// matrix with the panel's; m, rv: their M and R (may be gram_in's and p1's places).
QRS_CALL void gram_follow(const float *first, const float *p1, const float *gram_in, const gram_buffers *s, const gram_vectors *kept, saddr ready,
                          gram_follow_buffer *mine, float *m, float *rv, int steps)
{
    const int c = lane(), w = warp() & 3;
    const saddr base = to_saddr(mine), my_part = base + c * 16, my_pivot = base + ${PIVOT} + c * 8, rows = to_saddr(kept) + w * ${4 * RW};
    const saddr rv_at = to_saddr(rv) + c * 4, scalars = to_saddr(s->scalars), links = to_saddr(s->links);
    float x[${RW}], gram[${RW}], xb[${RW}], old_row[${RW}], old_h = 0.0f, old_g = 0.0f;
    #pragma unroll
    for (int k = 0; k < ${RW}; k++) {
        x[k] = p1[(4 * k + w) * ${LD} + c];
        gram[k] = gram_in[(4 * k + w) * ${LD} + c];
        xb[k] = first[(4 * k + w) * ${LD}];
        old_row[k] = 0.0f;
    }
    float row = gram[0];
    bar_sync(4, 256);
    #pragma unroll
    for (int jj = 0; jj < ${RW} && 4 * jj < steps; jj++) {
        const int top = jj, ahead = top + 1 < ${RW} ? top + 1 : top;
        mbar_wait(ready + 8 * jj, 0);
        #pragma unroll 1
        for (int jw = 0; jw < 4; jw++) {
            const int j = jj * 4 + jw;
            const saddr side = (jw & 1) * ${SIZE}, now = (j + 1) * ${VECTORS}, before = j * ${VECTORS};
            const bool own = w == jw;
            float sum[2] = {own ? row : 0.0f, (w > jw ? xb[top] : 0.0f) * x[top]};
            #pragma unroll
            for (int k = top + 1; k < ${RW}; k++)
                sum[(k - top) & 1] = fmaf(xb[k], x[k], sum[(k - top) & 1]);
            sts(my_part + side + w * 4, sum[0] + sum[1]);
            if (own)
                sts(my_pivot + side, f32x2{x[top], row});
            float next[${RW}], last_g[${RW}], this_row[${RW}];
            #pragma unroll
            for (int k = 0; k < ${RW}; k += 4) {
                f32x4 v = lds<f32x4>(rows + now + 4 * k);
                next[k] = v.x, next[k + 1] = v.y, next[k + 2] = v.z, next[k + 3] = v.w;
                if (k + 3 >= top) {
                    v = lds<f32x4>(rows + before + ${G} + 4 * k);
                    last_g[k] = v.x, last_g[k + 1] = v.y, last_g[k + 2] = v.z, last_g[k + 3] = v.w;
                    v = lds<f32x4>(rows + now + ${ROW} + 4 * k);
                    this_row[k] = v.x, this_row[k + 1] = v.y, this_row[k + 2] = v.z, this_row[k + 3] = v.w;
                }
            }
            const f32x4 of = lds<f32x4>(scalars + j * 16), link = lds<f32x4>(links + j * 16); // as gram_recursion left them
            #pragma unroll
            for (int k = top; k < ${RW}; k++) {
                gram[k] = fmaf(-old_row[k], old_g, fmaf(-last_g[k], old_h, gram[k]));
                old_row[k] = this_row[k];
            }
            bar_sync(5, 128);
            const f32x4 dc = lds<f32x4>(my_part + side);
            const f32x2 pc = lds<f32x2>(my_pivot + side);
            const float norm = fmaxf(fmaf(of.x, of.x, of.y), 0x1p-120f) * of.z, size = of.y > 0.0f ? of.z : 0.0f;
            const float gap = copysignf(fabsf(of.x) + norm, of.x), gn = link.x;
            const float g = size * fmaf(of.w, (dc.x + dc.y) + (dc.z + dc.w), as_f32(as_u32(pc.x) ^ (as_u32(of.x) & 0x80000000u)));
            xb[top] = own ? 1.0f : xb[top];
            next[top] = own ? 0.0f : next[top];
            #pragma unroll
            for (int k = ${RW - 1}; k >= 0; k--) {
                x[k] = fmaf(-g, xb[k], k == top && own ? 0.0f : x[k]);
                xb[k] = fmaf(-gn, xb[k], next[k]);
            }
            old_h = fmaf(-g, link.y, pc.y);
            old_g = g;
            row = fmaf(-link.z, g, fmaf(-gn, old_h, jw == 3 ? gram[ahead] : gram[top]));
            if (own)
                sts(rv_at + j * ${4 * LD}, fmaf(-g, gap, pc.x));
        }
    }
    #pragma unroll
    for (int k = 0; k < ${RW}; k++)
        m[(4 * k + w) * ${LD} + c] = x[k];
}
