/* qrsmith families: what kernels there are and what may be set. */
#include "gen/plan.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct values {
    const char *family;
    bool json;
} values;

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void print_values(const json_t *list) {
    size_t i;
    json_t *value;
    json_array_foreach(list, i, value) {
        char *text =
            json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        printf("%s%s", i ? ", " : "", text ? text : json_is_string(value) ? json_string_value(value) : "?");
        free(text);
    }
}

static void print_family(const json_t *family) {
    printf("%s (%s): %s\n", text_of(family, "name"), text_of(family, "op"), text_of(family, "summary"));
    size_t i;
    json_t *param;
    json_array_foreach(json_object_get(family, "params"), i, param) {
        printf("  %-18s ", text_of(param, "name"));
        print_values(json_object_get(param, "values"));
        printf("\n  %18s %s\n", "", text_of(param, "doc"));
    }
}

/* Keeps only the family of that name. */
static qg_status pick(json_t **families, const char *name, qg_error *err) {
    const char *names[64];
    int count = 0;
    size_t i;
    json_t *family;
    json_array_foreach(*families, i, family) {
        if (!strcmp(text_of(family, "name"), name)) {
            json_t *one = json_pack("[O]", family);
            json_decref(*families);
            *families = one;
            return one ? QG_OK : qg_fail(err, QG_NO_MEMORY, name, "no memory", "");
        }
        if (count < 64) names[count++] = text_of(family, "name");
    }
    const char *near = cli_closest(name, names, count);
    char fix[128] = "qrsmith families lists them";
    if (near) snprintf(fix, sizeof fix, "did you mean %.64s? qrsmith families lists them", near);
    return qg_fail(err, QG_BAD_INPUT, name, "no such family", fix);
}

static int print_all(json_t *families) {
    size_t i;
    json_t *family;
    json_array_foreach(families, i, family) {
        if (i) putchar('\n');
        print_family(family);
    }
    json_decref(families);
    return CLI_DONE;
}

static int run(const void *p) {
    const values *v = p;
    qg_error err = {0};
    qg_library *lib = NULL;
    if (qg_library_open(NULL, &lib, &err) != QG_OK) return cli_report(&err);
    json_t *families = qg_library_families(lib);
    qg_error broken = {0}; /* told after the others were listed */
    qg_status checked = qg_library_check(lib, &broken);
    qg_library_close(lib);
    if (!families) {
        qg_fail(&err, QG_NO_MEMORY, "families", "no memory for the list", "");
        return cli_report(&err);
    }
    if (v->family && pick(&families, v->family, &err) != QG_OK) {
        json_decref(families);
        return cli_report(&err);
    }
    int code;
    if (v->json)
        code = cli_print_json(families) ? CLI_DONE : CLI_ENVIRONMENT;
    else
        code = print_all(families);
    return checked ? cli_report(&broken) : code;
}

static const cli_argument arguments[] = {{"FAMILY", offsetof(values, family), false, "only this one"}, {0}};
static const cli_option options[] = {{"json", 0, CLI_FLAG, offsetof(values, json), NULL,
                                      "[{name, op, summary, params: [{name, doc, values}]}]", 0, 0},
                                     {0}};

const cli_command cli_families = {
    "families",
    "list kernel families, their parameters and legal values",
    "What is listed here may be forced: in a config (\"family\", \"params\"), or by --family and --set of "
    "check and "
    "bench.\nWhether a combination is legal depends on the shape; a refusal says why.",
    "  qrsmith families\n"
    "  qrsmith families blocked --json",
    arguments,
    options,
    sizeof(values),
    NULL,
    run};
