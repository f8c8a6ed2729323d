/* Counter-based random numbers for the judge's inputs.
 *
 * Everything here is a pure function of its arguments and uses only integer arithmetic and the IEEE
 * operations
 * + - * / sqrt on doubles, never contracted, so that any machine (a GPU too) gets the same bits. */
#ifndef QJ_RANDOM_H
#define QJ_RANDOM_H

#include <stdint.h>

/* Independent numbers at the same place (seed, matrix, i, j). */
typedef enum qj_stream {
    QJ_STREAM_BASE,   /* the matrix itself */
    QJ_STREAM_NOISE,  /* what is added to a copied column */
    QJ_STREAM_COLUMN, /* the one column of nearcollinear and collinear */
    QJ_STREAM_SIGN,   /* signs of diagonal */
    QJ_STREAM_KIND,   /* which kind a matrix of mixed is */
    QJ_STREAM_FACTOR, /* G of gram */
} qj_stream;

/* Where a number is drawn: four rows (4*quad .. 4*quad+3) of column j of a matrix. quad < 2^24. */
typedef struct qj_place {
    uint64_t seed, matrix;
    qj_stream stream;
    uint32_t quad, column;
} qj_place;

/* Philox4x32-10: four uniform 32-bit words. */
void qj_random_words(const qj_place *at, uint32_t out[4]);

/* Four independent N(0,1), one a word. */
void qj_random_normal(const qj_place *at, double out[4]);

/* The standard normal quantile of (word + 1/2) / 2^32, to about 1e-15 (Wichura's AS 241). */
double qj_normal_quantile(uint32_t word);

/* Natural logarithm of a positive normal double, and 10^x for |x| <= 300, both to about 1e-15 relative. */
double qj_log(double x);
double qj_pow10(double x);

#endif
