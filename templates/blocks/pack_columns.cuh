// Householder QR of a matrix held by a group of L lanes, a lane per column (and every L-th column after it).
//
// Parameters: M, N, K = min(M, N); L lanes a matrix; SLOTS = ceil(N / L) columns a lane; LD row stride of the tile.
// Layout: lane c holds column q L + c as x[q][0..M-1], rotated: at step j, x[q][0] is row j, so every index is a
// constant although the loop over columns is rolled (few instructions to fetch: most launches are a few microseconds).
// A finished row of R and a finished column of V leave for the tile in the step that finishes them; registers of
// finished columns are garbage from then on and never read.
// The pivot column travels through pivot[2][${align(M, 4)}] (double-buffered, one synchronisation a column); a dot with the lane's own
// column needs no reduction at all. With L = 1 the whole matrix sits in one thread and nothing travels.
// Synchronisation: pack_sync() joins the lanes of one matrix (a warp, or a named barrier when L > 32).
struct pack_lane {
    float x[${SLOTS}][${align(M, 4)}];
    power_of_two up[${SLOTS}]; // gives R's column its scale back
    int column;                // of slot 0
};

// The step of columns j0 .. j1-1, all in slot SLOT; ROWS = rows left at j0. publish_next: the pivot after j1-1 lies in the next slot.
template <int ROWS, int SLOT>
QRS_DEV void pack_columns(pack_lane &s, int j0, int j1, bool publish_next, float *tile, float *pivot, float *tau)
{
    constexpr int PAD = (ROWS + 3) / 4 * 4;
    #pragma unroll 1
    for (int j = j0; j < j1; j++) {
% if L > 1 then
        const float *raw = pivot + (j & 1) * ${align(M, 4)};
% end
        float x[PAD];
        #pragma unroll
        for (int k = 0; k < PAD; k += 4) {
% if L > 1 then
            f32x4 v = *(const f32x4 *)(raw + k);
            x[k] = v.x, x[k + 1] = v.y, x[k + 2] = v.z, x[k + 3] = v.w;
% else
            x[k] = s.x[SLOT][k], x[k + 1] = s.x[SLOT][k + 1], x[k + 2] = s.x[SLOT][k + 2], x[k + 3] = s.x[SLOT][k + 3];
% end
        }
        float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        #pragma unroll
        for (int k = 1; k < ROWS; k++)
            part[k & 3] = fmaf(x[k], x[k], part[k & 3]);
        float squares = (part[0] + part[1]) + (part[2] + part[3]);

        // Rare: the tail is zero or so small that its squares lose digits. All lanes of the matrix decide alike.
        power_of_two shrink = {1.0f, 1.0f}, grow = {1.0f, 1.0f};
        bool zero = false;
        if (squares < QRS_TINY_SQUARES) {
            float largest = 0.0f;
            #pragma unroll
            for (int k = 1; k < ROWS; k++)
                largest = fmaxf(largest, fabsf(x[k]));
            zero = largest == 0.0f;
            if (!zero && is_finite(x[0])) {
                int e = pow2_exponent(fmaxf(largest, fabsf(x[0])));
                shrink = make_power_of_two(-e), grow = make_power_of_two(e);
                squares = 0.0f;
                #pragma unroll
                for (int k = 0; k < ROWS; k++)
                    x[k] = times(shrink, x[k]);
                #pragma unroll
                for (int k = 1; k < ROWS; k++)
                    squares = fmaf(x[k], x[k], squares);
            }
        }
        reflector h = zero ? no_reflector(x[0]) : make_reflector(x[0], squares);

        #pragma unroll
        for (int q = SLOT; q < ${SLOTS}; q++) {
            const int c = q * ${L} + s.column;
            float dot[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            #pragma unroll
            for (int k = 1; k < ROWS; k++)
                dot[k & 3] = fmaf(x[k], s.x[q][k], dot[k & 3]);
            float p = s.x[q][0];
            float g = h.step * fmaf(h.rho, (dot[0] + dot[1]) + (dot[2] + dot[3]), p);
            #pragma unroll
            for (int k = 1; k < ROWS; k++)
                s.x[q][k - 1] = fmaf(-g, x[k], s.x[q][k]);
            s.x[q][ROWS - 1] = 0.0f;
            float r = c == j ? times(grow, h.beta) : fmaf(-g, h.gap, p);
            if (c >= j && c < ${N})
                tile[j * ${LD} + c] = times(s.up[q], r);
        }
        if (s.column == j % ${L})
            tau[j] = h.tau;
% if L > 1 then
        if (j + 1 < ${K} && s.column == (j + 1) % ${L}) {
            float *next = pivot + ((j + 1) & 1) * ${align(M, 4)};
            bool cross = publish_next && j + 1 == j1;
            #pragma unroll
            for (int k = 0; k < PAD; k += 4) {
                float y[4];
                #pragma unroll
                for (int i = 0; i < 4; i++)
                    y[i] = k + i >= ROWS ? 0.0f : cross ? s.x[SLOT + 1 < ${SLOTS} ? SLOT + 1 : SLOT][k + i] : s.x[SLOT][k + i];
                f32x4 v = {y[0], y[1], y[2], y[3]};
                *(f32x4 *)(next + k) = v;
            }
        }
        #pragma unroll
        for (int k = 1; k < ROWS; k += ${L}) {
            int i = k + s.column;
            if (i < ${M} - j)
                tile[(j + i) * ${LD} + j] = times(shrink, raw[i]) * h.rho;
        }
        pack_sync();
% else
        #pragma unroll
        for (int k = 1; k < ROWS; k++)
            tile[(j + k) * ${LD} + j] = x[k] * h.rho;
% end
    }
}

// Takes the lane's columns from the tile, scaled so that the largest finite magnitude of each lies in [1, 2) (design,
// section 5). True when an entry is not finite.
QRS_DEV bool pack_take(pack_lane &s, const float *tile)
{
    bool bad = false;
    #pragma unroll
    for (int q = 0; q < ${SLOTS}; q++) {
        const int c = q * ${L} + s.column;
        const bool mine = ${SLOTS * L == N and "true" or "c < " .. N};
        float largest = 0.0f;
        #pragma unroll
        for (int k = 0; k < ${align(M, 4)}; k++) {
            float v = k < ${M} && mine ? tile[k * ${LD} + c] : 0.0f;
            s.x[q][k] = v;
            bool finite = is_finite(v);
            bad = bad || !finite;
            largest = fmaxf(largest, finite ? fabsf(v) : 0.0f);
        }
        int e = largest > 0.0f ? pow2_exponent(largest) : 0;
        power_of_two down = make_power_of_two(-e);
        s.up[q] = make_power_of_two(e);
        #pragma unroll
        for (int k = 0; k < ${M}; k++)
            s.x[q][k] = times(down, s.x[q][k]);
    }
    return bad;
}

// Everything between the loaded and the finished tile. The caller synchronises before and after.
QRS_DEV bool pack_factor(int column, float *tile, float *pivot, float *tau)
{
    pack_lane s;
    s.column = column;
    bool bad = pack_take(s, tile);
% if L > 1 then
    if (column == 0) {
        #pragma unroll
        for (int k = 0; k < ${align(M, 4)}; k++)
            pivot[k] = s.x[0][k];
    }
    pack_sync();
% end
% for _, r in ipairs(ranges) do
    pack_columns<${r.rows}, ${r.slot}>(s, ${r.from}, ${r.to}, ${r.cross and "true" or "false"}, tile, pivot, tau);
% end
    return bad;
}
