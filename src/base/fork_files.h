/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that a forked child closes at once, with all memory that is
 * mapped from their files, whoever did it. They are of no use to it, and what
 * they refer to would outlive this process: a connection that doesn't end, a
 * queue pair that goes on answering, the memory of rings. A child that is
 * forked between the opening of a file and the call here, or between its
 * removal and its closing, keeps it, and without /proc it keeps the mappings.
 */
#ifndef DFI_BASE_FORK_FILES_H
#define DFI_BASE_FORK_FILES_H

/*
 * Have children close it. It may be added several times, and then is closed
 * until it was removed as often. -ENOMEM. Any thread, as below.
 */
int dfi__fork_add(int fd);

/* One from which nothing is mapped in children anyway (MADV_DONTFORK). */
int dfi__fork_add_unmapped(int fd);

/*
 * Before it is closed here, as the number may soon be another's. Without effect
 * if it wasn't added.
 */
void dfi__fork_remove(int fd);

/* Both. */
void dfi__fork_close(int fd);

#endif
