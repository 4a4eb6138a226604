#!/bin/sh
# Every reader that faces a peer has a fuzz harness, every harness a corpus and a line in
# tests/fuzz/READERS; scripts/fuzz notices too few executions.
set -eu
fail() {
    echo "FAILED: $*" >&2
    exit 1
}
cd "$SEFL_SOURCE"
list=tests/fuzz/READERS
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

harnesses=$(find tests/fuzz -name 'fuzz_*.c')
layer_names() { # of a harness file: tests/fuzz/PATH/fuzz_NAME.c is LAYER.NAME; layers of two words
    sed 's|^tests/fuzz/||; s|/fuzz_|.|; s|\.c$||; s|config/yaml|config_yaml|; s|/|_|g'
}
echo "$harnesses" | layer_names | sort > "$dir/have"
grep -v '^#' $list | awk '{ for (i = NF; i > 0; i--) if ($i == "#") n = i - 1; if (!n) n = NF; print $n; n = 0 }' |
    grep -v '^-$' | sort -u > "$dir/listed"
while read -r h; do
    grep -qx "$h" "$dir/have" || fail "$list names the harness $h, which is not there"
    [ -n "$(ls "tests/fuzz/corpus/$h" 2> /dev/null)" ] || fail "$h has no corpus"
done < "$dir/listed"
while read -r h; do
    grep -qx "$h" "$dir/listed" || fail "the harness $h is not in $list"
done < "$dir/have"

# functions of our headers that read a span
find src -name '*.h' -exec cat {} + | tr '\n' ' ' | sed 's/;/;\n/g' |
    grep -oE '[a-z0-9_]+_(read|check|feed|open)\([^;]*sefl_span' | sed 's/(.*//' |
    grep -v "^thing_read$" | grep -v "^crowd_" | sort -u > "$dir/functions"
[ "$(wc -l < "$dir/functions")" -ge 12 ] || fail "the pattern finds too little"
while read -r f; do
    grep -q "^$f " $list || fail "$f reads bytes and is not in $list: which harness tries it?"
done < "$dir/functions"
grep -v '^#' $list | while read -r f _; do
    grep -rqE "\b$f" src || fail "$list names $f, which is gone"
done || exit 1

# the script counts
mkdir -p "$dir/build/tests"
printf '#!/bin/sh\necho "stat::number_of_executed_units: 41"\n' > "$dir/build/tests/fuzz.base.readers"
chmod +x "$dir/build/tests/fuzz.base.readers"
RUNS_EACH=41 scripts/fuzz "$dir/build" > "$dir/out" || fail "41 of 41: $(cat "$dir/out")"
RUNS_EACH=42 scripts/fuzz "$dir/build" > "$dir/out" 2>&1 && fail "41 of 42 executions are enough"
echo ok
