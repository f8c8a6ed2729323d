#include "tests/lib/support.h"

#include "tests/lib/templates.h"
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void qt_templates_open(qt_templates *t, const char *const files[]) {
    qg_error err;
    t->folder = qt_tmpdir();
    for (int i = 0; files[i]; i += 2) {
        char *path = qt_format("%s/%s", t->folder, files[i]), *slash = strrchr(path, '/');
        *slash = 0;
        mkdir(path, 0755);
        *slash = '/';
        qt_write_text(path, files[i + 1]);
        free(path);
    }
    qt_succeeded(qg_library_open(&(qg_library_options){.templates = t->folder}, &t->lib, &err), &err);
}

void qt_templates_close(qt_templates *t) {
    qg_library_close(t->lib);
    qt_remove_tree(t->folder);
    free(t->folder);
    *t = (qt_templates){0};
}

char *qt_family_text(const char *name, const char *chunk, const char *source) {
    return qt_format(
        "local f = { name = \"%s\", op = \"geqrf\", summary = \"a family of a test\", params = {}, "
        "legal = function() return true end, rank = function() return 1 end, "
        "resources = function() return { smem = 0 } end, vars = function() return {} end, "
        "program = function() return { products = \"fp32\", buffers = {}, ops = {} } end }\n"
        "%s\nreturn f\n--[==[ source\n%s\n]==]\n",
        name, chunk, source);
}

void qt_refused(qg_status status, const qg_error *err, qg_status want, ...) {
    if (status == QG_OK) fail_msg("accepted what must be refused");
    char *text = qt_format("%s: %s (%s)", err->what, err->why, err->fix);
    if (status != want || err->status != status)
        fail_msg("status %d, not %d: %s", (int)status, (int)want, text);
    va_list parts;
    va_start(parts, want);
    for (const char *part; (part = va_arg(parts, const char *));)
        qt_assert_contains(text, part);
    va_end(parts);
    free(text);
}

void qt_succeeded(qg_status status, const qg_error *err) {
    if (status) fail_msg("%s: %s (%s)", err->what, err->why, err->fix);
}

static bool try_locale(const char *name) {
    char text[16];
    if (!setlocale(LC_NUMERIC, name)) return false;
    snprintf(text, sizeof text, "%.1f", 1.5);
    if (strcmp(text, "1,5") == 0) return true;
    setlocale(LC_NUMERIC, "C");
    return false;
}

bool qt_comma_locale(void) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "de_DE",      "fr_FR.UTF-8",
                                        "fr_FR",       "nl_NL.utf8", "pl_PL.utf8", NULL};
    for (int i = 0; names[i]; i++)
        if (try_locale(names[i])) return true;
    char *folder = qt_tmpdir(), *made = qt_format("%s/de_DE", folder);
    qt_output output = qt_run(
        (const char *const[]){"sh", "-c", "localedef -i de_DE -f UTF-8 \"$1\"", "sh", made, NULL}, NULL);
    qt_output_free(&output);
    setenv("LOCPATH", folder, 1);
    bool found = try_locale("de_DE");
    unsetenv("LOCPATH");
    qt_remove_tree(folder);
    free(made);
    free(folder);
    return found;
}
