/* Numbers as text, the same on every machine and in every locale. */
#ifndef QG_NUMBER_H
#define QG_NUMBER_H

#include <locale.h>
#include <stdint.h>

#define QG_NUMBER_TEXT 40

/* The shortest decimal text that reads back as exactly v, with a '.' or exponent in it ("0.1", "32.0",
 * "1e-30"). v must be finite. Returns out. */
char *qg_number_text(double v, char out[QG_NUMBER_TEXT]);

/* While entered, this thread formats and parses numbers as the C locale does, whatever the program set. Every
 * public function that meets numbers in text enters one. */
typedef struct qg_c_locale {
    locale_t c, before;
} qg_c_locale;
void qg_c_locale_enter(qg_c_locale *l);
void qg_c_locale_leave(qg_c_locale *l);

/* FNV-1a, for names (not for trust). Start with QG_HASH_START. */
#define QG_HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t qg_hash(uint64_t h, const void *data, unsigned long size);

#endif
