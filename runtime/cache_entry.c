#include "runtime/cache_entry.h"
#include "runtime/sha256.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char magic[8] = {'Q', 'R', 'S', 'C', 'U', 'B', 'I', 'N'};

enum { AT_FORMAT = 8, AT_METADATA_SIZE = 16, AT_DATA_SIZE = 24, AT_KEY = 32, AT_CHECKSUM = 64 };

static void put(unsigned char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static uint64_t get(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static void checksum(const unsigned char *bytes, size_t size, uint8_t digest[32]) {
    qrt_sha256 hash;
    qrt_sha256_start(&hash);
    qrt_sha256_add(&hash, bytes, AT_CHECKSUM);
    qrt_sha256_add(&hash, bytes + QRT_ENTRY_HEADER, size - QRT_ENTRY_HEADER);
    qrt_sha256_end(&hash, digest);
}

unsigned char *qrt_entry_encode(const qrt_key *key, const char *metadata, const void *data, size_t size,
                                size_t *total) {
    size_t metadata_size = strlen(metadata);
    *total = QRT_ENTRY_HEADER + metadata_size + size;
    unsigned char *bytes = calloc(1, *total);
    if (!bytes) return NULL;
    memcpy(bytes, magic, sizeof magic);
    put(bytes + AT_FORMAT, QRT_CACHE_FORMAT, 4);
    put(bytes + AT_METADATA_SIZE, metadata_size, 8);
    put(bytes + AT_DATA_SIZE, size, 8);
    memcpy(bytes + AT_KEY, key->bytes, sizeof key->bytes);
    memcpy(bytes + QRT_ENTRY_HEADER, metadata, metadata_size);
    memcpy(bytes + QRT_ENTRY_HEADER + metadata_size, data, size);
    checksum(bytes, *total, bytes + AT_CHECKSUM);
    return bytes;
}

const char *qrt_entry_decode(const unsigned char *bytes, size_t size, const qrt_key *key, qrt_entry *out) {
    if (!size) return "is empty";
    if (size < QRT_ENTRY_HEADER) return "is shorter than a header";
    if (memcmp(bytes, magic, sizeof magic)) return "is no cache entry";
    if (get(bytes + AT_FORMAT, 4) != QRT_CACHE_FORMAT) return "has another format version";
    if (memcmp(bytes + AT_KEY, key->bytes, sizeof key->bytes)) return "belongs to another key";
    uint64_t metadata_size = get(bytes + AT_METADATA_SIZE, 8), data_size = get(bytes + AT_DATA_SIZE, 8);
    size_t held = size - QRT_ENTRY_HEADER;
    if (metadata_size > held || data_size != held - metadata_size) return "is truncated or too long";
    if (!data_size) return "holds no cubin";
    uint8_t digest[32];
    checksum(bytes, size, digest);
    if (memcmp(bytes + AT_CHECKSUM, digest, sizeof digest)) return "fails its checksum";
    if (!out) return NULL;
    out->metadata = strndup((const char *)bytes + QRT_ENTRY_HEADER, metadata_size);
    out->data = malloc(data_size);
    out->size = data_size;
    if (!out->metadata || !out->data) {
        qrt_entry_free(out);
        return "needs more memory than there is";
    }
    memcpy(out->data, bytes + QRT_ENTRY_HEADER + metadata_size, data_size);
    return NULL;
}

unsigned char *qrt_entry_read(int fd, size_t *size) {
    struct stat info;
    if (fstat(fd, &info)) return NULL;
    if (info.st_size < 0 || (uint64_t)info.st_size > QRT_ENTRY_LIMIT) {
        errno = 0;
        return NULL;
    }
    /* read(), not mmap(): a file cut short by another process must not become a SIGBUS. */
    unsigned char *bytes = malloc((size_t)info.st_size + 1);
    size_t have = 0;
    while (bytes && have < (size_t)info.st_size) {
        ssize_t got = read(fd, bytes + have, (size_t)info.st_size - have);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            free(bytes);
            return NULL;
        }
        if (!got) break;
        have += (size_t)got;
    }
    *size = have;
    return bytes;
}

void qrt_entry_free(qrt_entry *entry) {
    free(entry->metadata);
    free(entry->data);
    *entry = (qrt_entry){0};
}
