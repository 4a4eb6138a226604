#!/bin/sh
# The models of proofs/ and the code say the same (proofs/check-tables, which also notices each of a list of changes), and
# proofs/prove fails as it should: an error in a run, a revert that is not found, a revert without a line, a search that
# was cut short.
set -eu
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
command -v python3 > /dev/null || { echo "python3 is not installed (scripts/bootstrap --test)"; exit 0; }
"$SEFL_SOURCE/proofs/check-tables" --self-test || fail "check-tables"
command -v spin > /dev/null || { echo "ok; spin is not installed (scripts/bootstrap --dev)"; exit 0; }

mkdir -p "$dir/proofs"
cp "$SEFL_SOURCE/proofs/prove" "$dir/proofs"
cd "$dir/proofs"
cat > toy.pml << 'END'
byte n;
active proctype up()
{
    do
    :: n < 20 -> n++
    :: n == 20 -> break
    od
#ifdef BUG_TWO_MORE
    n = 22;
#endif
    assert(n <= 20)
}
END
runs() { printf '%s\n' "$1" > toy.runs; printf '%s\n' "$2" > toy.bugs; } # RUN REVERT
fails() { # WHAT WORDS
    if ./prove > out 2>&1; then cat out; fail "$1: prove exits 0"; fi
    grep -q -- "$2" out || { cat out; fail "$1: not the cause"; }
}
runs 'all | short | | 21' 'BUG_TWO_MORE | | two more'
./prove > out 2>&1 || { cat out; fail "prove fails"; }
grep -q 'all .* no error' out || { cat out; fail "the run is not in the table"; }
grep -q 'BUG_TWO_MORE .* found: assertion' out || { cat out; fail "the revert is not in the table"; }
runs 'all | short | BUG_TWO_MORE | 21' '# none'
fails "an error, and no line" 'toy, all: assertion violated'
grep -q 'no line for BUG_TWO_MORE' out || { cat out; fail "a revert without a line is not noticed"; }
sed -i 's/n = 22;/skip;/' toy.pml
runs '# none' 'BUG_TWO_MORE | | nothing'
fails "a fault that is none" 'BUG_TWO_MORE was not found'
sed -i 's/^depth=.*/depth=10/' prove
runs 'all | short | | 21' 'BUG_TWO_MORE | | two more'
fails "a search that was cut short" 'not complete'
echo ok
