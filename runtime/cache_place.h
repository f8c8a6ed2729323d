/* Where a cache lies, and whether that place can be trusted.
 *
 * Trusted means: the directory itself is no symlink, belongs to this user, and nobody else may write to it;
 * the same for each entry. A shared directory may belong to anyone, but not be writable by everyone. All work
 * goes through a directory handle, so that a path swapped later changes nothing. */
#ifndef QRT_CACHE_PLACE_H
#define QRT_CACHE_PLACE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum qrt_trust { QRT_TRUST_OWN, QRT_TRUST_SHARED } qrt_trust;

/* Writes the directory that the environment asks for, "" for none. */
void qrt_place_choose(char *out, size_t size);

/* Opens DIR/cubin-FORMAT as a directory handle, making what is missing (mode 0700) when `make`. -1 with
 * a reason; errno is ENOENT when there is no such directory. */
int qrt_place_open(const char *dir, qrt_trust trust, bool make, char *why, size_t why_size);

/* Opens an entry for reading. -1 with errno when it is missing or can't be opened, -2 with a reason when not
 * trusted. */
int qrt_place_open_entry(int place, const char *name, qrt_trust trust, char *why, size_t why_size);

#endif
