#include "runtime/host/object.h"

#include "gen/embedded.h"
#include "gen/text.h"
#include "runtime/cache_place.h"
#include "runtime/host/host.h"
#include "runtime/sha256.h"
#include "templates/device/host_abi.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DIGEST = 32, MARK = 8, TRAILER = DIGEST + MARK, MAX_OBJECT = 256 << 20 };
static const char mark[MARK + 1] = "QHXOBJ01";

/* --- folders --- */

static bool make_folders(const char *dir) {
    char path[QHX_PATH];
    snprintf(path, sizeof path, "%s", dir);
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            if (mkdir(path, 0700) != 0 && errno != EEXIST) return false;
            *p = '/';
        }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool trusted(const char *dir) {
    struct stat s;
    return lstat(dir, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() &&
           !(s.st_mode & (S_IWGRP | S_IWOTH)) && access(dir, W_OK | X_OK) == 0;
}

static qg_status temporary_folder(char out[QHX_PATH], qg_error *err) {
    const char *tmp = getenv("TMPDIR");
    snprintf(out, QHX_PATH, "%s/qrsmith-host-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(out))
        return qg_failf(err, QG_ENVIRONMENT, out, "set TMPDIR to a folder that can be written",
                        "cannot make a folder for compiled kernels: %s", strerror(errno));
    return QG_OK;
}

qg_status qhx_object_folder(const char *given, char out[QHX_PATH], bool *temporary, qg_error *err) {
    char base[QHX_PATH - 16] = "";
    *temporary = false;
    if (given)
        snprintf(base, sizeof base, "%s", given);
    else
        qrt_place_choose(base, sizeof base);
    snprintf(out, QHX_PATH, "%s/host-1", base);
    if (*base && make_folders(out) && trusted(base) && trusted(out)) return QG_OK;
    *temporary = true;
    return temporary_folder(out, err);
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *where) {
    (void)s, (void)type, (void)where;
    remove(path);
    return 0;
}

void qhx_object_remove_folder(const char *dir) {
    nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Folders of compiles that were ended midway: none takes an hour. */
static void remove_abandoned(const char *dir) {
    DIR *d = opendir(dir);
    if (!d) return;
    time_t now = time(NULL);
    char path[QHX_PATH + 16];
    for (const struct dirent *e; (e = readdir(d));) {
        struct stat s;
        if (strncmp(e->d_name, "build-", 6) == 0 &&
            snprintf(path, sizeof path, "%s/%s", dir, e->d_name) < (int)sizeof path && lstat(path, &s) == 0 &&
            S_ISDIR(s.st_mode) && now - s.st_mtime > 3600)
            qhx_object_remove_folder(path);
    }
    closedir(d);
}

/* --- device headers --- */

typedef struct header {
    const char *name, *text;
    size_t size;
} header;

/* The i-th; false past the end. */
static bool header_at(const qg_library *lib, int i, header *h) {
    if (lib) {
        h->name = qg_library_header_name(lib, i);
        h->text = h->name ? qg_library_header(lib, h->name, &h->size) : NULL;
        return h->text != NULL;
    }
    for (const qg_embedded *e = qg_embedded_files; e->path; e++)
        if (strncmp(e->path, "device/", 7) == 0 && i-- == 0) {
            *h = (header){e->path, e->data, e->size};
            return true;
        }
    return false;
}

/* --- keys --- */

/* With its length, so that no two different lists of fields read the same. */
static void add_field(qrt_sha256 *hash, const void *data, size_t size) {
    uint64_t n = size;
    qrt_sha256_add(hash, &n, sizeof n);
    qrt_sha256_add(hash, data, size);
}

static void add_text(qrt_sha256 *hash, const char *text) {
    add_field(hash, text, strlen(text));
}

static void make_key(const qhx_object_request *r, char text[2 * DIGEST + 1]) {
    qrt_sha256 hash;
    uint8_t digest[DIGEST];
    const char *flags[QHX_COMPILER_FLAGS];
    uint32_t abi = QHX_ABI;
    header h;
    qrt_sha256_start(&hash);
    add_field(&hash, &abi, sizeof abi);
    add_text(&hash, r->compiler->path);
    for (int i = 0; i < r->compiler->words; i++)
        add_text(&hash, r->compiler->word[i]);
    add_text(&hash, r->compiler->version);
    int n = qhx_compiler_flags(r->sanitize, flags);
    for (int i = 0; i < n; i++)
        add_text(&hash, flags[i]);
    for (int i = 0; header_at(r->lib, i, &h); i++) {
        add_text(&hash, h.name);
        add_field(&hash, h.text, h.size);
    }
    add_field(&hash, r->source, r->source_size);
    qrt_sha256_end(&hash, digest);
    for (int i = 0; i < DIGEST; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

/* --- objects --- */

static void digest_of(const char *data, size_t size, uint8_t digest[DIGEST]) {
    qrt_sha256 hash;
    qrt_sha256_start(&hash);
    qrt_sha256_add(&hash, data, size);
    qrt_sha256_end(&hash, digest);
}

static bool whole(const char *path) {
    qg_text t = {0};
    uint8_t digest[DIGEST];
    bool ok = false;
    if (qg_text_read(&t, path, MAX_OBJECT, NULL) == QG_OK && t.size > TRAILER) {
        digest_of(t.data, t.size - TRAILER, digest);
        ok = memcmp(t.data + t.size - TRAILER, digest, DIGEST) == 0 &&
             memcmp(t.data + t.size - MARK, mark, MARK) == 0;
    }
    qg_text_free(&t);
    return ok;
}

static qg_status write_file(const char *dir, const char *name, const char *data, size_t size, qg_error *err) {
    char path[QHX_PATH + 256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    char *slash = strrchr(path, '/');
    *slash = 0;
    mkdir(path, 0700); /* a header's own folder; if it fails, so does fopen */
    *slash = '/';
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(data, 1, size, f) == size;
    if (f && fclose(f) != 0) ok = false;
    if (!ok) return qg_failf(err, QG_ENVIRONMENT, path, "", "cannot be written: %s", strerror(errno));
    return QG_OK;
}

static qg_status append_digest(const char *path, qg_error *err) {
    qg_text t = {0};
    char trailer[TRAILER];
    qg_status status = qg_text_read(&t, path, MAX_OBJECT, err);
    if (status != QG_OK) return status;
    digest_of(t.data, t.size, (uint8_t *)trailer);
    memcpy(trailer + DIGEST, mark, MARK);
    qg_text_free(&t);
    FILE *f = fopen(path, "ab");
    bool ok = f && fwrite(trailer, 1, TRAILER, f) == TRAILER;
    if (f && fclose(f) != 0) ok = false;
    return ok ? QG_OK : qg_failf(err, QG_ENVIRONMENT, path, "", "cannot be written: %s", strerror(errno));
}

static qg_status build(const qhx_object_request *r, const char *dir, qg_error *err) {
    char source[256], object[QHX_PATH + 32];
    header h;
    qg_status status = QG_OK;
    snprintf(source, sizeof source, "%.200s.cu", r->name && *r->name ? r->name : "kernel");
    for (char *p = source; *p; p++)
        if (*p == '/') *p = '_';
    for (int i = 0; status == QG_OK && header_at(r->lib, i, &h); i++)
        status = write_file(dir, h.name, h.text, h.size, err);
    if (status == QG_OK) status = write_file(dir, source, r->source, r->source_size, err);
    if (status == QG_OK) status = qhx_compiler_run(r->compiler, r->sanitize, dir, source, "object.so", err);
    snprintf(object, sizeof object, "%s/object.so", dir);
    if (status == QG_OK && access(object, R_OK) != 0)
        return qg_failf(err, QG_ENVIRONMENT, source, QHX_COMPILER_HINT,
                        "%s says it is done, but there is no object.so", r->compiler->word[0]);
    return status == QG_OK ? append_digest(object, err) : status;
}

qg_status qhx_object_get(const qhx_object_request *r, char path[QHX_PATH], bool *compiled, qg_error *err) {
    char key[2 * DIGEST + 1], dir[QHX_PATH + 16], object[QHX_PATH + 32];
    make_key(r, key);
    *compiled = false;
    if (snprintf(path, QHX_PATH, "%s/%s.so", r->dir, key) >= QHX_PATH)
        return qg_fail(err, QG_ENVIRONMENT, "host executor", "the cache folder's path is too long", "");
    if (whole(path)) return QG_OK;
    remove_abandoned(r->dir);
    snprintf(dir, sizeof dir, "%s/build-XXXXXX", r->dir);
    if (!mkdtemp(dir)) return qg_failf(err, QG_ENVIRONMENT, dir, "", "cannot be made: %s", strerror(errno));
    qg_status status = build(r, dir, err);
    snprintf(object, sizeof object, "%s/object.so", dir);
    if (status == QG_OK && rename(object, path) != 0)
        status = qg_failf(err, QG_ENVIRONMENT, path, "", "cannot be renamed into place: %s", strerror(errno));
    qhx_object_remove_folder(dir);
    *compiled = status == QG_OK;
    return status;
}
