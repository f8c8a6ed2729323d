/* fp16 and tf32 operands as floats. */
#ifndef QHX_HALF_H
#define QHX_HALF_H

#include <stdint.h>
#include <string.h>

static inline float qhx_bits_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float qhx_half_float(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;
    if ((h & 0x7c00) == 0x7c00) return qhx_bits_float(sign | 0x7f800000 | rest);
    /* the exponent's bias put right by a product, which also normalises subnormals */
    return qhx_bits_float(sign | rest) * 0x1p112f;
}

static inline float qhx_tf32_float(uint32_t bits) {
    return qhx_bits_float(bits & 0xffffe000);
}

#endif
