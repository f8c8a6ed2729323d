// Householder QR of a matrix that one thread holds: every column in registers, nothing travels.
//
// Parameters: M, N, K = min(M, N); LD row stride of the tile in shared memory that it comes from and goes to (pack_stage.cuh).
// Rows are rotated through the registers (at step j, x[q][0] is row j). A finished row of R and a finished column of V leave for the
// tile in the step that finishes them.
struct pack_lane {
    float x[${N}][${align(M, 4)}];
    power_of_two up[${N}]; // gives R's column its scale back
};

// The step of column j = SLOT; ROWS = M - j rows are left.
template <int ROWS, int SLOT> QRS_DEV void pack_column(pack_lane &s, float *tile, float *tau)
{
    constexpr int PAD = (ROWS + 3) / 4 * 4, j = SLOT;
    float x[PAD];
    #pragma unroll
    for (int k = 0; k < PAD; k += 4) {
        x[k] = s.x[SLOT][k], x[k + 1] = s.x[SLOT][k + 1], x[k + 2] = s.x[SLOT][k + 2], x[k + 3] = s.x[SLOT][k + 3];
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
    for (int q = SLOT; q < ${N}; q++) {
        const int c = q;
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
        if (c >= j)
            tile[j * ${LD} + c] = times(s.up[q], r);
    }
    tau[j] = h.tau;
    #pragma unroll
    for (int k = 1; k < ROWS; k++)
        tile[(j + k) * ${LD} + j] = x[k] * h.rho;
}

// Takes the lane's columns from the tile, scaled so that the largest finite magnitude of each lies in [1, 2) (design,
// section 5). True when an entry is not finite.
QRS_DEV bool pack_take(pack_lane &s, const float *tile)
{
    bool bad = false;
    #pragma unroll
    for (int q = 0; q < ${N}; q++) {
        const int c = q;
        float largest = 0.0f;
        #pragma unroll
        for (int k = 0; k < ${align(M, 4)}; k++) {
            float v = k < ${M} ? tile[k * ${LD} + c] : 0.0f;
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
QRS_DEV bool pack_factor(float *tile, float *tau)
{
    pack_lane s;
    bool bad = pack_take(s, tile);
% for j = 0, K - 1 do
    pack_column<${M - j}, ${j}>(s, tile, tau);
% end
    return bad;
}
