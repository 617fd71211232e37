/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One loop for each kind of accumulator and type of field, in two forms: each
 * tuple into its group's accumulators, or all tuples into one group's. The
 * compiler vectorises loops over neighbouring fields, so this file is compiled
 * with more optimisation than others. On x86-64 each loop exists twice, the
 * second for processors with AVX2.
 */
#include "fold.h"

#include "operations.h"

/*
 * The loops of one kind and type. CHAINS accumulators are summed at a time
 * where all tuples go into one group, since each addition of doubles waits for
 * the one before.
 */
#define CHAINS 4

#define FOLD_LOOPS(set, target, kind, name, type, wide)                       \
	target static void each_##kind##_##name##_##set(                      \
	    const struct fold *fold, const char *from, size_t stride,         \
	    uint64_t *const *records, uint32_t n)                             \
	{                                                                     \
		const uint32_t word = fold->word, width = fold->width;        \
		uint64_t *restrict to;                                        \
		uint32_t i, j;                                                \
                                                                              \
		from += fold->offset;                                         \
		if (width == 1) {                                             \
			for (i = 0; i < n; i++, from += stride) {             \
				to = &records[i][word];                       \
				*to = WORD_OF_##wide(                         \
				    kind##_##wide(VALUE_OF_##wide(*to),       \
					(wide)load_##name(from)));            \
			}                                                     \
			return;                                               \
		}                                                             \
		for (i = 0; i < n; i++, from += stride) {                     \
			to = &records[i][word];                               \
			for (j = 0; j < width; j++)                           \
				to[j] = WORD_OF_##wide(                       \
				    kind##_##wide(VALUE_OF_##wide(to[j]),     \
					(wide)load_##name(                    \
					    from + j * sizeof(type))));       \
		}                                                             \
	}                                                                     \
                                                                              \
	target static void all_##kind##_##name##_##set(                       \
	    const struct fold *fold, const char *from, size_t stride,         \
	    uint64_t *record, uint64_t n)                                     \
	{                                                                     \
		uint64_t *restrict to = &record[fold->word];                  \
		const uint32_t width = fold->width;                           \
		wide chains[CHAINS];                                          \
		uint64_t i;                                                   \
		uint32_t j;                                                   \
                                                                              \
		from += fold->offset;                                         \
		if (width > 1) {                                              \
			for (i = 0; i < n; i++, from += stride)               \
				for (j = 0; j < width; j++)                   \
					to[j] = WORD_OF_##wide(kind##_##wide( \
					    VALUE_OF_##wide(to[j]),           \
					    (wide)load_##name(                \
						from + j * sizeof(type))));   \
			return;                                               \
		}                                                             \
		if (n >= 2 * CHAINS) {                                        \
			for (j = 0; j < CHAINS; j++, from += stride)          \
				chains[j] = (wide)load_##name(from);          \
			for (i = CHAINS; i + CHAINS <= n; i += CHAINS)        \
				for (j = 0; j < CHAINS; j++, from += stride)  \
					chains[j] = kind##_##wide(chains[j],  \
					    (wide)load_##name(from));         \
			for (j = 0; j < CHAINS; j++)                          \
				*to = WORD_OF_##wide(kind##_##wide(           \
				    VALUE_OF_##wide(*to), chains[j]));        \
		} else {                                                      \
			i = 0;                                                \
		}                                                             \
		for (; i < n; i++, from += stride)                            \
			*to = WORD_OF_##wide(kind##_##wide(                   \
			    VALUE_OF_##wide(*to), (wide)load_##name(from)));  \
	}

/* Adds to 128 bits: to the low word, and the carry or sign to the high word. */
#define WIDE_LOOPS(set, target, name, type, wide)                            \
	target static void each_WIDE_##name##_##set(const struct fold *fold, \
	    const char *from, size_t stride, uint64_t *const *records,       \
	    uint32_t n)                                                      \
	{                                                                    \
		const uint32_t word = fold->word;                            \
		uint32_t i;                                                  \
                                                                             \
		from += fold->offset;                                        \
		for (i = 0; i < n; i++, from += stride)                      \
			add_wide(&records[i][word],                          \
			    (uint64_t)(wide)load_##name(from),               \
			    HIGH_OF_##wide(load_##name(from)));              \
	}                                                                    \
                                                                             \
	target static void all_WIDE_##name##_##set(const struct fold *fold,  \
	    const char *from, size_t stride, uint64_t *record, uint64_t n)   \
	{                                                                    \
		uint64_t sum[2] = { 0, 0 };                                  \
		uint64_t i;                                                  \
                                                                             \
		from += fold->offset;                                        \
		for (i = 0; i < n; i++, from += stride)                      \
			add_wide(sum, (uint64_t)(wide)load_##name(from),     \
			    HIGH_OF_##wide(load_##name(from)));              \
		add_wide(&record[fold->word], sum[0], sum[1]);               \
	}

#define HIGH_OF_wide_signed(v) ((uint64_t)((v) < 0 ? -1 : 0))
#define HIGH_OF_wide_unsigned(v) ((void)(v), UINT64_C(0))

static always_inline void add_wide(uint64_t sum[2], uint64_t low, uint64_t high)
{
	sum[0] += low;
	sum[1] += high + (sum[0] < low);
}

/* Adds one wide sum to another. */
static void each_MERGE(const struct fold *fold, const char *from, size_t stride,
    uint64_t *const *records, uint32_t n)
{
	uint32_t i;

	from += fold->offset;
	for (i = 0; i < n; i++, from += stride)
		add_wide(&records[i][fold->word], load_UINT64(from),
		    load_UINT64(from + sizeof(uint64_t)));
}

static void all_MERGE(const struct fold *fold, const char *from, size_t stride,
    uint64_t *record, uint64_t n)
{
	uint64_t i;

	for (i = 0; i < n; i++, from += stride)
		each_MERGE(fold, from, stride, &record, 1);
}

static void each_COUNT(const struct fold *fold, const char *from, size_t stride,
    uint64_t *const *records, uint32_t n)
{
	uint32_t i;

	(void)from;
	(void)stride;
	for (i = 0; i < n; i++)
		records[i][fold->word]++;
}

static void all_COUNT(const struct fold *fold, const char *from, size_t stride,
    uint64_t *record, uint64_t n)
{
	(void)from;
	(void)stride;
	record[fold->word] += n;
}

#define LOOPS(set, target, name, type, wide)           \
	FOLD_LOOPS(set, target, SUM, name, type, wide) \
	FOLD_LOOPS(set, target, MIN, name, type, wide) \
	FOLD_LOOPS(set, target, MAX, name, type, wide)

#define ENTRY(kind, name, set)                                      \
	[FOLD_##kind][DFI_##name] = { each_##kind##_##name##_##set, \
		all_##kind##_##name##_##set },
#define ENTRIES(set, target, name, type, wide) \
	ENTRY(SUM, name, set)                  \
	ENTRY(MIN, name, set)                  \
	ENTRY(MAX, name, set)
#define WIDE_ENTRIES(set, target, name, type, wide) ENTRY(WIDE, name, set)

/* All functions for one kind of processor. */
#define FUNCTIONS(set, target)                                   \
	TYPES(LOOPS, set, target)                                \
	INTEGER_TYPES(WIDE_LOOPS, set, target)                   \
	static const struct fold_functions                       \
	    functions_##set[FOLD_KINDS][DFI_DOUBLE + 1] = {      \
		    [FOLD_COUNT][0] = { each_COUNT, all_COUNT }, \
		    [FOLD_WIDE][0] = { each_MERGE, all_MERGE },  \
		    TYPES(ENTRIES, set, target)                  \
			INTEGER_TYPES(WIDE_ENTRIES, set, target) \
	    };

FUNCTIONS(any, )

#if defined(__x86_64__)

FUNCTIONS(avx2, __attribute__((target("avx2"))))

const struct fold_functions *dfi__fold_functions(const struct fold *fold)
{
	if (__builtin_cpu_supports("avx2"))
		return &functions_avx2[fold->kind][fold->type];
	return &functions_any[fold->kind][fold->type];
}

#else

const struct fold_functions *dfi__fold_functions(const struct fold *fold)
{
	return &functions_any[fold->kind][fold->type];
}

#endif

void dfi__fold_each(const struct plan *plan, const char *tuples,
    uint64_t *const *records, uint32_t n)
{
	const struct fold *fold = plan->folds;
	uint32_t i;

	for (i = 0; i < plan->n_folds; i++, fold++)
		fold->functions->each(
		    fold, tuples, plan->tuple_size, records, n);
}

void dfi__fold_all(
    const struct plan *plan, const char *tuples, uint64_t *record, uint64_t n)
{
	const struct fold *fold = plan->folds;
	uint32_t i;

	for (i = 0; i < plan->n_folds; i++, fold++)
		fold->functions->all(fold, tuples, plan->tuple_size, record, n);
}

void dfi__fold_records(const struct plan *plan, const char *from, size_t stride,
    uint64_t *const *records, uint32_t n)
{
	const struct fold *fold = plan->merges;
	uint32_t i;

	for (i = 0; i < plan->n_merges; i++, fold++)
		fold->functions->each(fold, from, stride, records, n);
}
