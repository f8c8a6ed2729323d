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
// The steps are gram_narrow.cuh's, 32 columns at a time, 1 and 2 the halves of rows and columns. Between them, with what it keeps of the first 32,
//   R12 = R11^-T G12 but for the signs, G22 -= R12'R12,
//   Z = (R11 - X11)^-1 (X12 - R12), X22 += X21 Z; afterwards V21 = X21 M11 and M12 = Z M22,
// by four warps that take no part in the steps: what belongs to G beside the steps on X11, what follows from M11 beside those on X22.
// A panel of just 64 rows can have its first half so, too. Its second half, X22 then, is square, and is the recursion's.
//
// Parameters: LD = 68: row stride of all matrices; LEAST: share of a column's square that must be left of it.
% include("blocks/gram_narrow.cuh", { LD = LD, LDM = LD, LEAST = LEAST, WHOLE = true })
% include("blocks/gram_sound.cuh", { B = 64, LD = LD, LEAST = LEAST })

// All 256 threads call. rv: top block; becomes R on and above the diagonal and V below. gram: G; its right half becomes M's, half's top left quarter M's
// (half: a third matrix). whole: G's diagonal. steps: columns past these have no reflector. square: the panel has no more rows; steps are more than 32 then.
// Returns false, in some thread, unless the pivots can be trusted. Synchronises, by barriers 1..15, too. The last four warps call Beside::run(false), then
// run(true), for something else to do.
template <class Beside>
QRS_CALL bool gram_whole(float *rv, float *gram, float *half, float *whole, gram_buffers *buffers, gram_narrow_pivots *s, float *tau, int steps, bool square)
{
    const int tid = threadIdx.x, w = shfl((int)warp(), 0);
    float *x12 = rv + 32, *x21 = rv + 32 * ${LD}, *x22 = x21 + 32, *g12 = gram + 32, *g21 = gram + 32 * ${LD}, *g22 = g21 + 32;
    float *kept = half + 32, *low = half + 32 * ${LD}, *r12 = low + 32; // (R11 - X11)^-1, R11^-T, R12 without its signs
    // Of R12's and X12's: four of a row's entries twice, 16 rows apart.
    const int row = tid >> 3 & 15, col = (tid & 7) * 4;
    bool good = true;
    #pragma unroll 1
    for (int h = 0; h < 2; h++) {
        if (h && w < 4)
            gram_product(g22, square ? nullptr : g22, r12, true, r12, square ? 0.0f : -1.0f, 15, 128); // square: zeros, as nothing lies below
        if (h && square && w < 4) {
            bar_wait(14, 256);
            good = gram_recursion(x22, g22, whole + 32, buffers, g22, x22, tau + 32, steps - 32, true, 128);
        } else if (w < 2) {
            if (h)
                bar_wait(14, 192);
            gram_narrow_jordan<true>(h ? x22 : rv, h ? g22 : gram, h ? g21 : half, kept, s + h);
        } else if (w < 4) {
            if (!h)
                whole[tid - 64] = gram[(tid - 64) * ${LD + 1}];
            gram_narrow_cholesky<true>(h ? g22 : gram, h ? g22 : gram, s + h);
            if (!h)
                bar_arrive(13, 192);
        } else if (!h) {
            Beside::run(false);
            bar_wait(13, 192);
            gram_narrow_low(gram, low);
            bar_sync(2, 128); // R^-T is there
            gram_product(r12, nullptr, low, false, g12, 1.0f, 2, 128);
        } else {
            float sign[2];
            #pragma unroll
            for (int i = 0; i < 2; i++) {
                const int of = row + 16 * i;
                sign[i] = copysignf(1.0f, gram_narrow_pivot(half, of));
                const f32x4 r = *(const f32x4 *)(r12 + of * ${LD} + col);
                f32x4 *x = (f32x4 *)(x12 + of * ${LD} + col);
                *x = {fmaf(sign[i], r.x, x->x), fmaf(sign[i], r.y, x->y), fmaf(sign[i], r.z, x->z), fmaf(sign[i], r.w, x->w)};
            }
            bar_sync(2, 128);
            gram_product(g12, nullptr, kept, false, x12, 1.0f, 2, 128);
            gram_product(x22, x22, x21, false, g12, 1.0f, 2, 128);
            bar_arrive(14, square ? 256 : 192);
            gram_narrow_place(gram, s[0].diagonal, rv, half, half, tau, 2);
            #pragma unroll
            for (int i = 0; i < 2; i++) {
                const f32x4 r = *(const f32x4 *)(r12 + (row + 16 * i) * ${LD} + col);
                *(f32x4 *)(x12 + (row + 16 * i) * ${LD} + col) = {-sign[i] * r.x, -sign[i] * r.y, -sign[i] * r.z, -sign[i] * r.w};
            }
            gram_product(x21, nullptr, x21, false, half, 1.0f, 2, 128);
            Beside::run(true);
        }
        block_sync();
    }
    if (w < 4 && !square)
        gram_narrow_place(g22, s[1].diagonal, x22, g21, g22, tau + 32, 1);
    block_sync();
    if (w >= 4)
        gram_product(g12, nullptr, g12, false, g22, 1.0f, 2, 128);
    block_sync();
    return good && (tid >= (square ? 32 : 64) || gram_sound(rv, whole, tau));
}
