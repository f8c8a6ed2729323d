// Householder QR of a matrix held by a group of L lanes, a lane per column (and every L-th column after it).
//
// Parameters: M, N, K = min(M, N); L lanes a matrix, 2..64; SLOTS = ceil(N / L) columns a lane; PM = M rounded up to 4; LD row stride of the tile;
// IN_TILE, OUT_TILE: the matrix comes from, goes to a tile in shared memory (pack_stage.cuh), else straight from and to rows in global memory.
// Layout: lane c holds column q L + c as x[q][0..M-1], rotated: at step j, x[q][0] is row j, so every index is a
// constant although the loop over columns is rolled: few instructions to fetch, as most launches are a few microseconds. Rows past
// the last are zero; the work of the rows that have left is skipped eight at a time.
// Step j finishes row j of [V \ R] whole: R in the columns from j on, V in those before, whose registers keep the unscaled reflector.
// The pivot column travels through pivot[2][PM] (double-buffered, one synchronisation a column); a dot with the lane's own
// column needs no reduction at all.
// Synchronisation: pack_sync() joins the lanes of one matrix (a warp, or a named barrier when L > 32).
% local STEP = 8
struct pack_lane {
    float x[${SLOTS}][${PM}];
    float rho[${SLOTS}], tau[${SLOTS}]; // of finished columns
    int exponent[${SLOTS}];
    int column; // of slot 0
};

// Columns j0 .. j1-1, all in slot SLOT. to: row j0 of the result, `pitch` floats between rows. pivot: column j0 in buffer j0 & 1.
template <int SLOT> QRS_DEV void pack_columns(pack_lane &s, int j0, int j1, float *to, i64 pitch, bool store, float *pivot)
{
    #pragma unroll 1
    for (int j = j0; j < j1; j++, to += pitch) {
        const float *raw = pivot + (j & 1) * ${PM};
        const int live = ${M} - j;
        float x[${PM}], dot[${SLOTS}], squares, alpha;
        #pragma unroll
        for (int k = 0; k < ${PM}; k += 4) {
            if (k < ${STEP} || k / ${STEP} * ${STEP} < live) {
                const f32x4 v = *(const f32x4 *)(raw + k);
                x[k] = v.x, x[k + 1] = v.y, x[k + 2] = v.z, x[k + 3] = v.w;
            }
        }
        alpha = x[0];
        int scale = 0;
        bool zero = false;
        #pragma unroll 1
        for (bool again = false;; again = true) {
            #pragma unroll
            for (int q = SLOT; q < ${SLOTS}; q++) {
                float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
                #pragma unroll
                for (int k0 = 0; k0 < ${M}; k0 += ${STEP})
                    if (k0 == 0 || k0 < live) {
                        #pragma unroll
                        for (int k = k0 > 0 ? k0 : 1; k < k0 + ${STEP} && k < ${M}; k++) {
                            part[k & 3] = fmaf(x[k], s.x[q][k], part[k & 3]);
                        }
                    }
                dot[q] = (part[0] + part[1]) + (part[2] + part[3]);
            }
% if L <= 32 then
            squares = shfl(dot[SLOT], ((int)lane() & ${32 - L}) + j - ${L} * SLOT);
% else
            float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            #pragma unroll
            for (int k0 = 0; k0 < ${M}; k0 += ${STEP})
                if (k0 == 0 || k0 < live) {
                    #pragma unroll
                    for (int k = k0 > 0 ? k0 : 1; k < k0 + ${STEP} && k < ${M}; k++) {
                        part[k & 3] = fmaf(x[k], x[k], part[k & 3]);
                    }
                }
            squares = (part[0] + part[1]) + (part[2] + part[3]);
% end
            // Rare: the tail is zero or so small that its squares lose digits. All lanes of the matrix decide alike, the warp's others repeat
            // what they did.
            const bool tiny = squares < QRS_TINY_SQUARES;
            if (again || !warp_any(tiny))
                break;
            if (tiny) {
                float largest = 0.0f;
                #pragma unroll
                for (int k0 = 0; k0 < ${M}; k0 += ${STEP})
                    if (k0 == 0 || k0 < live) {
                        #pragma unroll
                        for (int k = k0 > 0 ? k0 : 1; k < k0 + ${STEP} && k < ${M}; k++) {
                            largest = fmaxf(largest, fabsf(x[k]));
                        }
                    }
                zero = largest == 0.0f;
                if (!zero && is_finite(alpha)) {
                    scale = pow2_exponent(fmaxf(largest, fabsf(alpha)));
                    const power_of_two shrink = make_power_of_two(-scale);
                    alpha = times(shrink, alpha);
                    #pragma unroll
                    for (int k0 = 0; k0 < ${M}; k0 += ${STEP})
                        if (k0 == 0 || k0 < live) {
                            #pragma unroll
                            for (int k = k0 > 0 ? k0 : 1; k < k0 + ${STEP} && k < ${M}; k++) {
                                x[k] = times(shrink, x[k]);
                                if (SLOT * ${L} + s.column == j)
                                    s.x[SLOT][k] = x[k];
                            }
                        }
                }
            }
        }
        const float square = fmaf(alpha, alpha, squares), root = rsqrt_normal(square), gap = zero ? 0.0f : fabsf(alpha) + square * root;
        const float rho = zero ? 0.0f : copysignf(rcp_normal(gap), alpha), step = zero ? 0.0f : copysignf(root, alpha);
        const bool wild = !is_finite(square);
        #pragma unroll
        for (int q = 0; q < ${SLOTS}; q++) {
            const int c = q * ${L} + s.column;
            float y = s.x[q][0];
            if (q >= SLOT) {
                float g = step * fmaf(rho, dot[q], y);
                const float r = fmaf(-g, copysignf(gap, alpha), y);
                if (q == SLOT && c <= j) { // finished columns stay as they are
                    g = 0.0f;
                    if (c == j) {
                        s.rho[q] = rho;
                        s.tau[q] = reflector_tau(rho, squares);
                        y = zero ? alpha : reflector_beta(alpha, squares);
                        y = times(make_power_of_two(s.exponent[q] + scale), y);
                    } else {
                        y *= s.rho[q];
                    }
                    if (wild) { // nor are they touched by what is not finite
                        #pragma unroll
                        for (int k = 1; k < ${M}; k++)
                            x[k] = 0.0f;
                    }
                } else {
                    y = times(make_power_of_two(s.exponent[q]), r);
                }
                #pragma unroll
                for (int k0 = 0; k0 < ${M}; k0 += ${STEP})
                    if (k0 == 0 || k0 < live) {
                        #pragma unroll
                        for (int k = k0 > 0 ? k0 : 1; k < k0 + ${STEP} && k < ${M}; k++) {
                            s.x[q][k - 1] = fmaf(-g, x[k], s.x[q][k]);
                        }
                    } else {
                        s.x[q][k0 - 1] = 0.0f;
                    }
            } else {
                y *= s.rho[q];
                #pragma unroll
                for (int k0 = 0; k0 < ${M}; k0 += ${STEP})
                    if (k0 == 0 || k0 < live) {
                        #pragma unroll
                        for (int k = k0 > 0 ? k0 : 1; k < k0 + ${STEP} && k < ${M}; k++) {
                            s.x[q][k - 1] = s.x[q][k];
                        }
                    } else {
                        s.x[q][k0 - 1] = 0.0f;
                    }
            }
            s.x[q][${M - 1}] = 0.0f;
            if (store${SLOTS * L > N and " && c < " .. N or ""})
                to[q * ${L}] = y;
        }
        if (j + 1 < ${K} && s.column == (j + 1) % ${L}) {
            float *next = pivot + ((j + 1) & 1) * ${PM};
            const bool cross = SLOT + 1 < ${SLOTS} && j + 1 == ${L} * (SLOT + 1);
            #pragma unroll
            for (int k = 0; k < ${PM}; k += 4) {
                if (k >= ${STEP} && k / ${STEP} * ${STEP} >= live - 1)
                    break;
                float y[4];
                #pragma unroll
                for (int i = 0; i < 4; i++)
                    y[i] = cross ? s.x[SLOT + 1 < ${SLOTS} ? SLOT + 1 : SLOT][k + i] : s.x[SLOT][k + i];
                const f32x4 v = {y[0], y[1], y[2], y[3]};
                *(f32x4 *)(next + k) = v;
            }
        }
        pack_sync();
    }
}

// Takes the lane's columns, scaled so that the largest finite magnitude of each lies in [1, 2) (design,
// section 5). from: the matrix's first entry, `pitch` floats between rows; present: there is such a matrix. True when an entry is not finite.
QRS_DEV bool pack_take(pack_lane &s, const float *from, i64 pitch, bool present)
{
    bool bad = false;
    #pragma unroll
    for (int q = 0; q < ${SLOTS}; q++) {
        const int c = q * ${L} + s.column;
        const bool mine = present${SLOTS * L > N and " && c < " .. N or ""};
        const float *at = from + c;
        #pragma unroll
        for (int k = 0; k < ${PM}; k++) {
            s.x[q][k] = k < ${M} && mine ? *at : 0.0f;
            if (k + 1 < ${M})
                at += pitch;
        }
    }
    #pragma unroll
    for (int q = 0; q < ${SLOTS}; q++) {
        float largest = 0.0f;
        #pragma unroll
        for (int k = 0; k < ${M}; k++) {
            const float v = s.x[q][k];
            const bool finite = is_finite(v);
            bad = bad || !finite;
            largest = fmaxf(largest, finite ? fabsf(v) : 0.0f);
        }
        s.exponent[q] = largest > 0.0f ? pow2_exponent(largest) : 0;
        s.rho[q] = s.tau[q] = 0.0f;
        const power_of_two down = make_power_of_two(-s.exponent[q]);
        #pragma unroll
        for (int k = 0; k < ${M}; k++)
            s.x[q][k] = times(down, s.x[q][k]);
    }
    return bad;
}

// From pack_take's registers to the finished rows; those past the last column's follow. tau: of this matrix.
QRS_DEV void pack_factor(pack_lane &s, float *to, i64 pitch, bool store, float *pivot, float *tau)
{
    to += s.column;
    if (s.column == 0) {
        #pragma unroll
        for (int k = 0; k < ${PM}; k += 4) {
            const f32x4 v = {s.x[0][k], s.x[0][k + 1], s.x[0][k + 2], s.x[0][k + 3]};
            *(f32x4 *)(pivot + k) = v;
        }
    }
    pack_sync();
% for q = 0, ceildiv(K, L) - 1 do
    pack_columns<${q}>(s, ${q * L}, ${math.min(K, (q + 1) * L)}, to + ${q * L} * pitch, pitch, store, pivot);
% end
    #pragma unroll
    for (int q = 0; q < ${SLOTS}; q++) {
        const int c = q * ${L} + s.column;
% if M > K then
        #pragma unroll
        for (int k = 0; k < ${M - K}; k++)
            if (store${SLOTS * L > N and " && c < " .. N or ""})
                to[(${K} + k) * pitch + q * ${L}] = s.x[q][k] * s.rho[q];
% end
        if (store && c < ${K})
            tau[c] = s.tau[q];
    }
}
