/* The table that compiled kernels call. */
#ifndef QHX_SERVICES_H
#define QHX_SERVICES_H

#include "templates/device/host_abi.h"

extern const qhx_services qhx_service_table;

#endif
