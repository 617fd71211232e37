/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the kernel wipes in a forked child. */
#include "handle.h"

#include <sys/mman.h>

void *dfi__handle_alloc(size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	if (madvise(at, size, MADV_WIPEONFORK) < 0) {
		munmap(at, size);
		return NULL;
	}
	return at;
}

void dfi__handle_free(void *handle, size_t size)
{
	munmap(handle, size);
}

int dfi__handle_check_slow(const void *handle, uint32_t magic)
{
	if (!handle)
		return dfi__fail(-EINVAL, "the handle is NULL");
	if (!magic)
		return dfi__fail(-EOWNERDEAD,
		    "the handle was opened before fork(): a child opens its "
		    "own context");
	return dfi__fail(-EINVAL, "the handle is of another kind");
}
