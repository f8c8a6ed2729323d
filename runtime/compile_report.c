/* What ptxas says about kernels: from its log, to and from the metadata of a cache entry. */
#include "runtime/compile.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reports {
    qrt_kernel_report *list;
    int count, capacity;
} reports;

static qrt_kernel_report *add_report(reports *r) {
    if (r->count == r->capacity) {
        int capacity = r->capacity ? 2 * r->capacity : 8;
        qrt_kernel_report *grown = realloc(r->list, (size_t)capacity * sizeof *grown);
        if (!grown) return NULL;
        r->list = grown;
        r->capacity = capacity;
    }
    r->list[r->count] = (qrt_kernel_report){0};
    return &r->list[r->count++];
}

/* The number that stands right before `unit` ("32 registers"); `otherwise` when the line has no such words.
 */
static int before(const char *line, const char *unit, int otherwise) {
    const char *at = strstr(line, unit);
    if (!at) return otherwise;
    while (at > line && at[-1] == ' ')
        at--;
    while (at > line && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return *at >= '0' && *at <= '9' ? (int)strtol(at, NULL, 10) : otherwise;
}

static bool start(reports *r, const char *line) {
    qrt_kernel_report *k = add_report(r);
    if (!k) return false;
    const char *open = strchr(line, '\''), *close = open ? strchr(open + 1, '\'') : NULL;
    if (close) snprintf(k->name, sizeof k->name, "%.*s", (int)(close - open - 1), open + 1);
    return true;
}

static bool read_line(reports *r, const char *line) {
    if (strstr(line, "Compiling entry function")) return start(r, line);
    qrt_kernel_report *k = r->count ? &r->list[r->count - 1] : NULL;
    if (!k) return true;
    /* Functions that were not inlined have lines of their own: their frames and spills count too. */
    if (strstr(line, "bytes stack frame")) {
        k->stack += before(line, "bytes stack frame", 0);
        k->spill_stores += before(line, "bytes spill stores", 0);
        k->spill_loads += before(line, "bytes spill loads", 0);
    } else if (strstr(line, "registers") && strstr(line, "Used")) {
        k->registers = before(line, "registers", 0);
        k->barriers = before(line, "barriers", 0);
        k->static_smem = before(line, "bytes smem", 0);
    }
    return true;
}

qg_status qrt_report_parse(const char *log, qrt_kernel_report **out, int *count, qg_error *err) {
    reports r = {0};
    bool fine = true;
    for (const char *at = log; fine && *at;) {
        size_t size = strcspn(at, "\n");
        char line[512];
        snprintf(line, sizeof line, "%.*s", (int)(size < sizeof line ? size : sizeof line - 1), at);
        fine = read_line(&r, line);
        at += size + (at[size] == '\n');
    }
    if (!fine) {
        free(r.list);
        return qg_fail(err, QG_NO_MEMORY, "the compiler's report", "out of memory", "");
    }
    *out = r.list;
    *count = r.count;
    return QG_OK;
}

/* One table for writing and reading. */
static const struct field {
    const char *name;
    size_t offset;
} fields[] = {
    {"registers", offsetof(qrt_kernel_report, registers)},
    {"stack", offsetof(qrt_kernel_report, stack)},
    {"spill_stores", offsetof(qrt_kernel_report, spill_stores)},
    {"spill_loads", offsetof(qrt_kernel_report, spill_loads)},
    {"static_smem", offsetof(qrt_kernel_report, static_smem)},
    {"barriers", offsetof(qrt_kernel_report, barriers)},
};
#define FIELDS (sizeof fields / sizeof *fields)

static int *field_of(qrt_kernel_report *k, size_t i) {
    return (int *)((char *)k + fields[i].offset);
}

char *qrt_report_json(const qrt_kernel_report *kernels, int count, const char *target, int nvrtc_major,
                      int nvrtc_minor) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        qrt_kernel_report k = kernels[i];
        json_t *one = json_pack("{s:s}", "name", k.name);
        for (size_t f = 0; f < FIELDS; f++)
            json_object_set_new(one, fields[f].name, json_integer(*field_of(&k, f)));
        json_array_append_new(list, one);
    }
    char nvrtc[32];
    snprintf(nvrtc, sizeof nvrtc, "%d.%d", nvrtc_major, nvrtc_minor);
    json_t *root = json_pack("{s:s, s:s, s:o}", "target", target, "nvrtc", nvrtc, "kernels", list);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}

static bool read_kernel(reports *r, json_t *one) {
    const char *name = json_string_value(json_object_get(one, "name"));
    qrt_kernel_report *k = name ? add_report(r) : NULL;
    if (!k) return false;
    snprintf(k->name, sizeof k->name, "%s", name);
    for (size_t f = 0; f < FIELDS; f++) {
        json_t *value = json_object_get(one, fields[f].name);
        if (!json_is_integer(value)) return false;
        *field_of(k, f) = (int)json_integer_value(value);
    }
    return true;
}

bool qrt_report_read(const char *json, qrt_kernel_report **out, int *count) {
    reports r = {0};
    json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, NULL), *list = json_object_get(root, "kernels"),
           *one;
    bool fine = json_is_array(list);
    size_t i;
    json_array_foreach(list, i, one) fine = fine && read_kernel(&r, one);
    json_decref(root);
    if (!fine) {
        free(r.list);
        return false;
    }
    *out = r.list;
    *count = r.count;
    return true;
}
