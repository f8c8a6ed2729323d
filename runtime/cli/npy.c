#include "runtime/cli/npy.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are copied as they lie in memory");

enum { MAGIC_SIZE = 6, HEADER_MAX = 65536 };
static const char magic[MAGIC_SIZE + 1] = "\x93NUMPY";

/* A header being read: a Python dict literal, of which NumPy writes a small part of the grammar. */
typedef struct reader {
    const char *path;
    const char *at, *end;
    qg_error *err;
} reader;

typedef struct header {
    char descr[32];
    bool fortran;
    int dims;
    int64_t shape[3];
    bool has_descr, has_order, has_shape;
} header;

static qg_status refuse(const char *path, qg_error *err, const char *why, const char *fix) {
    return qg_fail(err, QG_BAD_INPUT, path, why, fix);
}

static qg_status bad_header(const reader *r, const char *why) {
    return refuse(r->path, r->err, why, "a header as numpy.save writes it: descr, fortran_order and shape");
}

static void skip_space(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

static bool take(reader *r, char c) {
    skip_space(r);
    if (r->at == r->end || *r->at != c) return false;
    r->at++;
    return true;
}

static bool take_word(reader *r, const char *word) {
    size_t length = strlen(word);
    skip_space(r);
    if ((size_t)(r->end - r->at) < length || memcmp(r->at, word, length)) return false;
    r->at += length;
    return true;
}

static bool take_string(reader *r, char *out, size_t size) {
    skip_space(r);
    if (r->at == r->end || (*r->at != '\'' && *r->at != '"')) return false;
    char quote = *r->at++;
    size_t n = 0;
    for (; r->at < r->end && *r->at != quote; r->at++) {
        if (!isprint((unsigned char)*r->at) || *r->at == '\\' || n + 1 == size) return false;
        out[n++] = *r->at;
    }
    out[n] = 0;
    return take(r, quote);
}

static bool take_extent(reader *r, int64_t *out) {
    skip_space(r);
    if (r->at == r->end || !isdigit((unsigned char)*r->at)) return false;
    int64_t value = 0;
    for (; r->at < r->end && isdigit((unsigned char)*r->at); r->at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *r->at - '0', &value))
            return false;
    take_word(r, "L"); /* Python 2 wrote long integers so */
    *out = value;
    return true;
}

static qg_status take_shape(reader *r, header *h) {
    if (!take(r, '(')) return bad_header(r, "the shape is not a tuple");
    while (!take(r, ')')) {
        int64_t extent;
        if (!take_extent(r, &extent)) return bad_header(r, "a number of the shape cannot be read");
        if (h->dims < 3) h->shape[h->dims] = extent;
        h->dims++;
        if (!take(r, ',')) {
            if (h->dims == 1 || !take(r, ')')) return bad_header(r, "the shape does not end with a ')'");
            break;
        }
    }
    return QG_OK;
}

static qg_status take_descr(reader *r, header *h) {
    skip_space(r);
    if (r->at < r->end && *r->at == '[')
        return refuse(r->path, r->err, "the elements are records", "save one plain float32 array");
    if (!take_string(r, h->descr, sizeof h->descr))
        return bad_header(r, "the element type 'descr' cannot be read");
    return QG_OK;
}

static qg_status take_order(reader *r, header *h) {
    h->fortran = take_word(r, "True");
    if (!h->fortran && !take_word(r, "False"))
        return bad_header(r, "fortran_order is neither True nor False");
    return QG_OK;
}

static qg_status take_field(reader *r, header *h) {
    static const struct field {
        const char *name;
        size_t seen; /* offset of the flag */
        qg_status (*take)(reader *, header *);
    } fields[] = {{"descr", offsetof(header, has_descr), take_descr},
                  {"fortran_order", offsetof(header, has_order), take_order},
                  {"shape", offsetof(header, has_shape), take_shape}};
    char key[32];
    if (!take_string(r, key, sizeof key) || !take(r, ':'))
        return bad_header(r, "the header is not a dictionary of names and values");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        bool *seen = (bool *)((char *)h + fields[i].seen);
        if (strcmp(key, fields[i].name)) continue;
        if (*seen) return bad_header(r, "the header names a field twice");
        *seen = true;
        return fields[i].take(r, h);
    }
    return bad_header(r, "the header names an unknown field");
}

static qg_status parse_header(reader *r, header *h) {
    if (!take(r, '{')) return bad_header(r, "the header does not begin with a '{'");
    while (!take(r, '}')) {
        qg_status status = take_field(r, h);
        if (status != QG_OK) return status;
        if (!take(r, ',')) {
            if (!take(r, '}')) return bad_header(r, "the header does not end with a '}'");
            break;
        }
    }
    skip_space(r);
    if (r->at != r->end) return bad_header(r, "text follows the header's '}'");
    if (!h->has_descr || !h->has_order || !h->has_shape) return bad_header(r, "the header lacks a field");
    return QG_OK;
}

/* ---- what qrsmith takes of it ---- */

static qg_status check_type(const char *path, const header *h, qg_error *err) {
    char why[96];
    snprintf(why, sizeof why, "the elements are '%s', not little-endian float32 '<f4'", h->descr);
    if (!strcmp(h->descr, "<f4")) return QG_OK;
    if (!strcmp(h->descr, ">f4")) return refuse(path, err, why, "save a.astype('<f4')");
    return refuse(path, err, why, "save a.astype(numpy.float32)");
}

static qg_status check_dims(const char *path, const header *h, qg_error *err) {
    char why[64];
    snprintf(why, sizeof why, "the array has %d dimension%s", h->dims, h->dims == 1 ? "" : "s");
    if (h->dims == 2 || h->dims == 3) return QG_OK;
    return refuse(path, err, why,
                  h->dims == 1
                      ? "rows x columns or batch x rows x columns: save a.reshape(-1, 1) for one column"
                      : "rows x columns or batch x rows x columns");
}

static qg_status check_size(const char *path, const header *h, int64_t held, int64_t *bytes, qg_error *err) {
    int64_t need = 4;
    bool empty = false, overflow = false;
    for (int i = 0; i < h->dims; i++) {
        empty |= h->shape[i] == 0;
        overflow |= __builtin_mul_overflow(need, h->shape[i], &need);
    }
    *bytes = empty ? 0 : need;
    if (overflow && !empty)
        return refuse(path, err, "the shape needs more bytes than any file holds", "is the file damaged?");
    if (*bytes == held) return QG_OK;
    return qg_failf(
        err, QG_BAD_INPUT, path,
        held < *bytes ? "the file is cut short: copy it again" : "one array a file, as numpy.save writes it",
        "the shape needs %lld bytes of elements, the file holds %lld", (long long)*bytes, (long long)held);
}

/* ---- files ---- */

/* Opens a regular file and says how long it is. */
static qg_status open_input(const char *path, FILE **out, int64_t *size, qg_error *err) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer must not hold us */
    if (fd < 0) return refuse(path, err, strerror(errno), "an existing, readable .npy file");
    bool regular = !fstat(fd, &st) && S_ISREG(st.st_mode);
    FILE *f = regular ? fdopen(fd, "rb") : NULL;
    if (!f) {
        close(fd);
        return refuse(path, err, "not a regular file", "a .npy file as numpy.save writes it");
    }
    *out = f;
    *size = st.st_size;
    return QG_OK;
}

/* Reads magic, version and header text; the file stands at the first element afterwards. */
static qg_status read_header(FILE *f, const char *path, header *h, int64_t *start, qg_error *err) {
    unsigned char fixed[12] = {0};
    const char *not_npy = "does not begin as a .npy file", *numpy = "write it with numpy.save(path, array)";
    if (fread(fixed, 1, MAGIC_SIZE + 4, f) != MAGIC_SIZE + 4 || memcmp(fixed, magic, MAGIC_SIZE))
        return refuse(path, err, not_npy, numpy);
    int major = fixed[6], minor = fixed[7];
    if (major < 1 || major > 3 || minor)
        return qg_failf(err, QG_BAD_INPUT, path, "versions 1.0, 2.0 and 3.0 are read", "format version %d.%d",
                        major, minor);
    uint32_t length = fixed[8] | (uint32_t)fixed[9] << 8;
    if (major > 1 && fread(fixed + 10, 1, 2, f) != 2)
        return refuse(path, err, "ends within its header", numpy);
    length |= (uint32_t)fixed[10] << 16 | (uint32_t)fixed[11] << 24;
    *start = (major > 1 ? 12 : 10) + (int64_t)length;
    if (length > HEADER_MAX) return qg_failf(err, QG_BAD_INPUT, path, numpy, "a header of %u bytes", length);
    char *text = malloc(length + 1);
    if (!text) return qg_fail(err, QG_NO_MEMORY, path, "no memory for the header", "");
    reader r = {path, text, text + length, err};
    qg_status status = fread(text, 1, length, f) == length
                           ? parse_header(&r, h)
                           : refuse(path, err, "ends within its header", numpy);
    free(text);
    return status;
}

static qg_status read_elements(FILE *f, const char *path, int64_t bytes, float **out, qg_error *err) {
    *out = NULL;
    if (!bytes) return QG_OK;
    float *data = malloc((size_t)bytes);
    if (!data) return qg_fail(err, QG_NO_MEMORY, path, "no memory for the elements", "");
    if (fread(data, 1, (size_t)bytes, f) != (size_t)bytes) {
        free(data);
        return qg_fail(err, QG_ENVIRONMENT, path, "the elements cannot be read", "is the disk in order?");
    }
    *out = data;
    return QG_OK;
}

static qg_status read_open(FILE *f, const char *path, int64_t size, npy_array *out, qg_error *err) {
    header h = {0};
    int64_t start = 0, bytes = 0;
    qg_status status = read_header(f, path, &h, &start, err);
    if (status == QG_OK) status = check_type(path, &h, err);
    if (status == QG_OK) status = check_dims(path, &h, err);
    if (status == QG_OK) status = check_size(path, &h, size - start, &bytes, err);
    if (status != QG_OK) return status;
    *out = (npy_array){h.dims, {h.shape[0], h.shape[1], h.dims == 3 ? h.shape[2] : 0}, h.fortran, NULL};
    return read_elements(f, path, bytes, &out->data, err);
}

qg_status npy_read(const char *path, npy_array *out, qg_error *err) {
    FILE *f = NULL;
    int64_t size = 0;
    *out = (npy_array){0};
    qg_status status = open_input(path, &f, &size, err);
    if (status != QG_OK) return status;
    status = read_open(f, path, size, out, err);
    fclose(f);
    if (status != QG_OK) *out = (npy_array){0};
    return status;
}

int64_t npy_count(const npy_array *a) {
    int64_t n = 1;
    for (int i = 0; i < a->dims; i++) /* an empty array may have extents whose product no number holds */
        if (!a->shape[i]) return 0;
    for (int i = 0; i < a->dims; i++)
        n *= a->shape[i];
    return n;
}

static int format_header(const npy_array *a, char *text, size_t size) {
    int n = snprintf(text, size, "{'descr': '<f4', 'fortran_order': %s, 'shape': (",
                     a->fortran ? "True" : "False");
    for (int i = 0; i < a->dims; i++)
        n += snprintf(text + n, size - (size_t)n, i ? ", %lld" : "%lld", (long long)a->shape[i]);
    return n + snprintf(text + n, size - (size_t)n, a->dims == 1 ? ",), }" : "), }");
}

bool npy_write(FILE *to, const npy_array *a) {
    char text[256];
    int length = format_header(a, text, sizeof text);
    int padded = (MAGIC_SIZE + 4 + length + 1 + 63) / 64 * 64 - (MAGIC_SIZE + 4);
    memset(text + length, ' ', (size_t)(padded - length));
    text[padded - 1] = '\n';
    unsigned char fixed[4] = {1, 0, (unsigned char)(padded & 255), (unsigned char)(padded >> 8)};
    size_t count = (size_t)npy_count(a);
    return fwrite(magic, 1, MAGIC_SIZE, to) == MAGIC_SIZE && fwrite(fixed, 1, 4, to) == 4 &&
           fwrite(text, 1, (size_t)padded, to) == (size_t)padded &&
           (!count || fwrite(a->data, sizeof(float), count, to) == count);
}

void npy_free(npy_array *a) {
    free(a->data);
    *a = (npy_array){0};
}
