/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests over HTTP on a context's control thread, by libcurl: POST, with an
 * answer that comes whole or, of a stream, line by line. All calls are made on
 * the loop's thread, also from the functions of a request.
 */
#ifndef DFI_REGISTRY_ETCD_HTTP_H
#define DFI_REGISTRY_ETCD_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct curl_slist;
struct evbuffer;
struct http;
struct loop;

/* Names of PEM files, or NULL: the system's CAs, no certificate. */
struct http_files {
	const char *ca;
	const char *cert;
	const char *private_key;
};

enum http_outcome {
	HTTP_ANSWERED, /* status and body */
	HTTP_NOT_SENT, /* err and text: nobody has got the request */
	HTTP_UNKNOWN,  /* err and text: somebody may have got it */
};

struct http_answer {
	enum http_outcome outcome;
	int err; /* a negative errno value */
	const char *text;
	long status;
	const char *body;
	size_t size;
};

/* The caller owns it, and keeps it until done() or dfi__http_cancel(). */
struct http_request {
	void (*done)(void *arg, const struct http_answer *answer);
	/* Not NULL: a stream. Each line is lent. */
	void (*line)(void *arg, const char *line, size_t size);
	void *arg;

	/* of http.c */
	TAILQ_ENTRY(http_request) link;
	struct http *http;
	void *easy; /* NULL: not running */
	struct curl_slist *headers;
	struct evbuffer *in;
	char *error;
	bool sent;
	bool too_large;
};

/* -ENOMEM, -EIO. The files are named as long as it lives. */
int dfi__http_new(
    struct loop *loop, const struct http_files *files, struct http **http);
/* No request is running. */
void dfi__http_free(struct http *http);

/*
 * Send a POST of body, which is lent for the request's time. token may be NULL.
 * limit_ms 0: for ever. -ENOMEM: done() is not called.
 */
int dfi__http_start(struct http *http, struct http_request *request,
    const char *url, const char *token, const char *body, uint32_t limit_ms);

static inline bool http_is_running(const struct http_request *request)
{
	return request->easy != NULL;
}

/* done() is not called any more. No effect if it is not running. */
void dfi__http_cancel(struct http_request *request);

#endif
