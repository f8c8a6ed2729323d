#include "runtime/tune/facts.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct fact {
    const char *name;
    size_t offset;
} facts[] = {{"sms", offsetof(qg_device, sms)},         {"smem_optin", offsetof(qg_device, smem_optin)},
             {"smem_sm", offsetof(qg_device, smem_sm)}, {"regs", offsetof(qg_device, regs)},
             {"l2", offsetof(qg_device, l2)},           {"max_cluster", offsetof(qg_device, max_cluster)},
             {"memory", offsetof(qg_device, memory)}};
enum { FACTS = sizeof facts / sizeof *facts };

json_t *tune_record_json(const qg_device *d) {
    json_t *o = json_pack("{s:s, s:i}", "name", d->name, "arch", d->arch);
    for (int i = 0; i < FACTS; i++)
        json_object_set_new(o, facts[i].name,
                            json_integer(*(const int64_t *)((const char *)d + facts[i].offset)));
    return o;
}

bool tune_record_read(const json_t *o, qg_device *out) {
    const char *name = json_string_value(json_object_get(o, "name"));
    *out = (qg_device){.arch = (int)json_integer_value(json_object_get(o, "arch"))};
    if (!name || out->arch <= 0) return false;
    snprintf(out->name, sizeof out->name, "%s", name);
    for (int i = 0; i < FACTS; i++) {
        json_int_t value = json_integer_value(json_object_get(o, facts[i].name));
        if (value <= 0) return false;
        *(int64_t *)((char *)out + facts[i].offset) = value;
    }
    return true;
}
