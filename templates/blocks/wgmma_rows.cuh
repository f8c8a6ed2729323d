// Panel by rows, exact, out of shared memory: the fall-back when the Gram recursion's safety test fails on a panel.
// 256 threads; thread t serves column t % 64 and every fourth row. Not fast (about 3,000 cycles a column), right on every input:
// exact tails, tails whose square sum is under 2^-80 rescaled, NaN and Inf as in LAPACK.
//
// Parameters: none.
//   tile [rows][64]  in: the panel (columns scaled to a largest magnitude near 1); out: R on and above the diagonal, V below
//   partial [4][64], rho [64], extra [8] scratch;  rows, count: rows of the tile, reflectors to make (uniform)
// Formulas: LAPACK geqr2/larfg with x'a_c of the un-normalised column x, so that one pass gives every dot product.
QRS_DEV void factor_rows_64(float *tile, float *partial, float *rho_of, float *extra, int rows, int count) {
    const int t = fresh<int>(threadIdx.x), c = t & 63, group = t >> 6;
    for (int j = 0; j < count; j++) {
        float dot = 0.f, tail = 0.f;
        auto dots = [&]() {
            dot = 0.f;
            for (int i = j + 1 + group; i < rows; i += 4) dot = fmaf(tile[i * 64 + j], tile[i * 64 + c], dot);
            partial[group * 64 + c] = dot;
            block_sync();
            dot = (partial[c] + partial[64 + c]) + (partial[128 + c] + partial[192 + c]);
            tail = (partial[j] + partial[64 + j]) + (partial[128 + j] + partial[192 + j]);
        };
        dots();
        float alpha = tile[j * 64 + j], unlift = 1.f;
        block_sync();
        if (tail < 0x1p-80f) { // uniform; false for NaN
            float largest = 0.f;
            for (int i = j + 1 + t; i < rows; i += 256) largest = fmaxf(largest, fabsf(tile[i * 64 + j]));
            largest = warp_max(largest);
            if (lane() == 0) extra[warp()] = largest;
            block_sync();
            largest = 0.f;
            for (int i = 0; i < 8; i++) largest = fmaxf(largest, extra[i]);
            block_sync();
            if (largest == 0.f) { // H = I: the column, its sign included, stays as it is
                if (t == 0) rho_of[j] = 0.f;
                block_sync();
                continue;
            }
            const int e = pow2_exponent(fmaxf(largest, fabsf(alpha)));
            // In two steps, since 2^-e may exceed the range when the column is subnormal.
            const int half = -e / 2;
            const float first = scale_pow2(1.f, half), second = scale_pow2(1.f, -e - half);
            for (int i = j + t; i < rows; i += 256) tile[i * 64 + j] = tile[i * 64 + j] * first * second;
            block_sync();
            dots();
            alpha = tile[j * 64 + j];
            unlift = scale_pow2(1.f, e);
            block_sync();
        }
        const float norm = sqrt_rn(fmaf(alpha, alpha, tail)), beta = -copysignf(norm, alpha);
        const float gap = alpha - beta, rho = div_rn(1.f, gap), tau = div_rn(-gap, beta);
        const float p = c > j ? tile[j * 64 + c] : 0.f;
        const float w = tau * fmaf(rho, dot, p), g = w * rho;
        block_sync();
        if (c > j) {
            for (int i = j + 1 + group; i < rows; i += 4) tile[i * 64 + c] = fmaf(-g, tile[i * 64 + j], tile[i * 64 + c]);
            if (group == 0) tile[j * 64 + c] = p - w;
        }
        if (t == j) {
            tile[j * 64 + j] = beta * unlift;
            rho_of[j] = rho;
        }
        block_sync();
    }
    if (c < count)
        for (int i = c + 1 + group; i < rows; i += 4) tile[i * 64 + c] *= rho_of[c];
    block_sync();
}
