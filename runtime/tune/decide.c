#include "runtime/tune/decide.h"

#include "runtime/cli/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTENDERS = 8, ROUNDS = 5 };

void tune_take_reply(tune_candidate *c, const json_t *reply) {
    const char *verdict = tune_text(reply, "verdict");
    double median = json_number_value(json_object_get(reply, "median_us"));
    bool timed = !strcmp(verdict, "timed") && median > 0;
    snprintf(c->verdict, sizeof c->verdict, "%s", verdict);
    snprintf(c->why, sizeof c->why, "%s", tune_text(reply, "why"));
    c->time = (tune_time){median, json_number_value(json_object_get(reply, "spread")), !timed};
}

/* One more time of one contender; *median stays 0 when it came to grief. */
static qg_status time_again(tune_session *s, const tune_target *t, tune_candidate *c, double *median,
                            qg_error *err) {
    json_t *reply = NULL;
    *median = 0;
    qg_status status = tune_ask(s, t, c, "time", &reply, err);
    if (status) return status;
    if (!strcmp(tune_text(reply, "verdict"), "timed"))
        *median = json_number_value(json_object_get(reply, "median_us"));
    if (*median <= 0) tune_take_reply(c, reply);
    json_decref(reply);
    return QG_OK;
}

/* Rounds over all contenders in turn, so that what drifts (clocks, temperature) meets all alike. */
static qg_status duel(tune_session *s, const tune_target *t, tune_candidates *all, const int *which,
                      int count, qg_error *err) {
    double medians[CONTENDERS][ROUNDS];
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < count; i++) {
            tune_candidate *c = &all->list[which[i]];
            cli_progress(round * count + i, ROUNDS * count, "near ties timed again");
            if (c->time.out) continue;
            qg_status status = time_again(s, t, c, &medians[i][round], err);
            if (status) return status;
        }
    for (int i = 0; i < count; i++) {
        tune_candidate *c = &all->list[which[i]];
        if (!c->time.out) c->time = tune_rounds(medians[i], ROUNDS);
    }
    return QG_OK;
}

/* The winner among contenders, by their times alone; others are slower. */
static int pick_of(const tune_candidates *all, const int *which, int count) {
    tune_time times[CONTENDERS];
    for (int i = 0; i < count; i++)
        times[i] = all->list[which[i]].time;
    int picked = tune_pick(times, count);
    return picked < 0 ? -1 : which[picked];
}

static qg_status contend(tune_session *s, const tune_target *t, tune_candidates *all, int *winner,
                         qg_error *err) {
    int which[CONTENDERS], count;
    tune_time *times = calloc((size_t)all->count + 1, sizeof *times);
    if (!times) return qg_fail(err, QG_NO_MEMORY, "tune", "out of memory", "");
    for (int i = 0; i < all->count; i++)
        times[i] = all->list[i].time;
    count = tune_contenders(times, all->count, which, CONTENDERS);
    free(times);
    qg_status status = count > 1 ? duel(s, t, all, which, count, err) : QG_OK;
    *winner = pick_of(all, which, count);
    return status;
}

static bool anyone_left(const tune_candidates *all) {
    for (int i = 0; i < all->count; i++)
        if (!all->list[i].time.out) return true;
    return false;
}

qg_status tune_decide(tune_session *s, const tune_target *t, tune_candidates *all, int *winner,
                      qg_error *err) {
    *winner = -1;
    while (*winner < 0 && anyone_left(all)) {
        json_t *reply = NULL;
        qg_status status = contend(s, t, all, winner, err);
        if (!status && *winner >= 0) status = tune_ask(s, t, &all->list[*winner], "validate", &reply, err);
        if (status) return status;
        if (reply && strcmp(tune_text(reply, "verdict"), "passed")) {
            tune_take_reply(&all->list[*winner], reply);
            *winner = -1;
        }
        json_decref(reply);
    }
    return QG_OK;
}
