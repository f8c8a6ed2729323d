// The block of T above those of its diagonal.
//
// Parameters: LDG, LDT: rows of V'V and of T lie so far apart.
// T12 = -T11 (S12 T22) of the halves in t (32 x 32), as two transposed products whose first result is at once the second's operand: a
// lane's pair of columns 2 q, 2 q + 1 of it counts as k = q and k = q + 4, in both operands alike. s: V'V.
QRS_DEV void t_corner(const float *s, float *t)
{
    const int g = lane() >> 2, q = lane() & 3;
    float y[2][4], z[2][4];
    #pragma unroll
    for (int n = 0; n < 2; n++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            y[n][e] = z[n][e] = 0.0f;
    #pragma unroll
    for (int k = 0; k < 16; k += 8) { // (S12 T22)' = T22' S12'
        u32 a[4], al[4], b[2][2], bl[2][2];
        #pragma unroll
        for (int e = 0; e < 4; e++)
            gram_split(t[(16 + k + q + (e >> 1) * 4) * ${LDT} + 16 + g + (e & 1) * 8], a[e], al[e]);
        #pragma unroll
        for (int n = 0; n < 2; n++)
            #pragma unroll
            for (int e = 0; e < 2; e++)
                gram_split(s[(8 * n + g) * ${LDG} + 16 + k + q + 4 * e], b[n][e], bl[n][e]);
        #pragma unroll
        for (int n = 0; n < 2; n++) {
            mma_tf32(y[n], a, bl[n][0], bl[n][1]);
            mma_tf32(y[n], al, b[n][0], b[n][1]);
            mma_tf32(y[n], a, b[n][0], b[n][1]);
        }
    }
    #pragma unroll
    for (int k = 0; k < 2; k++) { // T12' = -(S12 T22)' T11'
        u32 a[4], al[4];
        gram_split(-y[k][0], a[0], al[0]);
        gram_split(-y[k][2], a[1], al[1]);
        gram_split(-y[k][1], a[2], al[2]);
        gram_split(-y[k][3], a[3], al[3]);
        #pragma unroll
        for (int n = 0; n < 2; n++) {
            u32 b[2], bl[2];
            #pragma unroll
            for (int e = 0; e < 2; e++)
                gram_split(t[(8 * n + g) * ${LDT} + 8 * k + 2 * q + e], b[e], bl[e]);
            mma_tf32(z[n], a, bl[0], bl[1]);
            mma_tf32(z[n], al, b[0], b[1]);
            mma_tf32(z[n], a, b[0], b[1]);
        }
    }
    #pragma unroll
    for (int n = 0; n < 2; n++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            t[(8 * n + 2 * q + (e & 1)) * ${LDT} + 16 + g + (e >> 1) * 8] = z[n][e];
}
