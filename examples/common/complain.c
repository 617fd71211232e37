/* SPDX-License-Identifier: Apache-2.0 */
/* The form of the examples' error messages. */
#include "complain.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int complain(const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	/* One write, so that lines of several processes don't mix. */
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, text);
	return -1;
}
