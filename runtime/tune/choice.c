#include "runtime/tune/choice.h"

#include <math.h>
#include <stdlib.h>

static const double band = 0.01;

bool tune_near(const tune_time *a, const tune_time *b) {
    double wide = fmax(band, fmax(a->spread, b->spread));
    return fabs(a->median - b->median) <= wide * fmin(a->median, b->median);
}

int tune_fastest(const tune_time *times, int count) {
    int best = -1;
    for (int i = 0; i < count; i++)
        if (!times[i].out && (best < 0 || times[i].median < times[best].median)) best = i;
    return best;
}

int tune_contenders(const tune_time *times, int count, int *which, int most) {
    int best = tune_fastest(times, count), found = 0;
    for (int i = 0; i < count && best >= 0; i++) {
        if (times[i].out || !tune_near(&times[i], &times[best])) continue;
        int kept = most - (i < best); /* a place for the fastest */
        if (found < kept) which[found++] = i;
    }
    return found;
}

int tune_pick(const tune_time *times, int count) {
    int best = tune_fastest(times, count);
    for (int i = 0; i < best; i++)
        if (!times[i].out && tune_near(&times[i], &times[best])) return i;
    return best;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

tune_time tune_rounds(double *medians, int count) {
    qsort(medians, (size_t)count, sizeof *medians, ascending);
    double median = (medians[(count - 1) / 2] + medians[count / 2]) / 2;
    return (tune_time){median, median > 0 ? (medians[count - 1] - medians[0]) / 2 / median : 0, false};
}
