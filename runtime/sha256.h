/* SHA-256 (FIPS 180-4). Own code of a page, because the library must also be linked statically into programs
 * for machines without packages, and a crypto library would be its largest dependency by far. Tested against
 * the standard's vectors. */
#ifndef QRT_SHA256_H
#define QRT_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct qrt_sha256 {
    uint32_t state[8];
    uint64_t total; /* bytes so far */
    uint8_t block[64];
} qrt_sha256;

void qrt_sha256_start(qrt_sha256 *hash);
void qrt_sha256_add(qrt_sha256 *hash, const void *data, size_t size);
void qrt_sha256_end(qrt_sha256 *hash, uint8_t digest[32]);

#endif
