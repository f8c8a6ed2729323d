/* NumPy's .npy files, format versions 1.0, 2.0 and 3.0, strictly: little-endian float32, two or three
 * dimensions, C or Fortran order. Anything else is refused with what was found and how to convert it. */
#ifndef CLI_NPY_H
#define CLI_NPY_H

#include "gen/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct npy_array {
    int dims;         /* 1 (written only), 2 or 3 */
    int64_t shape[3]; /* batch (of three), rows, columns */
    bool fortran;     /* first index runs fastest */
    float *data;      /* the elements in file order; NULL when there are none */
} npy_array;

/* Elements of the array. */
int64_t npy_count(const npy_array *a);

/* Reads a whole file. Never allocates more than the file holds. On failure *out is empty. */
qg_status npy_read(const char *path, npy_array *out, qg_error *err);

/* Writes header (version 1.0, data aligned to 64 bytes) and elements to an open file; false when the file
 * refuses. */
bool npy_write(FILE *to, const npy_array *a);

void npy_free(npy_array *a);

#endif
