/* SPDX-License-Identifier: Apache-2.0 */
/* Makes, maps and waits on the shared board, whatever the rounds do. */
#include "board.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../common/memory_file.h"

#define PAGE 4096

static size_t round_to_page(size_t size)
{
	return (size + PAGE - 1) / PAGE * PAGE;
}

static struct board *map(int fd, size_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

struct board *board_create(
    uint32_t n_sources, uint32_t n_target_threads, uint64_t data_size, int *fd)
{
	uint32_t n_seats = n_sources + n_target_threads;
	size_t head = round_to_page(
	    sizeof(struct board) + n_seats * sizeof(struct seat));
	size_t size = head + round_to_page(data_size);
	int new_fd = memory_file_open("dfi-bench", "the shared board");
	struct board *board;

	if (new_fd < 0)
		return NULL;
	if (ftruncate(new_fd, (off_t)size) < 0)
		goto fail;
	board = map(new_fd, size);
	if (!board)
		goto fail;
	board->n_seats = n_seats;
	board->n_sources = n_sources;
	board->parent = getpid();
	board->size = size;
	board->data_offset = head;
	*fd = new_fd;
	return board;

fail:
	memory_file_complain("the shared board", size);
	close(new_fd);
	return NULL;
}

struct board *board_attach(int fd)
{
	struct stat status;

	if (fstat(fd, &status) < 0)
		return NULL;
	return map(fd, (size_t)status.st_size);
}

void board_detach(struct board *board)
{
	munmap(board, board->size);
}

int board_clear_data(struct board *board)
{
	size_t size = board->size - board->data_offset;

	/*
	 * Fresh pages, like those of a new flow: no round inherits another's.
	 */
	if (size && madvise(board_data(board), size, MADV_REMOVE) < 0)
		return -errno;
	return 0;
}

static void wake_all(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void board_add(_Atomic uint32_t *word)
{
	atomic_fetch_add(word, 1);
	wake_all(word);
}

void board_set(_Atomic uint32_t *word, uint32_t value)
{
	atomic_store(word, value);
	wake_all(word);
}

bool board_wait(_Atomic uint32_t *word, uint32_t value, uint64_t deadline_ns)
{
	struct timespec left;
	uint64_t now;
	uint32_t seen;

	for (;;) {
		seen = atomic_load(word);
		if (seen >= value)
			return true;
		if (deadline_ns == NO_DEADLINE) {
			syscall(
			    SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
			continue;
		}
		now = now_ns();
		if (now >= deadline_ns)
			return false;
		left = (struct timespec){
			.tv_sec = (time_t)((deadline_ns - now) / 1000000000),
			.tv_nsec = (long)((deadline_ns - now) % 1000000000),
		};
		syscall(SYS_futex, word, FUTEX_WAIT, seen, &left, NULL, 0);
	}
}
