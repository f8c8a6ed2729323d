#include "runtime/cache.h"
#include "runtime/cache_entry.h"
#include "runtime/cache_inside.h"
#include "runtime/cache_place.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEPT_LIMIT ((size_t)256 << 20) /* bytes of the memory tier; the oldest goes first */
#define NAME_SIZE  (QRT_KEY_TEXT + 48)

typedef enum trouble { TROUBLE_PLACE, TROUBLE_SHARED, TROUBLE_ENTRY, TROUBLE_READ, TROUBLE_WRITE } trouble;

const char *qrt_origin_name(qrt_origin origin) {
    static const char *const names[] = {"compiled", "disk", "shared", "memory"};
    return names[origin];
}

/* Says each kind of trouble once. Called without the mutex, since the callback is the user's. */
static void warn(qrt_cache *cache, trouble kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void warn(qrt_cache *cache, trouble kind, const char *format, ...) {
    pthread_mutex_lock(&cache->mutex);
    bool said = cache->warned & 1u << kind;
    cache->warned |= 1u << kind;
    pthread_mutex_unlock(&cache->mutex);
    if (said || !cache->warn) return;
    char text[PATH_MAX + 512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cache->warn(cache->warn_user, text);
}

/* ------------------------------------------------------------------------------------------ opening */

int qrt_cache_place(qrt_cache *cache, bool make) {
    char why[PATH_MAX + 128] = "";
    pthread_mutex_lock(&cache->mutex);
    bool lost = false;
    if (cache->place < 0 && !cache->unusable && cache->dir[0]) {
        cache->place = qrt_place_open(cache->dir, QRT_TRUST_OWN, make, why, sizeof why);
        lost = cache->place < 0 && (make || errno != ENOENT);
        cache->unusable = lost;
        if (lost) snprintf(cache->trouble, sizeof cache->trouble, "%s", why);
    }
    int place = cache->place;
    pthread_mutex_unlock(&cache->mutex);
    if (lost) warn(cache, TROUBLE_PLACE, "cubin cache %s; compiled kernels stay in memory", why);
    return place;
}

static void open_shared(qrt_cache *cache, const char *dir) {
    char why[PATH_MAX + 128];
    cache->shared = qrt_place_open(dir, QRT_TRUST_SHARED, false, why, sizeof why);
    if (cache->shared < 0) warn(cache, TROUBLE_SHARED, "shared cubin cache %s; not used", why);
}

qg_status qrt_cache_open(const qrt_cache_options *options, qrt_cache **out, qg_error *err) {
    static const qrt_cache_options none = {0};
    if (!options) options = &none;
    qrt_cache *cache = calloc(1, sizeof *cache);
    if (!cache) return qg_fail(err, QG_NO_MEMORY, "the cubin cache", "out of memory", "");
    cache->place = cache->shared = -1;
    cache->lock_seconds = options->lock_seconds > 0 ? options->lock_seconds : 600;
    cache->warn = options->warn;
    cache->warn_user = options->warn_user;
    pthread_mutex_init(&cache->mutex, NULL);
    pthread_cond_init(&cache->freed, NULL);
    if (options->dir)
        snprintf(cache->dir, sizeof cache->dir, "%s", options->dir);
    else
        qrt_place_choose(cache->dir, sizeof cache->dir);
    const char *shared = options->shared_dir ? options->shared_dir : getenv("QRSMITH_CACHE_SHARED");
    if (shared && *shared) open_shared(cache, shared);
    qrt_cache_place(cache, false);
    *out = cache;
    return QG_OK;
}

void qrt_cache_close(qrt_cache *cache) {
    if (!cache) return;
    while (cache->kept) {
        qrt_kept *next = cache->kept->next;
        qrt_entry_free(&cache->kept->entry);
        free(cache->kept);
        cache->kept = next;
    }
    if (cache->place >= 0) close(cache->place);
    if (cache->shared >= 0) close(cache->shared);
    pthread_cond_destroy(&cache->freed);
    pthread_mutex_destroy(&cache->mutex);
    free(cache);
}

const char *qrt_cache_directory(const qrt_cache *cache) {
    return cache->unusable ? "" : cache->dir;
}
const char *qrt_cache_trouble(const qrt_cache *cache) {
    return cache->trouble;
}

/* ------------------------------------------------------------------------------------------ memory tier */

static bool copy_entry(qrt_entry *out, const char *metadata, const void *data, size_t size) {
    *out = (qrt_entry){strdup(metadata), malloc(size ? size : 1), size};
    if (out->metadata && out->data) {
        memcpy(out->data, data, size);
        return true;
    }
    qrt_entry_free(out);
    return false;
}

static bool recall(qrt_cache *cache, const qrt_key *key, qrt_entry *out) {
    bool found = false;
    pthread_mutex_lock(&cache->mutex);
    for (const qrt_kept *k = cache->kept; k && !found; k = k->next)
        if (!memcmp(&k->key, key, sizeof *key))
            found = copy_entry(out, k->entry.metadata, k->entry.data, k->entry.size);
    pthread_mutex_unlock(&cache->mutex);
    return found;
}

/* Drops what lies past the limit, and an older entry of the newest key. */
static void trim(qrt_cache *cache) {
    const qrt_key *newest = &cache->kept->key;
    size_t total = cache->kept->entry.size;
    for (qrt_kept **at = &cache->kept->next; *at;) {
        qrt_kept *k = *at;
        total += k->entry.size;
        if (total <= KEPT_LIMIT && memcmp(&k->key, newest, sizeof *newest)) {
            at = &k->next;
            continue;
        }
        total -= k->entry.size;
        *at = k->next;
        qrt_entry_free(&k->entry);
        free(k);
    }
    cache->kept_bytes = total;
}

static void keep(qrt_cache *cache, const qrt_key *key, const char *metadata, const void *data, size_t size) {
    qrt_kept *kept = calloc(1, sizeof *kept);
    if (!kept || !copy_entry(&kept->entry, metadata, data, size)) {
        free(kept); /* then the next plan compiles again */
        return;
    }
    kept->key = *key;
    pthread_mutex_lock(&cache->mutex);
    kept->next = cache->kept;
    cache->kept = kept;
    trim(cache);
    pthread_mutex_unlock(&cache->mutex);
}

/* ------------------------------------------------------------------------------------------ disk */

static const char *entry_name(const qrt_key *key, char name[NAME_SIZE]) {
    char text[QRT_KEY_TEXT];
    snprintf(name, NAME_SIZE, "%s.cubin", qrt_key_text(key, text));
    return name;
}

/* Reads one entry; false with what is wrong ("" when there simply is none). */
static bool read_entry(int place, qrt_trust trust, const qrt_key *key, qrt_entry *out, char *why,
                       size_t why_size) {
    char name[NAME_SIZE];
    why[0] = 0;
    int fd = qrt_place_open_entry(place, entry_name(key, name), trust, why, why_size);
    if (fd < 0) {
        if (fd == -1 && errno != ENOENT) snprintf(why, why_size, "can't be opened: %s", strerror(errno));
        return false;
    }
    size_t size = 0;
    unsigned char *bytes = qrt_entry_read(fd, &size);
    const char *problem = bytes   ? qrt_entry_decode(bytes, size, key, out)
                          : errno ? strerror(errno)
                                  : "is far too large";
    if (problem) snprintf(why, why_size, "%s", problem);
    free(bytes);
    close(fd);
    return !problem;
}

bool qrt_cache_load(qrt_cache *cache, const qrt_key *key, qrt_entry *out, qrt_origin *origin) {
    char why[256], name[NAME_SIZE];
    *origin = QRT_FROM_MEMORY;
    if (recall(cache, key, out)) return true;
    int place = qrt_cache_place(cache, false);
    *origin = QRT_FROM_DISK;
    if (place >= 0) {
        if (read_entry(place, QRT_TRUST_OWN, key, out, why, sizeof why)) return true;
        if (why[0])
            warn(cache, TROUBLE_ENTRY, "cubin cache %s: %s %s; it will be replaced", cache->dir,
                 entry_name(key, name), why);
    }
    *origin = QRT_FROM_SHARED;
    if (cache->shared < 0) return false;
    if (read_entry(cache->shared, QRT_TRUST_SHARED, key, out, why, sizeof why)) return true;
    if (why[0]) warn(cache, TROUBLE_READ, "shared cubin cache: %s %s; not used", entry_name(key, name), why);
    return false;
}

static bool write_all(int fd, const unsigned char *bytes, size_t size) {
    while (size) {
        ssize_t put = write(fd, bytes, size);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        bytes += put;
        size -= (size_t)put;
    }
    return true;
}

/* Temporary names must differ over hosts, processes and threads that share the directory. */
static int open_temporary(int place, const char *name, char temporary[NAME_SIZE]) {
    for (int attempt = 0; attempt < 8; attempt++) {
        uint64_t random;
        if (getrandom(&random, sizeof random, 0) != sizeof random) return -1;
        snprintf(temporary, NAME_SIZE, ".%.64s.%016llx", name, (unsigned long long)random);
        int fd = openat(place, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

/* 0, or errno. The rename publishes a file whose bytes are already safe. */
static int publish(int place, const char *name, const unsigned char *bytes, size_t size) {
    char temporary[NAME_SIZE];
    int fd = open_temporary(place, name, temporary);
    if (fd < 0) return errno;
    int trouble = 0;
    if (!write_all(fd, bytes, size) || fsync(fd)) trouble = errno ? errno : EIO;
    if (close(fd) && !trouble) trouble = errno;
    if (!trouble && renameat(place, temporary, place, name)) trouble = errno;
    if (trouble)
        unlinkat(place, temporary, 0);
    else
        fsync(place);
    return trouble;
}

void qrt_cache_store(qrt_cache *cache, const qrt_key *key, const char *metadata, const void *data,
                     size_t size) {
    if (!size) return; /* a compiler's "success" without a cubin must not stay */
    int place = qrt_cache_place(cache, true);
    int trouble = 0;
    if (place >= 0) {
        char name[NAME_SIZE];
        size_t total;
        unsigned char *bytes = qrt_entry_encode(key, metadata, data, size, &total);
        trouble = bytes ? publish(place, entry_name(key, name), bytes, total) : ENOMEM;
        free(bytes);
        if (!trouble) return;
    }
    keep(cache, key, metadata, data, size);
    if (trouble)
        warn(cache, TROUBLE_WRITE, "cubin cache %s: can't write: %s; compiled kernels stay in memory",
             cache->dir, strerror(trouble));
}

/* ------------------------------------------------------------------------------------------ looking around
 */

static bool is_entry(const char *name, qrt_key *key) {
    char text[QRT_KEY_TEXT];
    if (strlen(name) != 70 || strcmp(name + 64, ".cubin")) return false;
    memcpy(text, name, 64);
    text[64] = 0;
    return qrt_key_parse(text, key);
}

static int is_entry_name(const struct dirent *entry) {
    qrt_key key;
    return is_entry(entry->d_name, &key);
}

/* Byte order, whatever the locale. */
static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool show(int place, const char *name, bool (*visit)(void *, const qrt_cache_item *), void *user) {
    qrt_key key;
    struct stat info;
    if (!is_entry(name, &key) || fstatat(place, name, &info, AT_SYMLINK_NOFOLLOW))
        return true; /* gone meanwhile */
    char why[256];
    qrt_entry entry = {0};
    bool whole = read_entry(place, QRT_TRUST_OWN, &key, &entry, why, sizeof why);
    if (!whole && !why[0]) return true;
    qrt_cache_item item = {.bytes = info.st_size,
                           .modified = info.st_mtime,
                           .metadata = whole ? entry.metadata : NULL,
                           .problem = whole ? NULL : why};
    qrt_key_text(&key, item.key);
    bool on = visit(user, &item);
    qrt_entry_free(&entry);
    return on;
}

qg_status qrt_cache_visit(qrt_cache *cache, bool (*visit)(void *user, const qrt_cache_item *item), void *user,
                          qg_error *err) {
    int place = qrt_cache_place(cache, false);
    if (place < 0) return QG_OK; /* nothing there yet, or memory only: qrt_cache_trouble() says why */
    struct dirent **names;
    int count = scandirat(place, ".", &names, is_entry_name, by_name);
    if (count < 0) return qg_fail(err, QG_ENVIRONMENT, cache->dir, strerror(errno), "");
    bool on = true;
    for (int i = 0; i < count; i++) {
        if (on) on = show(place, names[i]->d_name, visit, user);
        free(names[i]);
    }
    free(names);
    return QG_OK;
}

bool qrt_cache_remove(qrt_cache *cache, const char *text) {
    qrt_key key;
    char name[NAME_SIZE];
    int place = qrt_cache_place(cache, false);
    if (place < 0 || !qrt_key_parse(text, &key)) return false;
    return !unlinkat(place, entry_name(&key, name), 0) || errno == ENOENT;
}
