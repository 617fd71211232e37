/* SPDX-License-Identifier: Apache-2.0 */
/* Texts for errors of the operating system and of rdma-core's libraries. */
#include "fail.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/error.h"
#include "base/files.h"
#include "base/memory.h"
#include "device.h"

/* More than any call of the libraries opens. */
#define SPARE_FILES 8

/*
 * Check that SPARE_FILES descriptors are left: 0, or the errno value of the
 * limit. The libraries often report only that there is no device when they
 * lacked descriptors.
 */
static int try_files(void)
{
	int fds[SPARE_FILES], err = 0;
	unsigned i, n;

	for (n = 0; n < SPARE_FILES; n++) {
		fds[n] = file_up(eventfd(0, EFD_CLOEXEC));
		if (fds[n] < 0) {
			err = errno;
			break;
		}
	}
	if (err != EMFILE && err != ENFILE)
		err = 0;
	for (i = 0; i < n; i++)
		close(fds[i]);
	return err;
}

int dfi__verbs_check_files(const char *what, int err)
{
	if (err != EMFILE && err != ENFILE)
		err = try_files();
	return err
	    ? dfi__fail_files(err, SPARE_FILES, "eventfd", "verbs: %s", what)
	    : 0;
}

struct verbs_location dfi__verbs_port(const struct verbs_device *device)
{
	struct verbs_location location;

	snprintf(location.text, sizeof(location.text), "%s port %u",
	    device->name, device->port);
	return location;
}

struct verbs_location dfi__verbs_gid(const struct verbs_device *device)
{
	struct verbs_location location = dfi__verbs_port(device);
	size_t used = strlen(location.text);

	if (device->gid[0])
		snprintf(location.text + used, sizeof(location.text) - used,
		    ", GID %d %s", device->gid_index, device->gid);
	return location;
}

int dfi__verbs_fail_os(
    const struct verbs_location *location, const char *what, int err)
{
	const char *where = location ? location->text : "";
	int ret = dfi__verbs_check_files(what, err);

	return ret
	    ? ret
	    : dfi__fail(err == ENOMEM ? -ENOMEM : -EIO, "verbs: %s%s%s: %s",
		  where, *where ? ": " : "", what, strerror(err));
}

int dfi__verbs_fail_port(
    const struct verbs_device *device, const char *what, int err)
{
	struct verbs_location location = dfi__verbs_port(device);

	return dfi__verbs_fail_os(&location, what, err);
}

int dfi__verbs_fail_register(
    const struct verbs_device *device, uint64_t size, int err)
{
	uint64_t limit, room = dfi__memory_lock_room(&limit);
	struct verbs_location location = dfi__verbs_port(device);

	if (err == ENOMEM && limit != UINT64_MAX)
		return dfi__fail(-ENOMEM,
		    "verbs: %s: registering %lu bytes: more memory than may "
		    "be locked, %lu bytes in all, of which %lu are left: raise "
		    "the limit (ulimit -l), or make rings smaller "
		    "(segment_count, DFI_RING_MEMORY)",
		    location.text, (unsigned long)size, (unsigned long)limit,
		    (unsigned long)room);
	if (err == ENOMEM)
		return dfi__fail(-ENOMEM,
		    "verbs: %s: registering %lu bytes: %s, though there is no "
		    "limit on locked memory: free memory, or make rings "
		    "smaller (segment_count, DFI_RING_MEMORY)",
		    location.text, (unsigned long)size, strerror(err));
	return dfi__fail(-EIO, "verbs: %s: registering %lu bytes: %s",
	    location.text, (unsigned long)size, strerror(err));
}

int dfi__verbs_fail_cm(
    const struct verbs_device *device, const char *what, int err)
{
	struct verbs_location location = dfi__verbs_gid(device);

	return dfi__verbs_fail_os(&location, what, err);
}
