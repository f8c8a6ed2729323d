#include "runtime/cli/jobs.h"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { THREADS_MAX = 64 };

typedef struct queue {
    cli_job *jobs;
    int count;
    atomic_int next, done;
    const qg_library *lib;
    qrt_compiler *compiler;
} queue;

static void work_one(queue *q, cli_job *job) {
    qg_request request = {job->entry->family, job->entry->params};
    job->status = qg_plan_make(q->lib, &job->entry->shape, job->device, &request, &job->plan, &job->err);
    if (job->status == QG_OK)
        job->status = qrt_compile(q->compiler, q->lib, job->plan->source, job->plan->source_size,
                                  job->device->arch, &job->cubin, &job->err);
}

static void *work(void *context) {
    queue *q = context;
    for (int i; (i = atomic_fetch_add(&q->next, 1)) < q->count; atomic_fetch_add(&q->done, 1))
        work_one(q, &q->jobs[i]);
    return NULL;
}

void cli_jobs_run(cli_job *jobs, int count, int threads, const qg_library *lib, qrt_compiler *compiler,
                  void (*progress)(int done, int total)) {
    queue q = {.jobs = jobs, .count = count, .lib = lib, .compiler = compiler};
    pthread_t started[THREADS_MAX];
    int running = 0;
    threads = threads > THREADS_MAX ? THREADS_MAX : threads > count ? count : threads;
    while (running < threads && !pthread_create(&started[running], NULL, work, &q))
        running++;
    if (!running) /* no thread to be had: this one does it all */
        work(&q);
    while (running && atomic_load(&q.done) < count) {
        progress(atomic_load(&q.done), count);
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    }
    for (int i = 0; i < running; i++)
        pthread_join(started[i], NULL);
    progress(count, count);
}

void cli_jobs_free(cli_job *jobs, int count) {
    for (int i = 0; i < count; i++) {
        if (jobs[i].plan) qg_plan_free(jobs[i].plan);
        if (jobs[i].cubin) qrt_cubin_free(jobs[i].cubin);
    }
}
