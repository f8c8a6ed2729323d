// The last word on a panel from its whole Gram matrix (gram_whole.cuh, gram_narrow.cuh).
//
// Parameters: B columns; LD: row stride of R; LEAST: share of a column's square that must be left of it.
// Thread = column, of ${B}: its tau from |n|, and whether its pivot can be trusted. What cancelled cannot, nor a zero that only cancellation made. NaN fails. whole: G's diagonal.
QRS_DEV bool gram_sound(const float *rv, const float *whole, float *tau)
{
    const int col = threadIdx.x;
    const float r = fabsf(rv[col * ${LD + 1}]), of = whole[col];
    tau[col] = r == 0.0f ? 0.0f : fabsf(tau[col]) * rcp_normal(r); // for the test of v'v: what is stored comes from that
    return r == 0.0f ? of == 0.0f && (col == ${B - 1} || whole[col + 1] == 0.0f) : r * r >= ${LEAST}f * of;
}
