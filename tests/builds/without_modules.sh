#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# without_modules.sh CMAKE GENERATOR CC: library, programs, examples and the bench build
# without rdma-core, libfabric, OpenSSL and libcurl where DFI_VERBS, DFI_OFI, DFI_TLS and
# DFI_ETCD are OFF, each or together, and work. Their headers and pkg-config files are hidden.
# With DFI_STATIC_ALL, libdfi.a has all of them, without any libdfi.so.
set -euo pipefail
cd "$(dirname "$0")/../.."

cmake=$1 generator=$2 cc=$3
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

rdma='libibverbs|librdmacm' ofi=libfabric tls='libssl|libcrypto|libevent_openssl|openssl'
etcd=libcurl

step() # DESCRIPTION COMMAND...
{
	local what=$1

	shift
	if "$@" > "$tmp/log" 2>&1; then
		echo "ok: $what"
	else
		echo "failed: $what: $*"
		cat "$tmp/log"
		exit 1
	fi
}

rdma_headers=(infiniband/verbs.h rdma/rdma_cma.h rdma/rdma_verbs.h)
ofi_headers=(rdma/fabric.h rdma/fi_cm.h rdma/fi_domain.h rdma/fi_endpoint.h rdma/fi_eq.h
	rdma/fi_errno.h rdma/fi_rma.h)
tls_headers=(event2/bufferevent_ssl.h openssl/crypto.h openssl/err.h openssl/evp.h
	openssl/hmac.h openssl/pem.h openssl/ssl.h openssl/x509.h)
etcd_headers=(curl/curl.h)

# What the compiler and pkg-config don't find from now on.
hide() # PATTERN HEADER...
{
	local header

	rm -rf "$tmp/hidden"
	for header in "${@:2}"; do
		mkdir -p "$tmp/hidden/$(dirname "$header")"
		echo "#error \"hidden: $header\"" > "$tmp/hidden/$header"
	done
	cat > "$tmp/pkg-config" << END
#!/bin/bash
[[ ! \$* =~ $1 ]] && exec $(command -v pkg-config) "\$@"
exit 1
END
	chmod +x "$tmp/pkg-config"
}

is_hidden() # HEADER
{
	local out

	out=$(echo "#include <$1>" | "$cc" "-I$tmp/hidden" -E - 2>&1) && return 1
	[[ $out == *"hidden: $1"* ]]
}

# Always in one folder: what doesn't depend on the options is compiled once.
build() # WITHOUT CMAKE_ARGUMENT...
{
	step "without $1: configure" "$cmake" -S . -B "$tmp/build" -G "$generator" \
		-DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=Debug \
		-DCMAKE_C_FLAGS_DEBUG=-O0 -DCMAKE_C_FLAGS="-I$tmp/hidden" \
		-DPKG_CONFIG_EXECUTABLE="$tmp/pkg-config" \
		-DDFI_BUILD_TESTS=OFF "${@:2}"
	step "without $1: build" "$cmake" --build "$tmp/build"
	step "without $1: a flow" "$tmp/build/bin/hello_flow"
}

has_modules() # NAME...
{
	[ "$(cd "$tmp/build/lib" && printf '%s ' libdfi-*.so)" = "${*:-libdfi-*.so} " ]
}

says() # TEXT COMMAND [ARGUMENT]...
{
	{ "${@:2}" || :; } 2>&1 | grep -qF -- "$1"
}

hide "$rdma|$ofi|$tls|$etcd" "${rdma_headers[@]}" "${ofi_headers[@]}" "${tls_headers[@]}" \
	"${etcd_headers[@]}"
for header in "${rdma_headers[@]}" "${ofi_headers[@]}" "${tls_headers[@]}" \
	"${etcd_headers[@]}"; do
	step "$header is hidden" is_hidden "$header"
done
# etcd stays OFF from here on.
build "networks and TLS" -DDFI_VERBS=OFF -DDFI_OFI=OFF -DDFI_TLS=OFF -DDFI_ETCD=OFF
step "without networks and TLS: no module" has_modules ""
step "without networks and TLS: dfi-info devices says so" \
	says "-DDFI_VERBS=ON" "$tmp/build/bin/dfi-info" devices
step "without etcd: dfi-info says so" says "-DDFI_ETCD=ON" \
	"$tmp/build/bin/dfi-info" nodes --registry etcd:http://127.0.0.1:1

hide "$rdma|$ofi" "${rdma_headers[@]}" "${ofi_headers[@]}"
build networks -DDFI_VERBS=OFF -DDFI_OFI=OFF -DDFI_TLS=ON
step "without networks: one module" has_modules libdfi-tls.so

hide "$rdma" "${rdma_headers[@]}"
build RDMA -DDFI_VERBS=OFF -DDFI_OFI=ON -DDFI_TLS=ON
step "without RDMA: two modules" has_modules libdfi-ofi.so libdfi-tls.so
rm "$tmp/build/lib/libdfi-ofi.so"

hide "$ofi" "${ofi_headers[@]}"
build libfabric -DDFI_VERBS=ON -DDFI_OFI=OFF -DDFI_TLS=ON
step "without libfabric: two modules" has_modules libdfi-tls.so libdfi-verbs.so
rm "$tmp/build/lib/"libdfi-{tls,verbs}.so

hide "$tls" "${tls_headers[@]}"
build TLS -DDFI_VERBS=ON -DDFI_OFI=ON -DDFI_TLS=OFF
step "without TLS: two modules" has_modules libdfi-ofi.so libdfi-verbs.so
rm "$tmp/build/lib/"libdfi-{ofi,verbs}.so

hide "$rdma|$ofi|$tls" "${rdma_headers[@]}" "${ofi_headers[@]}" "${tls_headers[@]}"
build "all but etcd" -DDFI_VERBS=OFF -DDFI_OFI=OFF -DDFI_TLS=OFF -DDFI_ETCD=ON
step "without all but etcd: one module" has_modules libdfi-etcd.so

# ---- All modules in libdfi.a -------------------------------------------------

cat > "$tmp/registry.c" << 'END'
#include <stdio.h>
#include <dfi/dfi.h>
int main(int argc, char **argv)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi *dfi;

	attr.registry = argc > 1 ? argv[1] : NULL;
	attr.open_timeout_ms = 1000;
	if (dfi_open(&attr, &dfi) < 0)
		puts(dfi_errmsg());
	return 0;
}
END
use_static() # NAME SOURCE: links it with libdfi.a, of which there is no libdfi.so beside
{
	# The words of flags are meant to be split.
	step "all in libdfi.a: $1" "$cc" -o "$tmp/$1" "$2" \
		$(PKG_CONFIG_PATH=$(dirname "$(find "$tmp/prefix" -name dfi.pc)") \
			pkg-config --static --cflags --libs dfi)
}
has_no_module()
{
	! ldd "$tmp/hello" | grep libdfi
}
hide 'nothing-is-hidden'
step "all in libdfi.a: configure" "$cmake" -S . -B "$tmp/build" -DDFI_STATIC_ALL=ON \
	-DDFI_VERBS=ON -DDFI_OFI=ON -DDFI_TLS=ON -DDFI_ETCD=ON -DDFI_BUILD_TOOLS=OFF \
	-DDFI_BUILD_BENCH=OFF -DDFI_BUILD_EXAMPLES=OFF
step "all in libdfi.a: build" "$cmake" --build "$tmp/build"
step "all in libdfi.a: install" "$cmake" --install "$tmp/build" --prefix "$tmp/prefix"
# The CMake package says the same as pkg-config below: what its static target needs.
step "all in libdfi.a: CMake package: configure" "$cmake" -S tests/checks/consumer \
	-B "$tmp/consumer" -DCMAKE_PREFIX_PATH="$tmp/prefix" -DCMAKE_C_COMPILER="$cc"
step "all in libdfi.a: CMake package: build" "$cmake" --build "$tmp/consumer"
step "all in libdfi.a: CMake package: a flow over libfabric" env DFI_TRANSPORT=ofi \
	"$tmp/consumer/consumer_static"
step "all in libdfi.a: CMake package: the program needs libfabric itself" \
	grep -q libfabric <(ldd "$tmp/consumer/consumer_static")
find "$tmp/prefix" -name 'libdfi*.so*' -delete
use_static hello examples/hello_flow.c
step "all in libdfi.a: hello_flow has no libdfi.so" has_no_module
step "all in libdfi.a: a flow over libfabric" env DFI_TRANSPORT=ofi "$tmp/hello"
use_static registry "$tmp/registry.c"
step "all in libdfi.a: an etcd is asked" says "Failed to connect to 127.0.0.1 port 1" \
	"$tmp/registry" etcd:http://127.0.0.1:1
