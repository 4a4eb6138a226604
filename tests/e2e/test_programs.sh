#!/bin/sh
# The two programs: sefl starts sefl-lab from its own folder, and links no library that only sefl-lab uses.
set -eu
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"

# the laboratory's program is the file beside sefl: neither the folder of a link to sefl nor PATH
mkdir "$dir/bin" "$dir/path"
cp "$SEFL" "$dir/bin/sefl"
ln -s "$dir/bin/sefl" "$dir/link"
printf '#!/bin/sh\necho from PATH\n' > "$dir/path/sefl-lab"
chmod +x "$dir/path/sefl-lab"
PATH=$dir/path:$PATH
cd "$dir/path"
expect 1 "$dir/bin/sefl" bench --list; says "$dir/bin/sefl-lab"; says "Debian package sefl-lab"
expect 1 "$dir/link" help synth; says "Debian package sefl-lab"
expect 0 "$dir/link" version
expect 0 "$dir/bin/sefl" help; says "  bench "
"$dir/bin/sefl" help --completion | bash -n || fail "completion without the laboratory is not bash"
printf '#!/bin/sh\necho "beside sefl: $*"\n' > "$dir/bin/sefl-lab"
expect 1 "$dir/bin/sefl" bench --list; says "Permission denied"
chmod +x "$dir/bin/sefl-lab"
expect 0 "$dir/link" synth --out "a b"; says "beside sefl: synth --out a b"
expect 0 "$dir/bin/sefl" help synth; says "beside sefl: synth --help"
expect 0 "$SEFL-lab" help; says "  demo "
expect 2 "$SEFL-lab" demo; says "in the program sefl"

# sefl needs no library that only the laboratory uses
needs() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\.so.*\]/\1/p'; }
[ "$(needs "$SEFL" | wc -l)" -ge 3 ] || fail "readelf shows no libraries"
needs "$SEFL" | grep -E '^lib(crypto|ssl|mpi.*)$' && fail "sefl links a library of the laboratory"
nm -D "$SEFL" | grep -E ' U (OPENSSL_|OpenSSL_|BN_|EVP_|MPI_)' && fail "sefl calls a library of the laboratory"
if [ "$SEFL_CORE_ONLY" = 0 ]; then # the same look finds it where it is
    needs "$SEFL-lab" | grep -qx libcrypto || fail "sefl-lab does not link libcrypto"
    nm -D "$SEFL-lab" | grep -q ' U BN_' || fail "nm does not show the calls of libcrypto"
fi
echo ok
