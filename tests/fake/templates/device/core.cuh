// What the toy family includes; the stand-in compiler doesn't read it, the cache key does.
#ifndef QRS_HOST
#include <cuda_is_not_needed.h>
#endif
