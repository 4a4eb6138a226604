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

# every length is of a harness that is there
grep -v '^#' tests/fuzz/LENGTHS | while read -r h n _; do
    grep -qx "$h" "$dir/have" || fail "tests/fuzz/LENGTHS names the harness $h, which is not there"
    [ "$n" -ge 64 ] && [ "$n" -le 65536 ] || fail "$h: inputs of $n bytes"
done || exit 1
# and every seed fits
for f in tests/fuzz/corpus/*/*; do
    h=$(basename "$(dirname "$f")")
    most=$(awk -v h="$h" '$1 == h { print $2 }' tests/fuzz/LENGTHS)
    [ "$(wc -c < "$f")" -le "${most:-4096}" ] || fail "$f is longer than ${most:-4096} bytes"
done
# what libFuzzer does not watch is there
sed -n 's|^src:\*/||p' tests/fuzz/kernels.txt | while read -r pattern; do
    # shellcheck disable=SC2086  # a pattern
    ls $pattern > /dev/null 2>&1 || fail "tests/fuzz/kernels.txt names $pattern, which is not there"
done || exit 1

# the script counts: a harness that runs as often as it is asked to, but 41 times at most
mkdir -p "$dir/build/tests"
fake=$dir/build/tests/fuzz.base.readers
cat > "$fake" << 'END'
#!/bin/sh
for a; do case $a in -runs=*) n=${a#-runs=} ;; esac; done
echo "$n" >> "$0.asked"
[ "$n" -le 41 ] && [ "$n" -ge 0 ] || n=41
echo "stat::number_of_executed_units: $n"
END
chmod +x "$fake"
runs() { # RUNS_EACH: what the script says goes to out
    RUNS_EACH=$1 scripts/fuzz "$dir/build" > "$dir/out" 2>&1
}
runs 41 || fail "41 of 41: $(cat "$dir/out")"
grep -q '41 runs, no finding' "$dir/out" || fail "41 of 41: $(cat "$dir/out")"
runs 100 && fail "82 of 100 executions are enough"
grep -q 'fewer than 100' "$dir/out" || fail "too few: $(cat "$dir/out")"
# and goes on where it stopped, with the same program only
runs 100 || fail "82 and 18: $(cat "$dir/out")"
[ "$(tr '\n' ' ' < "$fake.asked")" = "41 59 18 " ] || fail "asked for $(cat "$fake.asked")"
runs 100 || fail "done before: $(cat "$dir/out")"
grep -q 'done before' "$dir/out" || fail "done before: $(cat "$dir/out")"
[ "$(wc -l < "$fake.asked")" -eq 3 ] || fail "ran again"
echo '# changed' >> "$fake"
runs 41 || fail "a changed program: $(cat "$dir/out")"
[ "$(tail -n 1 "$fake.asked")" = 41 ] || fail "a changed program was not run anew"
# a finding counts as none done
printf '#!/bin/sh\necho "stat::number_of_executed_units: 7"\nexit 77\n' > "$fake"
runs 41 && fail "a finding is no failure"
grep -q FAILED "$dir/out" || fail "a finding: $(cat "$dir/out")"
[ ! -f "$dir/build/fuzz.base.readers.done" ] || fail "executions up to a finding are kept"
echo ok
