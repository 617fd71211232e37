/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a figure depends on beside the code: the machine, and who else uses it.
 */
#ifndef DFI_BENCH_HOST_H
#define DFI_BENCH_HOST_H

#include <jansson.h>

/*
 * A JSON object: name, cpu, cores (that may be used), kernel, arch, load (the
 * average of a minute), in_use (cores that others use right now), and the flags
 * busy (the load is above half of the cores) and oversubscribed (more threads
 * than cores). Takes 200 ms.
 */
json_t *host_describe(unsigned threads);

#endif
