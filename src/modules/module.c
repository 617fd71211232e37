/* SPDX-License-Identifier: Apache-2.0 */
/* libdfi.so opens its modules. */
#include "module.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fail_memory(const struct module_location *location)
{
	return dfi__fail(-ENOMEM, "%s: out of memory", location->what);
}

/*
 * The folder of the library's file; what the linker found may be a link to it,
 * in a folder without modules. Where that can't be told, as after chroot(2), it
 * is the folder where the linker found it. NULL: no memory.
 */
static char *folder_of(void *self, const char *name)
{
	char *real, *path = NULL, *origin = malloc(PATH_MAX);
	const char *file = strrchr(name, '/');

	file = file ? file + 1 : name;
	if (!origin || dlinfo(self, RTLD_DI_ORIGIN, origin) < 0 ||
	    asprintf(&path, "%s/%s", origin, file) < 0)
		path = NULL;
	free(origin);
	real = path ? realpath(path, NULL) : NULL;
	if (real) {
		free(path);
		path = real;
	}
	if (path)
		*strrchr(path, '/') = '\0';
	return path;
}

/*
 * The file's path. The linker noted the folder when it loaded the library:
 * a relative path would mean another one after chdir(2).
 */
static int find(const struct module_location *location, char **path)
{
	static const char anchor;
	char *folder;
	Dl_info info;
	void *self;
	int ret = 0;

	if (!dladdr(&anchor, &info))
		return dfi__fail(-ENODEV,
		    "%s: libdfi.so is not a file, so its "
		    "folder is not known",
		    location->what);
	self = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (!self)
		return dfi__fail(-ENODEV,
		    "%s: cannot find libdfi.so's folder: %s", location->what,
		    dlerror());
	folder = folder_of(self, info.dli_fname);
	if (!folder || asprintf(path, "%s/%s", folder, location->file) < 0)
		ret = fail_memory(location);
	free(folder);
	dlclose(self);
	return ret;
}

static int check(const struct module_location *location, const char *path,
    const struct module_abi *abi)
{
	const struct module_abi *own = &location->abi;

	if (memcmp(abi, own, sizeof(*abi)) == 0)
		return 0;
	return dfi__fail(-ENODEV,
	    "%s: %s is of DFI %u.%u.%u (interface %08x, %u and %u bytes), but "
	    "this process has libdfi.so of DFI %u.%u.%u (interface %08x, %u "
	    "and %u bytes): install both from the same build, and start the "
	    "program again",
	    location->what, path, abi->version[0], abi->version[1],
	    abi->version[2], abi->interface, abi->services_size,
	    abi->table_size, own->version[0], own->version[1], own->version[2],
	    own->interface, own->services_size, own->table_size);
}

/* Why dlopen() has failed: its error is but a text. */
static int fail_open(
    const struct module_location *location, const char *path, const char *why)
{
	int fd = file_up(open(path, O_RDONLY | O_CLOEXEC));

	if (fd >= 0)
		close(fd);
	else if (errno == EMFILE || errno == ENFILE)
		return dfi__fail_files(errno, 1, "open", "%s", location->what);
	else if (errno == ENOENT)
		return dfi__fail(-ENODEV,
		    "%s: there is no file %s: build DFI with -D%s=ON, and "
		    "install it beside libdfi.so",
		    location->what, path, location->option);
	return dfi__fail(-ENODEV, "%s: cannot load %s: %s: install %s",
	    location->what, path, why, location->packages);
}

/*
 * Open a library. Those that it needs may change handlers of signals when they
 * are loaded, as libinfinipath does, which libfabric needs: the application's
 * are put back.
 */
static void *open_quietly(const char *path)
{
	struct sigaction *handlers = calloc(NSIG, sizeof(*handlers)), now;
	void *handle;
	int i;

	for (i = 1; handlers && i < NSIG; i++)
		(void)sigaction(i, NULL, &handlers[i]);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	for (i = 1; handlers && i < NSIG; i++)
		if (sigaction(i, NULL, &now) == 0 &&
		    now.sa_sigaction != handlers[i].sa_sigaction)
			(void)sigaction(i, &handlers[i], NULL);
	free(handlers);
	return handle;
}

static int load(const struct module_location *location, const char *path,
    const struct module **module)
{
	void *handle = open_quietly(path);

	if (!handle)
		return fail_open(location, path, dlerror());
	*module = dlsym(handle, "dfi_module");
	if (*module)
		return check(location, path, &(*module)->abi);
	return dfi__fail(-ENODEV,
	    "%s: %s is no module of DFI: install the one of libdfi.so's build",
	    location->what, path);
}

int dfi__module_open(struct module_location *location, const void **table)
{
	const struct module *module = NULL;
	char *path;
	int ret;

	*table = atomic_observe(&location->table); /* pairs with the publish */
	if (*table)
		return 0;
	ret = find(location, &path);
	if (ret < 0)
		return ret;
	ret = load(location, path, &module);
	free(path);
	if (ret < 0)
		return ret;
	atomic_set(module->services, &dfi__services);
	*table = module->table;
	/* Protects the module's services. */
	atomic_publish(&location->table, *table);
	return 0;
}
