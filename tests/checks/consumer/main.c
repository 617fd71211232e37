/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest user of an installed DFI that needs all that the library links:
 * it starts a registry and stops it.
 */
#include <dfi/dfi.h>

#include <stdio.h>

int main(void)
{
	struct dfi_registry *registry;

	if (dfi_registry_start(NULL, &registry) < 0) {
		fprintf(stderr, "consumer: %s\n", dfi_errmsg());
		return 1;
	}
	printf("registry at %s\n", dfi_registry_address(registry));
	return dfi_registry_stop(registry) < 0;
}
