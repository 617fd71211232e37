/* SPDX-License-Identifier: Apache-2.0 */
/* What a result depends on besides the code: the machine and its load. */
#ifndef DFI_BENCH_HOST_H
#define DFI_BENCH_HOST_H

#include <jansson.h>
#include <stddef.h>

/*
 * A JSON object: name, cpu, cores (usable ones), kernel, arch, load (average of
 * a minute), in_use (cores that others use now), and the flags busy (the load
 * is above half of the cores) and oversubscribed (more threads than cores).
 * Takes 200 ms.
 */
json_t *host_describe(unsigned threads);

/*
 * Write the name of an RDMA device: of one that the kernel makes of an Ethernet
 * device, "rxe0 (soft-RoCE in a VM)", or without one.
 */
void host_device(const char *device, char *text, size_t size);

#endif
