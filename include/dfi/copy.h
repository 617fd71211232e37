/* SPDX-License-Identifier: Apache-2.0 */
/* How inline functions copy a tuple into a ring. Not for direct use. */
#ifndef DFI_COPY_H
#define DFI_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <dfi/export.h>

DFI_BEGIN_DECLS

/*
 * Make the line at an address, which need not be valid, this core's own. The
 * reader's core has the lines of a ring that a source is about to fill; a store
 * to one keeps its place in the store buffer until the line comes, a prefetch
 * does not. On x86 the builtin fetches a copy only, unless the compiler may use
 * PREFETCHW. All x86-64 processors of AMD have that, those of Intel since
 * Broadwell; older ones execute it as a no-op (Intel SDM vol. 2, PREFETCHW).
 */
#define DFI_PREFETCH_DISTANCE 2048

DFI_INLINE_PART void dfi_prefetch_write(const void *address)
{
#if defined(__x86_64__)
	__asm__("prefetchw %0" : : "m"(*DFI_CAST(const char *, address)));
#else
	__builtin_prefetch(address, 1);
#endif
}

/*
 * Copy size bytes, a constant multiple of 8 up to 64, by words. So a tuple that
 * was just built member by member goes from registers into the ring; a vector
 * load would wait for the stores. The stores have the type of words, not of
 * bytes, so the compiler knows that they do not change the lane. No loop: the
 * compiler would unroll it too late to see that the tuple needs no memory.
 */
DFI_INLINE_PART void dfi_copy_16(void *to, const void *from)
{
	uint64_t first, second;

	memcpy(&first, from, 8);
	memcpy(&second, DFI_CAST(const char *, from) + 8, 8);
	/* Nothing; but it keeps the two from becoming one vector load. */
	__asm__("" : "+r"(first), "+r"(second));
	DFI_CAST(uint64_t *, to)[0] = first;
	DFI_CAST(uint64_t *, to)[1] = second;
}

DFI_INLINE_PART void dfi_copy_words(void *to, const void *from, size_t size)
{
	const char *in = DFI_CAST(const char *, from);
	char *out = DFI_CAST(char *, to);
	uint64_t word;

	dfi_prefetch_write(out + DFI_PREFETCH_DISTANCE);
	if (size & 64) {
		dfi_copy_16(out, in);
		dfi_copy_16(out + 16, in + 16);
		dfi_copy_16(out + 32, in + 32);
		dfi_copy_16(out + 48, in + 48);
	}
	if (size & 32) {
		dfi_copy_16(out, in);
		dfi_copy_16(out + 16, in + 16);
	}
	if (size & 16)
		dfi_copy_16(out + (size & 32), in + (size & 32));
	if (size & 8) {
		memcpy(&word, in + (size & 48), 8);
		*DFI_CAST(
		    uint64_t *, DFI_CAST(void *, out + (size & 48))) = word;
	}
}

/*
 * Copy a larger tuple by 16 bytes. Wider loads would wait until smaller stores
 * have left the store buffer. memcpy() has them, and compilers make string
 * instructions of it, which write to lines of another core at half the speed.
 */
DFI_INLINE_PART void dfi_copy_lines(void *to, const void *from, size_t size)
{
	const char *in = DFI_CAST(const char *, from);
	char *out = DFI_CAST(char *, to),
	     *end = out + (size & ~DFI_CAST(size_t, 63));

	while (out != end) {
		dfi_prefetch_write(out + DFI_PREFETCH_DISTANCE);
		memcpy(out, in, 16);
		memcpy(out + 16, in + 16, 16);
		memcpy(out + 32, in + 32, 16);
		memcpy(out + 48, in + 48, 16);
		in += 64;
		out += 64;
		/* Nothing; but it keeps the loop from becoming a memcpy(). */
		__asm__("" : "+r"(out), "+r"(in));
	}
	memcpy(out, in, size & 63);
}

/*
 * The size of the object that a tuple is, if the compiler knows exactly one, a
 * small one, which may stay in registers; else 0. A compiler that doesn't
 * optimise is told of none: it would keep, and warn of, the code for all sizes.
 */
#define DFI_SMALL_TUPLE 64
#ifdef __OPTIMIZE__
#define DFI_KNOWN_SIZE(tuple)                                            \
	(__builtin_object_size((tuple), 0) ==                            \
			__builtin_object_size((tuple), 2) &&             \
		    __builtin_object_size((tuple), 0) <= DFI_SMALL_TUPLE \
		? __builtin_object_size((tuple), 0)                      \
		: 0)
#else
#define DFI_KNOWN_SIZE(tuple) 0
#endif

/*
 * Hide from the compiler what it knows of a tuple without a known size, say
 * that it lies in 24 bytes: it would warn of copies of 32 that never run.
 */
DFI_INLINE_PART const void *dfi_tuple_origin(const void *tuple, size_t known)
{
	if (!known)
		__asm__("" : "+r"(tuple));
	return tuple;
}

/* Copy word i of a tuple, or what the tuple has of it. */
#define DFI_COPY_WORD(i)                                                  \
	if (known > 8 * (i) && size > 8 * (i))                            \
		memcpy(&copy[i], DFI_CAST(const char *, tuple) + 8 * (i), \
		    known < 8 * (i) + 8 ? known % 8 : 8);

/* A tuple's address. A small variable is copied, to stay in registers. */
DFI_INLINE_PART const void *dfi_tuple_address(const void *tuple,
    uint64_t copy[DFI_SMALL_TUPLE / 8], size_t known, size_t size)
{
	if (!known)
		return dfi_tuple_origin(tuple, known);
#ifdef __OPTIMIZE__
	DFI_COPY_WORD(0)
	DFI_COPY_WORD(1)
	DFI_COPY_WORD(2)
	DFI_COPY_WORD(3)
	DFI_COPY_WORD(4)
	DFI_COPY_WORD(5)
	DFI_COPY_WORD(6)
	DFI_COPY_WORD(7)
#else
	(void)size; /* nothing is known */
#endif
	return copy;
}
#undef DFI_COPY_WORD

/* Copy a tuple of size bytes, a constant up to 64: multiples of 8 by words. */
DFI_INLINE_PART void dfi_copy_small(void *to, const void *from, size_t size)
{
	if (size % 8 == 0)
		dfi_copy_words(to, from, size);
	else
		memcpy(to, from, size);
}

DFI_INLINE_PART void dfi_copy_tuple(void *to, const void *from, size_t size)
{
	const size_t known = DFI_KNOWN_SIZE(from);
	uint64_t copy[DFI_SMALL_TUPLE / 8];

	from = dfi_tuple_origin(from, known);
	if (known && __builtin_expect(size == known, 1))
		dfi_copy_small(to, from, known);
	else if (known)
		memcpy(to, dfi_tuple_address(from, copy, known, size), size);
	else if (size == 16)
		dfi_copy_words(to, from, 16);
	else if (size == 8)
		dfi_copy_words(to, from, 8);
	else if (size == 32)
		dfi_copy_words(to, from, 32);
	else if (size == 64)
		dfi_copy_words(to, from, 64);
	else if (size < 64)
		memcpy(to, from, size);
	else
		dfi_copy_lines(to, from, size);
}

DFI_END_DECLS

#endif
