// Householder panel of B columns from its top block and a Gram matrix: sequential work that does not grow with the rows.
//
// With P1 the top B x B block, P2 the rows below and G = P2'P2, run for j = 0..B-1 (M starts as the identity):
//   s = sum_{i>j} P1[i,j]^2 + G[j,j]; beta, tau, rho, step as in pack_reflector.cuh;
//   d_c = sum_{i>j} P1[i,j] P1[i,c] + G[j,c]; g_c = step (P1[j,c] + rho d_c) for c > j;
//   R[j,c] = P1[j,c] - g_c (alpha - beta); P1[i,c] -= P1[i,j] g_c (i > j); M[:,c] -= g_c M[:,j];
//   G -= g G[j,:] + G[:,j] g' - g g' G[j,j] on what is left.
// Then V1 = P1 rho below its diagonal and V2 = P2 (M rho). Only what lies below the top block is squared in conditioning.
//
// Parameters: B = 32; ROLLED; NC = 1, or 2: 32 passive columns follow the 32 of the panel and are only transformed; LD row stride of P1, G and
// [R \\ V1]; LDM of M. G has B rows and 32 NC columns. Of a passive column c, R[:,c] and M[:,c] come out: the column is now C + P2 M[:,c].
// Layout: lane = column, warps 4.. hold the passive ones; x[k] and gram[k] are row 4 k + (warp & 3). Row j of x turns into row j of M once it
// has been the pivot row, so one array holds both. Everything off the chain dots -> barrier -> scalars -> update runs in its shadow: the
// update of G by step j happens during step j + 1, of which only row j + 1 is needed at once (`row`), and every lane also carries
// the next pivot column at its own rows (xb), found from its old values and its own g. One barrier a column.
// Columns go by fours. With a body for each four what is left of x and gram has fixed registers, and shrinks; inside, the four are a rolled
// loop. ROLLED: one body for all, for kernels that outgrow the instruction cache (128 KB; what it does not keep is fetched again for every
// panel): registers turn by one place after every four columns, so that the pivot row is always number 0, and xd is xb but for zeros where
// rows have become M's. 12 KB less code, 40 cycles a column more.
// A call, not inlined: scheduled under the registers of a kernel that has none to spare a column takes 310 cycles instead of 270.
// Measured on an H200, NC = 1, with 4 warps and straight-line code: 258 cycles a column (1, 2, 8 warps: 763, 303, 400); 64 columns at once: 454.
% local RW = B // 4
% local PIVOT, NEXT = (32 * NC + 4) * 16, (32 * NC + 4) * 24
% local ROW, G, SIZE = NEXT + 4 * B, NEXT + 8 * B, NEXT + (NC == 2 and 20 or 12) * B
% local SPARE = 8 * B
% local SCALARS = 2 * SIZE
// Shared; read and written four floats at a time. One for each parity of the column.
struct alignas(16) gram_buffer {
    float part[${32 * NC + 4}][4]; // dots by column and warp
    f32x2 pivot[${32 * NC + 4}];   // row j of P1 and of G
    float next[${B}];              // old column j + 1 of x, in the order of the rows' owners: x[k] of warp w at ${RW} w + k
    float row[${B}];               // row j of G in that order
    float g[${B}];                 // g of step j in that order
% if NC == 2 then
    float spare[${2 * B}];         // what the passive columns would write to the two
% end
};
struct gram_buffers {
    gram_buffer side[2];
    f32x4 scalars[${B}]; // pivot entry, square sum of its tail, 1 / norm, |rho|
};
static_assert(sizeof(gram_buffers) == ${SCALARS + 16 * B}, "offsets below");

// Threads 0..127 call${NC == 2 and ", with passive columns 0..255" or ""}. Results in shared memory: m, upper triangular with zeros below, columns scaled by rho (may be gram_in's place); rv, R on and
// above the diagonal and V1 below (may be p1's place); tau. whole: ${NC == 1 and "room for 128 floats" or "the columns' squares at the panel's start"}. bare: nothing lies below the
// top block, so that nothing can cancel. steps: columns past these have no reflector${NC == 1 and "; they go no further than that, and leave rows past `steps` of R as they were" or ""}.
// True, in each warp of the active columns (and in the others), when the recursion went well as far as it can tell; the true norms of V have the last word.
QRS_CALL bool gram_recursion(const float *p1, const float *gram_in, ${NC == 2 and "const " or ""}float *whole, gram_buffers *s, float *m, float *rv, float *tau,
                            int steps, bool bare, int threads)
{
    const int l = lane(), w = warp() & 3, c = (int)threadIdx.x >> 7 << 5 | l;
    const bool active = ${NC == 1 and "true" or "c < 32"};
    // Addresses by hand: 32 bits, and the loop adds to them no more than the parity of the column.
    const saddr base = to_saddr(s), my_part = base + c * 16, my_share = my_part + w * 4, my_pivot = base + ${PIVOT} + c * 8;
    const saddr rows = base + w * ${4 * RW}, owner = base + (l & 3) * ${4 * RW}${NC == 2 and " + (active ? 0 : " .. SPARE .. ")" or ""};
    const saddr rv_at = to_saddr(rv) + c * 4;
    float x[${RW}], gram[${RW}], xb[${RW}], old_row[${RW}], old_h = 0.0f, old_g = 0.0f;
    #pragma unroll
    for (int k = 0; k < ${RW}; k++) {
        x[k] = p1[(4 * k + w) * ${LD} + c];
        gram[k] = gram_in[(4 * k + w) * ${LD} + c];
        xb[k] = p1[(4 * k + w) * ${LD}];
        old_row[k] = 0.0f;
    }
    float row = gram[0];
    const float start = active ? gram_in[l * ${LD + 1}] : 0.0f;
    if (threadIdx.x < 32)
        s->side[1].g[l] = 0.0f;
% if NC == 1 then
    float square = w == 0 ? start : 0.0f; // this warp's share of the columns' squares at the panel's start
    #pragma unroll
    for (int k = 0; k < ${RW}; k++)
        square = fmaf(x[k], x[k], square);
    whole[threadIdx.x] = square;
    if (threadIdx.x < 32 && l >= steps)
        s->scalars[l] = {0.0f, 0.0f, 0.0f, 0.0f};
% end
    if (threadIdx.x < 2) { // "next" of the last column
        *(f32x4 *)s->side[l].part[${32 * NC}] = {0.0f, 0.0f, 0.0f, 0.0f};
        s->side[l].pivot[${32 * NC}] = {0.0f, 0.0f};
    }

% if ROLLED then
    float live[${RW}], xd[${RW}]; // live: 1 for rows of P1, 0 for those that have become M's
    #pragma unroll
    for (int k = 0; k < ${RW}; k++) {
        live[k] = 1.0f;
        xd[k] = xb[k];
    }
% end
    #pragma unroll${ROLLED and " 1" or ""}
    for (int jj = 0; jj < ${RW}${NC == 1 and not ROLLED and " && 4 * jj < steps" or ""}; jj++) {
        const int top = ${ROLLED and "0" or "jj"}, ahead = top + 1 < ${RW} ? top + 1 : top;
        // Where its owner finds a lane's row, and will find it when registers have turned.
        const saddr owner_now = owner + ((l >> 2) - jj + top & ${RW - 1}) * 4;
        const saddr owner_then = ${ROLLED and "owner + ((l >> 2) - jj - 1 & " .. RW - 1 .. ") * 4" or "owner_now"};
        #pragma unroll 1
        for (int jw = 0; jw < 4${NC == 1 and ROLLED and " && 4 * jj < steps" or ""}; jw++) {
            const int j = jj * 4 + jw;
            const saddr side = (jw & 1) * ${SIZE}, pivot = my_pivot + side, rows_now = rows + side;
            const saddr dots = base + side + j * 16, pivots = base + side + ${PIVOT} + j * 8;
            const bool own = w == jw;
            {
                float sum[2] = {own ? row : 0.0f, (w > jw ? xb[top] : 0.0f) * x[top]};
                #pragma unroll
                for (int k = top + 1; k < ${RW}; k++)
                    sum[(k - top) & 1] = fmaf(${ROLLED and "xd" or "xb"}[k], x[k], sum[(k - top) & 1]);
                sts(my_share + side, sum[0] + sum[1]);
                if (own) {
                    sts(pivot, f32x2{x[top], row});
                    sts(owner_now + side + ${ROW}, row);
                }
                if (c == j + 1) {
                    #pragma unroll
                    for (int k = 0; k < ${RW}; k += 4)
                        sts(rows_now + ${NEXT} + 4 * k, f32x4{x[k], x[k + 1], x[k + 2], x[k + 3]});
                }
            }
            bar_sync(1, threads);
            const f32x4 dj = lds<f32x4>(dots);
            const f32x2 pj = lds<f32x2>(pivots);
            const f32x4 dn = lds<f32x4>(dots + 16);
            const f32x2 pn = lds<f32x2>(pivots + 8);
            const f32x4 dc = lds<f32x4>(my_part + side);
            const f32x2 pc = lds<f32x2>(pivot);
            float next[${RW}], last_g[${RW}], this_row[${RW}];
            #pragma unroll
            for (int k = 0; k < ${RW}; k += 4) {
                f32x4 v = lds<f32x4>(rows_now + ${NEXT} + 4 * k);
                next[k] = v.x, next[k + 1] = v.y, next[k + 2] = v.z, next[k + 3] = v.w;
                if (k + 3 >= top) {
                    v = lds<f32x4>(rows + ${SIZE} - side + ${G} + 4 * k);
                    last_g[k] = v.x, last_g[k + 1] = v.y, last_g[k + 2] = v.z, last_g[k + 3] = v.w;
                    v = lds<f32x4>(rows_now + ${ROW} + 4 * k);
                    this_row[k] = v.x, this_row[k + 1] = v.y, this_row[k + 2] = v.z, this_row[k + 3] = v.w;
                }
            }
            const float squares = (dj.x + dj.y) + (dj.z + dj.w);
            const float norm2 = fmaxf(fmaf(pj.x, pj.x, squares), 0x1p-120f);
            const float q = rsqrt_normal(norm2), norm = norm2 * q;
            const float rho0 = rcp_normal(fabsf(pj.x) + norm);
            const float dots_n = (dn.x + dn.y) + (dn.z + dn.w), dots_c = (dc.x + dc.y) + (dc.z + dc.w);
            #pragma unroll
            for (int k = top; k < ${RW}; k++) {
                gram[k] = fmaf(-old_row[k], old_g, fmaf(-last_g[k], old_h, gram[k]));
                old_row[k] = this_row[k];
            }

            const bool some = squares > 0.0f;
            // step (p + rho d) = |step| (+-p + |rho| d): signs and the zero are settled while rho is on its way.
            const float size = some ? q : 0.0f;
            const u32 flip = as_u32(pj.x) & 0x80000000u;
            const float gap = copysignf(fabsf(pj.x) + norm, pj.x);
            const float gn = size * fmaf(rho0, dots_n, as_f32(as_u32(pn.x) ^ flip));
            const float gc = size * fmaf(rho0, dots_c, as_f32(as_u32(pc.x) ^ flip)), g = c > j ? gc : 0.0f;
            // The pivot row leaves P1 and becomes a row of M, where it is zero but for the one on the diagonal.
            xb[top] = own ? 1.0f : xb[top];
            next[top] = own ? 0.0f : next[top];
            #pragma unroll
            for (int k = ${RW - 1}; k >= 0; k--) {
                x[k] = fmaf(-g, xb[k], k == top && own && c > j ? 0.0f : x[k]);
                xb[k] = fmaf(-gn, xb[k], next[k]);
% if ROLLED then
                xd[k] = live[k] * xb[k];
% end
            }
            old_h = fmaf(-g, pj.y, pc.y);
            old_g = g;
            row = fmaf(-pn.y, g, fmaf(-gn, old_h, jw == 3 ? gram[ahead] : gram[top]));
            if (own) {
                sts((jw == 3 ? owner_then : owner_now) + side + ${G}, g);
                sts(rv_at + j * ${4 * LD}, fmaf(-gc, gap, pc.x)); // what is on and below the diagonal is written at the end
                sts_if(c == 0, base + ${SCALARS} + j * 16, f32x4{pj.x, squares, q, rho0});
            }
        }
% if ROLLED then
        const float x0 = x[0], gram0 = gram[0], xb0 = xb[0], old0 = old_row[0];
        #pragma unroll
        for (int k = 0; k + 1 < ${RW}; k++)
            x[k] = x[k + 1], gram[k] = gram[k + 1], xb[k] = xb[k + 1], xd[k] = xd[k + 1], old_row[k] = old_row[k + 1], live[k] = live[k + 1];
        x[${RW - 1}] = x0, gram[${RW - 1}] = gram0, xb[${RW - 1}] = xb0, old_row[${RW - 1}] = old0, live[${RW - 1}] = xd[${RW - 1}] = 0.0f;
% end
    }
    bar_sync(1, threads);
    const f32x4 scalars = lds<f32x4>(base + ${SCALARS} + l * 16);
    const bool some = scalars.y > 0.0f;
    const float norm = fmaxf(fmaf(scalars.x, scalars.x, scalars.y), 0x1p-120f) * scalars.z;
    const float rho_of = some ? copysignf(scalars.w, scalars.x) : 0.0f, squares_of = scalars.y;
    const float beta_of = some ? copysignf(norm, -scalars.x) : scalars.x;
    if (threadIdx.x < 32)
        tau[l] = some ? fmaf(fabsf(scalars.x), scalars.z, 1.0f) : 0.0f;
    #pragma unroll
    for (int k = 0; k < ${RW}; k++) {
        const int i = 4 * k + w;
        m[i * ${LDM} + c] = !active ? x[k] : i < c ? x[k] * rho_of : i == c ? rho_of : 0.0f;
        if (i >= c)
            rv[i * ${LD} + c] = i == c ? beta_of : x[k] * rho_of;
    }
    // What cancelled cannot be trusted: a norm far below the column's own, a tail that is negative, tiny, or zero only by
    // cancellation. NaN fails.
    const float whole_of = ${NC == 1 and "(whole[l] + whole[32 + l]) + (whole[64 + l] + whole[96 + l])" or "whole[l]"};
    const bool sound = beta_of * beta_of >= 1e-6f * whole_of && (squares_of == 0.0f ? start == 0.0f : squares_of >= 1e-6f * whole_of);
    return warp_all(!active || l >= steps || (bare ? squares_of == 0.0f || squares_of >= 0x1p-60f : sound));
}
