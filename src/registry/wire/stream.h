/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing to a socket at once. By itself a bufferevent writes when its loop
 * comes round the next time: to wait for that, and to stop waiting, are three
 * system calls more for each message. So libevent is kept from writing
 * (EV_WRITE is disabled) until the socket takes no more: then it is enabled,
 * and disabled again when the output is empty.
 *
 * Not for TLS, whose streams are not what goes over the socket.
 */
#ifndef DFI_REGISTRY_WIRE_STREAM_H
#define DFI_REGISTRY_WIRE_STREAM_H

#include <stdbool.h>

struct bufferevent;

/*
 * Write the output of a stream that libevent does not write, without blocking:
 * whether all of it is written. Else libevent must, also to find out about an
 * error. Any thread, if no other is at the stream's output.
 */
bool dfi__stream_flush(struct bufferevent *stream);

/*
 * Write to a socket that has no stream why it is refused, without blocking. A
 * fresh socket has room for it.
 */
void dfi__stream_refuse(int fd, int err, const char *why);

#endif
