/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors of the operating system and of rdma-core's libraries, as texts.
 */
#include "verbs.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "../base/error.h"

/* More than any call of the libraries opens. */
#define SPARE_FILES 8

/*
 * Whether so many descriptors can be had. The libraries often say no more than
 * that there is no device, when it was these that they lacked.
 */
static bool has_files(void)
{
	int fds[SPARE_FILES];
	unsigned i, n;

	for (n = 0; n < SPARE_FILES; n++) {
		fds[n] = eventfd(0, EFD_CLOEXEC);
		if (fds[n] < 0)
			break;
	}
	for (i = 0; i < n; i++)
		close(fds[i]);
	return n == SPARE_FILES;
}

int dfi__verbs_check_files(const char *what, int err)
{
	if (err != EMFILE && err != ENFILE && has_files())
		return 0;
	return dfi__fail(-EMFILE,
	    "verbs: %s: the limit on open files is reached: raise it (ulimit "
	    "-n)",
	    what);
}

int dfi__verbs_fail_os(const char *what, int err)
{
	int ret = dfi__verbs_check_files(what, err);

	return ret ? ret
		   : dfi__fail(err == ENOMEM ? -ENOMEM : -EIO, "verbs: %s: %s",
			 what, strerror(err));
}
