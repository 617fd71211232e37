/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing to a socket at once. A bufferevent writes only when its loop runs the
 * next time: to start and end that wait costs three more system calls for each
 * message. So EV_WRITE is disabled, and libevent does not write, until the
 * socket takes no more. Then it is enabled until the output is empty.
 *
 * TLS streams are not written this way: their output is not what is sent over
 * the socket.
 */
#ifndef DFI_REGISTRY_WIRE_STREAM_H
#define DFI_REGISTRY_WIRE_STREAM_H

#include <stdbool.h>

struct bufferevent;

/*
 * Write the output of a stream that libevent does not write, without blocking.
 * Returns whether all of it is written; if not, libevent must write, and finds
 * errors. Any thread, if no other uses the stream's output.
 */
bool dfi__stream_flush(struct bufferevent *stream);

/*
 * Write the reason of a refusal to a socket that has no stream, without
 * blocking. A new socket has room for it.
 */
void dfi__stream_refuse(int fd, int err, const char *why);

#endif
