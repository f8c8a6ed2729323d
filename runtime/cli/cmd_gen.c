/* qrsmith gen: render sources and launch programs. */
#include "runtime/cli/commands.h"
#include "runtime/cli/report.h"
#include "runtime/cli/select.h"
#include <stdio.h>

typedef struct values {
    cli_source source;
    const char *folder, *profile;
} values;

static void defaults(void *p) {
    ((values *)p)->profile = "h200";
}

static qg_status generate(const values *v, int *count, qg_error *err) {
    qg_device device;
    qg_config *config = NULL;
    qg_library *lib = NULL;
    if (!v->folder) return qg_fail(err, QG_BAD_INPUT, "--output", "no folder is given", "-o DIR");
    qg_status status = qg_device_profile(v->profile, &device, err);
    if (status == QG_OK) status = cli_open_config(&v->source, &config, err);
    if (status == QG_OK) status = cli_open_library(&lib, err);
    if (status == QG_OK) status = qg_generate(lib, config, &device, v->folder, err);
    if (status == QG_OK) *count = config->count;
    if (lib) qg_library_close(lib);
    if (config) qg_config_free(config);
    return status;
}

static int run(const void *p) {
    const values *v = p;
    qg_error err = {0};
    int count = 0;
    if (generate(v, &count, &err) != QG_OK) return cli_report(&err);
    printf("%s: %d plan%s, manifest.json\n", v->folder, count, count == 1 ? "" : "s");
    return CLI_DONE;
}

static const cli_argument arguments[] = {
    {"CONFIG", offsetof(values, source.file), false, "shapes, as configs/example.json explains"}, {0}};
static const cli_option options[] = {
    {"output", 'o', CLI_TEXT, offsetof(values, folder), "DIR", "folder to write; it is replaced as a whole",
     0, 0},
    {"device-profile", 0, CLI_TEXT, offsetof(values, profile), "P",
     "the GPU to plan for: a name of configs/devices (h200), or a .json file. Default: h200", 0, 0},
    CLI_SOURCE_OPTION(values, source),
    {0}};

const cli_command cli_gen = {
    "gen",
    "render CUDA sources, launch programs and manifest.json; needs no GPU and no compiler",
    "For each shape the plan is chosen (the config's, else the tuned, else the family's default), and "
    "NAME.cu and "
    "NAME.json\nare written to DIR. A failure leaves DIR as it was. Same input, same bytes.",
    "  qrsmith gen configs/contest.json -o generated\n"
    "  qrsmith gen --shape 640x512x512:fp16 -o /tmp/one --device-profile h200",
    arguments,
    options,
    sizeof(values),
    defaults,
    run};
