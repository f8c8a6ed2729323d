// Householder panel of B columns from its top block and a Gram matrix: sequential work that does not grow with the rows.
//
// With P1 the top B x B block, P2 the rows below and G = P2'P2, run for j = 0..B-1 (M starts as the identity):
//   s = sum_{i>j} P1[i,j]^2 + G[j,j]; beta, tau, rho, step as in pack_reflector.cuh;
//   d_c = sum_{i>j} P1[i,j] P1[i,c] + G[j,c]; g_c = step (P1[j,c] + rho d_c) for c > j;
//   R[j,c] = P1[j,c] - g_c (alpha - beta); P1[i,c] -= P1[i,j] g_c (i > j); M[:,c] -= g_c M[:,j];
//   G -= g G[j,:] + G[:,j] g' - g g' G[j,j] on what is left.
// Then V1 = P1 rho below its diagonal and V2 = P2 (M rho). Only what lies below the top block is squared in conditioning.
//
// Parameters: B = 32; NC = 1, or 2: 32 passive columns follow the 32 of the panel and are only transformed; LD row stride of P1, G and
// [R \\ V1]; LDM of M. G has B rows and 32 NC columns. Of a passive column c, R[:,c] and M[:,c] come out: the column is now C + P2 M[:,c].
// Layout: warp w of 4, lane + 32 t = column; x[k] and gram[k] are row 4 k + w. Row j of x turns into row j of M once it has been
// the pivot row, so one array holds both. Everything off the chain dots -> barrier -> scalars -> update runs in its shadow: the
// update of G by step j happens during step j + 1, of which only row j + 1 is needed at once (`row`), and every lane also carries
// the next pivot column at its own rows (xb), found from its old values and its own g. One barrier of 128 threads a column.
// Registers turn by one place after every four columns, so that the pivot row is always number 0: the loop over columns is rolled, and
// its code short (straight-line code is fetched again for every panel when a kernel outgrows the instruction cache). Rows of M are then
// the last ones, x[k] for k >= live.
// Measured on an H200, NC = 1, with 4 warps and straight-line code: 258 cycles a column (1, 2, 8 warps: 763, 303, 400); 64 columns at once: 454.
% local RW = B // 4
// Shared; read and written four floats at a time. Every first index is the column's parity.
struct alignas(16) gram_buffers {
    float part[2][${32 * NC + 4}][4]; // dots by column and warp
    f32x2 pivot[2][${32 * NC + 4}]; // row j of P1 and of G
    float next[2][${B}];    // old column j + 1 of x, in the order of the rows' owners: x[k] of warp w at ${RW} w + k
    float row[2][${B}];     // row j of G in that order
    float g[2][${B}];       // g of step j in that order
};

// Threads 0..127 call. Results in shared memory: m, upper triangular with zeros below, columns scaled by rho (may be gram_in's place); rv, R on and
// above the diagonal and V1 below (may be p1's place); tau. whole: the columns' squares at the panel's start. bare: nothing lies below the
// top block, so that nothing can cancel. steps: columns past these have no reflector. passive: the passive columns are there.
// True, in each of the four warps, when the recursion went well as far as it can tell; the true norms of V have the last word.
QRS_DEV bool gram_recursion(const float *p1, const float *gram_in, const float *whole, gram_buffers *s, float *m, float *rv, float *tau,
                            int steps, bool bare, bool passive)
{
    const int l = lane(), w = warp();
    float x[${RW}][${NC}], gram[${RW}][${NC}], xb[${RW}], old_row[${RW}], old_h[${NC}], old_g[${NC}], row[${NC}];
    float start = gram_in[l * ${LD + 1}], rho_of = 0.0f, squares_of = 0.0f, beta_of = 0.0f;
    #pragma unroll
    for (int t = 0; t < ${NC}; t++) {
        #pragma unroll
        for (int k = 0; k < ${RW}; k++) {
            x[k][t] = t == 0 || passive ? p1[(4 * k + w) * ${LD} + l + 32 * t] : 0.0f;
            gram[k][t] = t == 0 || passive ? gram_in[(4 * k + w) * ${LD} + l + 32 * t] : 0.0f;
        }
        row[t] = gram[0][t];
        old_h[t] = old_g[t] = 0.0f;
    }
    #pragma unroll
    for (int k = 0; k < ${RW}; k++) {
        xb[k] = shfl(x[k][0], 0);
        old_row[k] = 0.0f;
    }
    if (w == 0)
        s->g[1][l] = 0.0f;
    if (w == 0 && l < 2) { // "next" of the last column
        *(f32x4 *)s->part[l][${32 * NC}] = {0.0f, 0.0f, 0.0f, 0.0f};
        s->pivot[l][${32 * NC}] = {0.0f, 0.0f};
    }

    #pragma unroll 1
    for (int jj = 0; jj < ${RW}; jj++) {
        const int live = ${RW} - jj;
        #pragma unroll 1
        for (int jw = 0; jw < 4; jw++) {
            const int j = jj * 4 + jw, b = j & 1;
            const bool own = w == jw;
            #pragma unroll
            for (int t = 0; t < ${NC}; t++) {
                if (t > 0 && !passive)
                    break;
                float sum[4] = {own ? row[t] : 0.0f, 0.0f, 0.0f, 0.0f};
                #pragma unroll
                for (int k = 0; k < ${RW}; k++)
                    sum[k & 3] = fmaf((k == 0 ? w > jw : k < live) ? xb[k] : 0.0f, x[k][t], sum[k & 3]);
                s->part[b][l + 32 * t][w] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
                if (own) {
                    s->pivot[b][l + 32 * t] = {x[0][t], row[t]};
                    if (t == 0)
                        s->row[b][(l & 3) * ${RW} + (((l >> 2) - jj) & ${RW - 1})] = row[t];
                }
            }
            if (l == j + 1) {
                #pragma unroll
                for (int k = 0; k < ${RW}; k += 4)
                    *(f32x4 *)&s->next[b][w * ${RW} + k] = {x[k][0], x[k + 1][0], x[k + 2][0], x[k + 3][0]};
            }
            bar_sync(1, 128);
            // What the chain needs, at once: the compiler would load it as late as it can.
            const f32x4 dj = lds<f32x4>(to_saddr(s->part[b][j]));
            const f32x2 pj = lds<f32x2>(to_saddr(&s->pivot[b][j]));
            const f32x4 dn = lds<f32x4>(to_saddr(s->part[b][j + 1]));
            const f32x2 pn = lds<f32x2>(to_saddr(&s->pivot[b][j + 1]));
            const float dots_n = (dn.x + dn.y) + (dn.z + dn.w);
            const float squares = (dj.x + dj.y) + (dj.z + dj.w);
            const float norm2 = fmaxf(fmaf(pj.x, pj.x, squares), 0x1p-120f);
            const float q = rsqrt_normal(norm2), norm = norm2 * q;
            const float rho0 = rcp_normal(fabsf(pj.x) + norm);
            float dl[${NC}];
            f32x2 pl[${NC}];
            #pragma unroll
            for (int t = 0; t < ${NC}; t++) {
                if (t > 0 && !passive)
                    break;
                const f32x4 d = *(const f32x4 *)s->part[b][l + 32 * t];
                dl[t] = (d.x + d.y) + (d.z + d.w);
                pl[t] = s->pivot[b][l + 32 * t];
            }
            float next[${RW}], last_g[${RW}], this_row[${RW}];
            #pragma unroll
            for (int k = 0; k < ${RW}; k += 4) {
                f32x4 v = *(const f32x4 *)&s->next[b][w * ${RW} + k];
                next[k] = v.x, next[k + 1] = v.y, next[k + 2] = v.z, next[k + 3] = v.w;
                v = *(const f32x4 *)&s->g[b ^ 1][w * ${RW} + k];
                last_g[k] = v.x, last_g[k + 1] = v.y, last_g[k + 2] = v.z, last_g[k + 3] = v.w;
                v = *(const f32x4 *)&s->row[b][w * ${RW} + k];
                this_row[k] = v.x, this_row[k + 1] = v.y, this_row[k + 2] = v.z, this_row[k + 3] = v.w;
            }
            #pragma unroll
            for (int t = 0; t < ${NC}; t++)
                #pragma unroll
                for (int k = 0; k < ${RW}; k++)
                    gram[k][t] = fmaf(-old_row[k], old_g[t], fmaf(-last_g[k], old_h[t], gram[k][t]));

            const bool some = squares > 0.0f;
            // step (p + rho d) = |step| (+-p + |rho| d): signs and the zero are settled while rho is on its way.
            const float size = some ? q : 0.0f;
            const u32 flip = as_u32(pj.x) & 0x80000000u;
            const float gap = copysignf(fabsf(pj.x) + norm, pj.x);
            const float gn = size * fmaf(rho0, dots_n, as_f32(as_u32(pn.x) ^ flip));
            if (own) { // the pivot row leaves P1 and becomes a row of M
                xb[0] = 1.0f;
                next[0] = 0.0f;
            }
            #pragma unroll
            for (int t = 0; t < ${NC}; t++) {
                if (t > 0 && !passive)
                    break;
                const int c = l + 32 * t;
                const float gl = size * fmaf(rho0, dl[t], as_f32(as_u32(pl[t].x) ^ flip)), g = c > j ? gl : 0.0f;
                if (c == j) {
                    rho_of = some ? copysignf(rho0, pj.x) : 0.0f;
                    squares_of = squares;
                    beta_of = some ? copysignf(norm, -pj.x) : pj.x;
                }
                if (own) {
                    x[0][t] = c < j ? x[0][t] : c == j ? 1.0f : 0.0f;
                    if (t == 0)
                        s->g[b][(l & 3) * ${RW} + (((l >> 2) - (jw == 3 ? jj + 1 : jj)) & ${RW - 1})] = g; // read when registers have turned
                    if (c > j && (t == 0 || passive))
                        rv[j * ${LD} + c] = fmaf(-gl, gap, pl[t].x);
                }
                #pragma unroll
                for (int k = 0; k < ${RW}; k++)
                    x[k][t] = fmaf(-g, xb[k], x[k][t]);
                old_h[t] = fmaf(-g, pj.y, pl[t].y);
                old_g[t] = g;
                row[t] = fmaf(-pn.y, g, fmaf(-gn, old_h[t], jw == 3 ? gram[1][t] : gram[0][t]));
            }
            #pragma unroll
            for (int k = 0; k < ${RW}; k++) {
                xb[k] = fmaf(-gn, xb[k], next[k]);
                old_row[k] = this_row[k];
            }
            if (threadIdx.x == 0)
                tau[j] = some ? fmaf(fabsf(pj.x), q, 1.0f) : 0.0f;
        }
        const float xb0 = xb[0], old0 = old_row[0];
        #pragma unroll
        for (int k = 0; k + 1 < ${RW}; k++) {
            xb[k] = xb[k + 1];
            old_row[k] = old_row[k + 1];
        }
        xb[${RW - 1}] = xb0;
        old_row[${RW - 1}] = old0;
        #pragma unroll
        for (int t = 0; t < ${NC}; t++) {
            const float x0 = x[0][t], gram0 = gram[0][t];
            #pragma unroll
            for (int k = 0; k + 1 < ${RW}; k++) {
                x[k][t] = x[k + 1][t];
                gram[k][t] = gram[k + 1][t];
            }
            x[${RW - 1}][t] = x0;
            gram[${RW - 1}][t] = gram0;
        }
    }
    #pragma unroll
    for (int k = 0; k < ${RW}; k++) {
        const int i = 4 * k + w;
        m[i * ${LDM} + l] = i <= l ? x[k][0] * rho_of : 0.0f;
        if (i >= l)
            rv[i * ${LD} + l] = i == l ? beta_of : x[k][0] * rho_of;
% if NC == 2 then
        if (passive)
            m[i * ${LDM} + l + 32] = x[k][1];
% end
    }
    // What cancelled cannot be trusted: a norm far below the column's own, a tail that is negative, tiny, or zero only by
    // cancellation. NaN fails.
    const bool sound = beta_of * beta_of >= 1e-6f * whole[l] && (squares_of == 0.0f ? start == 0.0f : squares_of >= 1e-6f * whole[l]);
    return warp_all(l >= steps || (bare ? squares_of == 0.0f || squares_of >= 0x1p-60f : sound));
}

// The squares of a panel's columns, from its top block and G.
QRS_DEV float gram_square(const float *p1, const float *gram, int rows, int c)
{
    float s = gram[c * ${LD + 1}];
    #pragma unroll 8
    for (int i = 0; i < rows; i++)
        s = fmaf(p1[i * ${LD} + c], p1[i * ${LD} + c], s);
    return s;
}
