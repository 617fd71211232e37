/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control groups (cgroups(7)) that limit this process, and their folders.
 */
#ifndef DFI_BASE_CGROUP_H
#define DFI_BASE_CGROUP_H

#include <stdbool.h>

/*
 * Call fn for each visible control group of this process: its own group and
 * those above it, up to the root of each mount, of version 2 and of a
 * controller of version 1. folder has the group's files. All files are read
 * below root, which is "" except in tests; folder does not include it.
 */
void dfi__cgroup_each(const char *root, const char *controller,
    void (*fn)(void *arg, unsigned version, const char *folder), void *arg);

#endif
