/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's log lines in the application's own log. Any thread may call the
 * function, and it must not wait. So it puts lines into memory, and the
 * application writes them later.
 */
#include <stdint.h>
#include <string.h>
#include "small.h"

struct item {
	uint64_t number;
};
static const struct dfi_field fields[] = { DFI_FIELD(struct item, number) };
static const struct dfi_schema schema = DFI_SCHEMA(struct item, fields);

struct line {
	enum dfi_log_level level;
	char text[240];
};
/* The library never makes two calls at a time. */
struct journal {
	pthread_mutex_t mutex;
	struct line lines[64];
	unsigned int n, lost;
};

static void keep(void *arg, enum dfi_log_level level, const char *text)
{
	struct journal *journal = arg;
	struct line *line;

	pthread_mutex_lock(&journal->mutex);
	if (journal->n < 64) {
		line = &journal->lines[journal->n++];
		line->level = level;
		strncpy(line->text, text, sizeof(line->text) - 1);
	} else {
		journal->lost++;
	}
	pthread_mutex_unlock(&journal->mutex);
}

int main(void)
{
	static const char *const names[] = { "", "error", "warning", "info",
		"debug" };
	static struct journal journal = { .mutex = PTHREAD_MUTEX_INITIALIZER };
	struct dfi_registry *registry;
	struct dfi_target *target;
	struct dfi *dfi;

	dfi_log_set(DFI_LOG_INFO, keep, &journal);
	dfi = start(&registry);
	create_flow(dfi, "numbers", &schema);
	/* At level info each endpoint logs its transport. */
	check(dfi_target_open(dfi, "numbers", 0, NULL, &target));
	check(dfi_target_close(target));
	check(dfi_close(dfi));
	check(dfi_registry_stop(registry));
	dfi_log_set(DFI_LOG_WARN, NULL, NULL); /* stderr again */

	for (unsigned int i = 0; i < journal.n; i++)
		printf("[%s] %s\n", names[journal.lines[i].level],
		    journal.lines[i].text);
	if (fflush(stdout) || ferror(stdout))
		err(1, "standard output");
	return journal.n == 0 || journal.lost > 0;
}
