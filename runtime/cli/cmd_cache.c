/* qrsmith cache: what lies in the cubin cache, and tidying it. */
#include "runtime/cache.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct values {
    const char *action;
    bool json;
    double days;
    int64_t bytes;
} values;

typedef struct entry {
    char key[QRT_KEY_TEXT], target[24], kernels[96], problem[160];
    int64_t bytes, modified;
    bool whole;
} entry;

typedef struct listing {
    entry *entries;
    int count, capacity;
    int64_t bytes;
    bool no_memory;
} listing;

static void defaults(void *p) {
    values *v = p;
    v->days = -1;
    v->bytes = -1;
}

static void warn(void *user, const char *text) {
    (void)user;
    cli_note("%s", text);
}

/* ---- reading ---- */

/* Target and kernel names out of an entry's metadata; what is not there stays empty. */
static void describe(entry *e, const char *metadata) {
    json_t *root = json_loads(metadata, 0, NULL), *kernel;
    const char *target = json_string_value(json_object_get(root, "target"));
    snprintf(e->target, sizeof e->target, "%s", target ? target : "");
    size_t i, used = 0;
    json_array_foreach(json_object_get(root, "kernels"), i, kernel) {
        const char *name = json_string_value(json_object_get(kernel, "name"));
        if (name && used + strlen(name) + 3 < sizeof e->kernels)
            used += (size_t)snprintf(e->kernels + used, sizeof e->kernels - used, used ? ", %s" : "%s", name);
    }
    json_decref(root);
}

static bool collect(void *user, const qrt_cache_item *item) {
    listing *l = user;
    if (l->count == l->capacity) {
        int capacity = l->capacity ? 2 * l->capacity : 64;
        entry *more = realloc(l->entries, (size_t)capacity * sizeof *more);
        l->no_memory = !more;
        if (!more) return false;
        l->entries = more;
        l->capacity = capacity;
    }
    entry *e = &l->entries[l->count++];
    *e = (entry){.bytes = item->bytes, .modified = item->modified, .whole = !item->problem};
    memcpy(e->key, item->key, sizeof e->key);
    snprintf(e->problem, sizeof e->problem, "%s", item->problem ? item->problem : "");
    if (item->metadata) describe(e, item->metadata);
    l->bytes += item->bytes;
    return true;
}

/* ---- printing ---- */

static char *age_text(int64_t modified, char out[32]) {
    double seconds = difftime(time(NULL), (time_t)modified);
    seconds = seconds > 0 ? seconds : 0;
    if (seconds < 3600)
        snprintf(out, 32, "%.0f min", seconds / 60);
    else if (seconds < 172800)
        snprintf(out, 32, "%.0f h", seconds / 3600);
    else
        snprintf(out, 32, "%.0f days", seconds / 86400);
    return out;
}

static void print_entry(const entry *e) {
    char size[32], age[32];
    printf("%.16s  %10s  %9s  %-8s  %s\n", e->key, cli_bytes((double)e->bytes, size),
           age_text(e->modified, age), e->target, e->whole ? e->kernels : e->problem);
}

static json_t *entry_json(const entry *e) {
    json_t *o = json_pack("{s:s, s:I, s:I, s:b}", "key", e->key, "bytes", (json_int_t)e->bytes, "modified",
                          (json_int_t)e->modified, "whole", e->whole);
    if (e->whole) {
        json_object_set_new(o, "target", json_string(e->target));
        json_object_set_new(o, "kernels", json_string(e->kernels));
    } else {
        json_object_set_new(o, "problem", json_string(e->problem));
    }
    return o;
}

/* ---- actions: each says which entries are shown and which removed, and the exit code that follows ---- */

typedef struct context {
    const values *v;
    qrt_cache *cache;
    listing *list;
    const char *where;
} context;

static int act_ls(const context *c) {
    char size[32];
    if (c->v->json) {
        json_t *entries = json_array();
        for (int i = 0; i < c->list->count; i++)
            json_array_append_new(entries, entry_json(&c->list->entries[i]));
        return cli_print_json(json_pack("{s:s, s:I, s:o}", "directory", c->where, "bytes",
                                        (json_int_t)c->list->bytes, "entries", entries))
                   ? CLI_DONE
                   : CLI_ENVIRONMENT;
    }
    for (int i = 0; i < c->list->count; i++)
        print_entry(&c->list->entries[i]);
    printf("%s: %d entr%s, %s\n", *c->where ? c->where : "(memory only)", c->list->count,
           c->list->count == 1 ? "y" : "ies", cli_bytes((double)c->list->bytes, size));
    return CLI_DONE;
}

static int act_verify(const context *c) {
    int damaged = 0;
    for (int i = 0; i < c->list->count; i++)
        if (!c->list->entries[i].whole) {
            damaged++;
            print_entry(&c->list->entries[i]);
        }
    printf("%d whole, %d damaged\n", c->list->count - damaged, damaged);
    return damaged ? CLI_FAILED : CLI_DONE;
}

/* Removes the marked entries and says what was gained. */
static int remove_marked(const context *c, const bool *marked) {
    int removed = 0, kept = 0;
    int64_t bytes = 0;
    char size[32];
    for (int i = 0; i < c->list->count; i++) {
        if (!marked[i]) continue;
        bool gone = qrt_cache_remove(c->cache, c->list->entries[i].key);
        removed += gone;
        kept += !gone;
        bytes += gone ? c->list->entries[i].bytes : 0;
    }
    printf("%d removed, %s; %d left\n", removed, cli_bytes((double)bytes, size), c->list->count - removed);
    if (!kept) return CLI_DONE;
    qg_error err;
    qg_failf(&err, QG_ENVIRONMENT, "cache", "is the directory yours?", "%d entries could not be removed",
             kept);
    return cli_report(&err);
}

static int act_clear(const context *c) {
    bool *marked = malloc((size_t)c->list->count + 1);
    for (int i = 0; i < c->list->count && marked; i++)
        marked[i] = true;
    int code = marked ? remove_marked(c, marked) : CLI_INTERNAL;
    free(marked);
    return code;
}

static int older_first(const void *a, const void *b) {
    const entry *x = a, *y = b;
    return x->modified < y->modified ? -1 : x->modified > y->modified ? 1 : strcmp(x->key, y->key);
}

/* Damaged entries, those older than --days, then the oldest until --bytes are kept. */
static int act_prune(const context *c) {
    listing *l = c->list;
    bool *marked = calloc((size_t)l->count + 1, sizeof *marked);
    int64_t left = l->bytes;
    double now = (double)time(NULL);
    qsort(l->entries, (size_t)l->count, sizeof *l->entries, older_first);
    for (int i = 0; i < l->count && marked; i++) {
        const entry *e = &l->entries[i];
        marked[i] = !e->whole || (c->v->days >= 0 && now - (double)e->modified > 86400 * c->v->days);
        left -= marked[i] ? e->bytes : 0;
    }
    for (int i = 0; i < l->count && marked && c->v->bytes >= 0 && left > c->v->bytes; i++) {
        left -= marked[i] ? 0 : l->entries[i].bytes;
        marked[i] = true;
    }
    int code = marked ? remove_marked(c, marked) : CLI_INTERNAL;
    free(marked);
    return code;
}

static const struct action {
    const char *name;
    int (*act)(const context *);
} actions[] = {{"ls", act_ls}, {"verify", act_verify}, {"prune", act_prune}, {"clear", act_clear}};

static const struct action *find_action(const char *name) {
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (!strcmp(actions[i].name, name)) return &actions[i];
    return NULL;
}

static int act_on(const struct action *action, const values *v) {
    qg_error err = {0};
    qrt_cache *cache = NULL;
    qrt_cache_options options = {.warn = warn};
    listing list = {0};
    qg_status status = qrt_cache_open(&options, &cache, &err);
    if (status == QG_OK && *qrt_cache_directory(cache)) status = qrt_cache_visit(cache, collect, &list, &err);
    if (status == QG_OK && list.no_memory)
        status = qg_fail(&err, QG_NO_MEMORY, "cache", "no memory for its list", "");
    context c = {v, cache, &list, cache ? qrt_cache_directory(cache) : ""};
    int code = status == QG_OK ? action->act(&c) : cli_report(&err);
    free(list.entries);
    if (cache) qrt_cache_close(cache);
    return code;
}

static int run(const void *p) {
    const values *v = p;
    const struct action *action = find_action(v->action);
    qg_error err;
    if (!action)
        qg_failf(&err, QG_BAD_INPUT, "cache", "ls, verify, prune or clear", "found '%.40s'", v->action);
    else if (strcmp(v->action, "prune") && (v->days >= 0 || v->bytes >= 0))
        qg_failf(&err, QG_BAD_INPUT, "cache", "cache prune", "--days and --bytes do not go with '%s'",
                 v->action);
    else if (!strcmp(v->action, "prune") && v->days < 0 && v->bytes < 0)
        qg_fail(&err, QG_BAD_INPUT, "cache prune", "nothing says what may go",
                "--days N, or --bytes N to keep");
    else
        return act_on(action, v);
    return cli_report(&err);
}

static const cli_argument arguments[] = {
    {"ls|verify|prune|clear", offsetof(values, action), true,
     "list; look for damaged entries (exit 1 when there are any); remove old ones; remove all"},
    {0}};
static const cli_option options[] = {{"days", 0, CLI_REAL, offsetof(values, days), "N",
                                      "prune: remove what was written more than N days ago", 0, 1e6},
                                     {"bytes", 0, CLI_INT, offsetof(values, bytes), "N",
                                      "prune: remove the oldest until at most N bytes are left", 0, 9e15},
                                     {"json", 0, CLI_FLAG, offsetof(values, json), NULL, "ls: as JSON", 0, 0},
                                     {0}};

const cli_command cli_cache = {
    "cache",
    "list, verify, prune or clear the cubins kept on disk",
    "The directory is QRSMITH_CACHE_DIR, else XDG_CACHE_HOME/qrsmith, else HOME/.cache/qrsmith. Entries are "
    "safe to\n"
    "remove at any time: a missing one is compiled again. prune takes damaged entries too.",
    "  qrsmith cache ls\n"
    "  qrsmith cache prune --days 30 --bytes 500000000",
    arguments,
    options,
    sizeof(values),
    defaults,
    run};
