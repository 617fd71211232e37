#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_modules.sh BIN_DIR LIBDFI_SO OTHER_MODULE: libdfi.so opens libdfi-verbs.so from its
# own folder when it needs RDMA, and libdfi-tls.so for TLS. Errors say what is wrong with
# them. Flows over shared memory need no module.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
bin=$1 library=$2 other=$3
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT

here=$tmp/here
mkdir "$here" "$tmp/elsewhere"
cp "$library" "$here/libdfi.so.0"
module=$here/libdfi-verbs.so

run() # PROGRAM [ARGUMENT]...: with the libdfi.so of $here
{
	LD_LIBRARY_PATH=$here timeout $wait_limit "$bin/$1" "${@:2}" > "$tmp/out" 2>&1
}

tells() # TEXT
{
	grep -qF "$1" "$tmp/out" || fail "no '$1' in: $(cat "$tmp/out")"
}

tells_twice() # TEXT: an endpoint that needs RDMA, and the list of devices
{
	! DFI_TRANSPORT=verbs run hello_flow || fail "hello_flow needs no module"
	tells "target "
	tells "$1"
	run dfi-info devices || fail "dfi-info devices: $(cat "$tmp/out")"
	tells "$1"
}

# A module is missing.
run hello_flow || fail "hello_flow needs a module: $(cat "$tmp/out")"
tells_twice "there is no file $module: build DFI with -DDFI_VERBS=ON"

# A module in another folder does not count.
cp "$other" "$tmp/elsewhere/libdfi-verbs.so"
(cd "$tmp/elsewhere" && here=$here:$tmp/elsewhere tells_twice "there is no file $module")

# The folder is known also if the library was loaded by a relative path.
(cd "$tmp" && here=here && tells_twice "there is no file $module")

cp "$other" "$module"
tells_twice "$module is of DFI 9.8.7"
tells "libdfi.so beside it is of DFI $("$bin/dfi-info" --version | grep -o '[0-9.]*$') "

echo "no library" > "$module"
tells_twice "cannot load $module"
tells "install libibverbs1 and librdmacm1"

cp "$(ldd "$library" | awk '/libprotobuf-c/ { print $3 }')" "$module"
tells_twice "$module is no module of DFI"

# A registry with a key needs the module for TLS, and so does RDMA.
"$bin/dfi-registry" keygen "$tmp/key" > "$tmp/out"
listen() # ends at once, or when it is told to
{
	LD_LIBRARY_PATH=$here timeout $wait_limit "$bin/dfi-registry" \
		--listen tcp:127.0.0.1:0 --key "$tmp/key" --print-address > "$tmp/out" 2>&1
}
! listen || fail "a registry with a key needs no module"
tells "$here/libdfi-tls.so: build DFI with -DDFI_TLS=ON"

# The right modules are opened, with devices or without.
real=${library%/*}
if [ -e "$real/libdfi-verbs.so" ]; then
	cp "$real/libdfi-verbs.so" "$module"
	run dfi-info devices || fail "dfi-info devices: $(cat "$tmp/out")"
	! grep -F "$module" "$tmp/out" || fail "the module is not taken"
fi
if [ -e "$real/libdfi-tls.so" ]; then
	cp "$real/libdfi-tls.so" "$here"
	LD_LIBRARY_PATH=$here "$bin/dfi-registry" --listen tcp:127.0.0.1:0 \
		--key "$tmp/key" --print-address > "$tmp/address" &
	await "$tmp/address"
	DFI_REGISTRY_KEY=$tmp/key DFI_REGISTRY=$(cat "$tmp/address") run dfi-info nodes ||
		fail "dfi-info nodes: $(cat "$tmp/out")"
fi
