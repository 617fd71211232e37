/* SPDX-License-Identifier: Apache-2.0 */
/* Error messages of programs; see complain.h. */
#include "complain.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_TEXT 4096

/*
 * Returns the bytes of the printable UTF-8 character at text; 0 if there is
 * none. C1 controls, U+0080 to U+009F, act on terminals like the C0 ones.
 * Overlong forms and surrogates are no characters.
 */
static size_t printable(const unsigned char *text)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n, i;
	uint32_t code;

	if (text[0] < 0x80)
		return text[0] >= ' ' && text[0] != 0x7f;
	n = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
	code = text[0] & (0x7fU >> n);
	if (text[0] < 0xc2 || text[0] > 0xf4)
		return 0;
	for (i = 1; i < n; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (text[i] & 0x3f);
	}
	return code >= least[n] && code >= 0xa0 && code <= 0x10ffff &&
		(code < 0xd800 || code > 0xdfff)
	    ? n
	    : 0;
}

/*
 * Escape the beginning of text: a character, or one byte, in at most 4 bytes.
 */
static size_t escape_one(char piece[5], const char *text, size_t *taken)
{
	static const char letters[] = "\a\b\t\n\v\f\r", names[] = "abtnvfr";
	const unsigned char *bytes = (const unsigned char *)text;
	const char *letter = strchr(letters, text[0]);

	*taken = printable(bytes);
	if (*taken) {
		memcpy(piece, text, *taken);
		return *taken;
	}
	*taken = 1;
	if (letter)
		return (size_t)snprintf(
		    piece, 5, "\\%c", names[letter - letters]);
	return (size_t)snprintf(piece, 5, "\\x%02x", bytes[0]);
}

char *escape_text(char *to, size_t size, const char *text)
{
	size_t used = 0, cut = 0, n, taken;
	char piece[5];

	for (; *text; text += taken) {
		n = escape_one(piece, text, &taken);
		if (used + n + 1 > size) {
			memcpy(to + cut, "...", 4);
			return to;
		}
		memcpy(to + used, piece, n);
		used += n;
		if (used + 4 <= size)
			cut = used; /* the dots fit after it */
	}
	to[used] = '\0';
	return to;
}

int write_all(int fd, const void *data, size_t size)
{
	struct pollfd room = { .fd = fd, .events = POLLOUT };
	const char *at = data;
	ssize_t n;

	while (size > 0) {
		n = write(fd, at, size);
		if (n >= 0) {
			at += n;
			size -= (size_t)n;
		} else if (errno == EAGAIN || errno == EWOULDBLOCK) {
			if (poll(&room, 1, -1) < 0 && errno != EINTR)
				return -1;
		} else if (errno != EINTR) {
			return -1;
		}
	}
	return 0;
}

int complain(const char *format, ...)
{
	char text[MAX_TEXT], line[MAX_TEXT + 256];
	size_t used;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n < 0)
		snprintf(text, sizeof(text), "%s", format);
	else if ((size_t)n >= sizeof(text))
		memcpy(text + sizeof(text) - 4, "...", 4);
	snprintf(line, 128, "%s: ", program_invocation_short_name);
	used = strlen(line);
	escape_text(line + used, sizeof(line) - used - 1, text);
	used += strlen(line + used);
	line[used++] = '\n';
	(void)write_all(STDERR_FILENO, line, used);
	return -1;
}
