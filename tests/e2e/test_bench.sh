#!/bin/sh
# The benchmarks of whole rounds run at small sizes: both schemes reach a release, whose sum and noise they check
# themselves; AS accepts sealed updates; heads are made, checked and opened.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
TMPDIR=$dir
export TMPDIR

# NAME CASE UNIT: the last run must have printed this
has() {
    grep -q "\"bench\":\"$1\",\"case\":\"$2\",.*\"unit\":\"$3\"" "$dir/out" || { cat "$dir/out"; fail "no '$2' of $1"; }
}
"$SEFL" bench round --clients 5 --values 1000 --rounds 2 --json > "$dir/out"
has round "pad set and verdict" s
has round "pad close to release, median" s
"$SEFL" bench round --scheme paillier --bits 2048 --clients 2 --values 1000 --rounds 1 --json > "$dir/out"
has round "paillier close to release, median" s
"$SEFL" bench ingest --scheme pad --values 20000 --updates 5 --connections 2 --json > "$dir/out"
has ingest "pad: AS (floor: receive, hash, write, sync)" "ms CPU"
"$SEFL" bench ahe --scheme pad --seconds 0.001 --json > "$dir/out"
has ahe "xwing: CSP's work a client, bar 450 us" us
"$SEFL" bench 2pc --part shares --coords 4096 --seconds 0.001 --json > "$dir/out"
has 2pc "shares made over TLS, base OT included" "value/s"
for wrong in "round --clients 1" "round --clients 1001" "round --clients 8x" "round --values 1" "round --scheme lwe" \
    "round --bits 2049" "2pc --ot-k 3" "2pc --chunk 200" "2pc --part no" "ingest --updates 0" "ahe --bits 1024"; do
    rc=0
    # shellcheck disable=SC2086 # several words
    "$SEFL" bench $wrong > "$dir/out" 2>&1 || rc=$?
    [ "$rc" -eq 2 ] || { cat "$dir/out"; fail "bench $wrong exits $rc"; }
done
[ -z "$(find "$dir" -name 'sefl-*')" ] || fail "a benchmark leaves its folder"
