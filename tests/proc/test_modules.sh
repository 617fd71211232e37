#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_modules.sh BIN_DIR LIBDFI_SO OTHER_MODULE: libdfi.so opens libdfi-verbs.so from
# its own folder when it needs RDMA, libdfi-tls.so for TLS and libdfi-etcd.so for an
# etcd, and tells what is wrong with them. Flows over shared memory need no module.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
bin=$1 library=$2 other=$3
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT

# The library needs none of what its modules do, whoever needs it.
! ldd "$library" | grep -E 'ibverbs|rdmacm|nl-|crypto|ssl|fabric|curl' ||
	fail "libdfi.so needs libraries of modules"

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

# The folder is known also if the library was loaded by a relative path, or through a link
# to the folder or to the file.
(cd "$tmp" && here=here && tells_twice "there is no file $module")
ln -s here "$tmp/link"
here=$tmp/link tells_twice "there is no file $module"
mkdir "$tmp/links"
ln -s ../here/libdfi.so.0 "$tmp/links"
here=$tmp/links tells_twice "there is no file $module"

cp "$other" "$module"
tells_twice "$module is of DFI 9.8.7"
tells "this process has libdfi.so of DFI $("$bin/dfi-info" --version | grep -o '[0-9.]*$') "

echo "no library" > "$module"
tells_twice "cannot load $module"
tells "install libibverbs1 and librdmacm1"

cp "$(ldd "$library" | awk '/libprotobuf-c/ { print $3 }')" "$module"
tells_twice "$module is no module of DFI"

# A program with more rights than its user opens neither the library nor a module from a
# folder that the user names.
cp "$other" "$module"
cp "$bin/dfi-info" "$tmp/privileged"
chmod 755 "$tmp" "$here" "$tmp/privileged"
as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
ask() # whether the module that the user names is looked at
{
	LD_LIBRARY_PATH=$here timeout $wait_limit "${as_nobody[@]}" "$tmp/privileged" \
		devices > "$tmp/out" 2>&1 || :
	grep -qF "$module" "$tmp/out"
}
if [ "$(id -u)" -eq 0 ] && ask; then
	chmod u+s "$tmp/privileged"
	! ask || fail "a privileged program takes a module from $here: $(cat "$tmp/out")"
fi

# A registry with a key needs the module for TLS, and so does RDMA.
"$bin/dfi-registry" keygen "$tmp/key" > "$tmp/out"
listen() # ends at once, or when it is told to
{
	LD_LIBRARY_PATH=$here timeout $wait_limit "$bin/dfi-registry" \
		--listen tcp:127.0.0.1:0 --key "$tmp/key" --print-address > "$tmp/out" 2>&1
}
! listen || fail "a registry with a key needs no module"
tells "$here/libdfi-tls.so: build DFI with -DDFI_TLS=ON"

! DFI_REGISTRY=etcd:http://127.0.0.1:1 run dfi-info nodes ||
	fail "a registry in etcd needs no module"
tells "there is no file $here/libdfi-etcd.so: build DFI with -DDFI_ETCD=ON"

# A copy in $here that needs another version of a library, which there is not.
lack() # MODULE LIBRARY
{
	sed "s/${2//./\\.}/${2%?}9/g" "$1" > "$here/${1##*/}"
}

# The right modules are opened, with devices or without.
real=${library%/*}
if [ -e "$real/libdfi-verbs.so" ]; then
	cp "$real/libdfi-verbs.so" "$module"
	run dfi-info devices || fail "dfi-info devices: $(cat "$tmp/out")"
	! grep -F "$module" "$tmp/out" || fail "the module is not taken"
	lack "$real/libdfi-verbs.so" libibverbs.so.1
	tells_twice "cannot load $module: libibverbs.so.9: "
	tells "install libibverbs1 and librdmacm1"
fi
if [ -e "$real/libdfi-tls.so" ]; then
	lack "$real/libdfi-tls.so" libssl.so.3
	! listen || fail "a registry with a key needs no libssl"
	tells "cannot load $here/libdfi-tls.so: libssl.so.9: "
	tells "install libssl3 and libevent-openssl-2.1-7"
	cp "$real/libdfi-tls.so" "$here"
	LD_LIBRARY_PATH=$here "$bin/dfi-registry" --listen tcp:127.0.0.1:0 \
		--key "$tmp/key" --print-address > "$tmp/address" &
	await "$tmp/address"
	DFI_REGISTRY_KEY=$tmp/key DFI_REGISTRY=$(cat "$tmp/address") run dfi-info nodes ||
		fail "dfi-info nodes: $(cat "$tmp/out")"
fi
