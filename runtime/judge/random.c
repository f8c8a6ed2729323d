#include "runtime/judge/random.h"
#include "runtime/judge/exact.h"

#include <string.h>

static void philox_round(uint32_t c[4], uint32_t k0, uint32_t k1) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c[0];
    uint64_t p1 = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k1,
                        (uint32_t)p0};
    memcpy(c, next, sizeof next);
}

void qj_random_words(const qj_place *at, uint32_t out[4]) {
    uint32_t c[4] = {at->quad | (uint32_t)at->stream << 24, at->column, (uint32_t)at->matrix,
                     (uint32_t)(at->matrix >> 32)};
    uint32_t k0 = (uint32_t)at->seed, k1 = (uint32_t)(at->seed >> 32);
    for (int round = 0; round < 10; round++) {
        philox_round(c, k0, k1);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    memcpy(out, c, sizeof c);
}

/* Horner, highest power first. */
static double polynomial(const double *coefficient, int count, double x) {
    double value = coefficient[0];
    for (int i = 1; i < count; i++)
        value = value * x + coefficient[i];
    return value;
}

double qj_log(double x) {
    static const double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & 0x000FFFFFFFFFFFFFull) | 0x3FF0000000000000ull;
    double mantissa;
    memcpy(&mantissa, &bits, sizeof mantissa);
    if (mantissa > 1.4142135623730951) {
        mantissa *= 0.5;
        exponent++;
    }
    /* log(m) = 2 atanh(s), |s| <= 0.1716: 11 odd terms leave less than 2^-60. */
    double s = (mantissa - 1.0) / (mantissa + 1.0), square = s * s, series = 0.0;
    for (int term = 21; term >= 3; term -= 2)
        series = (series + 1.0 / term) * square;
    double fraction = 2.0 * s + 2.0 * s * series;
    return exponent * ln2_high + (exponent * ln2_low + fraction);
}

double qj_pow10(double x) {
    static const double ln10 = 2.30258509299404568402;
    int whole = (int)(x < 0 ? x - 0.5 : x + 0.5);
    double rest = (x - whole) * ln10; /* |rest| <= 1.152 */
    double e = 1.0;
    for (int term = 22; term >= 1; term--)
        e = 1.0 + e * rest / term;
    double power = 1.0;
    for (int i = whole < 0 ? -whole : whole; i > 0; i--)
        power *= 10.0;
    return whole < 0 ? e / power : e * power;
}

/* SQRTSD and sqrt.rn.f64 are both correctly rounded; the builtin is never a library call for values >= 0. */
static double square_root(double x) {
    return __builtin_sqrt(x);
}

/* Wichura, "Algorithm AS 241: the percentage points of the normal distribution", PPND16; highest power first.
 */
static const double centre_top[] = {
    2.5090809287301226727e+3, 3.3430575583588128105e+4, 6.7265770927008700853e+4, 4.5921953931549871457e+4,
    1.3731693765509461125e+4, 1.9715909503065514427e+3, 1.3314166789178437745e+2, 3.3871328727963666080e+0};
static const double centre_bottom[] = {
    5.2264952788528545610e+3, 2.8729085735721942674e+4, 3.9307895800092710610e+4, 2.1213794301586595867e+4,
    5.3941960214247511077e+3, 6.8718700749205790830e+2, 4.2313330701600911252e+1, 1.0};
static const double middle_top[] = {7.74545014278341407640e-4, 2.27238449892691845833e-2,
                                    2.41780725177450611770e-1, 1.27045825245236838258e+0,
                                    3.64784832476320460504e+0, 5.76949722146069140550e+0,
                                    4.63033784615654529590e+0, 1.42343711074968357734e+0};
static const double middle_bottom[] = {1.05075007164441684324e-9, 5.47593808499534494600e-4,
                                       1.51986665636164571966e-2, 1.48103976427480074590e-1,
                                       6.89767334985100004550e-1, 1.67638483018380384940e+0,
                                       2.05319162663775882187e+0, 1.0};

double qj_normal_quantile(uint32_t word) {
    double p = (word + 0.5) * 0x1p-32, q = p - 0.5;
    if (q >= -0.425 && q <= 0.425) {
        double r = 0.180625 - q * q;
        return q * (polynomial(centre_top, 8, r) / polynomial(centre_bottom, 8, r));
    }
    /* 33 bits of p keep r below 4.8, so AS 241's third interval (r > 5) is never reached. */
    double r = square_root(-qj_log(q < 0 ? p : 1.0 - p)) - 1.6;
    double x = polynomial(middle_top, 8, r) / polynomial(middle_bottom, 8, r);
    return q < 0 ? -x : x;
}

void qj_random_normal(const qj_place *at, double out[4]) {
    uint32_t words[4];
    qj_random_words(at, words);
    for (int i = 0; i < 4; i++)
        out[i] = qj_normal_quantile(words[i]);
}
