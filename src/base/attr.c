/* SPDX-License-Identifier: Apache-2.0 */
/* The one place that reads an attribute struct of another version. */
#include "attr.h"

#include <stdint.h>
#include <string.h>
#include "bits.h"
#include "error.h"

/* Larger than any attribute struct. A larger size was not initialised. */
#define MAX_ATTR_SIZE 4096

int dfi__attr_load(void *dst, size_t size, const void *src, const char *what)
{
	const unsigned char *bytes = src;
	uint32_t given;
	size_t i;

	memset(dst, 0, size);
	if (!src)
		return 0;
	memcpy(&given, src, sizeof(given));
	if (given > MAX_ATTR_SIZE)
		return dfi__fail(-E2BIG,
		    "%s.size is %u: no attribute struct is that large", what,
		    given);
	if (given < sizeof(given))
		return dfi__fail(-EINVAL,
		    "%s.size is %u: set it to sizeof(%s), for instance with "
		    "its _INIT macro",
		    what, given, what);
	for (i = size; i < given; i++)
		if (bytes[i])
			return dfi__fail(-E2BIG,
			    "%s is %u bytes with a member set that this "
			    "library, which knows %zu bytes, doesn't have: "
			    "use a newer library",
			    what, given, size);
	memcpy(dst, src, min_u64(given, size));
	return 0;
}
