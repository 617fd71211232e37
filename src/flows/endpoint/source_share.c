/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources that share connections (dfi_source_attr.share_with). A transport
 * posts to a connection, and counts what has completed, without a lock, so one
 * thread at a time may use all rings of a connection. The application promises
 * that for its own calls. Where a thread of the library sends, nobody can, and
 * sharing is refused.
 */
#include "source.h"

#include <stdlib.h>
#include "base/atomic.h"
#include "base/error.h"

struct source_share *dfi__source_share_join(const struct dfi_source *with)
{
	struct source_share *share = with ? with->share
					  : calloc(1, sizeof(*share));

	if (share)
		share->n_sources++;
	return share;
}

void dfi__source_share_leave(struct source_share *share)
{
	if (--share->n_sources)
		/* The call that frees a handle does not leave it otherwise. */
		atomic_set(&share->user, 0);
	else
		free(share);
}

int dfi__source_may_share(const struct dfi_source *source)
{
	if (!source->linger.ns && !source->flow.membership)
		return 0;
	return dfi__fail(-EOPNOTSUPP,
	    "flow '%s': %s %u can't share connections "
	    "(dfi_source_attr.share_with), as %s",
	    source->flow.name, SOURCE_ID(source),
	    source->linger.ns
		? "it lingers, so that the control thread sends as well: set "
		  "linger_us to DFI_NO_LINGER"
		: "the flow is open, so that a thread of the library opens "
		  "its rings");
}

int dfi__source_share_check(
    const struct dfi *dfi, const struct dfi_source *with)
{
	int ret;

	if (!with)
		return 0;
	ret = handle_check(with, &with->magic, SOURCE_MAGIC);
	if (ret < 0)
		return dfi__fail_within(ret, "dfi_source_attr.share_with");
	if (with->dfi != dfi)
		return dfi__fail(-EINVAL,
		    "dfi_source_attr.share_with: flow '%s': %s %u belongs to "
		    "another context: name a source of the same context",
		    with->flow.name, SOURCE_ID(with));
	return dfi__source_may_share(with);
}
