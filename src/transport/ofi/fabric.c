/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which provider of libfabric the transport uses, and at which address of this
 * host. libfabric opens descriptors in its calls, and tells no number of most.
 */
#include "fabric.h"
#include "conn.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/files.h"
#include "base/fork_files.h"
#include "base/log.h"

/*
 * What an end of a connection has under way: at most half are the segments of
 * its writer, and the others are credits and messages.
 */
#define SENDS 1024

struct ofi_location dfi__ofi_location(const struct ofi *ofi)
{
	struct ofi_location location;

	snprintf(location.text, sizeof(location.text), "provider %.32s at %s",
	    ofi->settings->ofi_provider, ofi->host);
	return location;
}

int dfi__ofi_fail(const struct ofi *ofi, const char *what, int err)
{
	err = err < 0 ? -err : err;
	if (err == EMFILE || err == ENFILE)
		return dfi__fail_files(err, OFI_FILES, what, "ofi: %s",
		    dfi__ofi_location(ofi).text);
	return dfi__fail(err == FI_ENOMEM ? -ENOMEM : -EIO, "ofi: %s: %s: %s",
	    dfi__ofi_location(ofi).text, what, fi_strerror(err));
}

struct apart {
	int (*fn)(void *arg);
	void *arg;
	int ret;
	char why[ERROR_TEXT_SIZE];
};

static void *run_apart(void *arg)
{
	struct apart *apart = arg;

	apart->ret = apart->fn(apart->arg);
	if (apart->ret < 0)
		snprintf(apart->why, sizeof(apart->why), "%s", dfi_errmsg());
	return NULL;
}

int dfi__ofi_apart(int (*fn)(void *arg), void *arg)
{
	struct apart apart = { .fn = fn, .arg = arg };
	sigset_t all, before;
	pthread_t thread;
	int err;

	/* Signals are for the application's threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, NULL, run_apart, &apart);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		return dfi__fail(err == EAGAIN ? -ENOMEM : -EIO,
		    "ofi: a thread: %s: raise the limit of threads "
		    "(ulimit -u), or of memory",
		    strerror(err));
	pthread_join(thread, NULL);
	return apart.ret < 0 ? dfi__fail(apart.ret, "%s", apart.why)
			     : apart.ret;
}

/* The address of this host on the route to a peer; false: none is known. */
static bool find_route(const char *route_to, union ip *address)
{
	static const char tcp[] = "tcp:";
	union ip to;

	return route_to && strncmp(route_to, tcp, strlen(tcp)) == 0 &&
	    dfi__ip_parse(route_to + strlen(tcp), &to) &&
	    dfi__ip_route(&to, address);
}

void dfi__ofi_choose_address(struct ofi *ofi, const char *route_to)
{
	union ip *address = &ofi->address;

	if (ofi->settings->ofi_address)
		dfi__ip_parse_host(ofi->settings->ofi_address, address);
	else if (!find_route(route_to, address))
		dfi__ip_parse_host("127.0.0.1", address);
	dfi__ip_set_port(address, 0);
	dfi__ip_host_text(address, ofi->host);
}

static struct fi_info *new_hints(const struct settings *settings)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		return NULL;
	hints->caps = FI_MSG | FI_RMA;
	hints->addr_format = FI_SOCKADDR;
	hints->ep_attr->type = FI_EP_MSG;
	hints->tx_attr->size = SENDS;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->domain_attr->cq_data_size = 8;
	hints->fabric_attr->prov_name = strdup(settings->ofi_provider);
	if (hints->fabric_attr->prov_name)
		return hints;
	fi_freeinfo(hints);
	return NULL;
}

/* What the provider offers at an address, or to a peer. A FI_ error. */
static int get_info(const struct settings *settings, const union ip *ip,
    uint64_t flags, struct fi_info **info)
{
	struct fi_info *hints = new_hints(settings);
	char host[IP_TEXT_SIZE], port[8];
	int ret;

	if (!hints)
		return -FI_ENOMEM;
	dfi__ip_host_text(ip, host);
	snprintf(port, sizeof(port), "%u", dfi__ip_port(ip));
	ret = fi_getinfo(
	    OFI_API, host, port, flags | FI_NUMERICHOST, hints, info);
	fi_freeinfo(hints);
	return ret;
}

int dfi__ofi_info(
    const struct ofi *ofi, const union ip *peer, struct fi_info **info)
{
	char host[IP_TEXT_SIZE];
	int ret = get_info(ofi->settings, peer, 0, info);

	if (ret == -FI_ENOMEM)
		return dfi__ofi_fail(ofi, "fi_getinfo", ret);
	if (ret) {
		dfi__ip_host_text(peer, host);
		return dfi__fail(-EHOSTUNREACH, "ofi: %s: no way to %s: %s",
		    dfi__ofi_location(ofi).text, host, fi_strerror(-ret));
	}
	/* The route says from which address. */
	free((*info)->src_addr);
	(*info)->src_addr = NULL;
	(*info)->src_addrlen = 0;
	return 0;
}

static int fail_provider(const struct ofi *ofi, int err)
{
	if (err != -FI_ENODATA && err != -FI_ENOSYS)
		return dfi__ofi_fail(ofi, "fi_getinfo", err);
	return dfi__fail(-ENODEV,
	    "ofi: libfabric's provider '%s' offers no connected endpoints with "
	    "remote writes (FI_EP_MSG, FI_RMA, memory that needs no "
	    "registration by the sender) at %s: set DFI_OFI_PROVIDER=tcp, and "
	    "see fi_info -p %s",
	    ofi->settings->ofi_provider, ofi->host,
	    ofi->settings->ofi_provider);
}

static int listen_at(struct ofi *ofi)
{
	size_t size = sizeof(ofi->address);
	int ret = fi_passive_ep(ofi->fabric, ofi->info, &ofi->listener, NULL);

	if (ret)
		return dfi__ofi_fail(ofi, "an endpoint to listen at", ret);
	ret = fi_pep_bind(ofi->listener, &ofi->eq->fid, 0);
	if (!ret)
		ret = fi_listen(ofi->listener);
	if (!ret)
		ret = fi_getname(&ofi->listener->fid, &ofi->address, &size);
	if (ret)
		return dfi__ofi_fail(ofi, "fi_listen", ret);
	dfi__ip_text(&ofi->address, ofi->base.address);
	return 0;
}

static int open_completions(struct ofi *ofi, enum fi_wait_obj object)
{
	struct fi_cq_attr attr = {
		.format = FI_CQ_FORMAT_DATA,
		.wait_obj = object,
	};

	return fi_cq_open(ofi->domain, &attr, &ofi->cq, NULL);
}

static int open_queues(struct ofi *ofi)
{
	struct fi_eq_attr events = { .wait_obj = FI_WAIT_FD };
	int ret = fi_eq_open(ofi->fabric, &events, &ofi->eq, NULL);

	if (ret)
		return dfi__ofi_fail(ofi, "fi_eq_open", ret);
	ret = open_completions(ofi, FI_WAIT_POLLFD);
	/* Not all providers have it. */
	if (ret)
		ret = open_completions(ofi, FI_WAIT_FD);
	if (ret)
		return dfi__ofi_fail(ofi, "fi_cq_open", ret);
	ret = dfi__ofi_descriptors_open(ofi);
	return ret ? dfi__ofi_fail(ofi, "wait descriptors", ret) : 0;
}

/* Peers write credits, of which all is in the completion data. */
static int register_credits(struct ofi *ofi)
{
	static char nothing[8];
	uint64_t key;
	int ret;

	if (getentropy(&key, sizeof(key)))
		return dfi__fail(-EIO, "getentropy: %s", strerror(errno));
	ret = fi_mr_reg(ofi->domain, nothing, sizeof(nothing), FI_REMOTE_WRITE,
	    0, key, 0, &ofi->credits, NULL);
	return ret ? dfi__ofi_fail(ofi, "fi_mr_reg", ret) : 0;
}

int dfi__ofi_find(void *arg)
{
	struct ofi *ofi = arg;
	int ret = get_info(ofi->settings, &ofi->address, FI_SOURCE, &ofi->info);

	return ret ? fail_provider(ofi, ret) : 0;
}

static int open_all(void *arg)
{
	struct ofi *ofi = arg;
	int ret = dfi__ofi_find(ofi);

	if (ret)
		return ret;
	ret = fi_fabric(ofi->info->fabric_attr, &ofi->fabric, NULL);
	if (ret)
		return dfi__ofi_fail(ofi, "fi_fabric", ret);
	ret = fi_domain(ofi->fabric, ofi->info, &ofi->domain, NULL);
	if (ret)
		return dfi__ofi_fail(ofi, "fi_domain", ret);
	ret = open_queues(ofi);
	if (!ret)
		ret = register_credits(ofi);
	return ret ? ret : listen_at(ofi);
}

bool dfi__ofi_is_loopback(const union ip *ip)
{
	const uint8_t *v4 = (const uint8_t *)&ip->in.sin_addr;
	union ip loopback;

	dfi__ip_parse_host("::1", &loopback);
	return ip->any.sa_family == AF_INET ? v4[0] == 127
					    : dfi__ip_same_host(ip, &loopback);
}

/* Once for a process: its contexts do the same. */
void dfi__ofi_warn(const struct ofi *ofi)
{
	static _Atomic bool warned;

	if (dfi__ofi_is_loopback(&ofi->address) ||
	    atomic_exchange(&warned, true))
		return;
	dfi__log(DFI_LOG_WARN,
	    "ofi: %s: tuples travel as plain text: who is on the path to other "
	    "hosts can read and change them",
	    dfi__ofi_location(ofi).text);
	if (strcmp(ofi->settings->ofi_provider, "tcp") != 0)
		dfi__log(DFI_LOG_WARN,
		    "ofi: only provider tcp of libfabric is tested with this "
		    "library, and DFI_OFI_PROVIDER is %s",
		    ofi->settings->ofi_provider);
}

int dfi__ofi_open(struct ofi *ofi, const char *route_to)
{
	int ret;

	dfi__ofi_choose_address(ofi, route_to);
	dfi__files_take_standard();
	ret = dfi__ofi_apart(open_all, ofi);
	dfi__files_free_standard();
	if (ret < 0) {
		dfi__ofi_close(ofi);
		return ret;
	}
	ofi->max_sends = (uint32_t)(ofi->info->tx_attr->size < SENDS
				 ? ofi->info->tx_attr->size
				 : SENDS) /
	    2;
	ofi->inject_size = ofi->info->tx_attr->inject_size;
	ofi->listener_fd = dfi__ofi_own_socket(&ofi->address, NULL);
	return 0;
}

static bool is_named(int fd, const union ip *ip,
    int (*name)(int fd, struct sockaddr *address, socklen_t *size))
{
	struct sockaddr_storage storage;
	socklen_t size = sizeof(storage);
	union ip found;

	return name(fd, (struct sockaddr *)&storage, &size) == 0 &&
	    dfi__ip_copy((struct sockaddr *)&storage, &found) &&
	    dfi__ip_same_host(&found, ip) &&
	    dfi__ip_port(&found) == dfi__ip_port(ip);
}

static bool is_listening(int fd)
{
	socklen_t size = sizeof(int);
	int listening = 0;

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) ==
	    0 &&
	    listening;
}

/* One that was accepted at an address. */
static bool is_accepted(int fd, const union ip *local, const union ip *peer)
{
	(void)peer;
	return is_named(fd, local, getsockname) && !is_listening(fd);
}

static bool is_socket(int fd, const union ip *local, const union ip *peer)
{
	return is_named(fd, local, getsockname) &&
	    (peer ? is_named(fd, peer, getpeername) : is_listening(fd));
}

static int find_socket(
    bool (*is_it)(int fd, const union ip *local, const union ip *peer),
    const union ip *local, const union ip *peer)
{
	int folder = file_up(
	    open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	DIR *files = folder < 0 ? NULL : fdopendir(folder);
	const struct dirent *file;
	int fd, found = -1;

	while (files && found < 0 && (file = readdir(files))) {
		fd = atoi(file->d_name);
		if (fd > 2 && is_it(fd, local, peer))
			found = fd;
	}
	if (files)
		closedir(files);
	else if (folder >= 0)
		close(folder);
	return found;
}

/*
 * Refuse connections that were asked for and not handled, and close those whose
 * request has not come: libfabric 1.17 keeps both when the listener closes.
 */
static void refuse_waiting(struct ofi *ofi)
{
	union {
		struct fi_eq_cm_entry entry;
		uint8_t bytes[sizeof(struct fi_eq_cm_entry) + 512];
	} event;
	uint32_t type;
	int fd;

	while (fi_eq_read(ofi->eq, &type, &event, sizeof(event), 0) > 0)
		if (type == FI_CONNREQ) {
			(void)fi_reject(
			    ofi->listener, event.entry.info->handle, NULL, 0);
			fi_freeinfo(event.entry.info);
		}
	while ((fd = find_socket(is_accepted, &ofi->address, NULL)) >= 0)
		close(fd);
}

int dfi__ofi_own_socket(const union ip *local, const union ip *peer)
{
	int found = find_socket(is_socket, local, peer);

	if (found < 0)
		return -1;
	(void)fcntl(found, F_SETFD, FD_CLOEXEC);
	return dfi__fork_add(found) < 0 ? -1 : found;
}

static void close_fid(struct fid *fid)
{
	(void)fi_close(fid);
}

void dfi__ofi_close(struct ofi *ofi)
{
	if (ofi->listener_fd >= 0)
		dfi__fork_remove(ofi->listener_fd);
	if (ofi->base.address[0])
		refuse_waiting(ofi);
	if (ofi->listener)
		close_fid(&ofi->listener->fid);
	if (ofi->credits)
		close_fid(&ofi->credits->fid);
	dfi__ofi_descriptors_close(ofi);
	if (ofi->cq)
		close_fid(&ofi->cq->fid);
	if (ofi->domain)
		close_fid(&ofi->domain->fid);
	if (ofi->eq)
		close_fid(&ofi->eq->fid);
	if (ofi->fabric)
		close_fid(&ofi->fabric->fid);
	if (ofi->info)
		fi_freeinfo(ofi->info);
}
