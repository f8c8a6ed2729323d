// Householder QR of a matrix held by a group of L lanes, a lane per column (and every L-th column after it).
//
// Parameters: M, N, K = min(M, N); L lanes a matrix, 2..32; SLOTS = ceil(N / L) columns a lane; PM = M rounded up to 4.
// Layout: lane c holds column q L + c as x[q][k], rows `top` and after; every four columns the finished rows leave for H, R and V in one,
// and the others move up. What a small matrix costs is instructions, so its code is straight-line and works on the rows that are left;
// taller ones have one copy of four steps for every few groups (registers move): straight-line code would take seconds to compile at
// 32 rows, and not stay in the instruction cache at 64.
// The pivot column travels through pivot[2][PM] (double-buffered, one warp_sync() a column); a dot with the lane's own column needs no
// reduction at all. V stays unscaled in the registers of finished columns until its row leaves.
% local run = (M <= 24 or L < 8) and 4 or M <= 32 and 8 or math.min(L, 16) -- columns a copy of the code
struct pack_lane {
    float x[${SLOTS}][${PM}];
    float rho[${SLOTS}], squares[${SLOTS}]; // of finished columns
    int exponent[${SLOTS}];                 // of the power of two that gives R's column its scale back
    int scale[${SLOTS}];                    // its diagonal entry
    int column;                             // of slot 0
};

// The step of column j = top + JW in slot SLOT; column j + 1 is in slot AFTER if it is that slot's first. pivot: column j in buffer
// JW & 1, rows `top` and after.
template <int ROWS, int SLOT, int AFTER, int JW> QRS_DEV void pack_step(pack_lane &s, int top, float *pivot)
{
    const float *raw = pivot + (JW & 1) * ${PM};
    const int j = top + JW, c = SLOT * ${L} + s.column;
    float x[ROWS], dot[${SLOTS}], squares, square, root, gap, rho;
    bool again = false, zero = false;
    #pragma unroll
    for (int k = 0; k < ROWS; k += 4) {
        const f32x4 v = *(const f32x4 *)(raw + k);
        x[k] = v.x, x[k + 1] = v.y, x[k + 2] = v.z, x[k + 3] = v.w;
    }
    #pragma unroll 1
    while (true) {
        #pragma unroll
        for (int q = SLOT; q < ${SLOTS}; q++) {
            float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            #pragma unroll
            for (int k = JW + 1; k < ROWS; k++)
                part[k & 3] = fmaf(x[k], s.x[q][k], part[k & 3]);
            dot[q] = (part[0] + part[1]) + (part[2] + part[3]);
        }
        squares = shfl(dot[SLOT], ((int)lane() & ${32 - L}) + j - ${L} * SLOT);
        square = fmaf(x[JW], x[JW], squares);
        root = rsqrt_normal(square);
        gap = fabsf(x[JW]) + square * root;
        rho = rcp_normal(gap);
        const bool wild = !(square <= 0x1p126f), tiny = squares < QRS_TINY_SQUARES && !again;
        if (!warp_any(wild || tiny || zero))
            break;
        // Rare: the tail is zero, or so small that its squares lose digits: then the step repeats rescaled, and the warp's other matrices
        // repeat what they did. All lanes of a matrix decide alike.
        if (!again) {
            float largest = 0.0f;
            #pragma unroll
            for (int k = JW + 1; k < ROWS; k++)
                largest = fmaxf(largest, fabsf(x[k]));
            zero = tiny && largest == 0.0f;
            if (tiny && !zero && is_finite(x[JW])) {
                const int scale = pow2_exponent(fmaxf(largest, fabsf(x[JW])));
                const power_of_two shrink = make_power_of_two(-scale);
                #pragma unroll
                for (int k = JW; k < ROWS; k++) {
                    x[k] = times(shrink, x[k]);
                    if (c == j)
                        s.x[SLOT][k] = x[k];
                }
                if (c == j)
                    s.scale[SLOT] += scale;
            }
            again = true;
            if (warp_any(tiny && !zero))
                continue;
        }
        if (zero)
            root = gap = rho = 0.0f;
        if (wild && c <= j) { // finished columns are not to be touched by what is not finite
            #pragma unroll
            for (int k = JW + 1; k < ROWS; k++)
                x[k] = 0.0f;
            gap = 0.0f;
        }
        break;
    }
    const float alpha = x[JW], step = copysignf(root, alpha);
    rho = copysignf(rho, alpha), gap = copysignf(gap, alpha);
    #pragma unroll
    for (int q = SLOT; q < ${SLOTS}; q++) {
        const float gl = step * fmaf(rho, dot[q], s.x[q][JW]), g = q > SLOT || c > j ? gl : 0.0f;
        s.x[q][JW] = fmaf(-g, gap, s.x[q][JW]);
        #pragma unroll
        for (int k = JW + 1; k < ROWS; k++)
            s.x[q][k] = fmaf(-g, x[k], s.x[q][k]);
    }
    if (c == j)
        s.rho[SLOT] = rho, s.squares[SLOT] = squares;
    if (j + 1 < ${K} && s.column == (j + 1) % ${L}) {
        constexpr int first = JW == 3 ? 4 : 0;
        const bool cross = AFTER > SLOT && j + 1 == AFTER * ${L};
        float *next = pivot + (~JW & 1) * ${PM};
        #pragma unroll
        for (int k = first; k < ROWS; k += 4) {
            float y[4];
            #pragma unroll
            for (int i = 0; i < 4; i++)
                y[i] = cross ? s.x[AFTER][k + i] : s.x[SLOT][k + i];
            const f32x4 v = {y[0], y[1], y[2], y[3]};
            *(f32x4 *)(next + k - first) = v;
        }
% if run > 4 then
        if (first > 0) {
            const f32x4 none = {0.0f, 0.0f, 0.0f, 0.0f};
            *(f32x4 *)(next + ROWS - first) = none;
        }
% end
    }
    warp_sync();
}

// The finished rows top .. top + 3 leave for `to`, the others move up.
template <int ROWS> QRS_DEV void pack_leave(pack_lane &s, int top, float *to, i64 pitch, bool store)
{
    #pragma unroll
    for (int q = 0; q < ${SLOTS}; q++) {
        const int c = q * ${L} + s.column;
        const power_of_two up = make_power_of_two(s.exponent[q]);
        float diagonal = s.x[q][0]; // what is left of the column, unless the tail was zero
        #pragma unroll
        for (int k = 1; k < 4; k++)
            diagonal = c == top + k ? s.x[q][k] : diagonal;
        diagonal = s.rho[q] != 0.0f ? reflector_beta(diagonal, s.squares[q]) : diagonal;
        diagonal = times(make_power_of_two(s.scale[q]), diagonal);
        #pragma unroll
        for (int k = 0; k < 4; k++) {
            float y = c > top + k ? times(up, s.x[q][k]) : s.x[q][k] * s.rho[q];
            y = c == top + k ? diagonal : y;
            if (store${M % 4 > 0 and " && top + k < " .. M or ""}${SLOTS * L > N and " && c < " .. N or ""})
                to[k * pitch + q * ${L}] = y;
        }
        #pragma unroll
        for (int k = 0; k + 4 < ROWS; k++)
            s.x[q][k] = s.x[q][k + 4];
        #pragma unroll
        for (int k = ROWS > 4 ? ROWS - 4 : 0; k < ROWS; k++)
            s.x[q][k] = 0.0f;
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
        s.exponent[q] = s.scale[q] = largest > 0.0f ? pow2_exponent(largest) : 0;
        s.rho[q] = s.squares[q] = 0.0f;
        const power_of_two down = make_power_of_two(-s.exponent[q]);
        #pragma unroll
        for (int k = 0; k < ${M}; k++)
            s.x[q][k] = times(down, s.x[q][k]);
    }
    return bad;
}

// From pack_take's registers to the finished rows. tau: of this matrix.
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
    warp_sync();
% for first = 0, K - 1, run do
    #pragma unroll 1
    for (int top = ${first}; top < ${math.min(first + run, align(K, 4))}; top += 4, to += 4 * pitch) {
%   local at = run == 4 and first or "top"
%   for jw = 0, 3 do
%     local j, last = first + jw, first + run - 4 + jw
%     if j < K then
%       local check = last >= K and run > 4 and "if (top + " .. jw .. " < " .. K .. ") " or ""
        ${check}pack_step<${PM - first}, ${j // L}, ${math.min((last + 1) // L, SLOTS - 1)}, ${jw}>(s, ${at}, pivot);
%     end
%   end
        pack_leave<${PM - first}>(s, ${at}, to, pitch, store);
    }
% end
% if M > align(K, 4) then
    #pragma unroll 1
    for (int top = ${align(K, 4)}; top < ${M}; top += 4, to += 4 * pitch)
        pack_leave<${PM}>(s, top, to, pitch, store);
% end
    #pragma unroll
    for (int q = 0; q < ${SLOTS}; q++) {
        const int c = q * ${L} + s.column;
        if (store && c < ${K})
            tau[c] = reflector_tau(s.rho[q], s.squares[q]);
    }
}
