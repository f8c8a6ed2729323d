#include "runtime/cli/standing.h"
#include <math.h>
#include <stdio.h>

static double mean_of(const json_t *o) {
    return json_number_value(json_object_get(o, "mean_us"));
}

/* The baseline's place in the standing, made when it is new. Borrowed. */
static json_t *place(json_t *standing, const char *name) {
    json_t *one = json_object_get(standing, name);
    if (one) return one;
    one = json_pack("{s:i, s:f, s:[]}", "cases", 0, "geometric_mean_ratio", 1.0, "slower");
    return json_object_set_new(standing, name, one) ? NULL : one;
}

static void add(json_t *one, json_t *case_name, double ratio) {
    json_int_t cases = json_integer_value(json_object_get(one, "cases"));
    double before = json_number_value(json_object_get(one, "geometric_mean_ratio"));
    json_object_set_new(one, "cases", json_integer(cases + 1));
    json_object_set_new(one, "geometric_mean_ratio",
                        json_real(exp((log(before) * (double)cases + log(ratio)) / (double)(cases + 1))));
    if (ratio < 1) json_array_append(json_object_get(one, "slower"), case_name);
}

json_t *cli_standing_of(const json_t *results) {
    json_t *standing = json_object(), *rival;
    const json_t *result;
    const char *name;
    size_t i;
    json_array_foreach(results, i, result) {
        double ours = mean_of(result);
        json_object_foreach(json_object_get(result, "baseline"), name, rival) {
            double theirs = mean_of(rival);
            json_t *one = ours > 0 && theirs > 0 ? place(standing, name) : NULL;
            if (one) add(one, json_object_get(result, "name"), theirs / ours);
        }
    }
    return standing;
}

void cli_standing_print(json_t *standing) {
    const char *name;
    json_t *one;
    const json_t *slow;
    size_t i;
    json_object_foreach(standing, name, one) {
        const json_t *slower = json_object_get(one, "slower");
        int cases = (int)json_integer_value(json_object_get(one, "cases"));
        printf("against %s: %.2f x in geometric mean over %d case%s, slower in %d\n", name,
               json_number_value(json_object_get(one, "geometric_mean_ratio")), cases, cases == 1 ? "" : "s",
               (int)json_array_size(slower));
        json_array_foreach(slower, i, slow) printf("  slower than %s: %s\n", name, json_string_value(slow));
    }
}
