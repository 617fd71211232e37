#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# versions.sh BUILD_DIR: proc.test_versions, also over verbs, in a virtual machine.
set -euo pipefail
build=$(realpath "$1")
tests=$(dirname "$(dirname "$(realpath "$0")")")

exec "$tests/testbed/testbed" up 1 --timeout 600 -- bash "$tests/proc/test_versions.sh" \
	"$build/bin" "$build/tests/proc/worker" "$build/tests/next" verbs
