// Left-looking updates with panels of 32 columns, two CTAs an SM: finished panels are applied in pairs, 64 reflectors at a time, by warpgroup
// products whose rows are the matrix's rows.
//
// Parameters: M, N; NT = row tiles of 64; TW = tiles a warpgroup; PLANE = bytes of a plane of V; IN, OUT layouts; shared memory places O_*.
// Fragment of a block C: warpgroup wg holds row tiles t = 2 j + wg; c[j][4 i + 2 h + e] is row 16 w + g + 8 h of tile t, column 8 i + 2 q + e,
// with w the warp in the warpgroup, g = lane / 4, q = lane % 4. Entries past the matrix are zero.
// Everything that a product reads from shared memory lies in rows of 64 bytes, 32 columns of fp16, 64-byte swizzle (duo_chunk): V of a panel by tiles
// of 64 rows = 4 KB, tile t at 4096 t, scaled by 2^LIFT; C once more, rounded, for W = V'C; W' = T'W for C -= V W'.
#define QRS_LIFT 6
typedef float duo_tile[${TW}][16];

QRS_DEV int duo_group() { return shfl((int)warp() >> 2, 0); } // a warpgroup's branches must be seen to be uniform
QRS_DEV int duo_row() { return ((int)warp() & 3) * 16 + ((int)lane() >> 2); } // of a tile, first of two, 8 apart
QRS_DEV int duo_column() { return ((int)lane() & 3) * 2; }                      // first of eight: 8 i and 8 i + 1 further
QRS_DEV int duo_chunk(int row, int chunk) { return row * 64 + ((chunk ^ (row >> 1 & 3)) << 4); }
QRS_DEV u64 duo_desc(saddr a) { return smem_desc(a, 64, 16, 512); }
QRS_DEV u64 duo_further(u64 desc, int by) { return desc + (u64)(u32)(by >> 4); }
// Where a lane's pairs of a fragment go: the pair (i, h) of a tile is at at[i] + 512 h.
struct duo_spots {
    saddr at[4];
};
QRS_DEV duo_spots duo_find(saddr tile)
{
    const int row = duo_row();
    duo_spots p;
    #pragma unroll
    for (int i = 0; i < 4; i++)
        p.at[i] = tile + duo_chunk(row, i) + duo_column() * 2;
    return p;
}
// Addresses of 16-byte rows for ldmatrix, an A fragment of 16 x 16: rows of the operand along rows of shared memory, or (turned, by ldmatrix_x4_trans) along
// its columns.
QRS_DEV int duo_along(int row, int chunk) { return duo_chunk(row + ((int)lane() & 15), chunk + ((int)lane() >> 4)); }
QRS_DEV int duo_across(int row, int chunk) { return duo_chunk(row + ((int)lane() >> 4) * 8 + ((int)lane() & 7), chunk + ((int)lane() >> 3 & 1)); }

QRS_DEV void duo_split(float x, float y, u32 &hi, u32 &lo)
{
    float hx, hy;
    hi = pack_f16(x, y);
    unpack_f16(hi, hx, hy);
    lo = pack_f16(x - hx, y - hy);
}

// By value: a choice between two elements of an array is a choice of addresses, and sends the array to local memory.
QRS_DEV float duo_pick(bool first, float x, float y) { return first ? x : y; }

// What eight values a lane, one for each of its columns (2 i + e), come to over the rows of a warp: lane l gets column duo_of(l).
QRS_DEV int duo_of(int l) { return 8 * (l >> 3) + 2 * (l & 3) + (l >> 2 & 1); }
template <class OP> QRS_DEV float duo_gather(float (&v)[8], OP op)
{
    const int l = lane();
    #pragma unroll
    for (int half = 4; half > 0; half >>= 1) {
        const bool up = l & 4 * half;
        #pragma unroll
        for (int x = 0; x < half; x++) {
            const float mine = duo_pick(up, v[x + half], v[x]), other = duo_pick(up, v[x], v[x + half]);
            v[x] = op(mine, shfl_xor(other, 4 * half));
        }
    }
    return v[0];
}
// The eight values of a lane's columns, from lanes that hold one column each (lane = column).
QRS_DEV void duo_spread(float x, float (&v)[8])
{
    #pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = shfl(x, 8 * (i >> 1) + duo_column() + (i & 1));
}
struct duo_larger { // magnitudes compare as integers, and NaN and infinity come out on top
    QRS_DEV float operator()(float x, float y) const { return as_u32(x) > as_u32(y) ? x : y; }
};
struct duo_sum {
    QRS_DEV float operator()(float x, float y) const { return x + y; }
};

// Small state of a CTA beside V, C and T.
struct duo_shared {
    float whole[32];
    float part[8][32]; // by warp and column, on the way
    float tau[32];
    float up[32], back[32]; // powers of two of the columns of P2 and of M
    int exponent[32];
    int bad, fell, sound;
};

// Columns first .. first + 31 of A.
QRS_DEV void duo_load(duo_tile &c, const float *a, i64 lda, int first)
{
    const int wg = duo_group(), top = 64 * wg + duo_row(), col = duo_column();
% if IN == "row" then
    const float *from = a + (i64)top * lda + first + col;
    const bool whole = first + 32 <= ${N} && ((u64)a & 7) == 0 && (lda & 1) == 0;
% else
    const float *from = a + (i64)(first + col) * lda + top;
% end
    #pragma unroll
    for (int j = 0; j < ${TW}; j++) {
% for h = 0, 1 do
        {
            const bool in = 128 * j + ${8 * h} + top < ${M};
            const float *row = from + ${IN == "row" and 8 * h .. " * lda" or 8 * h};
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                f32x2 x = {0.0f, 0.0f};
% if IN == "row" then
                if (whole) {
                    if (in)
                        x = load_stream((const f32x2 *)(row + 8 * i));
                } else {
                    if (in && first + col + 8 * i < ${N})
                        x.x = load_stream(row + 8 * i);
                    if (in && first + col + 8 * i + 1 < ${N})
                        x.y = load_stream(row + 8 * i + 1);
                }
% else
                if (in${N % 32 ~= 0 and " && first + col + 8 * i < " .. N or ""})
                    x.x = load_stream(row);
                if (in${N % 32 ~= 0 and " && first + col + 8 * i + 1 < " .. N or ""})
                    x.y = load_stream(row + lda);
                row += 8 * lda;
% end
                c[j][4 * i + ${2 * h}] = x.x;
                c[j][4 * i + ${2 * h + 1}] = x.y;
            }
        }
% end
        from += ${IN == "row" and "128 * lda" or "128"};
    }
}

// Rows begin .. end-1 of the block to H, times f by column; both are multiples of 32, or end is M.
QRS_DEV void duo_store(const duo_tile &c, float *out, i64 ldh, int first, int begin, int end, const float (&f)[8])
{
    const int wg = duo_group(), rows = ((int)warp() & 3) * 16, g = (int)lane() >> 2, col = duo_column();
% if OUT == "row" then
    float *to = out + (i64)(64 * wg + rows + g) * ldh + first + col;
    const bool whole = first + 32 <= ${N} && ((u64)out & 7) == 0 && (ldh & 1) == 0;
% else
    float *to = out + (i64)(first + col) * ldh + 64 * wg + rows + g;
% end
    #pragma unroll
    for (int j = 0; j < ${TW}; j++) {
        const int at = 128 * j + 64 * wg + rows; // of the warp's 16 rows
        if (at >= begin && at < end) {
% for h = 0, 1 do
            ${M % 16 ~= 0 and "if (at + " .. 8 * h .. " + g < " .. M .. ")" or ""} {
% if OUT == "row" then
                float *row = to + ${h} * 8 * ldh;
                #pragma unroll
                for (int i = 0; i < 4; i++) {
                    const f32x2 x = {f[2 * i] * c[j][4 * i + ${2 * h}], f[2 * i + 1] * c[j][4 * i + ${2 * h + 1}]};
                    if (whole) {
                        store_stream((f32x2 *)(row + 8 * i), x);
                    } else {
                        if (first + col + 8 * i < ${N})
                            store_stream(row + 8 * i, x.x);
                        if (first + col + 8 * i + 1 < ${N})
                            store_stream(row + 8 * i + 1, x.y);
                    }
                }
% else
                float *row = to + ${8 * h};
                #pragma unroll
                for (int i = 0; i < 4; i++) {
                    ${N % 32 ~= 0 and "if (first + col + 8 * i < " .. N .. ")" or ""}
                    store_stream(row, f[2 * i] * c[j][4 * i + ${2 * h}]);
                    ${N % 32 ~= 0 and "if (first + col + 8 * i + 1 < " .. N .. ")" or ""}
                    store_stream(row + ldh, f[2 * i + 1] * c[j][4 * i + ${2 * h + 1}]);
                    row += 8 * ldh;
                }
% end
            }
% end
        }
        to += ${OUT == "row" and "128 * ldh" or "128"};
    }
}

// Scales a block as fused_load.cuh does: every column's largest magnitude to [1, 2) 2^LIFT; columns that are not finite stay. False when all of it is
// zero. Synchronises once, and s->exponent is for after the next barrier.
QRS_DEV bool duo_scale(duo_tile &c, duo_shared *s)
{
    const int l = lane();
    float v[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
    #pragma unroll
    for (int j = 0; j < ${TW}; j++)
        #pragma unroll
        for (int i = 0; i < 16; i++)
            v[(i >> 2) * 2 + (i & 1)] = duo_larger()(v[(i >> 2) * 2 + (i & 1)], fabsf(c[j][i]));
    s->part[warp()][duo_of(l)] = duo_gather(v, duo_larger());
    block_sync();
    float most = s->part[0][l];
    #pragma unroll
    for (int w = 1; w < 8; w++)
        most = duo_larger()(most, s->part[w][l]);
    const bool finite = is_finite(most);
    const int ex = finite && most > 0.0f ? pow2_exponent(most) : 0;
    if (warp() == 0) {
        s->exponent[l] = ex;
        if (!finite)
            s->bad = 1;
    }
    const power_of_two f = make_power_of_two(QRS_LIFT - ex);
    duo_spread(f.first, v);
    #pragma unroll
    for (int j = 0; j < ${TW}; j++)
        #pragma unroll
        for (int i = 0; i < 16; i++)
            c[j][i] *= v[(i >> 2) * 2 + (i & 1)];
    if (warp_any(f.second != 1.0f)) { // rare
        duo_spread(f.second, v);
        #pragma unroll
        for (int j = 0; j < ${TW}; j++)
            #pragma unroll
            for (int i = 0; i < 16; i++)
                c[j][i] *= v[(i >> 2) * 2 + (i & 1)];
    }
    return warp_any(most != 0.0f);
}

// Finished V and T lie in scratch as they lie in shared memory, so each moves by one bulk copy.
struct duo_stage {
    u8 *v, *t; // scratch of all CTAs
    u32 phase; // of the barrier
    u32 zero;  // bit p: panel p was zero throughout, and has no V
};
QRS_DEV u8 *duo_v_place(const duo_stage &s, int p) // of panel p, its first tile being p / 2
{
    const int i = p >> 1;
    return s.v + (i64)blockIdx.x * ${V_BYTES} + (2 * (i * ${NT} - i * (i - 1) / 2) + (p & 1) * (${NT} - i)) * 4096;
}
QRS_DEV u8 *duo_t_place(const duo_stage &s, int pair) { return s.t + (i64)blockIdx.x * ${T_BYTES} + pair * 12288; }
// T of a pair: blocks T11, T12, T22 of 32 x 32, each a high and a low plane of 2 KB.

// One thread sends for the pair's V and T, as far as `has` says (bit 0: first panel, bit 1: second).
QRS_DEV void duo_fetch(const duo_stage &s, int pair, int has)
{
    if (threadIdx.x != 0)
        return;
    const u32 bytes = (${NT} - pair) * 4096;
    const saddr base = to_saddr(dynamic_smem()), bar = base + ${O_BAR}, v = base + ${O_V} + pair * 4096, t = base + ${O_T};
    const u8 *from = duo_t_place(s, pair);
    mbar_expect(bar, has == 3 ? 2 * bytes + 12288 : bytes + 4096);
    if (has & 1)
        bulk_load(v, duo_v_place(s, 2 * pair), bytes, bar);
    if (has & 2)
        bulk_load(v + ${PLANE}, duo_v_place(s, 2 * pair + 1), bytes, bar);
    if (has == 3)
        bulk_load(t, from, 12288, bar);
    else if (has == 1)
        bulk_load(t, from, 4096, bar);
    else
        bulk_load(t + 8192, from + 8192, 4096, bar);
}
QRS_DEV void duo_arrived(duo_stage &s)
{
    mbar_wait(to_saddr(dynamic_smem()) + ${O_BAR}, s.phase);
    s.phase ^= 1;
}

// C -= V (T'(V'C)) for one pair, whose V and T are in shared memory. A panel that is missing (has) counts as zero. Every thread is done with V, T
// and the exchange on return but for what the last barrier there left: the caller synchronises.
QRS_DEV void duo_apply(duo_tile &c, int pair, int has)
{
    const int wg = duo_group(), w = (int)warp() & 3, l = lane();
    const saddr base = to_saddr(dynamic_smem()), v = base + ${O_V}, t = base + ${O_T}, x = base + ${O_C}, mine = x + wg * ${TW * 4096};
    // Exchange, where C's rounded tiles were: a quarter of W each way, W and W' in fp16.
    const saddr share = x + wg * 16384, half = share + 4096, all = x + 8192;
    const duo_spots to = duo_find(mine);
    float wa[16];
    #pragma unroll
    for (int i = 0; i < 16; i++)
        wa[i] = 0.0f;
    #pragma unroll
    for (int j = 0; j < ${TW}; j++) {
        const int tile = 2 * j + wg;
        if (tile >= pair${NT % 2 ~= 0 and " && tile < " .. NT or ""}) {
            #pragma unroll
            for (int i = 0; i < 4; i++)
                #pragma unroll
                for (int h = 0; h < 2; h++)
                    sts(to.at[i] + j * 4096 + 512 * h, pack_f16(c[j][4 * i + 2 * h], c[j][4 * i + 2 * h + 1]));
        }
    }
    fence_async_shared();
    bar_sync(2 + wg, 128);
    const bool have = has >> (w >> 1) & 1;
    const saddr va = v + (w >> 1) * ${PLANE} + duo_across(0, 2 * (w & 1));
    const u64 b0 = duo_desc(mine);
    #pragma unroll 1
    for (int tile = pair + (pair + wg & 1); tile < ${NT}; tile += 2) {
        u32 a[4][4];
        #pragma unroll
        for (int s = 0; s < 4; s++) {
            ldmatrix_x4_trans(a[s], va + tile * 4096 + s * 1024);
            if (!have)
                a[s][0] = a[s][1] = a[s][2] = a[s][3] = 0;
        }
        wgmma_hold(wa);
        wgmma_fence();
        #pragma unroll
        for (int s = 0; s < 4; s++)
            wgmma_f16_rs<32, true>(wa, a[s][0], a[s][1], a[s][2], a[s][3], duo_further(b0, (tile >> 1) * 4096 + s * 1024), true);
        wgmma_commit();
        wgmma_wait<0>(wa);
    }
    bar_sync(2 + wg, 128); // C's tiles are read
    float own[8], other[8]; // 16 of W's columns, with which this warpgroup goes on, and the other's
    #pragma unroll
    for (int i = 0; i < 8; i++) {
        own[i] = duo_pick(wg == 0, wa[i], wa[8 + i]);
        other[i] = duo_pick(wg == 0, wa[8 + i], wa[i]);
    }
    {
        const saddr to = share + ((int)threadIdx.x & 127) * 16;
        #pragma unroll
        for (int i = 0; i < 2; i++)
            sts(to + i * 2048, f32x4{other[4 * i], other[4 * i + 1], other[4 * i + 2], other[4 * i + 3]});
    }
    block_sync();
    // Both V and C carry 2^LIFT; 2^4 of the product's stays, for the low halves' sake.
    {
        const saddr from = x + (wg ^ 1) * 16384 + ((int)threadIdx.x & 127) * 16;
        #pragma unroll
        for (int i = 0; i < 2; i++) {
            const f32x4 o = lds<f32x4>(from + i * 2048);
            const float y[4] = {o.x, o.y, o.z, o.w};
            #pragma unroll
            for (int h = 0; h < 2; h++) {
                u32 hi, lo;
                const int e = 4 * i + 2 * h, row = duo_row() + 8 * h;
                duo_split(0x1p-8f * (own[e] + y[2 * h]), 0x1p-8f * (own[e + 1] + y[2 * h + 1]), hi, lo);
                const saddr to = half + row * 32 + ((i ^ (row >> 2 & 1)) << 4) + duo_column() * 2;
                sts(to, hi);
                sts(to + 2048, lo);
            }
        }
    }
    fence_async_shared();
    bar_sync(2 + wg, 128);
    // W' = T'W always takes three products: they are few, and two roundings more would cost a third of a single product's accuracy.
    float wp[8];
    #pragma unroll
    for (int i = 0; i < 8; i++)
        wp[i] = 0.0f;
    const u64 bw = smem_desc(half, 32, 16, 256);
    #pragma unroll
    for (int p = 0; p < 2; p++) { // rows of T by the panel that they belong to
        const int q = w >> 1, both = 1 << p | 1 << q;
        const bool some = p <= q && (has & both) == both;
        u32 a[2][4], al[2][4];
        #pragma unroll
        for (int s = 0; s < 2; s++) {
            const saddr from = t + (p + q) * 4096 * (int)some + duo_across(16 * s, 2 * (w & 1));
            ldmatrix_x4_trans(a[s], from);
            ldmatrix_x4_trans(al[s], from + 2048);
            if (!some)
                #pragma unroll
                for (int e = 0; e < 4; e++)
                    a[s][e] = al[s][e] = 0;
        }
        wgmma_fence();
        #pragma unroll
        for (int s = 0; s < 2; s++) {
            const u64 b = duo_further(bw, (2 * p + s) * 512);
            wgmma_f16_rs<16, true>(wp, al[s][0], al[s][1], al[s][2], al[s][3], b, true);
            wgmma_f16_rs<16, true>(wp, a[s][0], a[s][1], a[s][2], a[s][3], duo_further(b, 2048), true);
            wgmma_f16_rs<16, true>(wp, a[s][0], a[s][1], a[s][2], a[s][3], b, true);
        }
        wgmma_commit();
        wgmma_wait<0>(wp);
    }
    #pragma unroll
    for (int i = 0; i < 2; i++)
        #pragma unroll
        for (int h = 0; h < 2; h++)
            sts(all + (to.at[0] - mine ^ (2 * wg + i) << 4) + 512 * h, pack_f16(-0x1p-4f * wp[4 * i + 2 * h], -0x1p-4f * wp[4 * i + 2 * h + 1]));
    fence_async_shared();
    block_sync();
    const u64 bp = duo_desc(all);
    #pragma unroll
    for (int j = 0; j < ${TW}; j++) {
        const int tile = 2 * j + wg;
        if (tile >= pair${NT % 2 ~= 0 and " && tile < " .. NT or ""}) {
            u32 a[4][4];
            #pragma unroll
            for (int s = 0; s < 4; s++) {
                ldmatrix_x4(a[s], v + (s >> 1) * ${PLANE} + tile * 4096 + duo_along(16 * w, 2 * (s & 1)));
                if (!(has >> (s >> 1) & 1))
                    a[s][0] = a[s][1] = a[s][2] = a[s][3] = 0;
            }
            wgmma_fence();
            #pragma unroll
            for (int s = 0; s < 4; s++)
                wgmma_f16_rs<32, true>(c[j], a[s][0], a[s][1], a[s][2], a[s][3], duo_further(bp, s * 1024), true);
            wgmma_commit();
            wgmma_wait<0>(c[j]);
        }
    }
}
