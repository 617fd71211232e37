/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that hold secrets: the registry's key, and private keys. A file that
 * others could have read or written is refused, however it came to be.
 */
#ifndef DFI_SECURITY_KEY_FILE_H
#define DFI_SECURITY_KEY_FILE_H

#define REGISTRY_KEY_BYTES 32

/* -EINVAL: no such file, not a key file, or not a secret; the text says why. */
int dfi__key_file_read(const char *path, unsigned char key[REGISTRY_KEY_BYTES]);

enum secret_readers {
	SECRET_OWNER,          /* nobody else */
	SECRET_GROUP_FROM_ROOT /* also the group, if the owner is root */
};

/*
 * Open for reading a regular file that belongs to this user or to root and that
 * only readers can read: a file descriptor, or -EINVAL with a text in which
 * what says what the file is for.
 */
int dfi__secret_file_open(
    const char *path, const char *what, enum secret_readers readers);

#endif
