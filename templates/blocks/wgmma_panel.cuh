// Factors the 64 columns of a panel from their 64 top rows and the Gram matrix of the rows below: two Gram recursions of 32
// columns with the block update between them (see blocks/wgmma_recursion.cuh). All 256 threads call it.
//
// Parameters: LD (row stride of the 64 x 64 arrays in shared memory, floats).
//   p1 [64][LD]  in: P1; out: R on and above the diagonal
//   gs [64][LD]  in: G = P2' P2 (both triangles)
//   x  [64][LD]  out: V1 strictly below the diagonal, M on and above; V2 = P2 M, M upper triangular
//   gp [32][LD], y [32][LD]  scratch;  diag [64], tau [64]: of each reflector the squared norm of
//   its column's tail and tau as the recursion has it;  work: RECURSION_64_WORK floats
//   count: reflectors to make, 1..64 (uniform)
% include("blocks/wgmma_recursion.cuh", { NAME = "gram_recursion_64", COLS = 64, LD = LD })
% include("blocks/wgmma_recursion.cuh", { NAME = "gram_recursion_32", COLS = 32, LD = LD })

// sum over k < 32 of a(r, k) b[k][c .. c+3], where a(r, k) = a[r * LD + k], or a[k * LD + r] when TRANSPOSED;
// UPPER takes only the upper triangle of b.
template <bool TRANSPOSED, bool UPPER>
QRS_DEV f32x4 product_32(const float *a, const float *b, int r, int c, f32x4 sum) {
    constexpr int LD = ${LD};
#pragma unroll 8
    for (int k = 0; k < 32; k++) {
        const float f = TRANSPOSED ? a[k * LD + r] : a[r * LD + k];
        f32x4 v = *reinterpret_cast<const f32x4 *>(b + k * LD + c);
        if (UPPER) {
            v.x = k <= c ? v.x : 0.f;
            v.y = k <= c + 1 ? v.y : 0.f;
            v.z = k <= c + 2 ? v.z : 0.f;
            v.w = k <= c + 3 ? v.w : 0.f;
        }
        sum.x = fmaf(f, v.x, sum.x);
        sum.y = fmaf(f, v.y, sum.y);
        sum.z = fmaf(f, v.z, sum.z);
        sum.w = fmaf(f, v.w, sum.w);
    }
    return sum;
}

QRS_DEV void factor_panel_64(float *p1, const float *gs, float *x, float *gp, float *y, float *diag, float *tau,
                             float *work,
                             int count) {
    constexpr int LD = ${LD}, HALF = 32 * LD;
    const int t = fresh<int>(threadIdx.x), r = t >> 3, c = (t & 7) * 4;
    const f32x4 zero = {0.f, 0.f, 0.f, 0.f};
    auto at = [](float *p, int row, int column) { return reinterpret_cast<f32x4 *>(p + row * LD + column); };
    auto read = [](const float *p, int row, int column) {
        return *reinterpret_cast<const f32x4 *>(p + row * LD + column);
    };
    // The first half sees rows 32..63 through the Gram matrix as well.
    *at(gp, r, c) = product_32<true, false>(p1 + HALF, p1 + HALF, r, c, read(gs, r, c));
    *at(gp, r, c + 32) = product_32<true, false>(p1 + HALF, p1 + HALF + 32, r, c, read(gs, r, c + 32));
    block_sync();
    if (t < 128) gram_recursion_64(p1, gp, x, diag, tau, work, count < 32 ? count : 32);
    block_sync();
    // V1's rows 32..63 of the first half; x's columns 32..63 hold N with P_new[:, 32:] = P[:, 32:] + P[:, :32] N.
    *at(x, r + 32, c) = product_32<false, true>(p1 + HALF, x, r, c, zero);
    if (count > 32) {
        *at(p1, r + 32, c + 32) = product_32<false, false>(p1 + HALF, x + 32, r, c, read(p1, r + 32, c + 32));
        *at(y, r, c) = product_32<false, false>(gs, x + 32, r, c, read(gs, r, c + 32));
        block_sync();
        f32x4 sum = product_32<true, false>(x + 32, y, r, c, read(gs, r + 32, c + 32));
        *at(gp, r, c) = product_32<true, false>(gs + 32, x + 32, r, c, sum);
        block_sync();
        if (t < 128) gram_recursion_32(p1 + HALF + 32, gp, x + HALF + 32, diag + 32, tau + 32, work, count - 32);
        block_sync();
        // M's upper right block: N times the second half's M. A warp owns whole rows of N, so it may replace them.
        const f32x4 m = product_32<false, true>(x + 32, x + HALF + 32, r, c, zero);
        warp_sync();
        *at(x, r, c + 32) = m;
    } else {
        block_sync();
        *at(x, r, c + 32) = zero;
        *at(x, r + 32, c + 32) = zero;
    }
    block_sync();
}
