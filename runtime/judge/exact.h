/* Include first where the same bits are promised on every machine: a compiler may not fuse a*b+c from here
 * on, whatever its flags. */
#ifndef QJ_EXACT_H
#define QJ_EXACT_H

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

#endif
