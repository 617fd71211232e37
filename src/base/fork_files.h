/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that a forked child closes at once, with all memory mapped from
 * their files. The child can't use them. They would keep things of this process
 * alive after its end: a connection, a queue pair that answers, the memory of
 * rings. A child keeps a descriptor if it is forked between the opening of the
 * file and the call here, or between the removal and the closing. Without /proc
 * it keeps the mappings.
 */
#ifndef DFI_BASE_FORK_FILES_H
#define DFI_BASE_FORK_FILES_H

/*
 * Have children close fd. If it is added several times, it must be removed as
 * often. -ENOMEM. Any thread may make the calls in this file.
 */
int dfi__fork_add(int fd);

/*
 * As dfi__fork_add(), for a file whose mappings are not inherited
 * (MADV_DONTFORK).
 */
int dfi__fork_add_unmapped(int fd);

/*
 * Call it before closing fd, whose number may soon be reused. No effect if fd
 * was not added.
 */
void dfi__fork_remove(int fd);

/* Remove fd, and close it. */
void dfi__fork_close(int fd);

#endif
