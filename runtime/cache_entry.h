/* The file format of one cache entry. All numbers little-endian:
 *
 *     0  "QRSCUBIN"
 *     8  u32 format (QRT_CACHE_FORMAT), u32 zero
 *    16  u64 bytes of metadata, u64 bytes of cubin
 *    32  the key, 32 bytes
 *    64  SHA-256 over bytes 0..63 and 96..end
 *    96  metadata (JSON text), then the cubin
 *
 * One file holds everything about a cubin, so that no reader can mix two writers. */
#ifndef QRT_CACHE_ENTRY_H
#define QRT_CACHE_ENTRY_H

#include "runtime/cache.h"

#define QRT_ENTRY_HEADER 96
#define QRT_ENTRY_LIMIT  ((size_t)256 << 20) /* larger files are taken for damage */

/* The whole file as one allocation; NULL when memory ran out. */
unsigned char *qrt_entry_encode(const qrt_key *key, const char *metadata, const void *data, size_t size,
                                size_t *total);

/* NULL when the bytes are a whole entry of that key, and *out (if not NULL) then holds copies; else what is
 * wrong. */
const char *qrt_entry_decode(const unsigned char *bytes, size_t size, const qrt_key *key, qrt_entry *out);

/* Reads a file to its end into one allocation; NULL with errno, or with errno 0 when over QRT_ENTRY_LIMIT. */
unsigned char *qrt_entry_read(int fd, size_t *size);

#endif
