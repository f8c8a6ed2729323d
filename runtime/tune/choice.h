/* Who won: pure functions over times, so that the same measurements give the same winner every time. */
#ifndef TUNE_CHOICE_H
#define TUNE_CHOICE_H

#include <stdbool.h>

/* Candidates stand in the fixed order that breaks ties: the default plan first, then by parameters. */
typedef struct tune_time {
    double median, spread; /* us; spread relative to the median */
    bool out;              /* not timed, or rejected since */
} tune_time;

/* Within the larger of 1 % and both spreads of one another. */
bool tune_near(const tune_time *a, const tune_time *b);

/* The fastest, the earlier of equals; -1 when all are out. */
int tune_fastest(const tune_time *times, int count);

/* The fastest and those near it, in order, at most `most` of them (the fastest always among them). Returns
 * their number. */
int tune_contenders(const tune_time *times, int count, int *which, int most);

/* The first in order that is near the fastest; -1 when all are out. */
int tune_pick(const tune_time *times, int count);

/* Median and half the range of several rounds, which are sorted. */
tune_time tune_rounds(double *medians, int count);

#endif
