/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inline.sh compiles this once for each size: functions that move tuples of
 * that size with n members.
 */
#ifndef DFI_CHECKS_INLINE_H
#define DFI_CHECKS_INLINE_H

/* Tuples that are variables, whose size the compiler knows. */
#define MOVE(type, size, n)                                                    \
	struct type##size {                                                    \
		type member[n];                                                \
	};                                                                     \
	int push_##type##size(struct dfi_source *source, type value);          \
	int push_##type##size(struct dfi_source *source, type value)           \
	{                                                                      \
		struct type##size tuple = { { value } };                       \
                                                                               \
		tuple.member[(n)-1] = value;                                   \
		return dfi_source_push(source, &tuple);                        \
	}                                                                      \
	int push_to_##type##size(                                              \
	    struct dfi_source *source, uint32_t target, type value);           \
	int push_to_##type##size(                                              \
	    struct dfi_source *source, uint32_t target, type value)            \
	{                                                                      \
		struct type##size tuple = { { value } };                       \
                                                                               \
		return dfi_source_push_to(source, target, &tuple);             \
	}                                                                      \
	int cursor_##type##size(                                               \
	    struct dfi_source *source, uint32_t n_tuples, type value);         \
	int cursor_##type##size(                                               \
	    struct dfi_source *source, uint32_t n_tuples, type value)          \
	{                                                                      \
		struct dfi_source_cursor cursor = dfi_source_cursor_open(      \
		    source, 0, size);                                          \
		struct type##size tuple = { { value } };                       \
                                                                               \
		for (; n_tuples > 0; n_tuples--)                               \
			if (dfi_source_cursor_push(                            \
				&cursor, &tuple, sizeof(tuple)))               \
				break;                                         \
		return dfi_source_cursor_close(cursor);                        \
	}                                                                      \
	int consume_##type##size(                                              \
	    struct dfi_target *target, struct type##size *out);                \
	int consume_##type##size(                                              \
	    struct dfi_target *target, struct type##size *out)                 \
	{                                                                      \
		struct dfi_target_cursor cursor = dfi_target_cursor_open(      \
		    target, size);                                             \
		const void *tuple;                                             \
                                                                               \
		while ((tuple = dfi_target_cursor_get(&cursor, sizeof(*out)))) \
			*out = *(const struct type##size *)tuple;              \
		if (dfi_target_consume(target, &tuple) > 0)                    \
			*out = *(const struct type##size *)tuple;              \
		return dfi_target_cursor_close(cursor);                        \
	}

/* Tuples that are part of a variable, or one of two. */
#define MOVE_PARTS(type, size)                                       \
	int push_parts_##type##size(struct dfi_source *source,       \
	    const struct type##size *other, uint32_t i, type value); \
	int push_parts_##type##size(struct dfi_source *source,       \
	    const struct type##size *other, uint32_t i, type value)  \
	{                                                            \
		struct type##size tuples[2] = { { { value } },       \
			{ { value } } };                             \
		struct {                                             \
			struct type##size tuple;                     \
			char more;                                   \
		} longer = { { { value } }, 1 };                     \
		const void *one = i ? (const void *)&tuples[1]       \
				    : (const void *)&longer;         \
                                                                     \
		return dfi_source_push(source, one) |                \
		    dfi_source_push(source, &tuples[i]) |            \
		    dfi_source_push(source, &tuples[1]) |            \
		    dfi_source_push(source, &longer.tuple) |         \
		    dfi_source_push(source, other);                  \
	}

#endif
