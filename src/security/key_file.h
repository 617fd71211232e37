/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that hold secrets: the registry's key, and private keys. A file that
 * others could have read or written is refused.
 */
#ifndef DFI_SECURITY_KEY_FILE_H
#define DFI_SECURITY_KEY_FILE_H

#define REGISTRY_KEY_BYTES 32

/* -EINVAL: no such file, no key file, or no secret; see the text. */
int dfi__key_file_read(const char *path, unsigned char key[REGISTRY_KEY_BYTES]);

enum secret_readers {
	SECRET_OWNER,          /* nobody but the owner */
	SECRET_GROUP_FROM_ROOT /* also the group, if the owner is root */
};

/*
 * Open a regular file for reading that belongs to this user or to root and that
 * only readers can read. Returns a descriptor, or -EINVAL with a text; what
 * names the purpose of the file there.
 */
int dfi__secret_file_open(
    const char *path, const char *what, enum secret_readers readers);

#endif
