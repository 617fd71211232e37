/* SPDX-License-Identifier: Apache-2.0 */
/* The limits on open files as a user knows them. */
#include "files.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include "error.h"

int dfi__fail_files(int err, unsigned n, const char *call, const char *who, ...)
{
	struct rlimit limit = { .rlim_cur = 0 };
	const char *plural = n == 1 ? "" : "s";
	char name[256];
	va_list ap;

	va_start(ap, who);
	vsnprintf(name, sizeof(name), who, ap);
	va_end(ap);
	switch (err) {
	case EMFILE:
		getrlimit(RLIMIT_NOFILE, &limit);
		return dfi__fail(-EMFILE,
		    "%s needs %u file descriptor%s, but the process may have "
		    "%lu and not so many are left: raise the limit (ulimit -n)",
		    name, n, plural, (unsigned long)limit.rlim_cur);
	case ENFILE:
		return dfi__fail(-EMFILE,
		    "%s needs %u file descriptor%s, but all that the system "
		    "may have are open: raise the limit (sysctl fs.file-max)",
		    name, n, plural);
	case ENOMEM:
	case ENOBUFS:
		return dfi__fail(-ENOMEM, "%s: %s: out of memory", name, call);
	default:
		return dfi__fail(
		    -EIO, "%s: %s: %s", name, call, strerrordesc_np(err));
	}
}
