/* Cubins kept on disk between processes, and in memory when there is no usable disk.
 *
 * A cache never fails a launch: whatever goes wrong with the file system, load() says "miss" and store()
 * keeps the entry in memory, and the warn callback hears of each kind of trouble once. Safe to use from many
 * threads and processes.
 *
 *  situation                                    load                 store
 *  entry whole                                  disk                 replaced
 *  entry truncated, flipped, other format       miss, one warning    replaced
 *  directory missing                            miss                 directory made (mode 0700), entry
 * written directory not ours, a symlink, or writable   miss, one warning    memory by others read-only or
 * full disk, lost rename          disk, else memory    memory, one warning entry in the shared directory only
 * shared               own directory
 *
 * Where: options.dir, else QRSMITH_CACHE_DIR, else XDG_CACHE_HOME/qrsmith, else HOME/.cache/qrsmith, else
 * TMPDIR/qrsmith-UID (TMPDIR or /tmp), else memory only; an empty variable counts as unset. Entries lie in
 * the folder cubin-FORMAT below it, one file KEY.cubin each; a compile in progress holds KEY.lock. */
#ifndef QRT_CACHE_H
#define QRT_CACHE_H

#include "runtime/cache_key.h"

typedef struct qrt_cache qrt_cache;

typedef struct qrt_cache_options {
    const char *dir; /* NULL: by the environment; "": memory only */
    const char
        *shared_dir;  /* a trusted read-only cache looked at second; NULL: QRSMITH_CACHE_SHARED, else none */
    int lock_seconds; /* how long to wait for another process's compile; 0: 600 */
    void (*warn)(void *user, const char *text); /* NULL: silent */
    void *warn_user;
} qrt_cache_options;

typedef enum qrt_origin { QRT_COMPILED, QRT_FROM_DISK, QRT_FROM_SHARED, QRT_FROM_MEMORY } qrt_origin;
const char *qrt_origin_name(qrt_origin origin); /* "compiled" | "disk" | "shared" | "memory" */

typedef struct qrt_entry {
    char *metadata; /* JSON text */
    unsigned char *data;
    size_t size;
} qrt_entry;
void qrt_entry_free(qrt_entry *entry); /* its content, not the struct */

/* Only QG_NO_MEMORY fails. */
qg_status qrt_cache_open(const qrt_cache_options *options, qrt_cache **out, qg_error *err);
void qrt_cache_close(qrt_cache *cache);

/* The directory in use ("" when memory only), and why not the usual one ("" when it is). */
const char *qrt_cache_directory(const qrt_cache *cache);
const char *qrt_cache_trouble(const qrt_cache *cache);

bool qrt_cache_load(qrt_cache *cache, const qrt_key *key, qrt_entry *out, qrt_origin *origin);
void qrt_cache_store(qrt_cache *cache, const qrt_key *key, const char *metadata, const void *data,
                     size_t size);

/* One compile a key, over threads and processes: between begin and end the caller is the only holder of the
 * key, or the wait's bound ran out or locks don't work here (then it compiles too, which is harmless). After
 * begin, load again: the holder before may have stored. The kernel frees a killed holder's lock. */
typedef struct qrt_cache_claim {
    qrt_key key;
    int fd; /* -1: none */
    struct qrt_cache_claim *next;
} qrt_cache_claim;
void qrt_cache_begin(qrt_cache *cache, const qrt_key *key, qrt_cache_claim *claim);
void qrt_cache_end(qrt_cache *cache, qrt_cache_claim *claim);

/* For `cache ls` and `cache verify`: every entry of the own directory, in order of key. `problem` is NULL for
 * a whole entry. Stops when the callback returns false. */
typedef struct qrt_cache_item {
    char key[QRT_KEY_TEXT];
    int64_t bytes;        /* of the file */
    int64_t modified;     /* seconds since 1970 */
    const char *metadata; /* JSON text; NULL with a problem */
    const char *problem;
} qrt_cache_item;
qg_status qrt_cache_visit(qrt_cache *cache, bool (*visit)(void *user, const qrt_cache_item *item), void *user,
                          qg_error *err);
/* Removes one entry by its key text; true when it is gone. */
bool qrt_cache_remove(qrt_cache *cache, const char *key);

#endif
