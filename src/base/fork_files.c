/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See fork_files.h. The child makes only calls that are safe after fork(). No
 * thread waits for anything while it holds the lock, so fork() can wait for it.
 */
#include "fork_files.h"

#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include "error.h"
#include "files.h"
#include "fork.h"

struct file {
	int fd;
	bool maps; /* memory may be mapped from it */
	dev_t device;
	ino_t inode;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct file *files;
static size_t n_files, room;

/* A line of /proc/self/maps: START-END PERMS OFFSET MAJOR:MINOR INODE ... */
static void unmap_line(char *line)
{
	uintptr_t start = strtoul(line, &line, 16);
	uintptr_t end = strtoul(line + 1, &line, 16);
	unsigned major, minor;
	ino_t inode;
	size_t i;

	/* PERMS begin with a letter or '-', and OFFSET is not needed. */
	line += strspn(line, " rwxps-");
	strtoul(line, &line, 16);
	major = (unsigned)strtoul(line, &line, 16);
	minor = (unsigned)strtoul(line + 1, &line, 16);
	inode = strtoul(line, NULL, 10);
	for (i = 0; i < n_files; i++)
		if (files[i].maps && files[i].inode == inode &&
		    files[i].device == makedev(major, minor)) {
			munmap((void *)start, end - start);
			return;
		}
}

/* Unmap all memory of the files: a mapping keeps its file open. */
static void unmap_all(void)
{
	int fd = file_up(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
	char buffer[2048], line[128];
	size_t length = 0;
	ssize_t got, i;

	if (fd < 0)
		return;
	while ((got = read(fd, buffer, sizeof(buffer))) > 0)
		for (i = 0; i < got; i++) {
			/* The fields that count come first. */
			if (buffer[i] != '\n') {
				if (length < sizeof(line) - 1)
					line[length++] = buffer[i];
				continue;
			}
			line[length] = '\0';
			length = 0;
			unmap_line(line);
		}
	close(fd);
}

/*
 * Libraries in the child still know the numbers, and new files of the child
 * must not get them. So a descriptor that can't be read or written replaces
 * each. If there is none left for that, the numbers become free.
 */
static void close_all(void)
{
	int nothing = file_up(epoll_create1(EPOLL_CLOEXEC));
	bool maps = false;
	size_t i;

	for (i = 0; i < n_files; i++) {
		maps = maps || files[i].maps;
		if (nothing < 0 || dup3(nothing, files[i].fd, O_CLOEXEC) < 0)
			close(files[i].fd);
	}
	if (nothing >= 0)
		close(nothing);
	if (maps)
		unmap_all();
	n_files = 0;
}

static void at_fork(enum fork_phase phase)
{
	if (phase == FORK_PREPARE) {
		pthread_mutex_lock(&lock);
		return;
	}
	if (phase == FORK_CHILD && n_files)
		close_all();
	pthread_mutex_unlock(&lock);
}

static struct fork_hook hook = { .fn = at_fork };

/* Make room for one more. The lock is held. */
static bool grow(void)
{
	size_t more = room ? 2 * room : 16;
	struct file *new;

	if (n_files < room)
		return true;
	new = realloc(files, more * sizeof(*files));
	if (!new)
		return false;
	files = new;
	room = more;
	return true;
}

static int add(const struct file *file)
{
	bool grown;

	if (!dfi__fork_follow(&hook))
		return dfi__fail(-ENOMEM, "pthread_atfork: out of memory");
	pthread_mutex_lock(&lock);
	grown = grow();
	if (grown)
		files[n_files++] = *file;
	pthread_mutex_unlock(&lock);
	return grown
	    ? 0
	    : dfi__fail(-ENOMEM, "out of memory for what fork() must know");
}

int dfi__fork_add(int fd)
{
	struct file file = { .fd = fd };
	struct stat stat;

	if (fstat(fd, &stat) == 0) {
		file.maps = !S_ISSOCK(stat.st_mode);
		file.device = stat.st_dev;
		file.inode = stat.st_ino;
	}
	return add(&file);
}

int dfi__fork_add_unmapped(int fd)
{
	return add(&(struct file){ .fd = fd });
}

void dfi__fork_remove(int fd)
{
	size_t i;

	pthread_mutex_lock(&lock);
	for (i = 0; i < n_files && files[i].fd != fd; i++)
		;
	if (i < n_files)
		files[i] = files[--n_files];
	if (!n_files) {
		free(files);
		files = NULL;
		room = 0;
	}
	pthread_mutex_unlock(&lock);
}

void dfi__fork_close(int fd)
{
	dfi__fork_remove(fd);
	close(fd);
}
