// A panel of B columns from its whole Gram matrix, for panels much taller than wide: no sums over rows, so a column costs little more than its scalars.
//
// With X the top block (B x B) and G = P'P of all rows, for j = 0..B-1 (Householder reconstruction: Ballard, Demmel, Grigori, Jacquelin, Nguyen,
// Solomonik 2014, with M taken along by Gauss-Jordan steps):
//   r = G[j,:] / sqrt(G[j,j]); G -= r'r;
//   s = -sign(X[j,j]); R[j,:] = s r; n = X[j,:] - R[j,:], zero before column j; tau = |n[j]| / r[j];
//   X[i,:] -= (X[i,j] / n[j]) n and X[i,j] -> X[i,j] / n[j] for i /= j; X[j,:] = -n / n[j], X[j,j] = 1 / n[j].
// Then X holds V's top block below its diagonal, and on and above it M, the inverse of the matrix of all n: V2 = P2 M. All of P's conditioning is
// squared, where the recursion squares that of the rows below only: with 2 B rows and more a random panel loses 10 eps, with B thousands.
// A zero column gets no reflector (r = 0, 1 / n[j] taken as 0). After it only zero columns may come: another one's G would lack row j.
//
// Eight columns at a time. With J their numbers, D = X[J,J] and N the rows n of J:
//   D + S R[J,J] = L U by rows, each sign when its row is reached; N = L^-1 (X[J,:] + S R[J,:]), S = diag(sign); E = X[i,J] U^-1 for rows i outside J,
//   E = U^-1 for the rows J; X -= E N, the rows J from zero; then E is final in columns J (V below, M above), and L is V's within J.
// Each warp factors the 8 x 8 blocks for itself, which is sooner than to be told. Products are tensor cores': three of TF32 (gram_small.cuh).
//
// Parameters: B = 32 or 64; LD: row stride of X, G and R; LDM: of M; LEAST: share of a column's square that must be left of it.
// Layout: half of the warps hold G and run a block of columns ahead, the others hold X. A warp has 16 rows of it as accumulators: of tile n of 8 columns
// y[n] is (row g, columns 2 q, 2 q + 1), (row g + 8, the same). An 8 x 8 block lies in a warp likewise, and so can be an operand at once if k = 2 q, 2 q + 1
// count as q, q + 4 on both sides (t_corner.cuh). The rows of R and N come out transposed, as accumulators of a row a column, which are operands too.
% local NB, W, T = B // 8, B // 16, 2 * B
struct gram_pivots { // what everybody needs of a block
    float g[8][${B + 4}], x[8][${B + 4}]; // its rows of G and of X: what is left of them
    float l[${B}][8];                // its columns of X
    float r[8][8];                 // R's diagonal block, upper half
};

struct gram_left { // operands of a product
    u32 hi[4], lo[4];
};
struct gram_right {
    u32 hi[2], lo[2];
};
QRS_DEV void gram_operand(gram_left &a, float v0, float v1, float v2, float v3)
{
    gram_split(v0, a.hi[0], a.lo[0]);
    gram_split(v1, a.hi[1], a.lo[1]);
    gram_split(v2, a.hi[2], a.lo[2]);
    gram_split(v3, a.hi[3], a.lo[3]);
}
QRS_DEV void gram_operand(gram_right &b, float v0, float v1)
{
    gram_split(v0, b.hi[0], b.lo[0]);
    gram_split(v1, b.hi[1], b.lo[1]);
}
QRS_DEV void gram_multiply(float (&d)[4], const gram_left &a, const gram_right &b)
{
    mma_tf32(d, a.hi, b.lo[0], b.lo[1]);
    mma_tf32(d, a.lo, b.hi[0], b.hi[1]);
    mma_tf32(d, a.hi, b.hi[0], b.hi[1]);
}

// Columns 16 i .. 16 i + 15 of a block's rows, transposed: 0 where finished. from: the block's first row.
QRS_DEV void gram_columns(float (&v)[4], const float *from, int stride, int i, int block)
{
    const float *at = from + ((int)lane() & 3) * 2 * stride + 16 * i + ((int)lane() >> 2);
    #pragma unroll
    for (int e = 0; e < 4; e++)
        v[e] = 2 * i + (e & 1) > block ? at[(e >> 1) * stride + 8 * (e & 1)] : 0.0f;
}

// Rows of a block that this warp has to others.
QRS_DEV void gram_give_rows(const float (&y)[${NB}][4], float (*to)[${B + 4}], int block, int w)
{
    const int g = (int)lane() >> 2, q = (int)lane() & 3;
    const bool odd = block & 1;
    if (w != block >> 1)
        return;
    #pragma unroll
    for (int n = 0; n < ${NB}; n++)
        *(f32x2 *)(to[g] + 8 * n + 2 * q) = {odd ? y[n][2] : y[n][0], odd ? y[n][3] : y[n][1]};
}
QRS_DEV void gram_give_columns(const float (&y)[${NB}][4], float (*to)[8], int block, int w)
{
    const int g = (int)lane() >> 2, q = (int)lane() & 3;
    #pragma unroll
    for (int n = 0; n < ${NB}; n++)
        if (n == block) {
            *(f32x2 *)(to[16 * w + g] + 2 * q) = {y[n][0], y[n][1]};
            *(f32x2 *)(to[16 * w + 8 + g] + 2 * q) = {y[n][2], y[n][3]};
        }
}

// Half HALF of y less rows times columns; a: -rows; from: the block's rows, whose columns are found by b, and with plus another matrix's times s.
template <int HALF, bool SIGNED>
QRS_DEV void gram_take(float (&y)[${NB}][4], const gram_left &a, const gram_right &b, const float *from, const float *plus, float s0, float s1, int block)
{
    float columns[${NB // 4}][4];
    #pragma unroll
    for (int i = 0; i < ${NB // 4}; i++) {
        float v[4], r[4];
        gram_left u;
        gram_columns(v, from, ${B + 4}, HALF * ${NB // 4} + i, block);
        if (SIGNED) {
            gram_columns(r, plus, ${LD}, HALF * ${NB // 4} + i, block);
            #pragma unroll
            for (int e = 0; e < 4; e++)
                v[e] = fmaf(e < 2 ? s0 : s1, r[e], v[e]);
        }
        gram_operand(u, v[0], v[1], v[2], v[3]);
        #pragma unroll
        for (int e = 0; e < 4; e++)
            columns[i][e] = 0.0f;
        gram_multiply(columns[i], u, b);
    }
    #pragma unroll
    for (int n = 0; n < ${NB // 2}; n++) {
        gram_right u;
        gram_operand(u, columns[n / 2][2 * (n & 1)], columns[n / 2][2 * (n & 1) + 1]);
        gram_multiply(y[HALF * ${NB // 2} + n], a, u);
    }
}

// A block's Cholesky steps on G by warp w of those that hold it.
QRS_DEV void gram_cholesky(float (&y)[${NB}][4], gram_pivots &p, float *rv, int block, int w)
{
    const int j = 8 * block, g = (int)lane() >> 2, q = (int)lane() & 3;
    if (2 * w + 1 < block) // finished
        return;
    const f32x2 own = *(const f32x2 *)(p.g[g] + j + 2 * q);
    float d[2] = {own.x, own.y}, z[2] = {g == 2 * q ? 1.0f : 0.0f, g == 2 * q + 1 ? 1.0f : 0.0f}, scale = 0.0f; // the block; L^-1, both less 1 / sqrt(pivot) a row
    // Rows 2 t and 2 t + 1, the second pivot by way of their determinant: the roots need not wait for each other. at: where the first pivot is; mine: where a
    // row's entries of the two columns are; row: where a column's entries of the first row are; below: how far this row is.
    #pragma unroll 1
    for (int at = 0, mine = 4 * g, row = q, below = g; at < 36; at += 9, mine++, row += 8, below -= 2) {
        const float p00 = shfl(d[0], at), p01 = shfl(d[1], at), p11 = shfl(d[1], at + 4), c0 = shfl(d[0], mine), c1 = shfl(d[1], mine);
        const float det = fmaf(p00, p11, -p01 * p01), root0 = p00 == 0.0f ? 0.0f : rsqrt_normal(p00),
                    root1 = det == 0.0f ? 0.0f : rsqrt_normal(det) * (p00 * root0), w0 = root0 * root0, low = p01 * w0;
        const float f0 = below > 0 ? c0 * w0 : 0.0f, f1 = below > 1 ? fmaf(-f0, p01, c1) * (root1 * root1) : 0.0f;
        #pragma unroll
        for (int x = 0; x < 2; x++) {
            const float d0 = shfl(d[x], row), d1 = shfl(d[x], row + 4), z0 = shfl(z[x], row), z1 = shfl(z[x], row + 4);
            d[x] = fmaf(-f1, fmaf(-low, d0, d1), fmaf(-f0, d0, d[x]));
            z[x] = fmaf(-f1, fmaf(-low, z0, z1), fmaf(-f0, z0, z[x]));
        }
        scale = below == 0 ? root0 : below == 1 ? root1 : scale;
    }
    if (w == ${W - 1})
        *(f32x2 *)(p.r[g] + 2 * q) = {scale * d[0], scale * d[1]};
    gram_right b;
    gram_operand(b, scale * z[0], scale * z[1]);
    gram_left a;
    float rows[4] = {0.0f, 0.0f, 0.0f, 0.0f}, v[4];
    gram_columns(v, p.g[0], ${B + 4}, w, block);
    gram_operand(a, v[0], v[1], v[2], v[3]);
    gram_multiply(rows, a, b);
    #pragma unroll
    for (int e = 0; e < 4; e++)
        if (2 * w + (e >> 1) > block)
            rv[(j + 2 * q + (e & 1)) * ${LD} + 16 * w + 8 * (e >> 1) + g] = rows[e];
    gram_operand(a, -rows[0], -rows[2], -rows[1], -rows[3]);
    if (block + 1 < ${NB // 2})
        gram_take<0, false>(y, a, b, p.g[0], nullptr, 0.0f, 0.0f, block);
    gram_take<1, false>(y, a, b, p.g[0], nullptr, 0.0f, 0.0f, block);
}

// A block's Gauss-Jordan steps on X by warp w of those that hold it. m: M, row stride ${LDM}. sizes: n[j] by column.
QRS_DEV void gram_jordan(float (&y)[${NB}][4], const gram_pivots &p, float *rv, float *m, float *sizes, int block, int w)
{
    const int j = 8 * block, g = (int)lane() >> 2, q = (int)lane() & 3;
    const bool own = w == block >> 1, odd = block & 1;
    const f32x2 one = {g == 2 * q ? 1.0f : 0.0f, g == 2 * q + 1 ? 1.0f : 0.0f}, d2 = *(const f32x2 *)(p.l[j + g] + 2 * q), r2 = *(const f32x2 *)(p.r[g] + 2 * q);
    gram_left a;
    {
        const f32x2 v[2] = {*(const f32x2 *)(p.l[16 * w + g] + 2 * q), *(const f32x2 *)(p.l[16 * w + 8 + g] + 2 * q)};
        const f32x2 u = own && !odd ? one : v[0], d = own && odd ? one : v[1];
        gram_operand(a, u.x, d.x, u.y, d.y);
    }
    float d[2] = {d2.x, d2.y}, z[2] = {one.x, one.y}, sign = 0.0f, size = 0.0f; // the block, which becomes L and U^-1; L^-1
    const float *diagonal = p.r[0], *rows_of_r = p.r[0] + 2 * q;
    #pragma unroll 1
    for (int at = 0, mine = 4 * g, row = q, below = g, right = q; at < 36; at += 9, mine++, row += 8, below -= 2, right--, diagonal += 18, rows_of_r += 16) { // as in gram_cholesky
        const float p00 = shfl(d[0], at), p01 = shfl(d[1], at), p10 = shfl(d[0], at + 4), p11 = shfl(d[1], at + 4), c0 = shfl(d[0], mine), c1 = shfl(d[1], mine);
        const f32x2 r0 = *(const f32x2 *)diagonal, row0 = *(const f32x2 *)rows_of_r, row1 = *(const f32x2 *)(rows_of_r + 8);
        const float r1 = diagonal[9];
        const float s0 = copysignf(1.0f, p00), n00 = fmaf(s0, r0.x, p00), n01 = fmaf(s0, r0.y, p01), det = fmaf(p11, n00, -p10 * n01);
        const float s1 = copysignf(s0, det) * s0, inv0 = r0.x == 0.0f ? 0.0f : rcp_normal(n00), // n00 has the sign s0
                    inv1 = r1 == 0.0f ? 0.0f : n00 * rcp_normal(fmaf(s1 * r1, n00, det));
        const float low = p10 * inv0, n11 = fmaf(s1, r1, fmaf(-low, n01, p11));
        const bool first = below == 0, second = below == 1;
        const float f0 = first ? inv0 : c0 * inv0, f1 = second ? inv1 : fmaf(-f0, n01, first ? 0.0f : c1) * inv1;
        const float own0 = second ? 0.0f : f0, below0 = below > 0 ? f0 : 0.0f, below1 = below > 1 ? f1 : 0.0f;
        #pragma unroll
        for (int x = 0; x < 2; x++) {
            const float d0 = shfl(d[x], row), d1 = shfl(d[x], row + 4), z0 = shfl(z[x], row), z1 = shfl(z[x], row + 4);
            const float n0 = fmaf(s0, x ? row0.y : row0.x, d0), n1 = fmaf(s1, x ? row1.y : row1.x, fmaf(-low, n0, d1));
            const float past = fmaf(-f1, n1, fmaf(-own0, n0, first || second ? 0.0f : d[x]));
            d[x] = right > 0 ? past : right == 0 ? (x ? f1 : f0) : d[x];
            z[x] = fmaf(-below1, fmaf(-low, z0, z1), fmaf(-below0, z0, z[x]));
        }
        sign = first ? s0 : second ? s1 : sign;
        size = first ? n00 : second ? n11 : size;
    }
    if (w == 0) {
        *(f32x2 *)(rv + (j + g) * ${LD} + j + 2 * q) = {g > 2 * q ? d[0] : r2.x, g > 2 * q + 1 ? d[1] : r2.y};
        if (q == 0)
            sizes[j + g] = size;
    }
    if (own)
        #pragma unroll
        for (int n = 0; n < ${NB}; n++)
            #pragma unroll
            for (int e = 0; e < 4; e++)
                y[n][e] = odd == (e >> 1) ? 0.0f : y[n][e];
    float rows[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    gram_right b;
    {
        const float u0 = g > 2 * q ? 0.0f : d[0], u1 = g > 2 * q + 1 ? 0.0f : d[1];
        const int from = 8 * q + (g >> 1); // of rows 2 q, 2 q + 1 column g
        const float v[4] = {shfl(u0, from), shfl(u1, from), shfl(u0, from + 4), shfl(u1, from + 4)};
        gram_operand(b, g & 1 ? v[1] : v[0], g & 1 ? v[3] : v[2]);
    }
    gram_multiply(rows, a, b);
    const float s0 = shfl(sign, 8 * q), s1 = shfl(sign, 8 * q + 4);
    gram_operand(b, z[0], z[1]);
    gram_operand(a, -rows[0], -rows[2], -rows[1], -rows[3]);
    if (block + 1 < ${NB // 2})
        gram_take<0, true>(y, a, b, p.x[0], rv + j * ${LD}, s0, s1, block);
    gram_take<1, true>(y, a, b, p.x[0], rv + j * ${LD}, s0, s1, block);
    #pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = 16 * w + 8 * half + g;
        const bool below = 2 * w + half > block;
        const f32x2 v = {rows[2 * half], rows[2 * half + 1]};
        if (below)
            *(f32x2 *)(rv + row * ${LD} + j + 2 * q) = v;
        *(f32x2 *)(m + row * ${LDM} + j + 2 * q) = below ? f32x2{0.0f, 0.0f} : v;
    }
}

// Threads 0..${2 * T - 1} call. x: top block; rv (may be its place): becomes R on and above the diagonal and V below. gram: G; left, right: M's halves, columns
// keeping their numbers (right may be G's place). whole: G's diagonal. sides: two. Returns false, in some thread, unless the pivots can be trusted. Synchronises.
QRS_CALL bool gram_whole(const float *x, const float *gram, float *rv, float *left, float *right, float *whole, gram_pivots *sides, float *tau)
{
    const int tid = threadIdx.x, l = lane(), g = l >> 2, q = l & 3, all = shfl((int)warp(), 0), w = all & ${W - 1};
    const bool second = all >= ${W};
    float y[${NB}][4];
    #pragma unroll
    for (int n = 0; n < ${NB}; n++) {
        const float *from = (second ? x : gram) + (16 * w + g) * ${LD} + 8 * n + 2 * q;
        const f32x2 a = *(const f32x2 *)from, b = *(const f32x2 *)(from + ${8 * LD});
        y[n][0] = a.x, y[n][1] = a.y, y[n][2] = b.x, y[n][3] = b.y;
    }
    if (tid < ${B})
        whole[tid] = gram[tid * ${LD + 1}];
    #pragma unroll 1
    for (int round = 0; round <= ${NB}; round++) { // block `round` of G, and the one before it of X
        const int block = second ? round - 1 : round;
        const bool some = block >= 0 && block < ${NB};
        gram_pivots &p = sides[block & 1];
        if (some) {
            gram_give_rows(y, second ? p.x : p.g, block, w);
            if (second)
                gram_give_columns(y, p.l, block, w);
        }
        bar_sync(1, ${2 * T});
        if (!some)
            continue;
        if (second)
            gram_jordan(y, p, rv, block < ${NB // 2} ? left : right, tau, block, w);
        else
            gram_cholesky(y, p, rv, block, w);
    }
    bar_sync(1, ${2 * T});
    #pragma unroll
    for (int i = 0; i < ${B * B // (8 * T)}; i++) { // R's signs
        const int row = ${8 * T // B} * i + tid / ${B // 4}, col = 4 * (tid & ${B // 4 - 1});
        f32x4 *to = (f32x4 *)(rv + row * ${LD} + col);
        const f32x4 v = *to;
        const float s = -copysignf(1.0f, tau[row]);
        *to = {row > col ? v.x : s * v.x, row > col + 1 ? v.y : s * v.y, row > col + 2 ? v.z : s * v.z, row > col + 3 ? v.w : s * v.w};
    }
    bar_sync(1, ${2 * T});
    if (tid >= ${B})
        return true;
    // What cancelled cannot be trusted, nor a zero that only cancellation made. NaN fails.
    const float r = fabsf(rv[tid * ${LD + 1}]), of = whole[tid];
    tau[tid] = r == 0.0f ? 0.0f : div_rn(fabsf(tau[tid]), r);
    return r == 0.0f ? of == 0.0f && (tid == ${B - 1} || whole[tid + 1] == 0.0f) : r * r >= ${LEAST}f * of;
}
