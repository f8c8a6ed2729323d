/* The cubin cache: keys, the entry format, places and trust, damage, claims between threads and processes. */
#include "tests/lib/support.h"

#include "runtime/cache.h"
#include "runtime/cache_entry.h"
#include "runtime/sha256.h"
#include <fcntl.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *folder; /* scratch of one test */
static int warnings;
static char last_warning[1024];

static int set_up(void **state) {
    (void)state;
    folder = qt_tmpdir();
    warnings = 0;
    last_warning[0] = 0;
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    qt_remove_tree(folder);
    free(folder);
    return 0;
}

static void count_warning(void *user, const char *text) {
    (void)user;
    warnings++;
    snprintf(last_warning, sizeof last_warning, "%s", text);
}

static qrt_cache *open_at(const char *dir) {
    qrt_cache_options options = {.dir = dir, .warn = count_warning, .lock_seconds = 20};
    qrt_cache *cache;
    assert_int_equal(qrt_cache_open(&options, &cache, NULL), QG_OK);
    return cache;
}

static qrt_key key_of(int number) {
    qrt_key key = {.bytes = {(uint8_t)number, (uint8_t)(number >> 8), 7}};
    return key;
}

static char *entry_path(const char *dir, const qrt_key *key) {
    char text[QRT_KEY_TEXT];
    return qt_format("%s/cubin-%d/%s.cubin", dir, QRT_CACHE_FORMAT, qrt_key_text(key, text));
}

static void store(qrt_cache *cache, int number, const char *data) {
    qrt_key key = key_of(number);
    qrt_cache_store(cache, &key, "{\"kernels\":[]}", data, strlen(data));
}

/* The origin's name, or "miss"; checks the content of a hit. */
static const char *look(qrt_cache *cache, int number, const char *data) {
    qrt_key key = key_of(number);
    qrt_entry entry;
    qrt_origin origin;
    if (!qrt_cache_load(cache, &key, &entry, &origin)) return "miss";
    assert_int_equal(entry.size, strlen(data));
    assert_memory_equal(entry.data, data, entry.size);
    assert_string_equal(entry.metadata, "{\"kernels\":[]}");
    qrt_entry_free(&entry);
    return qrt_origin_name(origin);
}

/* ---------------------------------------------------------------------------------------------- hash and key
 */

static void check_sha(const char *text, int times, const char *expected) {
    qrt_sha256 hash;
    qrt_key digest;
    char got[QRT_KEY_TEXT];
    qrt_sha256_start(&hash);
    for (int i = 0; i < times; i++)
        qrt_sha256_add(&hash, text, strlen(text));
    qrt_sha256_end(&hash, digest.bytes);
    assert_string_equal(qrt_key_text(&digest, got), expected);
}

static void sha256_gives_the_standards_digests(void **state) {
    (void)state;
    check_sha("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_sha("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_sha("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check_sha("aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

typedef struct header {
    const char *name, *text;
} header;

static const char *find_header(void *user, const char *name, size_t *size) {
    for (const header *h = user; h->name; h++)
        if (!strcmp(h->name, name)) {
            *size = strlen(h->text);
            return h->text;
        }
    return NULL;
}

static const char *const usual_options[] = {"-a", "-b"};

static qrt_key_inputs usual_inputs(header *headers) {
    static const char source[] = "#include \"a.cuh\"\n  #  include <c.cuh> // why\nvoid f();\n";
    return (qrt_key_inputs){.source = source,
                            .source_size = sizeof source - 1,
                            .options = usual_options,
                            .option_count = 2,
                            .nvrtc_major = 13,
                            .target = "sm_90a",
                            .header = find_header,
                            .user = headers};
}

static void key_text(const qrt_key_inputs *inputs, char text[QRT_KEY_TEXT]) {
    qrt_key key;
    assert_int_equal(qrt_key_make(inputs, &key, NULL), QG_OK);
    qrt_key_text(&key, text);
}

static void assert_differs(const qrt_key_inputs *a, const qrt_key_inputs *b) {
    char x[QRT_KEY_TEXT], y[QRT_KEY_TEXT];
    key_text(a, x);
    key_text(b, y);
    assert_string_not_equal(x, y);
}

static header *usual_headers(void) {
    static header headers[] = {
        {"a.cuh", "#include \"b.cuh\"\n"}, {"b.cuh", "int b;\n"}, {"c.cuh", "int c;"}, {"d.cuh", "d"}, {0}};
    return headers;
}

static void key_changes_with_everything_that_shapes_a_cubin(void **state) {
    (void)state;
    static const char *const other_options[] = {"-a", "-c"}, *const joined[] = {"-a-b", ""};
    qrt_key_inputs usual = usual_inputs(usual_headers()), other;
    other = usual, other.target = "sm_80", assert_differs(&usual, &other);
    other = usual, other.nvrtc_major = 12, assert_differs(&usual, &other);
    other = usual, other.nvrtc_minor = 1, assert_differs(&usual, &other);
    other = usual, other.source_size--, assert_differs(&usual, &other);
    other = usual, other.options = other_options, assert_differs(&usual, &other);
    other = usual, other.options = joined, assert_differs(&usual, &other);
    other = usual, other.option_count = 1, assert_differs(&usual, &other);
}

static void key_sees_one_byte_of_a_header_included_by_a_header(void **state) {
    (void)state;
    header changed[] = {{"a.cuh", "#include \"b.cuh\"\n"}, {"b.cuh", "int B;\n"}, {"c.cuh", "int c;"}, {0}};
    header gone[] = {{"a.cuh", "#include \"b.cuh\"\n"}, {"c.cuh", "int c;"}, {0}};
    qrt_key_inputs usual = usual_inputs(usual_headers()), other = usual_inputs(changed);
    assert_differs(&usual, &other);
    other = usual_inputs(gone);
    assert_differs(&usual, &other);
}

static void key_ignores_headers_that_are_not_included(void **state) {
    (void)state;
    header changed[] = {
        {"d.cuh", "D!"}, {"c.cuh", "int c;"}, {"b.cuh", "int b;\n"}, {"a.cuh", "#include \"b.cuh\"\n"}, {0}};
    char x[QRT_KEY_TEXT], y[QRT_KEY_TEXT];
    qrt_key_inputs usual = usual_inputs(usual_headers()), other = usual_inputs(changed);
    key_text(&usual, x);
    key_text(&other, y);
    assert_string_equal(x, y);
}

static void key_is_the_same_in_every_locale_and_for_ever(void **state) {
    (void)state;
    char x[QRT_KEY_TEXT], y[QRT_KEY_TEXT];
    qrt_key_inputs usual = usual_inputs(usual_headers());
    key_text(&usual, x);
    setlocale(LC_ALL, "de_DE.UTF-8");
    key_text(&usual, y);
    setlocale(LC_ALL, "C");
    assert_string_equal(x, y);
    /* Changes only together with QRT_CACHE_FORMAT. */
    assert_string_equal(x, "2f19c7dadb7401c0215cb3864b193126c4a65e9407a302af6a260395aab20e3d");
}

static void headers_are_found_transitively(void **state) {
    (void)state;
    header loop[] = {
        {"a.cuh", "#include \"b.cuh\"\n"}, {"b.cuh", "#include \"a.cuh\"\n#include <math.h>"}, {0}};
    qrt_key_inputs inputs = usual_inputs(loop);
    char **names;
    int count;
    assert_int_equal(qrt_key_headers(&inputs, &names, &count, NULL), QG_OK);
    assert_int_equal(count, 4);
    assert_string_equal(names[0], "a.cuh");
    assert_string_equal(names[1], "c.cuh");
    assert_string_equal(names[2], "b.cuh");
    assert_string_equal(names[3], "math.h");
    qrt_key_headers_free(names, count);
}

static void key_text_reads_back(void **state) {
    (void)state;
    qrt_key key = key_of(0xabcd), back;
    char text[QRT_KEY_TEXT];
    assert_true(qrt_key_parse(qrt_key_text(&key, text), &back));
    assert_memory_equal(&key, &back, sizeof key);
    assert_false(qrt_key_parse("abc", &back));
    text[5] = 'G';
    assert_false(qrt_key_parse(text, &back));
}

/* ---------------------------------------------------------------------------------------------- storing */

static void what_is_stored_is_found_by_the_next_process(void **state) {
    (void)state;
    char *dir = qt_format("%s/new/deeper", folder);
    qrt_cache *cache = open_at(dir);
    assert_string_equal(look(cache, 1, ""), "miss");
    assert_false(qt_exists(dir)); /* looking makes no folders */
    store(cache, 1, "cubin one");
    assert_string_equal(look(cache, 1, "cubin one"), "disk");
    assert_string_equal(look(cache, 2, ""), "miss");
    qrt_cache_close(cache);
    cache = open_at(dir);
    assert_string_equal(look(cache, 1, "cubin one"), "disk");
    assert_string_equal(qrt_cache_directory(cache), dir);
    qrt_cache_close(cache);
    struct stat info;
    assert_int_equal(stat(dir, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_int_equal(warnings, 0);
    free(dir);
}

static void a_success_of_zero_bytes_is_never_stored(void **state) {
    (void)state;
    qrt_cache *cache = open_at(folder);
    store(cache, 1, "");
    assert_string_equal(look(cache, 1, ""), "miss");
    qrt_cache_close(cache);
}

static void memory_only_works_without_a_folder(void **state) {
    (void)state;
    qrt_cache *cache = open_at("");
    store(cache, 1, "one");
    store(cache, 2, "two");
    store(cache, 1, "new");
    assert_string_equal(look(cache, 1, "new"), "memory");
    assert_string_equal(look(cache, 2, "two"), "memory");
    qrt_cache_close(cache);
    assert_int_equal(warnings, 0);
}

/* One damage to an entry's file: it must read as a miss with one warning, and be replaced by the next store.
 */
static void check_damage(const char *what,
                         void (*damage)(const char *path, unsigned char *bytes, size_t size)) {
    qrt_key key = key_of(1);
    qrt_cache *cache = open_at(folder);
    store(cache, 1, "some cubin");
    char *path = entry_path(folder, &key);
    size_t size;
    unsigned char *bytes = (unsigned char *)qt_read(path, &size);
    damage(path, bytes, size);
    warnings = 0;
    if (strcmp(look(cache, 1, "some cubin"), "miss")) fail_msg("%s: not seen", what);
    assert_string_equal(look(cache, 1, "some cubin"), "miss");
    assert_int_equal(warnings, 1);
    qt_assert_contains(last_warning, "it will be replaced");
    store(cache, 1, "some cubin");
    assert_string_equal(look(cache, 1, "some cubin"), "disk");
    qrt_cache_close(cache);
    free(bytes);
    free(path);
}

static void cut_short(const char *path, unsigned char *bytes, size_t size) {
    qt_write(path, bytes, size - 1);
}
static void cut_in_header(const char *path, unsigned char *bytes, size_t size) {
    qt_write(path, bytes, size > 20 ? 20 : size);
}
static void make_empty(const char *path, unsigned char *bytes, size_t size) {
    (void)size, qt_write(path, bytes, 0);
}
static void make_longer(const char *path, unsigned char *bytes, size_t size) {
    bytes[size] = 'x', qt_write(path, bytes, size + 1);
}
static void flip_last(const char *path, unsigned char *bytes, size_t size) {
    bytes[size - 1] ^= 1, qt_write(path, bytes, size);
}
static void flip_metadata(const char *path, unsigned char *bytes, size_t size) {
    bytes[97] ^= 4, qt_write(path, bytes, size);
}
static void other_format(const char *path, unsigned char *bytes, size_t size) {
    bytes[8]++, qt_write(path, bytes, size);
}
static void other_magic(const char *path, unsigned char *bytes, size_t size) {
    bytes[0] = 'X', qt_write(path, bytes, size);
}
static void other_key(const char *path, unsigned char *bytes, size_t size) {
    bytes[40] ^= 1, qt_write(path, bytes, size);
}
static void huge_sizes(const char *path, unsigned char *bytes, size_t size) {
    memset(bytes + 16, 0xff, 16), qt_write(path, bytes, size);
}
static void symlinked(const char *path, unsigned char *bytes, size_t size) {
    char *real = qt_format("%s/elsewhere", folder);
    qt_write(real, bytes, size);
    unlink(path);
    assert_int_equal(symlink(real, path), 0);
    free(real);
}
static void writable(const char *path, unsigned char *bytes, size_t size) {
    (void)bytes, (void)size;
    assert_int_equal(chmod(path, 0666), 0);
}
static void fifo(const char *path, unsigned char *bytes, size_t size) {
    (void)bytes, (void)size;
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
}

static void damaged_and_untrusted_entries_are_misses_and_replaced(void **state) {
    (void)state;
    static const struct {
        const char *name;
        void (*damage)(const char *, unsigned char *, size_t);
    } damages[] = {{"truncated", cut_short},
                   {"cut in header", cut_in_header},
                   {"empty", make_empty},
                   {"too long", make_longer},
                   {"flipped cubin", flip_last},
                   {"flipped metadata", flip_metadata},
                   {"other format", other_format},
                   {"other magic", other_magic},
                   {"other key", other_key},
                   {"huge sizes", huge_sizes},
                   {"symlink", symlinked},
                   {"writable by others", writable},
                   {"fifo", fifo}};
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++)
        check_damage(damages[i].name, damages[i].damage);
}

/* Every single byte matters. */
static void any_flipped_byte_is_seen(void **state) {
    (void)state;
    qrt_key key = key_of(3);
    size_t total;
    unsigned char *bytes = qrt_entry_encode(&key, "{}", "cubin", 5, &total);
    assert_null(qrt_entry_decode(bytes, total, &key, NULL));
    for (size_t i = 0; i < total; i++) {
        bytes[i] ^= 0x10;
        assert_non_null(qrt_entry_decode(bytes, total, &key, NULL));
        bytes[i] ^= 0x10;
    }
    for (size_t size = 0; size < total; size++)
        assert_non_null(qrt_entry_decode(bytes, size, &key, NULL));
    free(bytes);
}

/* ---------------------------------------------------------------------------------------------- places */

static void assert_untrusted(const char *dir, const char *why) {
    warnings = 0;
    qrt_cache *cache = open_at(dir);
    store(cache, 1, "one");
    assert_string_equal(look(cache, 1, "one"), "memory");
    assert_int_equal(warnings, 1);
    qt_assert_contains(last_warning, why);
    qt_assert_contains(qrt_cache_trouble(cache), why);
    assert_string_equal(qrt_cache_directory(cache), "");
    qrt_cache_close(cache);
}

static void folders_others_may_write_to_are_not_used(void **state) {
    (void)state;
    char *dir = qt_format("%s/open", folder);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(chmod(dir, 0770), 0);
    assert_untrusted(dir, "is writable by others");
    assert_int_equal(chmod(dir, 0707), 0);
    assert_untrusted(dir, "is writable by others");
    free(dir);
}

static void symlinked_folders_are_not_used(void **state) {
    (void)state;
    char *real = qt_format("%s/real", folder), *link = qt_format("%s/link", folder),
         *slash = qt_format("%s/link/", folder);
    assert_int_equal(mkdir(real, 0700), 0);
    assert_int_equal(symlink(real, link), 0);
    assert_untrusted(link, "is a symlink");
    assert_untrusted(slash, "is a symlink");
    free(real);
    free(link);
    free(slash);
}

static void a_file_in_the_way_is_survived(void **state) {
    (void)state;
    char *path = qt_format("%s/file", folder), *below = qt_format("%s/file/deeper", folder);
    qt_write_text(path, "hello");
    assert_untrusted(path, "file");
    assert_untrusted(below, "file");
    free(path);
    free(below);
}

static void another_users_folder_is_not_used(void **state) {
    (void)state;
    if (geteuid()) qt_skip("only root can give a folder away");
    char *dir = qt_format("%s/theirs", folder);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(chown(dir, 12345, 12345), 0);
    assert_untrusted(dir, "belongs to another user");
    free(dir);
}

static void a_shared_cache_is_read_and_never_written(void **state) {
    (void)state;
    char *shared = qt_format("%s/shared", folder), *own = qt_format("%s/own", folder);
    qrt_cache *cache = open_at(shared);
    store(cache, 1, "shared one");
    qrt_cache_close(cache);
    qrt_cache_options options = {.dir = own, .shared_dir = shared, .warn = count_warning};
    assert_int_equal(qrt_cache_open(&options, &cache, NULL), QG_OK);
    assert_string_equal(look(cache, 1, "shared one"), "shared");
    store(cache, 2, "own two");
    assert_string_equal(look(cache, 2, "own two"), "disk");
    qrt_cache_close(cache);
    cache = open_at(shared);
    assert_string_equal(look(cache, 2, ""), "miss");
    qrt_cache_close(cache);
    assert_int_equal(warnings, 0);
    free(shared);
    free(own);
}

static void assert_chosen(const char *const environment[4], const char *expected) {
    static const char *const names[4] = {"QRSMITH_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "TMPDIR"};
    char *before[4];
    for (int i = 0; i < 4; i++) {
        before[i] = getenv(names[i]) ? strdup(getenv(names[i])) : NULL;
        if (environment[i])
            setenv(names[i], environment[i], 1);
        else
            unsetenv(names[i]);
    }
    qrt_cache_options options = {0};
    qrt_cache *cache;
    assert_int_equal(qrt_cache_open(&options, &cache, NULL), QG_OK);
    assert_string_equal(qrt_cache_directory(cache), expected);
    qrt_cache_close(cache);
    for (int i = 0; i < 4; i++) {
        if (before[i])
            setenv(names[i], before[i], 1);
        else
            unsetenv(names[i]);
        free(before[i]);
    }
}

static void the_place_follows_the_environment(void **state) {
    (void)state;
    char *tmp = qt_format("/nowhere/t/qrsmith-%lu", (unsigned long)geteuid());
    char *last = qt_format("/tmp/qrsmith-%lu", (unsigned long)geteuid());
    assert_chosen((const char *[]){"/nowhere/d", "/nowhere/x", "/nowhere/h", "/nowhere/t"}, "/nowhere/d");
    assert_chosen((const char *[]){"", "/nowhere/x", "/nowhere/h", "/nowhere/t"}, "/nowhere/x/qrsmith");
    assert_chosen((const char *[]){NULL, "", "/nowhere/h", "/nowhere/t"}, "/nowhere/h/.cache/qrsmith");
    assert_chosen((const char *[]){NULL, "relative", "/nowhere/h", NULL}, "/nowhere/h/.cache/qrsmith");
    assert_chosen((const char *[]){NULL, NULL, "", "/nowhere/t"}, tmp);
    assert_chosen((const char *[]){NULL, NULL, NULL, ""}, last);
    free(tmp);
    free(last);
}

/* A file system that refuses writes: as another user, since root may write anywhere. */
static void a_folder_that_cannot_be_written_works_from_memory(void **state) {
    (void)state;
    qrt_cache *cache = open_at(folder);
    store(cache, 1, "one");
    qrt_cache_close(cache);
    char *inner = qt_format("%s/cubin-%d", folder, QRT_CACHE_FORMAT);
    assert_int_equal(chmod(folder, 0755), 0);
    pid_t child = fork();
    if (!child) {
        if (!geteuid()) {
            qrt_key key = key_of(1);
            char *path = entry_path(folder, &key);
            if (chown(folder, 12345, 12345) || chown(inner, 12345, 12345) || chown(path, 12345, 12345) ||
                setuid(12345))
                _exit(9);
            free(path);
        }
        if (chmod(inner, 0500)) _exit(8);
        cache = open_at(folder);
        if (strcmp(look(cache, 1, "one"), "disk")) _exit(1);
        qrt_cache_claim claim;
        qrt_key key = key_of(2);
        qrt_cache_begin(cache, &key, &claim);
        store(cache, 2, "two");
        qrt_cache_end(cache, &claim);
        store(cache, 3, "three");
        _exit(strcmp(look(cache, 2, "two"), "memory") ? 2 : warnings != 1 ? 3 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(chmod(inner, 0700), 0);
    free(inner);
}

/* ---------------------------------------------------------------------------------------------- claims */

/* What the compiler does with the cache; "compiling" is a byte more in a file. */
static void obtain(qrt_cache *cache, const char *log, int milliseconds) {
    if (strcmp(look(cache, 1, "made"), "miss")) return;
    qrt_key key = key_of(1);
    qrt_cache_claim claim;
    qrt_cache_begin(cache, &key, &claim);
    if (!strcmp(look(cache, 1, "made"), "miss")) {
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (fd < 0 || write(fd, "x", 1) != 1) abort();
        close(fd);
        nanosleep(&(struct timespec){0, milliseconds * 1000000L}, NULL);
        store(cache, 1, "made");
    }
    qrt_cache_end(cache, &claim);
}

static void many_cold_processes_compile_once(void **state) {
    (void)state;
    char *log = qt_format("%s/log", folder), *dir = qt_format("%s/cache", folder);
    enum { PROCESSES = 16 };
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++)
        if (!(children[i] = fork())) {
            qrt_cache *cache = open_at(dir);
            obtain(cache, log, 100);
            bool fine = !strcmp(look(cache, 1, "made"), "disk");
            qrt_cache_close(cache);
            _exit(fine && !warnings ? 0 : 1);
        }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        waitpid(children[i], &status, 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    size_t compiles;
    free(qt_read(log, &compiles));
    assert_int_equal(compiles, 1);
    free(log);
    free(dir);
}

typedef struct shared_work {
    qrt_cache *cache;
    const char *log;
} shared_work;

static void *thread_obtain(void *user) {
    shared_work *work = user;
    obtain(work->cache, work->log, 50);
    return NULL;
}

static void threads_compile_once(const char *dir) {
    char *log = qt_format("%s/log", folder);
    unlink(log);
    shared_work work = {open_at(dir), log};
    pthread_t threads[12];
    for (int i = 0; i < 12; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, thread_obtain, &work), 0);
    for (int i = 0; i < 12; i++)
        pthread_join(threads[i], NULL);
    size_t compiles;
    free(qt_read(log, &compiles));
    assert_int_equal(compiles, 1);
    qrt_cache_close(work.cache);
    free(log);
}

static void many_threads_compile_once_with_and_without_a_disk(void **state) {
    (void)state;
    char *dir = qt_format("%s/cache", folder);
    threads_compile_once(dir);
    threads_compile_once("");
    free(dir);
}

static void a_killed_holder_is_taken_over(void **state) {
    (void)state;
    char *log = qt_format("%s/log", folder), *dir = qt_format("%s/cache", folder);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (!child) {
        qrt_key key = key_of(1);
        qrt_cache_claim claim;
        qrt_cache_begin(open_at(dir), &key, &claim);
        if (claim.fd < 0 || write(ready[1], "r", 1) != 1) _exit(1);
        pause();
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    qrt_cache *cache = open_at(dir);
    time_t started = time(NULL);
    obtain(cache, log, 0);
    assert_true(time(NULL) - started <= 2);
    assert_string_equal(look(cache, 1, "made"), "disk");
    qrt_cache_close(cache);
    close(ready[0]);
    close(ready[1]);
    free(log);
    free(dir);
}

static void waiting_has_a_bound(void **state) {
    (void)state;
    qrt_key key = key_of(1);
    qrt_cache_claim first, second;
    qrt_cache *holder = open_at(folder), *waiter;
    qrt_cache_options options = {.dir = folder, .lock_seconds = 1};
    assert_int_equal(qrt_cache_open(&options, &waiter, NULL), QG_OK);
    qrt_cache_begin(holder, &key, &first);
    assert_true(first.fd >= 0);
    qrt_cache_begin(waiter, &key, &second); /* another process would look just so */
    assert_int_equal(second.fd, -1);
    qrt_cache_end(waiter, &second);
    qrt_cache_end(holder, &first);
    qrt_cache_close(waiter);
    qrt_cache_close(holder);
}

static bool count_item(void *user, const qrt_cache_item *item) {
    int *counts = user; /* whole, with a problem, order */
    counts[item->problem ? 1 : 0]++;
    assert_true(!item->problem == !!item->metadata);
    return true;
}

static void visiting_shows_whole_and_damaged_entries_and_nothing_else(void **state) {
    (void)state;
    int counts[2] = {0};
    qrt_key key = key_of(2);
    char text[QRT_KEY_TEXT], *path = entry_path(folder, &key),
                             *stray = qt_format("%s/cubin-%d/note.txt", folder, QRT_CACHE_FORMAT);
    qrt_cache *cache = open_at(folder);
    for (int i = 1; i <= 3; i++)
        store(cache, i, "cubin");
    qt_write_text(path, "damage");
    qt_write_text(stray, "not ours");
    assert_int_equal(qrt_cache_visit(cache, count_item, counts, NULL), QG_OK);
    assert_int_equal(counts[0], 2);
    assert_int_equal(counts[1], 1);
    assert_true(qrt_cache_remove(cache, qrt_key_text(&key, text)));
    assert_false(qt_exists(path));
    assert_false(qrt_cache_remove(cache, "../note"));
    assert_true(qt_exists(stray));
    qrt_cache_close(cache);
    free(path);
    free(stray);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(sha256_gives_the_standards_digests),
        TEST(key_changes_with_everything_that_shapes_a_cubin),
        TEST(key_sees_one_byte_of_a_header_included_by_a_header),
        TEST(key_ignores_headers_that_are_not_included),
        TEST(key_is_the_same_in_every_locale_and_for_ever),
        TEST(headers_are_found_transitively),
        TEST(key_text_reads_back),
        TEST(what_is_stored_is_found_by_the_next_process),
        TEST(a_success_of_zero_bytes_is_never_stored),
        TEST(memory_only_works_without_a_folder),
        TEST(damaged_and_untrusted_entries_are_misses_and_replaced),
        TEST(any_flipped_byte_is_seen),
        TEST(folders_others_may_write_to_are_not_used),
        TEST(symlinked_folders_are_not_used),
        TEST(a_file_in_the_way_is_survived),
        TEST(another_users_folder_is_not_used),
        TEST(a_shared_cache_is_read_and_never_written),
        TEST(the_place_follows_the_environment),
        TEST(a_folder_that_cannot_be_written_works_from_memory),
        TEST(many_cold_processes_compile_once),
        TEST(many_threads_compile_once_with_and_without_a_disk),
        TEST(a_killed_holder_is_taken_over),
        TEST(waiting_has_a_bound),
        TEST(visiting_shows_whole_and_damaged_entries_and_nothing_else),
    };
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
