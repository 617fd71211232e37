/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a module gets from the library: all that has state of the process or of
 * the thread, such as the error text, the log and the control thread. Each
 * member is the function dfi__<member>(), whose contract stands in the header
 * named above it. A module links helpers without such state into itself.
 */
#ifndef DFI_MODULES_SERVICES_H
#define DFI_MODULES_SERVICES_H

#include "base/error.h"
#include "base/files.h"
#include "base/fork_files.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/maps.h"
#include "base/memory.h"
#include "base/reservation.h"
#include "base/wait.h"
#include "security/key_file.h"
#include "security/mac.h"

struct services {
	/* base/error.h */
	__typeof__(dfi__fail) *fail;
	__typeof__(dfi__fail_within) *fail_within;
	__typeof__(dfi_errmsg) *errmsg; /* dfi_errmsg() */

	/* base/log.h */
	__typeof__(dfi__log) *log;
	__typeof__(dfi__log_seldom) *log_seldom;

	/* base/files.h */
	__typeof__(dfi__fail_files) *fail_files;
	__typeof__(dfi__file_move_up) *file_move_up;
	__typeof__(dfi__files_take_standard) *files_take_standard;
	__typeof__(dfi__files_free_standard) *files_free_standard;

	/* base/fork_files.h */
	__typeof__(dfi__fork_add) *fork_add;
	__typeof__(dfi__fork_remove) *fork_remove;
	__typeof__(dfi__fork_close) *fork_close;

	/* base/memory.h, base/maps.h */
	__typeof__(dfi__memory_address_room) *memory_address_room;
	__typeof__(dfi__memory_huge_room) *memory_huge_room;
	__typeof__(dfi__memory_lock_room) *memory_lock_room;
	__typeof__(dfi__memory_keep_out) *memory_keep_out;
	__typeof__(dfi__fail_map) *fail_map;

	/* base/reservation.h */
	__typeof__(dfi__reservation_begin) *reservation_begin;
	__typeof__(dfi__reservation_check) *reservation_check;
	__typeof__(dfi__reservation_end) *reservation_end;

	/* base/loop.h */
	__typeof__(dfi__loop_base) *loop_base;
	__typeof__(dfi__loop_call) *loop_call;
	__typeof__(dfi__loop_post) *loop_post;
	__typeof__(dfi__loop_unpost) *loop_unpost;
	__typeof__(dfi__loop_is_current) *loop_is_current;
	__typeof__(dfi__loop_end) *loop_end;

	/* base/wait.h */
	__typeof__(dfi__wait_wake) *wait_wake;

	/* security/key_file.h */
	__typeof__(dfi__key_file_read) *key_file_read;
	__typeof__(dfi__secret_file_open) *secret_file_open;

	/* security/mac.h: of another module */
	__typeof__(dfi__mac_ready) *mac_ready;
	__typeof__(dfi__mac_make) *mac_make;
	__typeof__(dfi__mac_check) *mac_check;
};

extern const struct services dfi__services;

#endif
