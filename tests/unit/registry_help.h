/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the registry's tests: a registry with a client, peers that speak
 * the protocol by hand (and so can misbehave), and recorders of events and log
 * lines. Each wait fails the test after 20 s.
 */
#ifndef DFI_TESTS_REGISTRY_HELP_H
#define DFI_TESTS_REGISTRY_HELP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <dfi/registry.h>

#include "base/clock.h"
#include "base/loop.h"
#include "registry/client/client.h"
#include "security/security.h"
#include "registry/wire/wire.h"
#include "tests/unit/stop_loop.h"

/* A deadline that only a hanging test reaches. */
int64_t soon(void);

/* "unix:PATH" in a new directory, which is removed at exit; once per test. */
const char *fresh_address(const char *name);

/*
 * The settings of a client without keys or certificates, for TCP of start_at().
 */
extern const struct registry_security insecure;

/*
 * Start at an address, or at one of its own choice; insecure at a TCP address.
 */
struct dfi_registry *start_at(const char *listen);

struct loop *start_loop(void);
struct registry_client *open_client(
    struct loop *loop, const struct dfi_registry *registry);
/* One without security, whose lease ends with the connection, or the grace. */
struct registry_client *open_client_at(struct loop *loop, const char *address);

int put_text(
    struct registry_client *client, const char *key, const char *value);
/* Create a key that must not exist yet. */
void create_text(struct registry_client *client, const char *key,
    const char *value, unsigned flags);
/* Check a value; returns its revision. */
uint64_t expect_text(
    struct registry_client *client, const char *key, const char *expected);
size_t count_keys(struct registry_client *client, const char *prefix);

/* Records a watch's events: "+key=value " "-key " "LOST " "CUT " "BACK ". */
struct ear {
	pthread_mutex_t lock;
	pthread_cond_t heard;
	char log[8192];
	size_t used;
};

void ear_init(struct ear *ear);
void ear_hear(void *ear, const struct registry_event *event);
/* Wait until the record is exactly this. */
void ear_expect(struct ear *ear, const char *log);

/*
 * Record what two clients hear of the registry: one of no keys, the other of
 * those below "p/". Returns the other's watch.
 */
struct registry_watch *ears_watch(struct registry_client *owner,
    struct ear *owner_ear, struct registry_client *watcher, struct ear *ear);

/* Collect log lines from now on; wait for a line that has this text. */
void lines_collect(void);
void lines_wait(const char *part);
unsigned lines_count(const char *part);

struct raw {
	int fd;
	struct evbuffer *in;
	uint64_t last_id;
};

void raw_connect(struct raw *raw, const char *address);
/* Connect through an existing socket. */
void raw_connect_with(struct raw *raw, int fd, const char *address);
void raw_close(struct raw *raw);
void raw_send_bytes(struct raw *raw, const void *bytes, size_t size);
/* Sets the request's number. */
void raw_send(struct raw *raw, Dfi__Registry__Request *request);
void raw_send_reply(struct raw *raw, Dfi__Registry__Reply *reply);
/* An event: a PUT of an empty value. */
void raw_send_event(struct raw *raw, uint64_t watch, const char *key);
/* NULL: the other side has closed. */
Dfi__Registry__Message *raw_read(struct raw *raw);
/* Send, and return the error of the reply. */
int raw_ask(struct raw *raw, Dfi__Registry__Request *request);
int raw_handshake(struct raw *raw, uint32_t version);
/* Send the handshake of this client, for its connection of this number. */
int raw_join(struct raw *raw, uint64_t client, uint64_t connection);
int raw_grant(struct raw *raw, uint32_t ttl_ms);
/*
 * A key bound to the lease: created, or with reclaim reclaimed.
 * raw_put_leased() sets it in any case.
 */
void raw_send_put(struct raw *raw, const char *key, bool reclaim);
int raw_put_leased(struct raw *raw, const char *key);
int raw_reclaim(struct raw *raw, const char *key);
void raw_expect_refusal(struct raw *raw, int err);

/* A scripted registry with one client. */
struct fake {
	char address[64];
	int fd;
	pthread_t thread;
	void (*script)(struct raw *raw, void *arg);
	void *arg;
};

void fake_start(
    struct fake *fake, void (*script)(struct raw *raw, void *arg), void *arg);
void fake_stop(struct fake *fake);
/* Read the next request, or answer a request with success. */
Dfi__Registry__Message *fake_receive(struct raw *raw);
void fake_agree(struct raw *raw, const Dfi__Registry__Message *message);

#endif
