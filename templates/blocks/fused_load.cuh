// Column blocks of A: requested into a tile of shared memory ahead of time, scaled, taken into mma accumulators and given back.
//
// Parameters: M, N; MT = M rounded up to 16; W warps; TILES row tiles a warp; THREADS; IN layout; LASTS.
// Tile: MT rows of 36 floats, zero past the matrix. Loops over it are rolled: a panel walks its code once, and what the
// instruction cache does not hold costs more than the loop's own instructions.
// Fragment: C^T in the accumulator layout of m16n8k16, so that it is at once the A operand of W^T = C^T V. Warp w holds row
// tiles i W + w of 16 rows; c[mt][i][n][e] is row (i W + w) 16 + 8 n + 2 q + (e & 1), column 16 mt + g + 8 (e >> 1), with
// g = lane / 4, q = lane % 4.
// Scale: column j is multiplied by 2^(LIFT - e_j), e_j the exponent of its largest finite magnitude. LIFT keeps the low
// halves of split fp16 operands away from fp16's subnormals.
#define QRS_LIFT 6

typedef float fused_tile[2][${TILES}][2][4];

// The warps that do something together: all of the block, or some of them (barrier: theirs, 0 for the block's).
struct fused_team {
    int thread, threads, warp, warps, barrier;
};
QRS_DEV fused_team fused_all() { return {(int)threadIdx.x, ${THREADS}, (int)warp(), ${W}, 0}; }
QRS_DEV void fused_sync(fused_team team)
{
    if (team.barrier == 0)
        block_sync();
    else
        bar_sync(team.barrier, team.threads);
}

// Starts the copy of the 32 columns from `first` on. Asynchronous: the caller commits, waits and synchronises.
% -- A copy of what may lie past the matrix.
% local function copy(bytes, at, from, row, column)
%   local there = {}
%   if M < MT then there[#there + 1] = row .. " < " .. M end
%   if N % 32 ~= 0 then there[#there + 1] = column .. " < left" end
%   if #there == 0 then return "cp_async" .. bytes .. "(" .. at .. ", " .. from .. ");" end
%   return "cp_async" .. bytes .. "_or_zero(" .. at .. ", " .. from .. ", " .. table.concat(there, " && ") .. ");"
% end
QRS_DEV void fused_request(fused_team team, float *tile, const float *a, i64 lda, int first)
{
% if N % 32 ~= 0 then
    const int left = ${N} - first;
% end
    const saddr to = to_saddr(tile);
    a += first${IN == "col" and " * lda" or ""};
% if IN == "row" then
    if (${N % 4 == 0 and "" or "left >= 32 && "}((((u64)a >> 2) | (u64)lda) & 3) == 0) {
        const int row = team.thread >> 3, column = (team.thread & 7) * 4, rows = team.threads >> 3;
        saddr at = to + row * 144 + column * 4;
        a += row * lda + column;
        #pragma unroll 2
        for (int i = row; i < ${MT}; i += rows, at += rows * 144, a += rows * lda)
            ${copy(16, "at", "a", "i", "column")}
    } else {
        #pragma unroll 1
        for (int e = team.thread; e < ${MT * 32}; e += team.threads)
            ${copy(4, "to + (e >> 5) * 144 + (e & 31) * 4", "a + (e >> 5) * lda + (e & 31)", "(e >> 5)", "(e & 31)")}
    }
% else
    #pragma unroll 1
    for (int j = team.warp; j < 32; j += team.warps)
        #pragma unroll 1
        for (int i = (int)lane(); i < ${MT}; i += 32)
            ${copy(4, "to + i * 144 + j * 4", "a + j * lda + i", "i", "j")}
% end
}

// Column exponents of a tile that is there.
struct fused_scales {
    int exponent[32]; // 0 for a zero column
    int found;        // bits: 1 something is not zero, 2 something is not finite
};
struct alignas(16) fused_largest { // by warp, on the way
    float most[${W}][32];
    int odd[${W}];
};

// Synchronises once; the scales are for whoever comes after the team's next barrier. Returns the exponent of column `lane`.
QRS_DEV int fused_exponents(fused_team team, const float *tile, fused_scales *s, fused_largest *of, int &found)
{
    const int row = (int)lane() >> 3, column = ((int)lane() & 7) * 4; // four rows at a time, four columns a lane
    f32x4 most4 = {0.0f, 0.0f, 0.0f, 0.0f}, odd4 = most4;             // odd4: NaN once something is not finite
    #pragma unroll 4
    for (int i = 4 * team.warp + row; i < ${MT}; i += 4 * team.warps) {
        const f32x4 v = *(const f32x4 *)(tile + i * 36 + column);
        most4 = {fmaxf(most4.x, fabsf(v.x)), fmaxf(most4.y, fabsf(v.y)), fmaxf(most4.z, fabsf(v.z)), fmaxf(most4.w, fabsf(v.w))};
        odd4 = {fmaf(v.x, 0.0f, odd4.x), fmaf(v.y, 0.0f, odd4.y), fmaf(v.z, 0.0f, odd4.z), fmaf(v.w, 0.0f, odd4.w)};
    }
    const float odds = (odd4.x + odd4.y) + (odd4.z + odd4.w);
    bool odd = warp_any(odds != odds);
    float most = 0.0f;
    if (odd) { // rare: column `lane` again, what is finite of it
        #pragma unroll 1
        for (int i = 4 * team.warp; i < ${MT}; i += (i & 3) == 3 ? 4 * team.warps - 3 : 1) {
            const float v = fabsf(tile[i * 36 + lane()]);
            most = fmaxf(most, v <= 0x1.fffffep127f ? v : 0.0f);
        }
        of->most[team.warp][lane()] = most;
    } else {
        #pragma unroll
        for (int d = 8; d < 32; d *= 2)
            most4 = {fmaxf(most4.x, shfl_xor(most4.x, d)), fmaxf(most4.y, shfl_xor(most4.y, d)), fmaxf(most4.z, shfl_xor(most4.z, d)),
                     fmaxf(most4.w, shfl_xor(most4.w, d))};
        if (row == 0)
            *(f32x4 *)(of->most[team.warp] + column) = most4;
    }
    if (lane() == 0)
        of->odd[team.warp] = odd;
    fused_sync(team);
    #pragma unroll
    for (int v = 0; v < ${W}; v++)
        if (v < team.warps) {
            most = fmaxf(most, of->most[v][lane()]);
            odd = odd || of->odd[v];
        }
    const int ex = most > 0.0f ? pow2_exponent(most) : 0;
    found = (warp_any(most > 0.0f) || odd ? 1 : 0) | (odd ? 2 : 0);
    if (team.warp == 0) {
        s->exponent[lane()] = ex;
        if (lane() == 0)
            s->found = found;
    }
    return ex;
}

// The first entry of a thread in the tile; its others follow at constant distances.
QRS_DEV int fused_place() { return ((int)warp() * 16 + (int)(lane() & 3) * 2) * 36 + (int)(lane() >> 2); }

// ex: of column `lane`.
QRS_DEV void fused_take(fused_tile &c, const float *tile, int ex)
{
    const float *at = tile + fused_place();
    #pragma unroll
    for (int s = 0; s < 4; s++) {
        const power_of_two f = make_power_of_two(QRS_LIFT - shfl(ex, 8 * s + (int)(lane() >> 2)));
        #pragma unroll
        for (int i = 0; i < ${TILES}; i++) {
            const bool in = i * ${W} + (int)warp() < ${MT // 16};
            #pragma unroll
            for (int n = 0; n < 2; n++)
                #pragma unroll
                for (int e = 0; e < 2; e++)
                    c[s >> 1][i][n][(s & 1) * 2 + e] = in ? times(f, at[i * ${W * 576} + n * 288 + e * 36 + 8 * s]) : 0.0f;
        }
    }
}
% if LASTS then
// Scales this warp's rows in place: for a block that no reflector has touched yet.
QRS_DEV void fused_scale(float *tile, int ex)
{
    const int column = ((int)lane() & 7) * 4;
    power_of_two f[4];
    #pragma unroll
    for (int u = 0; u < 4; u++)
        f[u] = make_power_of_two(QRS_LIFT - shfl(ex, column + u));
    #pragma unroll 1
    for (int i = (int)warp(); i < ${MT // 16}; i += ${W}) {
        f32x4 *at = (f32x4 *)(tile + (16 * i + ((int)lane() >> 3)) * 36 + column), v[4];
        #pragma unroll
        for (int r = 0; r < 4; r++)
            v[r] = at[36 * r];
        #pragma unroll
        for (int r = 0; r < 4; r++)
            at[36 * r] = {times(f[0], v[r].x), times(f[1], v[r].y), times(f[2], v[r].z), times(f[3], v[r].w)};
    }
}
% end
// Row tiles from tile0 on.
QRS_DEV void fused_give(const fused_tile &c, float *tile, int tile0)
{
    float *at = tile + fused_place();
    #pragma unroll
    for (int i = 0; i < ${TILES}; i++)
        if (i * ${W} + (int)warp() >= tile0 && i * ${W} + (int)warp() < ${MT // 16})
            #pragma unroll
            for (int s = 0; s < 4; s++)
                #pragma unroll
                for (int n = 0; n < 2; n++)
                    #pragma unroll
                    for (int e = 0; e < 2; e++)
                        at[i * ${W * 576} + n * 288 + e * 36 + 8 * s] = c[s >> 1][i][n][(s & 1) * 2 + e];
}
