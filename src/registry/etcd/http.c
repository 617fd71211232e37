/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl's multi interface, driven by libevent. Its callbacks only note what
 * has come; answers and lines are handed out behind them, where requests may be
 * started and cancelled.
 */
#include "http.h"

#include <curl/curl.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "base/fork_files.h"
#include "base/loop.h"

#define CONNECT_MS 1500L
#define ANSWER_MAX (256u << 20) /* bytes of an answer, or of a line */

TAILQ_HEAD(request_list, http_request);

struct http {
	struct event_base *events;
	const struct http_files *files;
	CURLM *multi;
	struct event *timer;
	struct request_list running;
	struct http_request *next; /* where a walk goes on, or NULL */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode started;

static void start_curl(void)
{
	started = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static size_t on_bytes(char *data, size_t one, size_t size, void *arg)
{
	struct http_request *request = arg;

	(void)one;
	request->too_large = evbuffer_get_length(request->in) + size >
	    ANSWER_MAX;
	if (request->too_large || evbuffer_add(request->in, data, size))
		return 0;
	return size;
}

/*
 * libcurl sends a request again if a connection that it had kept is closed. But
 * the first one may have arrived, so it ends here.
 */
static int on_send(void *arg, char *to, char *from, int to_port, int from_port)
{
	struct http_request *request = arg;

	(void)to;
	(void)from;
	(void)to_port;
	(void)from_port;
	if (request->sent)
		return CURL_PREREQFUNC_ABORT;
	request->sent = true;
	return CURL_PREREQFUNC_OK;
}

static curl_socket_t on_socket(
    void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	int fd = file_up(socket(address->family,
	    address->socktype | SOCK_CLOEXEC, address->protocol));

	(void)arg;
	(void)purpose;
	if (fd >= 0 && dfi__fork_add(fd)) {
		close(fd);
		fd = -1;
	}
	return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static int on_close(void *arg, curl_socket_t fd)
{
	(void)arg;
	dfi__fork_close(fd);
	return 0;
}

static int error_of(CURLcode code)
{
	switch (code) {
	case CURLE_COULDNT_CONNECT:
		return -ECONNREFUSED;
	case CURLE_COULDNT_RESOLVE_HOST:
		return -EHOSTUNREACH;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CERTPROBLEM:
		return -EACCES;
	case CURLE_SSL_CACERT_BADFILE:
		return -EINVAL;
	case CURLE_SSL_CONNECT_ERROR:
		return -EPROTO;
	case CURLE_OPERATION_TIMEDOUT:
		return -ETIMEDOUT;
	case CURLE_OUT_OF_MEMORY:
		return -ENOMEM;
	default:
		return -ENOTCONN;
	}
}

static void release(struct http_request *request)
{
	struct http *http = request->http;

	if (http->next == request)
		http->next = TAILQ_NEXT(request, link);
	TAILQ_REMOVE(&http->running, request, link);
	curl_multi_remove_handle(http->multi, request->easy);
	curl_easy_cleanup(request->easy);
	curl_slist_free_all(request->headers);
	request->easy = NULL;
	request->headers = NULL;
}

static void drop(struct http_request *request)
{
	evbuffer_free(request->in);
	free(request->error);
	request->in = NULL;
	request->error = NULL;
}

void dfi__http_cancel(struct http_request *request)
{
	if (!request->easy)
		return;
	release(request);
	drop(request);
}

static void finish(struct http_request *request, CURLcode code)
{
	struct http_answer answer = { .outcome = HTTP_ANSWERED };
	struct http_request ended;

	if (code) {
		answer.outcome = request->sent ? HTTP_UNKNOWN : HTTP_NOT_SENT;
		answer.err = request->too_large ? -EMSGSIZE : error_of(code);
		answer.text = *request->error ? request->error
					      : curl_easy_strerror(code);
	}
	curl_easy_getinfo(
	    request->easy, CURLINFO_RESPONSE_CODE, &answer.status);
	release(request);
	/* done() may start it again. */
	ended = *request;
	request->in = NULL;
	request->error = NULL;
	answer.size = evbuffer_get_length(ended.in);
	answer.body = answer.size ? (const char *)evbuffer_pullup(ended.in, -1)
				  : "";
	ended.done(ended.arg, &answer);
	drop(&ended);
}

/* Hand out the lines that have come. A line may end any request. */
static void read_lines(struct http *http)
{
	struct http_request *request;
	size_t size;
	char *line;

	http->next = TAILQ_FIRST(&http->running);
	while ((request = http->next)) {
		line = request->line
		    ? evbuffer_readln(request->in, &size, EVBUFFER_EOL_LF)
		    : NULL;
		if (!line) {
			http->next = TAILQ_NEXT(request, link);
			continue;
		}
		request->line(request->arg, line, size);
		free(line);
	}
}

static void read_ends(struct http *http)
{
	struct http_request *request;
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(http->multi, &left))) {
		if (message->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(
		    message->easy_handle, CURLINFO_PRIVATE, &request);
		finish(request, message->data.result);
	}
}

static void act(struct http *http, curl_socket_t fd, int what)
{
	int running;

	curl_multi_socket_action(http->multi, fd, what, &running);
	read_lines(http);
	read_ends(http);
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	act(arg, fd,
	    (what & EV_READ ? CURL_CSELECT_IN : 0) |
		(what & EV_WRITE ? CURL_CSELECT_OUT : 0));
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	act(arg, CURL_SOCKET_TIMEOUT, 0);
}

static int on_interest(
    CURL *easy, curl_socket_t fd, int what, void *arg, void *of_fd)
{
	struct http *http = arg;
	struct event *event = of_fd;
	short flags = EV_PERSIST;

	(void)easy;
	if (event)
		event_free(event);
	curl_multi_assign(http->multi, fd, NULL);
	if (what == CURL_POLL_REMOVE)
		return 0;
	if (what & CURL_POLL_IN)
		flags |= EV_READ;
	if (what & CURL_POLL_OUT)
		flags |= EV_WRITE;
	event = event_new(http->events, fd, flags, on_ready, http);
	if (!event || event_add(event, NULL)) {
		if (event)
			event_free(event);
		return -1;
	}
	curl_multi_assign(http->multi, fd, event);
	return 0;
}

static int on_timeout(CURLM *multi, long ms, void *arg)
{
	struct http *http = arg;
	struct timeval wait = { .tv_sec = ms / 1000,
		.tv_usec = ms % 1000 * 1000 };

	(void)multi;
	if (ms < 0)
		return event_del(http->timer);
	return event_add(http->timer, &wait);
}

int dfi__http_new(
    struct loop *loop, const struct http_files *files, struct http **out)
{
	struct http *http;

	pthread_once(&once, start_curl);
	if (started)
		return dfi__fail(
		    -EIO, "libcurl: %s", curl_easy_strerror(started));
	http = calloc(1, sizeof(*http));
	if (!http)
		return dfi__fail(-ENOMEM, "no memory for a client of etcd");
	TAILQ_INIT(&http->running);
	http->events = dfi__loop_base(loop);
	http->files = files;
	http->timer = event_new(http->events, -1, 0, on_timer, http);
	http->multi = curl_multi_init();
	if (!http->timer || !http->multi) {
		dfi__http_free(http);
		return dfi__fail(-ENOMEM, "no memory for a client of etcd");
	}
	curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, on_interest);
	curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
	curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, on_timeout);
	curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
	*out = http;
	return 0;
}

void dfi__http_free(struct http *http)
{
	if (http->multi)
		curl_multi_cleanup(http->multi);
	if (http->timer)
		event_free(http->timer);
	free(http);
}

/* Nothing in the environment changes where a request goes. */
static void set_options(struct http_request *request, const char *url,
    const char *body, uint32_t limit_ms)
{
	const struct http_files *files = request->http->files;
	CURL *easy = request->easy;

	curl_easy_setopt(easy, CURLOPT_PRIVATE, request);
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(
	    easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, request->headers);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, request->error);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)limit_ms);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 10L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 5L);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, request);
	curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_send);
	curl_easy_setopt(easy, CURLOPT_PREREQDATA, request);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_socket);
	curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
	curl_easy_setopt(
	    easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (files->ca) {
		curl_easy_setopt(easy, CURLOPT_CAINFO, files->ca);
		curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	}
	if (files->cert)
		curl_easy_setopt(easy, CURLOPT_SSLCERT, files->cert);
	if (files->private_key)
		curl_easy_setopt(easy, CURLOPT_SSLKEY, files->private_key);
}

/* false: no memory. */
static bool add_header(struct http_request *request, const char *header)
{
	struct curl_slist *longer = curl_slist_append(request->headers, header);

	if (longer)
		request->headers = longer;
	return longer != NULL;
}

/*
 * A member that has lost its leader ends the stream. No "Expect: 100-continue",
 * which costs a round trip.
 */
static bool add_headers(struct http_request *request, const char *token)
{
	char *text;
	bool added;

	if (!add_header(request, "Content-Type: application/json") ||
	    !add_header(request, "Expect:"))
		return false;
	if (request->line &&
	    !add_header(request, "Grpc-Metadata-hasleader: true"))
		return false;
	if (!token)
		return true;
	if (asprintf(&text, "Authorization: %s", token) < 0)
		return false;
	added = add_header(request, text);
	free(text);
	return added;
}

int dfi__http_start(struct http *http, struct http_request *request,
    const char *url, const char *token, const char *body, uint32_t limit_ms)
{
	request->http = http;
	request->headers = NULL;
	request->sent = request->too_large = false;
	request->easy = curl_easy_init();
	request->in = evbuffer_new();
	request->error = calloc(1, CURL_ERROR_SIZE);
	if (request->easy && request->in && request->error &&
	    add_headers(request, token)) {
		set_options(request, url, body, limit_ms);
		TAILQ_INSERT_TAIL(&http->running, request, link);
		if (!curl_multi_add_handle(http->multi, request->easy))
			return 0;
		TAILQ_REMOVE(&http->running, request, link);
	}
	curl_slist_free_all(request->headers);
	curl_easy_cleanup(request->easy);
	if (request->in)
		evbuffer_free(request->in);
	free(request->error);
	request->easy = NULL;
	request->in = NULL;
	request->error = NULL;
	return dfi__fail(-ENOMEM, "no memory for a request to etcd");
}
