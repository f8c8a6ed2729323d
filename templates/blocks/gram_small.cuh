// Small fp32-level products on tensor cores.
//
// Three TF32 products (hi hi + hi lo + lo hi) keep about fp32's accuracy with fp32's range. The high half is rounded, by hand, as the
// conversion takes five instructions; of the low half the unit drops what is below 2^-22 of x. A NaN that does not survive
// in hi does in lo.
QRS_DEV void gram_split(float x, u32 &hi, u32 &lo)
{
    hi = (as_u32(x) + 0x1000u) & 0xffffe000u;
    lo = as_u32(x - as_f32(hi));
}
