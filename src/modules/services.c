/* SPDX-License-Identifier: Apache-2.0 */
/* What libdfi.so lends to its modules. */
#include "services.h"

const struct services dfi__services = {
	.fail = dfi__fail,
	.fail_within = dfi__fail_within,
	.errmsg = dfi_errmsg,
	.log = dfi__log,
	.fail_files = dfi__fail_files,
	.file_move_up = dfi__file_move_up,
	.files_take_standard = dfi__files_take_standard,
	.files_free_standard = dfi__files_free_standard,
	.fork_add = dfi__fork_add,
	.fork_remove = dfi__fork_remove,
	.memory_address_room = dfi__memory_address_room,
	.memory_huge_room = dfi__memory_huge_room,
	.memory_lock_room = dfi__memory_lock_room,
	.memory_keep_out = dfi__memory_keep_out,
	.fail_map = dfi__fail_map,
	.reservation_begin = dfi__reservation_begin,
	.reservation_check = dfi__reservation_check,
	.reservation_end = dfi__reservation_end,
	.loop_base = dfi__loop_base,
	.loop_call = dfi__loop_call,
	.loop_call_until = dfi__loop_call_until,
	.loop_post = dfi__loop_post,
	.wait_wake = dfi__wait_wake,
	.mac_make = dfi__mac_make,
	.mac_check = dfi__mac_check,
};
