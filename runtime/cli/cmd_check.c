/* qrsmith check: make a suite's inputs, factor, judge by the contract. */
#include "runtime/cli/case.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/report.h"
#include "runtime/cli/room.h"
#include <stdio.h>
#include <string.h>

typedef struct values {
    cli_source source;
    cli_force force;
    const char *device, *precision;
    bool json, lineinfo;
} values;

typedef struct tally {
    int passed, failed, refused;
    json_t *cases; /* NULL without --json */
} tally;

static void print_line(const cli_case *c, const qj_limits *limits, const qj_verdict *v,
                       const cli_info_count *info) {
    char name[96];
    printf("%s  %-42s  factor %8.2f eps (%4.2f)  orth %8.2f eps (%4.2f)  products %-4s  split %lld  fell "
           "back %lld  "
           "%s (%s)\n",
           v->pass ? "pass" : "FAIL", cli_case_name(c, name, sizeof name), v->worst[QJ_FACTOR],
           v->worst[QJ_FACTOR] / limits->factor, v->worst[QJ_ORTH], v->worst[QJ_ORTH] / limits->orth,
           c->problem.plan->products, (long long)info->bit[CLI_SPLIT], (long long)info->bit[CLI_FELL_BACK],
           c->problem.plan->family, qg_grade_name(c->problem.plan->grade));
    if (!v->pass) {
        char text[256];
        printf("      %s\n", qj_verdict_text(v, text, sizeof text));
    }
    fflush(stdout);
}

static json_t *line_json(const cli_case *c, const qj_limits *limits, const qj_verdict *v,
                         const cli_info_count *info) {
    json_t *o = cli_case_json(c);
    json_object_set_new(o, "pass", json_boolean(v->pass));
    json_object_set_new(o, "failed_matrices", json_integer(v->failed));
    json_object_set_new(o, "factor_eps", cli_json_real(v->worst[QJ_FACTOR]));
    json_object_set_new(o, "factor_limit", cli_json_real(limits->factor));
    json_object_set_new(o, "orth_eps", cli_json_real(v->worst[QJ_ORTH]));
    json_object_set_new(o, "orth_limit", cli_json_real(limits->orth));
    json_object_set_new(o, "share", cli_json_real(v->share));
    json_object_set_new(o, "split", json_integer(info->bit[CLI_SPLIT]));
    json_object_set_new(o, "fell_back", json_integer(info->bit[CLI_FELL_BACK]));
    json_object_set_new(o, "nonfinite", json_integer(info->bit[CLI_NONFINITE]));
    json_object_set_new(o, "timed_out", json_integer(info->bit[CLI_TIMED_OUT]));
    return o;
}

/* Factors and judges a case whose plan is made. */
static qg_status judge_case(cli_case *c, tally *t, qg_error *err) {
    qj_verdict verdict = {0};
    cli_info_count info;
    qj_limits limits = qj_limits_for(c->test.m, c->test.n, c->shape.precision);
    qg_status status = cli_case_prepare(c, 1, err);
    if (status == QG_OK) status = cli_case_poison(c, err);
    if (status == QG_OK) status = cli_case_pass(c, err);
    if (status == QG_OK) status = cli_case_judge(c, &limits, &verdict, &info, err);
    if (status != QG_OK) return status;
    t->passed += verdict.pass;
    t->failed += !verdict.pass;
    if (t->cases)
        json_array_append_new(t->cases, line_json(c, &limits, &verdict, &info));
    else
        print_line(c, &limits, &verdict, &info);
    return QG_OK;
}

/* A case that could not be judged is a line too. An error of the machine ends the run: it would repeat. */
static qg_status note_trouble(const cli_case *c, bool forced, tally *t, const qg_error *err) {
    bool refused =
        forced && !c->problem.plan && (err->status == QG_BAD_INPUT || err->status == QG_UNSUPPORTED);
    char name[96];
    if (err->status == QG_ENVIRONMENT) return err->status;
    t->refused += refused;
    t->failed += !refused;
    if (t->cases) {
        json_t *o = cli_case_json(c);
        json_object_set_new(o, "pass", refused ? json_null() : json_false());
        json_object_set_new(o, "error", json_sprintf("%s: %s", err->what, err->why));
        json_array_append_new(t->cases, o);
    } else {
        printf("%s  %-42s  ", refused ? "none" : "FAIL", cli_case_name(c, name, sizeof name));
        cli_print_error(err, stdout);
        fflush(stdout);
    }
    return QG_OK;
}

static qg_status check_one(cli_device *device, const qg_case *test, qg_precision precision,
                           const qg_request *request, tally *t, qg_error *err) {
    cli_case c;
    qg_status status = cli_case_open(device, test, precision, request, &c, err);
    if (status == QG_OK) status = judge_case(&c, t, err);
    if (status != QG_OK) status = note_trouble(&c, request->family || request->params, t, err);
    cli_case_close(&c);
    return status;
}

static qg_status check_all(cli_device *device, const qg_suite *suite, const values *v,
                           const qg_request *request, tally *t, qg_error *err) {
    int total = suite->test_count * 2, done = 0;
    for (int p = QG_FP32; p <= QG_FP16; p++)
        for (int i = 0; i < suite->test_count; i++) {
            cli_progress(done++, total, qg_precision_name((qg_precision)p));
            if (!cli_wants_precision(v->precision, &suite->tests[i], (qg_precision)p)) continue;
            cli_progress_clear();
            qg_status status = check_one(device, &suite->tests[i], (qg_precision)p, request, t, err);
            if (status != QG_OK) return status;
        }
    cli_progress_clear();
    return QG_OK;
}

static qg_status check(const values *v, tally *t, qg_error *err) {
    cli_room room = {0};
    qg_status status =
        cli_room_open(&room, &v->source, &v->force,
                      &(cli_device_options){.choice = v->device, .lineinfo = v->lineinfo}, err);
    if (status == QG_OK && !room.suite->test_count)
        status = qg_fail(err, QG_BAD_INPUT, room.suite->path ? room.suite->path : "suite", "it has no tests",
                         "a suite with a \"tests\" list");
    if (status == QG_OK) status = check_all(room.device, room.suite, v, &room.request, t, err);
    if (status == QG_OK && !t->passed && !t->failed)
        status = qg_failf(err, QG_UNSUPPORTED, "check", "see qrsmith families", "%s",
                          t->refused ? "no case is legal for the forced plan" : "no case has this precision");
    cli_room_close(&room);
    return status;
}

static int run(const void *p) {
    const values *v = p;
    qg_error err = {0};
    tally t = {.cases = v->json ? json_array() : NULL};
    qg_status status = check(v, &t, &err);
    if (status != QG_OK) {
        json_decref(t.cases);
        return cli_report(&err);
    }
    int code = t.failed ? CLI_FAILED : CLI_DONE;
    if (v->json)
        return cli_print_json(json_pack("{s:o, s:i, s:i, s:i}", "cases", t.cases, "passed", t.passed,
                                        "failed", t.failed, "refused", t.refused))
                   ? code
                   : CLI_ENVIRONMENT;
    if (t.refused) printf("%d not legal for the forced plan\n", t.refused);
    printf("%d passed, %d failed\n", t.passed, t.failed);
    return code;
}

static const cli_argument arguments[] = {
    {"SUITE", offsetof(values, source.file), false, "cases, as configs/suites/small.json"}, {0}};
static const cli_option options[] = {
    CLI_DEVICE_OPTION(values, device),
    {"precision", 0, CLI_CHOICE, offsetof(values, precision), "fp32|fp16|both",
     "plans to judge. Default: what each case says, else fp32", 0, 0},
    CLI_FORCE_OPTIONS(values, force),
    CLI_SOURCE_OPTION(values, source),
    {"json", 0, CLI_FLAG, offsetof(values, json), NULL, "one JSON object instead of lines", 0, 0},
    CLI_LINEINFO_OPTION(values, lineinfo),
    {0}};

const cli_command cli_check = {
    "check",
    "make a suite's inputs, factor them, and judge the results by the precision contract",
    "One line a case: the worst matrix's residuals ||R - Q'A|| / ||A|| (factor) and ||Q'Q - I|| (orth) in "
    "units of\n"
    "eps = 2^-23 and as a share of the limit for that shape and precision, how products are formed (fp32, or "
    "the number\n"
    "of fp16 products), how many matrices took the split path or fell back to the exact panel, and the "
    "plan's family.\n"
    "The last line is \"N passed, M failed\"; exit 1 when M > 0.",
    "  qrsmith check configs/suites/small.json\n"
    "  qrsmith check configs/suites/contest.json --precision both --device 0\n"
    "  qrsmith check --shape 16x96x64 --device cpu --family blocked --set panel=16",
    arguments,
    options,
    sizeof(values),
    NULL,
    run};
