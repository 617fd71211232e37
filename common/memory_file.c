/* SPDX-License-Identifier: Apache-2.0 */
/* Memory files, and the reasons why one can't be made. */
#include "memory_file.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "complain.h"

/* Since Linux 6.3; headers may be older than the kernel. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

/*
 * Not a lack of memory: the sysctl causes EACCES, sandboxes one of the others.
 */
static bool is_forbidden(int err)
{
	return err == EACCES || err == EPERM || err == ENOSYS;
}

static int complain_of(const char *what, const char *call, int err)
{
	return complain("%s: %s: %s%s", what, call, strerror(err),
	    is_forbidden(err)
		? ": the system forbids memory files: look at the setting "
		  "vm.memfd_noexec, and at what confines the process "
		  "(seccomp, a security module)"
		: "");
}

/*
 * With vm.memfd_noexec=2, some kernels require a flag that says that the memory
 * is never executed; others do not know the flag and refuse it.
 */
int memory_file_open(const char *name, const char *what)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, flags);
	return fd < 0 ? complain_of(what, "memfd_create", errno) : fd;
}

int memory_file_complain(const char *what, unsigned long size)
{
	int err = errno;

	if (is_forbidden(err))
		return complain_of(what, "ftruncate, fallocate or mmap", err);
	return complain("%s: %lu MiB of memory: %s%s", what, (size >> 20) + 1,
	    strerror(err),
	    err == EFBIG ? ": raise the limit on files (ulimit -f)" : "");
}
