// The block of T above those of its diagonal.
//
// Parameters: LDG, LDT: rows of V'V and of T lie so far apart.
// T12 = -T11 (S12 T22) of the halves in t (32 x 32), as two transposed products whose first result is at once the second's operand (gram_small.cuh). s: V'V.
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
        const float *from = t + (16 + k + q) * ${LDT} + 16 + g;
        gram_left a;
        gram_operand(a, from[0], from[8], from[${4 * LDT}], from[${4 * LDT + 8}]);
        #pragma unroll
        for (int n = 0; n < 2; n++) {
            gram_right b;
            gram_operand(b, s[(8 * n + g) * ${LDG} + 16 + k + q], s[(8 * n + g) * ${LDG} + 20 + k + q]);
            gram_multiply(y[n], a, b);
        }
    }
    #pragma unroll
    for (int k = 0; k < 2; k++) { // T12' = -(S12 T22)' T11'
        gram_left a;
        gram_operand(a, -y[k][0], -y[k][2], -y[k][1], -y[k][3]);
        #pragma unroll
        for (int n = 0; n < 2; n++) {
            const float *from = t + (8 * n + g) * ${LDT} + 8 * k + 2 * q;
            gram_right b;
            gram_operand(b, from[0], from[1]);
            gram_multiply(z[n], a, b);
        }
    }
    #pragma unroll
    for (int n = 0; n < 2; n++)
        #pragma unroll
        for (int e = 0; e < 4; e++)
            t[(8 * n + 2 * q + (e & 1)) * ${LDT} + 16 + g + (e >> 1) * 8] = z[n][e];
}
