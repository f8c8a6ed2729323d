// A panel of 64 columns from its whole Gram matrix, for panels much taller than wide: no sums over rows, so a column costs little more than its scalars.
//
// With X the top block (64 x 64) and G = P'P of all rows, for j = 0..63 (Householder reconstruction: Ballard, Demmel, Grigori, Jacquelin, Nguyen,
// Solomonik 2014, with M taken along by Gauss-Jordan steps):
//   r = G[j,:] / sqrt(G[j,j]); G -= r'r;
//   s = -sign(X[j,j]); R[j,:] = s r; n = X[j,:] - R[j,:], zero before column j; tau = |n[j]| / r[j];
//   X[i,:] -= (X[i,j] / n[j]) n and X[i,j] -> X[i,j] / n[j] for i /= j; X[j,:] = -n / n[j], X[j,j] = 1 / n[j].
// Then X holds V's top block below its diagonal, and on and above it M, the inverse of the matrix of all n: V2 = P2 M. All of P's conditioning is
// squared, where the recursion squares that of the rows below only: with 128 rows and more a random panel loses 10 eps, with 64 thousands.
// A zero column gets no reflector (r = 0, 1 / n[j] taken as 0). After it only zero columns may come: another one's G would lack row j.
//
// Eight columns at a time. With J their numbers, D = X[J,J] and N the rows n of J:
//   D + S R[J,J] = L U by rows, each sign when its row is reached; N = L^-1 (X[J,:] + S R[J,:]), S = diag(sign); E = X[i,J] U^-1 for rows i outside J,
//   E = U^-1 for the rows J; X -= E N, the rows J from zero; then E is final in columns J (V below, M above), and L is V's within J.
// Products are tensor cores': three of TF32 (gram_small.cuh).
//
// Parameters: LD: row stride of X, G and R; LDM: of M; LEAST: share of a column's square that must be left of it.
// Layout: G is a block of columns ahead of X. Of eight warps four hold X, 16 rows each, two hold G, 32 rows each, and one each factors the 8 x 8 blocks of G
// and of X. That is the chain: while a block is factored the others do what is left to do for the one before it, and of a block's products the next
// 8 x 8 block comes first. Rows lie as accumulators: of 16 rows and the n-th block of columns, counted from the block at work, y[n] is (row g, columns 2 q, 2 q + 1),
// (row g + 8, the same). An 8 x 8 block lies in a warp likewise, and so can be an operand at once if k = 2 q, 2 q + 1 count as q, q + 4 on both sides
// (gram_small.cuh). The rows of R and N come out transposed, as accumulators of a row a column, which are operands too.
% local B, NB, W, T = 64, 8, 4, 128
% include("blocks/gram_sound.cuh", { B = B, LD = LD, LEAST = LEAST })
struct gram_rows { // of the block at work: what is left of G's and X's
    float g[8][${B + 4}], x[8][${B + 4}];
};
struct gram_pivots {
    gram_rows rows[2];                  // by parity of the block
    float r[2][8][8];                   // R's diagonal block, upper half
    float dg[8][8], dx[8][8];           // the 8 x 8 blocks of G and of X
    float lg[8][8], lx[8][8], u[8][8], sign[8]; // their factors: G's L^-1; X's L^-1, U^-1 and signs
};

// Two blocks of columns from number `block` on of a block's rows, transposed: 0 past the last one. from: the block's first row.
QRS_DEV void gram_columns(float (&v)[4], const float *from, int stride, int block)
{
    const float *at = from + ((int)lane() & 3) * 2 * stride + 8 * block + ((int)lane() >> 2);
    #pragma unroll
    for (int e = 0; e < 4; e++)
        v[e] = block + (e & 1) < ${NB} ? at[(e >> 1) * stride + 8 * (e & 1)] : 0.0f;
}

// What a block's steps take off: rows (their operand has the sign turned) times columns, which are found by c from the block's rows, with X from those and R's.
struct gram_factors {
    gram_left a[2];
    gram_right c;
    float s[2];
};
// Two blocks of columns from number `block` on of a block's rows, as its steps leave them: R's or N's. M 1: X's, with R's rows r.
template <int M> QRS_DEV void gram_columns_taken(gram_left &u, const gram_factors &f, const float (*from)[${B + 4}], const float *r, int block)
{
    float v[4], plus[4];
    gram_columns(v, from[0], ${B + 4}, block);
    if (M == 1) {
        gram_columns(plus, r, ${LD}, block);
        #pragma unroll
        for (int e = 0; e < 4; e++)
            v[e] = fmaf(f.s[e >> 1], plus[e], v[e]);
    }
    gram_operand(u, v[0], v[1], v[2], v[3]);
}
// What those of the PAIR-th pair of blocks take off M 16 rows: y moves up by one.
template <int M, int PAIR> QRS_DEV void gram_take_columns(float (&y)[2][${NB}][4], const gram_factors &f, const float (&columns)[4])
{
    #pragma unroll
    for (int n = 0; n < (PAIR == ${NB // 2 - 1} ? 1 : 2); n++) {
        gram_right b;
        gram_operand(b, columns[2 * n], columns[2 * n + 1]);
        #pragma unroll
        for (int i = 0; i < M; i++) {
            #pragma unroll
            for (int e = 0; e < 4; e++)
                y[i][2 * PAIR + n][e] = y[i][2 * PAIR + n + 1][e];
            gram_multiply(y[i][2 * PAIR + n], f.a[i], b);
        }
    }
}
// The PAIR-th pair of blocks of columns after `block`. r: R's rows of the block, or null.
template <int M, int PAIR>
QRS_DEV void gram_take(float (&y)[2][${NB}][4], const gram_factors &f, const float (*from)[${B + 4}], const float *r, int block)
{
    if (block + 2 * PAIR + 1 >= ${NB})
        return;
    float columns[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    gram_left u;
    gram_columns_taken<M>(u, f, from, r, block + 2 * PAIR + 1);
    gram_multiply(columns, u, f.c);
    gram_take_columns<M, PAIR>(y, f, columns);
}
template <int M> QRS_DEV void gram_take_rest(float (&y)[2][${NB}][4], const gram_factors &f, const float (*from)[${B + 4}], const float *r, int block)
{
    if (block < 0)
        return;
    gram_take<M, 1>(y, f, from, r, block);
% for i = 2, NB // 2 - 1 do
    gram_take<M, ${i}>(y, f, from, r, block);
% end
}
// Of 16 rows the eight of a block: its own columns to d; those behind to rows.
QRS_DEV void gram_give_block(const float (&y)[${NB}][4], float (*d)[8], int block)
{
    const int g = (int)lane() >> 2, q = (int)lane() & 3;
    *(f32x2 *)(d[g] + 2 * q) = {block & 1 ? y[0][2] : y[0][0], block & 1 ? y[0][3] : y[0][1]};
}
QRS_DEV void gram_give_rows(const float (&y)[${NB}][4], float (*rows)[${B + 4}], int block)
{
    const int g = (int)lane() >> 2, q = (int)lane() & 3;
    #pragma unroll
    for (int n = 1; n < ${NB}; n++)
        if (block + n < ${NB})
            *(f32x2 *)(rows[g] + 8 * (block + n) + 2 * q) = {block & 1 ? y[n][2] : y[n][0], block & 1 ? y[n][3] : y[n][1]};
}

// Cholesky steps of an 8 x 8 block of G: L^-1 to low, R to r.
QRS_DEV void gram_cholesky(const float (*from)[8], float (*low)[8], float (*r)[8])
{
    const int g = (int)lane() >> 2, q = (int)lane() & 3;
    const f32x2 own = *(const f32x2 *)(from[g] + 2 * q);
    float d[2] = {own.x, own.y}, z[2] = {g == 2 * q ? 1.0f : 0.0f, g == 2 * q + 1 ? 1.0f : 0.0f}, scale = 0.0f; // the block; L^-1, both less 1 / sqrt(pivot) a row
    // Rows 2 t and 2 t + 1. at: where the first pivot is; mine: where a row's entries of the two columns are; row: where a column's entries of the first
    // row are; below: how far this row is.
    #pragma unroll 1
    for (int at = 0, mine = 4 * g, row = q, below = g; at < 36; at += 9, mine++, row += 8, below -= 2) {
        const float p00 = shfl(d[0], at), p01 = shfl(d[1], at), p11 = shfl(d[1], at + 4), c0 = shfl(d[0], mine), c1 = shfl(d[1], mine);
        const float root0 = p00 == 0.0f ? 0.0f : rsqrt_normal(p00), w0 = root0 * root0, l10 = p01 * w0, next = fmaf(-l10, p01, p11),
                    root1 = next == 0.0f ? 0.0f : rsqrt_normal(next);
        const float f0 = below > 0 ? c0 * w0 : 0.0f, f1 = below > 1 ? fmaf(-f0, p01, c1) * (root1 * root1) : 0.0f;
        #pragma unroll
        for (int x = 0; x < 2; x++) {
            const float d0 = shfl(d[x], row), d1 = shfl(d[x], row + 4), z0 = shfl(z[x], row), z1 = shfl(z[x], row + 4);
            d[x] = fmaf(-f1, fmaf(-l10, d0, d1), fmaf(-f0, d0, d[x]));
            z[x] = fmaf(-f1, fmaf(-l10, z0, z1), fmaf(-f0, z0, z[x]));
        }
        scale = below == 0 ? root0 : below == 1 ? root1 : scale;
    }
    *(f32x2 *)(r[g] + 2 * q) = {scale * d[0], scale * d[1]};
    *(f32x2 *)(low[g] + 2 * q) = {scale * z[0], scale * z[1]};
}

// Gauss-Jordan steps of an 8 x 8 block of X with R's: to p; L and R to rv, where the block's place is, n's diagonal to sizes.
QRS_DEV void gram_jordan(gram_pivots &p, const float (*r)[8], float *rv, float *sizes)
{
    const int g = (int)lane() >> 2, q = (int)lane() & 3;
    const f32x2 own = *(const f32x2 *)(p.dx[g] + 2 * q), r2 = *(const f32x2 *)(r[g] + 2 * q);
    float d[2] = {own.x, own.y}, z[2] = {g == 2 * q ? 1.0f : 0.0f, g == 2 * q + 1 ? 1.0f : 0.0f}, sign = 0.0f, size = 0.0f; // the block, which becomes L and U^-1; L^-1
    #pragma unroll 4
    for (int k = 0; k < 4; k++) {
        const int at = 9 * k, mine = 4 * g + k, row = 8 * k + q, below = g - 2 * k, right = q - k; // as in gram_cholesky
        const float p00 = shfl(d[0], at), p01 = shfl(d[1], at), p10 = shfl(d[0], at + 4), p11 = shfl(d[1], at + 4), c0 = shfl(d[0], mine), c1 = shfl(d[1], mine);
        const f32x2 r0 = *(const f32x2 *)(r[2 * k] + 2 * k), row0 = *(const f32x2 *)(r[2 * k] + 2 * q), row1 = *(const f32x2 *)(r[2 * k + 1] + 2 * q);
        const float r1 = r[2 * k + 1][2 * k + 1];
        // The second pivot by way of their determinant: the reciprocals need not wait for each other, nor the magnitudes for signs.
        const float s0 = copysignf(1.0f, p00), size0 = fabsf(p00) + r0.x, n00 = s0 * size0, n01 = fmaf(s0, r0.y, p01), det = fmaf(p11, n00, -p10 * n01);
        const float s1 = copysignf(s0, det) * s0, inv0 = r0.x == 0.0f ? 0.0f : s0 * rcp_normal(size0),
                    inv1 = r1 == 0.0f ? 0.0f : s1 * (size0 * rcp_normal(fmaf(r1, size0, fabsf(det))));
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
    const bool low0 = g > 2 * q, low1 = g > 2 * q + 1;
    *(f32x2 *)(p.lx[g] + 2 * q) = {z[0], z[1]};
    *(f32x2 *)(p.u[g] + 2 * q) = {low0 ? 0.0f : d[0], low1 ? 0.0f : d[1]};
    *(f32x2 *)(rv + g * ${LD} + 2 * q) = {low0 ? d[0] : r2.x, low1 ? d[1] : r2.y};
    if (q == 0) {
        p.sign[g] = sign;
        sizes[g] = size;
    }
}

// 16 rows from `from` on.
QRS_DEV void gram_load(float (&y)[${NB}][4], const float *from)
{
    from += ((int)lane() >> 2) * ${LD} + ((int)lane() & 3) * 2;
    #pragma unroll
    for (int n = 0; n < ${NB}; n++) {
        const f32x2 a = *(const f32x2 *)(from + 8 * n), b = *(const f32x2 *)(from + ${8 * LD} + 8 * n);
        y[n][0] = a.x, y[n][1] = a.y, y[n][2] = b.x, y[n][3] = b.y;
    }
}

// A block's products by the warp that holds rows 32 w.. of G, once it is factored: R's rows to rv, the next 8 x 8 block to dg. Everything is read before anything
// is written, and products that do not need each other take turns: the next block's factors wait for these.
QRS_DEV void gram_step_g(float (&y)[2][${NB}][4], gram_factors &f, gram_pivots *s, float *rv, int block, int w)
{
    const int g = (int)lane() >> 2, q = (int)lane() & 3;
    const gram_rows &now = s->rows[block & 1];
    gram_operand(f.c, s->lg[g][2 * q], s->lg[g][2 * q + 1]);
    float product[3][4] = {}; // R's columns of these rows' numbers, and of the next two blocks
    gram_left a[3];
    #pragma unroll
    for (int i = 0; i < 2; i++) {
        const int mine = 4 * w + 2 * i;
        float v[4];
        gram_columns(v, now.g[0], ${B + 4}, mine);
        #pragma unroll
        for (int e = 0; e < 4; e++)
            v[e] = mine + (e & 1) > block ? v[e] : 0.0f;
        gram_operand(a[i], v[0], v[1], v[2], v[3]);
    }
    gram_columns_taken<2>(a[2], f, now.g, nullptr, block + 1);
    gram_multiply_all(product, a, f.c);
    #pragma unroll
    for (int i = 0; i < 2; i++)
        gram_operand(f.a[i], -product[i][0], -product[i][2], -product[i][1], -product[i][3]);
    gram_take_columns<2, 0>(y, f, product[2]);
    #pragma unroll
    for (int i = 0; i < 2; i++)
        if (block + 1 >> 1 == 2 * w + i)
            gram_give_block(y[i], s->dg, block + 1);
    #pragma unroll
    for (int i = 0; i < 2; i++)
        #pragma unroll
        for (int e = 0; e < 4; e++) {
            const int mine = 4 * w + 2 * i + (e >> 1);
            if (mine > block)
                rv[(8 * block + 2 * q + (e & 1)) * ${LD} + 8 * mine + g] = product[i][e];
        }
}

// The same by the warp that holds rows 16 w.. of X. m: M, row stride ${LDM}.
QRS_DEV void gram_step_x(float (&y)[2][${NB}][4], gram_factors &f, gram_pivots *s, float *rv, float *m, int block, int w)
{
    const int g = (int)lane() >> 2, q = (int)lane() & 3, j = 8 * block;
    const bool own = w == block >> 1, odd = block & 1, up = own && !odd, down = own && odd;
    float product[2][4] = {}; // (l U^-1), of these rows; N's columns of the next two blocks
    gram_operand(f.c, s->lx[g][2 * q], s->lx[g][2 * q + 1]);
    f.s[0] = s->sign[2 * q];
    f.s[1] = s->sign[2 * q + 1];
    gram_right b;
    gram_operand(b, s->u[2 * q][g], s->u[2 * q + 1][g]);
    gram_left a, n;
    gram_columns_taken<1>(n, f, s->rows[block & 1].x, rv + j * ${LD}, block + 1);
    {
        const float one[2] = {g == 2 * q ? 1.0f : 0.0f, g == 2 * q + 1 ? 1.0f : 0.0f};
        gram_operand(a, up ? one[0] : y[0][0][0], down ? one[0] : y[0][0][2], up ? one[1] : y[0][0][1], down ? one[1] : y[0][0][3]);
    }
    mma_tf32(product[0], a.hi, b.lo[0], b.lo[1]);
    mma_tf32(product[1], n.hi, f.c.lo[0], f.c.lo[1]);
    mma_tf32(product[0], a.lo, b.hi[0], b.hi[1]);
    mma_tf32(product[1], n.lo, f.c.hi[0], f.c.hi[1]);
    mma_tf32(product[0], a.hi, b.hi[0], b.hi[1]);
    mma_tf32(product[1], n.hi, f.c.hi[0], f.c.hi[1]);
    const float(&rows)[4] = product[0];
    gram_operand(f.a[0], -rows[0], -rows[2], -rows[1], -rows[3]);
    // The block's own rows start from zero; those that are not needed yet, later.
    #pragma unroll
    for (int c = 1; c < 3; c++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            y[0][c][e] = (e >> 1 ? down : up) ? 0.0f : y[0][c][e];
    gram_take_columns<1, 0>(y, f, product[1]);
    if (w == block + 1 >> 1)
        gram_give_block(y[0], s->dx, block + 1);
    #pragma unroll
    for (int c = 3; c < ${NB}; c++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            y[0][c][e] = (e >> 1 ? down : up) ? 0.0f : y[0][c][e];
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

// Threads 0..${2 * T - 1} call. x: top block (64 x 64); rv (may be its place): becomes R on and above the diagonal and V below. gram: G; left, right: M's halves, columns
// keeping their numbers (right may be G's place). whole: G's diagonal. Returns false, in some thread, unless the pivots can be trusted. Synchronises.
QRS_CALL bool gram_whole(const float *x, const float *gram, float *rv, float *left, float *right, float *whole, gram_pivots *s, float *tau)
{
    const int tid = threadIdx.x, w = shfl((int)warp(), 0);
    const bool of_x = w >= ${W}, of_g = w < ${W // 2}; // the other two factor
    float y[2][${NB}][4];
    gram_factors f; // none yet, but defined: an undefined register would live from the kernel's start
    gram_operand(f.a[0], 0.0f, 0.0f, 0.0f, 0.0f);
    f.a[1] = f.a[0];
    gram_operand(f.c, 0.0f, 0.0f);
    f.s[0] = f.s[1] = 0.0f;
    #pragma unroll
    for (int i = 0; i < 2; i++)
        gram_load(y[i], of_x ? x + 16 * (w - ${W}) * ${LD} : gram + (32 * (w & ${W // 2 - 1}) + 16 * i) * ${LD});
    if (tid < ${B})
        whole[tid] = gram[tid * ${LD + 1}];
    if (w == 0 || w == ${W})
        gram_give_block(y[0], of_x ? s->dx : s->dg, 0);
    #pragma unroll 1
    for (int round = 0; round <= ${NB}; round++) { // block `round` of G, and the one before it of X
        const int block = of_x ? round - 1 : round;
        const bool live = of_x ? block >= 0 : of_g && block < ${NB} && 4 * w + 3 >= block; // else it comes, or all its rows are finished
        bar_sync(1, ${2 * T});
        if (live && of_x) {
            gram_take_rest<1>(y, f, s->rows[~block & 1].x, rv + (8 * block - 8) * ${LD}, block - 1);
            if (block >> 1 == w - ${W})
                gram_give_rows(y[0], s->rows[block & 1].x, block);
        } else if (live) {
            gram_take_rest<2>(y, f, s->rows[~block & 1].g, nullptr, block - 1);
            #pragma unroll
            for (int i = 0; i < 2; i++)
                if (block >> 1 == 2 * w + i)
                    gram_give_rows(y[i], s->rows[block & 1].g, block);
        } else if (w == ${W // 2} && block < ${NB}) {
            gram_cholesky(s->dg, s->lg, s->r[block & 1]);
        } else if (w == ${W // 2 + 1} && block > 0) {
            gram_jordan(*s, s->r[~block & 1], rv + (block - 1) * ${8 * LD + 8}, tau + 8 * (block - 1));
        }
        bar_sync(1, ${2 * T});
        if (live && of_x)
            gram_step_x(y, f, s, rv, block < ${NB // 2} ? left : right, block, w - ${W});
        else if (live)
            gram_step_g(y, f, s, rv, block, w);
    }
    bar_sync(1, ${2 * T});
    #pragma unroll
    for (int i = 0; i < ${B * B // (8 * T)}; i++) { // R's signs
        const int row = ${8 * T // B} * i + tid / ${B // 4}, col = 4 * (tid & ${B // 4 - 1});
        f32x4 *to = (f32x4 *)(rv + row * ${LD} + col);
        const f32x4 v = *to;
        const float sign = -copysignf(1.0f, tau[row]);
        *to = {row > col ? v.x : sign * v.x, row > col + 1 ? v.y : sign * v.y, row > col + 2 ? v.z : sign * v.z, row > col + 3 ? v.w : sign * v.w};
    }
    bar_sync(1, ${2 * T});
    return tid >= ${B} || gram_sound(rv, whole, tau);
}
