/* SPDX-License-Identifier: Apache-2.0 */
/* The installed library injects no faults: see faults.h. */
#include "faults.h"

#include <stdlib.h>
#include "base/clock.h"
#include "base/error.h"

int dfi__faults_open(uint64_t salt, struct faults **faults)
{
	const char *text = getenv("DFI_TEST_FAULTS");

	(void)salt;
	if (text && *text)
		return dfi__fail(-EINVAL,
		    "DFI_TEST_FAULTS=%s: this library injects no faults: use "
		    "the one that the project's tests link, or unset it",
		    text);
	*faults = NULL;
	return 0;
}

void dfi__faults_close(struct faults *faults)
{
	(void)faults;
}

void dfi__faults_receive(struct faults *faults, const void *data, size_t size,
    int64_t now, faults_deliver *deliver, void *arg)
{
	(void)faults;
	(void)now;
	deliver(arg, data, size);
}

void dfi__faults_progress(
    struct faults *faults, int64_t now, faults_deliver *deliver, void *arg)
{
	(void)faults;
	(void)now;
	(void)deliver;
	(void)arg;
}

int64_t dfi__faults_due(const struct faults *faults)
{
	(void)faults;
	return DEADLINE_NEVER;
}
