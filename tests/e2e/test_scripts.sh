#!/bin/sh
# bootstrap: exits 0 in under a second if nothing is missing, else 2 with the missing names or the command; 1 if apt-get
# fails, with the cause.
set -eu
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
bootstrap=$SEFL_SOURCE/scripts/bootstrap
command -v dpkg-query > /dev/null || { echo "not a Debian system: nothing to test"; exit 0; }

t0=$(date +%s%N)
"$bootstrap" --check || fail "bootstrap --check fails where the tests run"
ms=$((($(date +%s%N) - t0) / 1000000))
[ "$ms" -lt 1000 ] || echo "note: bootstrap --check took $ms ms (a loaded machine?)"

# Simulates a machine where everything is missing: a dpkg-query that knows no package.
fake=$dir
printf '#!/bin/sh\nexit 1\n' > "$fake/dpkg-query"
printf '#!/bin/sh\necho 1000\n' > "$fake/id" # not root
printf '#!/bin/sh\nexit 1\n' > "$fake/sudo"
chmod +x "$fake"/*
rc=0
out=$(PATH=$fake:$PATH "$bootstrap" --check 2>&1) || rc=$?
[ "$rc" -eq 2 ] || fail "--check with missing packages exits $rc"
case $out in *libsodium-dev*) ;; *) fail "no names in: $out" ;; esac
rc=0
out=$(PATH=$fake:$PATH "$bootstrap" 2>&1 < /dev/null) || rc=$?
[ "$rc" -eq 2 ] || fail "without rights it exits $rc"
case $out in *"apt-get install -y --no-install-recommends"*libgmp-dev*) ;; *) fail "no command in: $out" ;; esac
rc=0
out=$(PATH=$fake:$PATH "$bootstrap" --test --check 2>&1) || rc=$?
[ "$rc" -eq 2 ] || fail "--test --check with missing packages exits $rc"
case $out in *libgmp-dev*openssl*curl*) ;; *) fail "not what the tests need: $out" ;; esac
out=$(PATH=$fake:$PATH "$bootstrap" packages --check 2>&1) && fail "packages --check with missing packages exits 0"
case $out in *libgmp-dev*debhelper*lintian*) ;; *) fail "not what make deb needs: $out" ;; esac
# what the packages need to be built is what bootstrap installs
for p in $("$bootstrap" --print | tr ' ' '\n' | grep -- '^lib.*-dev$\|^zlib'); do
    case $p in libc6-dev) continue ;; esac
    grep -q "^[A-Z ].* $p,*$" "$SEFL_SOURCE/packaging/debian/control" || fail "debian/control does not build with $p"
done
# root, but the mirror does not answer
printf '#!/bin/sh\necho 0\n' > "$fake/id"
printf '#!/bin/sh\necho "E: Unable to fetch some archives"\nexit 100\n' > "$fake/apt-get"
chmod +x "$fake/apt-get"
rc=0
out=$(PATH=$fake:$PATH "$bootstrap" --torch 2>&1 < /dev/null) || rc=$?
[ "$rc" -eq 1 ] || fail "with a failing apt-get it exits $rc"
case $out in *"Unable to fetch"*"is the Debian mirror reachable?"*python3-torch*) ;; *) fail "not the cause: $out" ;; esac
rc=0
"$bootstrap" --nonsense 2> /dev/null || rc=$?
[ "$rc" -eq 2 ] || fail "unknown option exits $rc"

# one version: sefl.h has it, and what cannot read sefl.h agrees
version=$(sed -n 's/^#define SEFL_VERSION_[A-Z]* *//p' "$SEFL_SOURCE/include/sefl/sefl.h" | paste -sd .)
"$SEFL" version | grep -q "^sefl $version\( \|$\)" || fail "the program has another version than sefl.h"
grep -q "^VERSION = \"$version\"$" "$SEFL_SOURCE/bindings/python/sefl/_version.py" || fail "_version.py is not $version"
echo ok
