/* SPDX-License-Identifier: Apache-2.0 */
/* Which control groups (cgroups(7)) limit this process, and their folders. */
#ifndef DFI_BASE_CGROUP_H
#define DFI_BASE_CGROUP_H

#include <stdbool.h>

/*
 * Call fn for each control group that this process is in and that is visible:
 * its own, and those above it up to the root of each mount, of version 2 and of
 * a controller of version 1. folder: of its files. All files are read below
 * root, which is "" except in tests; folder doesn't begin with it.
 */
void dfi__cgroup_each(const char *root, const char *controller,
    void (*fn)(void *arg, unsigned version, const char *folder), void *arg);

#endif
