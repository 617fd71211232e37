/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error codes and the thread-local error text. The text is a fixed buffer, so
 * that reporting an error can't fail.
 */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "text.h"

static _Thread_local char message[ERROR_TEXT_SIZE];
static _Thread_local const char *constant; /* if set, replaces message */

int dfi__fail(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	dfi__text_make_plain(message);
	constant = NULL;
	return err;
}

int dfi__fail_text(int err, const char *text)
{
	constant = text;
	return err;
}

int dfi__fail_within(int err, const char *fmt, ...)
{
	char inner[sizeof(message)];
	int used, room;
	va_list ap;

	memcpy(inner, message, sizeof(inner));
	va_start(ap, fmt);
	used = vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	room = (int)sizeof(message) - 3 - used;
	if (used >= 0 && room > 0)
		sprintf(message + used, ": %.*s", room,
		    constant ? constant : inner);
	dfi__text_make_plain(message);
	constant = NULL;
	return err;
}

const char *dfi_errmsg(void)
{
	return constant ? constant : message;
}

/* NULL: unknown. */
static const char *meaning(int err)
{
	switch (err) {
	case 0:
		return "success";
#define X(code, text) \
	case -code:   \
		return text;
		DFI_ERRORS(X)
#undef X
	default:
		return NULL;
	}
}

const char *dfi_strerror(int err)
{
	const char *text = meaning(err);

	return text ? text : "unknown error";
}

int dfi__peer_error(int err)
{
	return err < 0 && meaning(err) ? err : -EBADMSG;
}
