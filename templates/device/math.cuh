// Arithmetic whose rounding is part of the contract: everything here is IEEE on both sides, subnormals
// included, but the *_approx functions (about 1-2 ulp on a GPU, exact on the host), and the *_normal ones: the same,
// for arguments and results that are not subnormal; looking after those costs several instructions on the chain. fmaf, fabsf, fmaxf,
// fminf, copysignf, fma, fabs are used as they are: both sides have them.
#pragma once
#include "device/core.cuh"

namespace qrs {

#ifdef QRS_HOST

// The host compiler runs with -ffp-contract=off, so plain operators are never contracted.
QRS_DEV float add_rn(float a, float b) {
    return a + b;
}
QRS_DEV float mul_rn(float a, float b) {
    return a * b;
}
QRS_DEV float div_rn(float a, float b) {
    return a / b;
}
QRS_DEV float sqrt_rn(float a) {
    return __builtin_sqrtf(a);
}
QRS_DEV double sqrt_rn(double a) {
    return __builtin_sqrt(a);
}
QRS_DEV float rcp_rn(float a) {
    return div_rn(1.0f, a);
}
QRS_DEV float rsqrt_approx(float a) {
    return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(a)));
}
QRS_DEV float rcp_approx(float a) {
    return div_rn(1.0f, a);
}
QRS_DEV float rsqrt_normal(float a) {
    return rsqrt_approx(a);
}
QRS_DEV float rcp_normal(float a) {
    return rcp_approx(a);
}
QRS_DEV void rcp_normal_pair(float a, float b, float &ra, float &rb) {
    ra = rcp_approx(a), rb = rcp_approx(b);
}
QRS_DEV float max_nan(float a, float b) {
    return a != a || b != b ? __builtin_nanf("") : a > b ? a : b;
}

QRS_DEV u16 f16_bits(float x) {
    u32 b = as_u32(x), sign = b >> 16 & 0x8000u, mag = b & 0x7fffffffu;
    if (mag > 0x7f800000u) return 0x7fff;
    if (mag >= 0x477ff000u) // 65520 and above round to infinity
        return static_cast<u16>(sign | 0x7c00u);
    if (mag < 0x38800000u) { // below 2^-14: a subnormal half is a multiple of 2^-24, which is what adding 1.5
                             // * 2^-1 rounds to
        float shifted = as_f32(mag) + 0.5f;
        return static_cast<u16>(sign | (as_u32(shifted) - 0x3f000000u));
    }
    u32 rounded = mag + 0xfffu + (mag >> 13 & 1);
    return static_cast<u16>(sign | ((rounded >> 13) - (112u << 10)));
}
QRS_DEV float f16_value(u16 h) {
    u32 sign = (h & 0x8000u) << 16, e = h >> 10 & 31, f = h & 1023;
    if (e == 0) return as_f32(sign | as_u32(static_cast<float>(f) * 0x1p-24f));
    if (e == 31) return as_f32(sign | 0x7f800000u | f << 13);
    return as_f32(sign | (e + 112) << 23 | f << 13);
}
QRS_DEV u32 pack_f16(float lo, float hi) {
    return f16_bits(lo) | static_cast<u32>(f16_bits(hi)) << 16;
}
QRS_DEV void unpack_f16(u32 h, float &lo, float &hi) {
    lo = f16_value(static_cast<u16>(h));
    hi = f16_value(static_cast<u16>(h >> 16));
}
QRS_DEV u32 tf32_bits(float x) {
    u32 b = as_u32(x);
    if ((b & 0x7fffffffu) > 0x7f800000u) return 0x7fffffffu;
    return (b & 0x7f800000u) == 0x7f800000u ? b : (b + 0x1000u) & 0xffffe000u;
}

#else // CUDA

QRS_DEV float add_rn(float a, float b) {
    float r;
    asm("add.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
QRS_DEV float mul_rn(float a, float b) {
    float r;
    asm("mul.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
QRS_DEV float div_rn(float a, float b) {
    float r;
    asm("div.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
QRS_DEV float sqrt_rn(float a) {
    float r;
    asm("sqrt.rn.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}
QRS_DEV double sqrt_rn(double a) {
    double r;
    asm("sqrt.rn.f64 %0, %1;" : "=d"(r) : "d"(a));
    return r;
}
QRS_DEV float rcp_rn(float a) {
    float r;
    asm("rcp.rn.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}
QRS_DEV float rsqrt_approx(float a) {
    float r;
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}
QRS_DEV float rcp_approx(float a) {
    float r;
    asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}
QRS_DEV float rsqrt_normal(float a) {
    float r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}
QRS_DEV float rcp_normal(float a) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}
// Both at once: left to itself the compiler moves each to where it is used, and one waits for the other.
QRS_DEV void rcp_normal_pair(float a, float b, float &ra, float &rb) {
    asm("rcp.approx.ftz.f32 %0, %2;\n rcp.approx.ftz.f32 %1, %3;" : "=&f"(ra), "=f"(rb) : "f"(a), "f"(b));
}
// The larger one; NaN if one is.
QRS_DEV float max_nan(float a, float b) {
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

QRS_DEV u16 f16_bits(float x) {
    u16 r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
    return r;
}
QRS_DEV float f16_value(u16 h) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(h));
    return r;
}
QRS_DEV u32 pack_f16(float lo, float hi) {
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
QRS_DEV void unpack_f16(u32 h, float &lo, float &hi) {
    asm("{.reg .b16 l, h;\n mov.b32 {l, h}, %2;\n cvt.f32.f16 %0, l;\n cvt.f32.f16 %1, h;}"
        : "=f"(lo), "=f"(hi)
        : "r"(h));
}
QRS_DEV u32 tf32_bits(float x) {
    u32 r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
}

#endif

QRS_DEV bool is_finite(float x) {
    return (as_u32(x) & 0x7f800000u) != 0x7f800000u;
}

// e with 2^e <= |x| < 2^(e+1), subnormals too; -151 for zero, 128 for infinity and NaN.
QRS_DEV int pow2_exponent(float x) {
    int e = static_cast<int>(as_u32(x) >> 23 & 255u);
    if (e == 0) return static_cast<int>(as_u32(mul_rn(x, 16777216.0f)) >> 23 & 255u) - 151;
    return e - 127;
}

// x * 2^e, correctly rounded once, for e in [-300, 300]. Zero, infinity and NaN stay what they are.
QRS_DEV float scale_pow2(float x, int e) {
    u32 b = as_u32(x);
    int own = static_cast<int>(b >> 23 & 255u), bias = 127;
    if (own == 0) {
        b = as_u32(mul_rn(x, 16777216.0f));
        own = static_cast<int>(b >> 23 & 255u);
        bias = 151;
    }
    if (own == 0 || own == 255) return x;
    int t = own - bias + e; // exponent of the result before rounding
    u32 rest = b & 0x807fffffu;
    if (t > 127) return as_f32((b & 0x80000000u) | 0x7f800000u);
    if (t >= -126) return as_f32(rest | static_cast<u32>(t + 127) << 23);
    if (t < -152) t = -152;
    // 2^-30 times the significand is exact; the only rounding is that of the last product
    return mul_rn(as_f32(rest | 97u << 23), as_f32(static_cast<u32>(t + 30 + 127) << 23));
}

// A pair of values as pairs of fp16: hi, and lo, what rounding to hi left, itself rounded.
QRS_DEV void split_f16(float x, float y, u32 &hi, u32 &lo) {
    float hx, hy;
    hi = pack_f16(x, y);
    unpack_f16(hi, hx, hy);
    lo = pack_f16(x - hx, y - hy);
}

} // namespace qrs
