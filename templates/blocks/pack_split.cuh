// Householder QR of one matrix by four warps: lane = column (and column + 32), rows dealt to the warps.
//
// Parameters: M, N <= 64, K = min(M, N); RW = ceil(M / 4); SLOTS = ceil(N / 32); IN, OUT layouts.
// Layout: warp w holds row top + 4 k + w of its lane's columns as x[slot][k]; every four columns the finished rows x[.][0] leave for
// H, R and V in one, and the others move up. Code: four steps straight-line, a copy for every 16 columns (ROWS rows a warp are left,
// columns before 32 SLOT are finished), the loop over the copy's groups rolled: short enough to be fetched within a launch of a few
// microseconds.
// Every lane carries the pivot column at its warp's rows (xb) and finds the next one from its old values and its own g, as the
// column's owner does, bit for bit. Scalars as in pack_reflector.cuh, without Newton steps. One barrier a column; whether a step is
// one of the rare ones is known long before its g, so nothing waits for that branch.
% local COLUMNS = 32 * SLOTS + 4 -- room for "next" of the last column
% local in_columns = N % 32 > 0 and "l + 32 * t < " .. N or "true"
struct alignas(16) pack_shared {
    float part[2][${COLUMNS}][4];      // dots by column and warp, one buffer a parity of the column
    float next[2][4][${align(RW, 4)}]; // old column j + 1 by warp
    float pivot[2][${COLUMNS}];        // the pivot row
    f32x4 facts[4][${32 * SLOTS}];     // of finished columns, a copy a warp: alpha, squares, rho, exponent of alpha's scale
};
% local PART, NEXT, PIVOT = 16 * COLUMNS, 16 * align(RW, 4), 4 * COLUMNS -- from one parity to the other, in bytes

// Addresses in parity 0, so that a step needs no arithmetic for them.
struct pack_places {
    saddr part, next, pivot;                   // columns `top` and after; next: of this warp
    saddr my_dot, my_dots, my_pivot, my_facts; // of this lane's column
};

struct pack_split_state {
    float x[${SLOTS}][${align(RW, 4)}], xb[${align(RW, 4)}], d[${SLOTS}];
    int exponent[${SLOTS}]; // of the power of two that gives R's column its scale back
};

QRS_DEV float pack_sum(f32x4 part)
{
    return (part.x + part.y) + (part.z + part.w);
}

template <int ROWS> QRS_DEV float pack_dot(const float *xb, const float *x)
{
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    #pragma unroll
    for (int k = 0; k < ROWS; k++)
        d[k & 3] = fmaf(xb[k], x[k], d[k & 3]);
    return (d[0] + d[1]) + (d[2] + d[3]);
}

// A tail without squares to speak of: true when it is exactly zero, otherwise the pivot column is rescaled and the step is to be
// repeated. above: row x[.][0] of this warp lies above the pivot. All threads call.
template <int ROWS, int SLOT>
QRS_DEV bool pack_rescale(pack_split_state &r, const pack_places &at, int b, int column, bool above, float alpha, int *exponent)
{
    float most = 0.0f;
    #pragma unroll
    for (int k = 0; k < ROWS; k++)
        most = fmaxf(most, fabsf(r.xb[k]));
    block_sync();
    sts(at.my_dot + b * ${PART}, most);
    block_sync();
    const f32x4 all = lds<f32x4>(at.my_dots + b * ${PART});
    most = fmaxf(fmaxf(all.x, all.y), fmaxf(all.z, all.w));
    if (most == 0.0f)
        return true;
    if (is_finite(alpha)) {
        const int scale = pow2_exponent(fmaxf(most, fabsf(alpha)));
        const power_of_two shrink = make_power_of_two(-scale);
        #pragma unroll
        for (int k = 0; k < ROWS; k++) {
            r.xb[k] = times(shrink, r.xb[k]);
            if ((int)lane() == column && (k > 0 || !above)) // entries of R keep their scale
                r.x[SLOT][k] = times(shrink, r.x[SLOT][k]);
        }
        *exponent += scale;
    }
    #pragma unroll
    for (int t = SLOT; t < ${SLOTS}; t++)
        r.d[t] = pack_dot<ROWS>(r.xb, r.x[t]);
    return false;
}

// The step of column j = top + JW, which is column `column` of slot SLOT. ENDS: row M - 1 may be its pivot row.
template <int ROWS, int SLOT, bool ENDS, int JW> QRS_DEV void pack_step(pack_split_state &r, const pack_places &at, int top)
{
    const int l = lane(), w = warp(), j = top + JW, column = j - 32 * SLOT, b = JW & 1;
    const bool cross = SLOT + 1 < ${SLOTS} && JW == 3 && column == 31; // column j + 1 is the first of the next slot
    float alpha, square, q, gap, rho, squares, dn, pn, dl[${SLOTS}], p[${SLOTS}];
    int exponent = r.exponent[SLOT];
    bool again = false;
    #pragma unroll 1
    while (true) {
        if (again)
            block_sync();
        #pragma unroll
        for (int t = SLOT; t < ${SLOTS}; t++) {
            sts(at.my_dot + (b * ${PART} + 512 * t), r.d[t]);
            if (w == JW)
                sts(at.my_pivot + (b * ${PIVOT} + 128 * t), r.x[t][0]);
        }
        if (l == ((column + 1) & 31)) {
            #pragma unroll
            for (int k = 0; k < ROWS; k += 4) {
                constexpr int after = SLOT + 1 < ${SLOTS} ? SLOT + 1 : SLOT;
                f32x4 v = {r.x[SLOT][k], r.x[SLOT][k + 1], r.x[SLOT][k + 2], r.x[SLOT][k + 3]};
                if (cross)
                    v = {r.x[after][k], r.x[after][k + 1], r.x[after][k + 2], r.x[after][k + 3]};
                sts(at.next + (b * ${NEXT} + 4 * k), v);
            }
        }
        block_sync();
        // In the order in which the chain wants them.
        squares = pack_sum(lds<f32x4>(at.part + (b * ${PART} + 16 * JW)));
        alpha = lds<float>(at.pivot + (b * ${PIVOT} + 4 * JW));
        dn = pack_sum(lds<f32x4>(at.part + (b * ${PART} + 16 * JW + 16)));
        pn = lds<float>(at.pivot + (b * ${PIVOT} + 4 * JW + 4));
        square = fmaf(alpha, alpha, squares);
        q = rsqrt_normal(square);
        gap = fabsf(alpha) + square * q;
        rho = copysignf(rcp_normal(gap), alpha);
        #pragma unroll
        for (int t = SLOT; t < ${SLOTS}; t++) {
            dl[t] = pack_sum(lds<f32x4>(at.my_dots + (b * ${PART} + 512 * t)));
            p[t] = lds<float>(at.my_pivot + (b * ${PIVOT} + 128 * t));
        }
        const bool ends = ENDS && j == ${M - 1}, finite = square <= 0x1p126f;
        if (squares >= QRS_TINY_SQUARES && finite)
            break;
        // Rare, and the same for the whole block: the tail is zero (after the last row always), its squares have lost digits, or something
        // is not finite.
        if (ends || (squares < QRS_TINY_SQUARES && !again)) {
            if (ends || pack_rescale<ROWS, SLOT>(r, at, b, column, w < JW, alpha, &exponent)) {
                q = gap = rho = 0.0f;
                break;
            }
            again = true;
            continue;
        }
        if (!finite && l <= column) { // finished columns are not to be touched
            #pragma unroll
            for (int k = 0; k < ROWS; k++)
                r.xb[k] = 0.0f;
            gap = 0.0f;
        }
        break;
    }
    const float step = copysignf(q, alpha), gn = step * fmaf(rho, dn, pn);
    if (w == JW)
        r.xb[0] = copysignf(gap, alpha);
    #pragma unroll
    for (int t = SLOT; t < ${SLOTS}; t++) {
        const float gl = step * fmaf(rho, dl[t], p[t]), g = t > SLOT || l > column ? gl : 0.0f;
        #pragma unroll
        for (int k = 0; k < ROWS; k++)
            r.x[t][k] = fmaf(-g, r.xb[k], r.x[t][k]);
    }
    #pragma unroll
    for (int k = 0; k < ROWS; k += 4) {
        const f32x4 next = lds<f32x4>(at.next + (b * ${NEXT} + 4 * k));
        r.xb[k] = fmaf(-gn, r.xb[k], next.x), r.xb[k + 1] = fmaf(-gn, r.xb[k + 1], next.y);
        r.xb[k + 2] = fmaf(-gn, r.xb[k + 2], next.z), r.xb[k + 3] = fmaf(-gn, r.xb[k + 3], next.w);
    }
    if (w <= JW + 1)
        r.xb[0] = 0.0f;
    if (JW == 3 && w == 0 && ROWS > 1)
        r.xb[1] = 0.0f;
    #pragma unroll
    for (int t = SLOT; t < ${SLOTS}; t++)
        r.d[t] = pack_dot<ROWS>(r.xb, r.x[t]);
    if (l == column)
        sts(at.my_facts + 512 * SLOT, f32x4{alpha, squares, rho, as_f32((u32)exponent)});
}

// The finished rows top .. top + 3, one a warp, leave; the others move up.
template <int ROWS> QRS_DEV void pack_leave(pack_split_state &r, const pack_places &at, int top, float *to, i64 ldh)
{
    const int l = lane(), row = top + (int)warp();
    warp_sync();
    #pragma unroll
    for (int t = 0; t < ${SLOTS}; t++) {
        const f32x4 facts = lds<f32x4>(at.my_facts + 512 * t);
        float y = times(make_power_of_two(r.exponent[t]), r.x[t][0]);
        if (l + 32 * t < row)
            y = r.x[t][0] * facts.z;
        if (l + 32 * t == row) // the diagonal of R: what is left of the column, unless the tail was zero
            y = times(make_power_of_two((int)as_u32(facts.w)), facts.z != 0.0f ? reflector_beta(facts.x, facts.y) : r.x[t][0]);
        if (${M % 4 > 0 and "row < " .. M .. " && " or ""}${in_columns})
            to[${OUT == "col" and "32 * t * ldh" or "32 * t"}] = y;
        #pragma unroll
        for (int k = 0; k + 1 < ROWS; k++)
            r.x[t][k] = r.x[t][k + 1];
        r.x[t][ROWS - 1] = 0.0f;
    }
    #pragma unroll
    for (int k = 0; k + 1 < ROWS; k++)
        r.xb[k] = r.xb[k + 1];
    r.xb[ROWS - 1] = 0.0f;
}

// All 128 threads of the block call. True when an entry is not finite.
QRS_DEV bool pack_split(const float *a, i64 lda, float *h, i64 ldh, float *tau, pack_shared *s)
{
    const int l = lane(), w = warp();
    pack_split_state r;
    float most[${SLOTS}];
    bool odd = false;
    const float *from = a + ${IN == "col" and "l * lda + w" or "w * lda + l"};
    #pragma unroll
    for (int k = 0; k < ${RW}; k++, from += 4${IN == "col" and "" or " * lda"})
        #pragma unroll
        for (int t = 0; t < ${SLOTS}; t++) {
            const bool in = ${M % 4 > 0 and "4 * k + w < " .. M .. " && " or ""}${in_columns};
            r.x[t][k] = in ? from[${IN == "col" and "32 * t * lda" or "32 * t"}] : 0.0f;
        }
    #pragma unroll
    for (int t = 0; t < ${SLOTS}; t++) {
        most[t] = 0.0f;
        #pragma unroll
        for (int k = 0; k < ${RW}; k++) {
            const bool finite = is_finite(r.x[t][k]);
            odd = odd || !finite;
            most[t] = fmaxf(most[t], finite ? fabsf(r.x[t][k]) : 0.0f);
        }
        s->part[1][l + 32 * t][w] = most[t];
    }
    const bool bad = block_any(odd);
    #pragma unroll
    for (int t = 0; t < ${SLOTS}; t++) {
        const f32x4 m = *(const f32x4 *)s->part[1][l + 32 * t];
        most[t] = fmaxf(fmaxf(m.x, m.y), fmaxf(m.z, m.w));
        const int ex = most[t] > 0.0f ? pow2_exponent(most[t]) : 0;
        const power_of_two down = make_power_of_two(-ex);
        #pragma unroll
        for (int k = 0; k < ${align(RW, 4)}; k++) {
            r.x[t][k] = k < ${RW} ? times(down, r.x[t][k]) : 0.0f;
            if (t == 0)
                r.xb[k] = shfl(r.x[0][k], 0);
        }
        if (t == 0 && w == 0)
            r.xb[0] = 0.0f;
        r.d[t] = pack_dot<${RW}>(r.xb, r.x[t]);
        r.exponent[t] = ex;
    }

    pack_places at = {to_saddr(s->part[0]),    to_saddr(s->next[0][w]),   to_saddr(s->pivot[0]),   to_saddr(&s->part[0][l][w]),
                      to_saddr(s->part[0][l]), to_saddr(&s->pivot[0][l]), to_saddr(&s->facts[w][l])};
    float *to = h + ${OUT == "col" and "l * ldh + w" or "w * ldh + l"};
    const i64 group = 4${OUT == "col" and "" or " * ldh"};
% for first = 0, K - 1, 16 do
%   local last = math.min(first + 16, align(K, 4))
%   local args = "<" .. RW - first // 4 .. ", " .. first // 32 .. ", " .. (last >= M and "true" or "false") .. ", "
    #pragma unroll 1
    for (int top = ${first}; top < ${last}; top += 4, to += group, at.part += 64, at.pivot += 16) {
%   if last > K then
        const int count = top + 4 > ${K} ? ${K % 4} : 4;
%   end
%   for jw = 0, 3 do
        ${last > K and jw > 0 and "if (" .. jw .. " < count) " or ""}pack_step${args}${jw}>(r, at, top);
%   end
        pack_leave<${RW - first // 4}>(r, at, top, to, ldh);
    }
% end
% if M > align(K, 4) then
    #pragma unroll 1
    for (int top = ${align(K, 4)}; top < ${M}; top += 4, to += group)
        pack_leave<${RW}>(r, at, top, to, ldh);
% end
    if (w == 0) {
        #pragma unroll
        for (int t = 0; t < ${SLOTS}; t++) {
            const f32x4 facts = lds<f32x4>(at.my_facts + 512 * t);
            if (l + 32 * t < ${K})
                tau[l + 32 * t] = reflector_tau(facts.z, facts.y);
        }
    }
    return bad;
}
