#include "runtime/tune/sweep.h"

#include "gen/number.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/report.h"
#include "runtime/tune/decide.h"
#include "runtime/tune/serve.h"
#include "runtime/tune/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double lock_seconds = 60;

typedef struct sweep {
    tune_session session;
    const tune_target *target;
    tune_candidates all;
    int reused, measured, winner;
} sweep;

/* ---- measuring ---- */

/* What an earlier run found out is not asked again. What doesn't compile needs no worker to say so. */
static qg_status settle(sweep *w, tune_candidate *c, qg_error *err) {
    const json_t *known = tune_journal_final(w->session.journal, c->key);
    char date[32];
    if (known) {
        tune_take_reply(c, known);
        c->done = true;
        w->reused++;
    } else if (c->status) {
        snprintf(c->verdict, sizeof c->verdict, "failed");
        c->done = true;
        return tune_journal_add(w->session.journal,
                                json_pack("{s:s, s:s, s:s, s:s, s:s, s:O, s:s, s:s}", "event", "verdict",
                                          "key", c->key, "job", "compile", "verdict", "failed", "family",
                                          c->family, "params", c->params, "why", c->why, "date",
                                          tune_date(date)),
                                err);
    }
    return QG_OK;
}

static bool inconclusive(const tune_candidate *c) {
    return !strcmp(c->verdict, "crashed") || !strcmp(c->verdict, "timeout");
}

static qg_status measure(sweep *w, tune_candidate *c, qg_error *err) {
    json_t *reply = NULL;
    cli_progress(w->measured, w->all.count, c->plan);
    qg_status status = tune_ask(&w->session, w->target, c, "measure", &reply, err);
    if (status) return status;
    tune_take_reply(c, reply);
    json_decref(reply);
    c->attempts++;
    c->done = !inconclusive(c) || c->attempts > 1 || tune_journal_final(w->session.journal, c->key);
    w->measured += c->done;
    return QG_OK;
}

/* First who never came to grief, then the suspects, then once more who crashed or hung. */
static qg_status measure_all(sweep *w, qg_error *err) {
    qg_status status = QG_OK;
    for (int i = 0; i < w->all.count && !status; i++)
        status = settle(w, &w->all.list[i], err);
    w->measured = 0;
    for (int i = 0; i < w->all.count; i++)
        w->measured += w->all.list[i].done;
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < w->all.count && !status; i++) {
            tune_candidate *c = &w->all.list[i];
            bool later = round == 0 && tune_journal_suspect(w->session.journal, c->key);
            bool again = round == 1 && c->attempts > 0;
            if (!c->done && !later && !again) status = measure(w, c, err);
        }
    return status;
}

/* ---- results ---- */

static char *target_name(const qg_shape *s, const tune_bench *b, char *out, size_t size) {
    char shape[96];
    snprintf(out, size, "%s driver %d b%lld %s", b->title, b->driver, (long long)s->max_batch,
             qg_shape_name(s, shape, sizeof shape));
    return out;
}

/* Names the candidates and what became of them: the same set needs no second decision. */
static void set_name(const tune_candidates *all, char out[24]) {
    uint64_t hash = QG_HASH_START;
    for (int i = 0; i < all->count; i++) {
        hash = qg_hash(hash, all->list[i].key, strlen(all->list[i].key) + 1);
        hash = qg_hash(hash, all->list[i].verdict, strlen(all->list[i].verdict) + 1);
    }
    snprintf(out, 24, "%016llx", (unsigned long long)hash);
}

static int count_of(const tune_candidates *all, const char *verdict) {
    int count = 0;
    for (int i = 0; i < all->count; i++)
        count += !strcmp(all->list[i].verdict, verdict);
    return count;
}

static double default_median(const tune_candidates *all) {
    for (int i = 0; i < all->count; i++)
        if (all->list[i].is_default && !all->list[i].time.out) return all->list[i].time.median;
    return 0;
}

/* No more digits than mean something: tables are read and compared by people. */
static double rounded(double value, double parts) {
    return round(value * parts) / parts;
}

static json_t *maybe(double value) {
    return value > 0 ? json_real(rounded(value, 1000)) : json_null();
}

static json_t *entry_json(const sweep *w) {
    const tune_candidate *c = &w->all.list[w->winner];
    const tune_bench *b = &w->session.bench;
    char date[32];
    return json_pack("{s:o, s:{s:i, s:I}, s:s, s:O, s:{s:s, s:i, s:s, s:f, s:f, s:o, s:i, s:i, s:s}}",
                     "shape", tune_shape_json(&w->target->shape), "device", "arch", b->device.arch, "sms",
                     (json_int_t)b->device.sms, "family", c->family, "params", c->params, "provenance",
                     "device", b->device.name, "driver", b->driver, "date", tune_date(date), "median_us",
                     rounded(c->time.median, 1000), "spread", rounded(c->time.spread, 10000), "default_us",
                     maybe(default_median(&w->all)), "candidates", w->all.count, "timed",
                     count_of(&w->all, "timed"), "version", QRSMITH_BUILD_VERSION);
}

static json_t *result_json(const sweep *w, json_t *entry, bool kept) {
    static const char *const verdicts[] = {"timed", "wrong", "failed", "crashed", "timeout"};
    json_t *o = json_pack("{s:o, s:o, s:b, s:i, s:i, s:i, s:i, s:o}", "shape",
                          tune_shape_json(&w->target->shape), "winner", entry ? entry : json_null(), "kept",
                          kept, "candidates", w->all.count, "illegal", w->all.illegal, "twins", w->all.twins,
                          "reused", w->reused, "default_us", maybe(default_median(&w->all)));
    for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++)
        json_object_set_new(o, verdicts[i], json_integer(count_of(&w->all, verdicts[i])));
    for (int i = 0; i < w->all.count && !entry; i++)
        if (w->all.list[i].why[0]) {
            json_object_set_new(o, "why", json_sprintf("%s", w->all.list[i].why));
            break;
        }
    return o;
}

/* ---- one target ---- */

static qg_status journal_refused(sweep *w, const char *target, qg_error *err) {
    if (!w->all.illegal) return QG_OK;
    return tune_journal_add(
        w->session.journal,
        json_pack("{s:s, s:s, s:O}", "event", "refused", "target", target, "combinations", w->all.refused),
        err);
}

/* The table first: a winner that the journal knows is in it. */
static qg_status store(sweep *w, const char *target, const char *set, json_t *entry, bool kept,
                       qg_error *err) {
    qg_status status = tune_table_merge(w->session.options->table, entry, lock_seconds, err);
    if (status || kept) return status;
    return tune_journal_add(
        w->session.journal,
        json_pack("{s:s, s:s, s:s, s:O}", "event", "winner", "target", target, "set", set, "entry", entry),
        err);
}

/* *entry: a new reference, NULL without a winner. */
static qg_status decide(sweep *w, const char *target, json_t **entry, bool *kept, qg_error *err) {
    char set[24];
    const json_t *before = tune_journal_winner(w->session.journal, target);
    set_name(&w->all, set);
    *kept = before && !strcmp(tune_text(before, "set"), set);
    if (*kept) {
        *entry = json_incref(json_object_get(before, "entry"));
        return *entry ? store(w, target, set, *entry, true, err) : QG_OK;
    }
    qg_status status = tune_decide(&w->session, w->target, &w->all, &w->winner, err);
    if (status || w->winner < 0) return status;
    set_name(&w->all, set); /* deciding may have thrown some out */
    *entry = entry_json(w);
    return *entry ? store(w, target, set, *entry, false, err)
                  : qg_fail(err, QG_NO_MEMORY, "tune", "out of memory", "");
}

static qg_status sweep_target(sweep *w, qg_error *err) {
    char target[256];
    json_t *entry = NULL, *result;
    bool kept = false;
    w->reused = w->measured = 0;
    w->winner = -1;
    target_name(&w->target->shape, &w->session.bench, target, sizeof target);
    qg_status status = tune_candidates_make(&w->session.bench, w->session.grid, w->target, &w->all, err);
    if (!status) status = journal_refused(w, target, err);
    if (!status) status = measure_all(w, err);
    if (!status) status = decide(w, target, &entry, &kept, err);
    cli_progress_clear();
    if (!status && w->session.options->done) {
        result = result_json(w, json_incref(entry), kept);
        w->session.options->done(w->session.options->user, result);
        json_decref(result);
    }
    json_decref(entry);
    tune_candidates_free(&w->all);
    return status;
}

qg_status tune_run(const tune_grid *grid, const tune_options *options, qg_error *err) {
    sweep w = {0};
    qg_status status = tune_table_check(options->table, err);
    if (!status) status = tune_session_open(&w.session, grid, options, err);
    if (!status && options->started) options->started(options->user, tune_text(w.session.hello, "title"));
    for (int i = 0; i < grid->target_count && !status; i++) {
        w.target = &grid->targets[i];
        status = sweep_target(&w, err);
    }
    tune_session_close(&w.session);
    return status;
}
