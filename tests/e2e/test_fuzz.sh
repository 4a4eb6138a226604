#!/bin/sh
# Every reader of bytes from a peer has a fuzz harness, every harness has a corpus and a line in tests/fuzz/READERS;
# scripts/fuzz detects too few executions.
set -eu
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
cd "$SEFL_SOURCE"
list=tests/fuzz/READERS

harnesses=$(find tests/fuzz -name 'fuzz_*.c')
layer_names() { # of a harness file: tests/fuzz/FLOOR/PATH/fuzz_NAME.c is LAYER.NAME; layers of two words
    sed 's|^tests/fuzz/||; s|^learn/fuzz_|model.|; s|^parties/fuzz_|roles.|; s|^core/ledger/|core/store/|; s|^[a-z]*/||
        s|/fuzz_|.|; s|\.c$||; s|config/yaml|config_yaml|; s|/|_|g'
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

# the corpus of tasks has the current version: a task of another one is refused at its first field
version=$(sed -n 's/^#define TASK_VERSION *//p' src/core/protocol/task_fields.h)
for f in tests/fuzz/corpus/protocol.task/*; do
    grep -qa '"sefl_task"' "$f" || continue
    grep -qa "\"sefl_task\": $version," "$f" || fail "$f is not of task version $version"
done

# functions of our headers that read a span
find src -name '*.h' -exec cat {} + | tr '\n' ' ' | sed 's/;/;\n/g' |
    grep -oE '[a-z0-9_]+_(read|read_over|check|feed|open|parse|from_pem)\([^;]*sefl_span' | sed 's/(.*//' |
    grep -v "^thing_read$" | grep -v "^population_" | sort -u > "$dir/functions"
[ "$(wc -l < "$dir/functions")" -ge 30 ] || fail "the pattern finds too little"
while read -r f; do
    grep -q "^$f " $list || fail "$f reads bytes and is not in $list: which harness tries it?"
done < "$dir/functions"

find src -name '*.[ch]' -exec cat {} + > "$dir/src"
# LIST: checks every line of the list. Prints the first line that is wrong.
honest() {
    grep -v '^#' "$1" | while IFS= read -r line; do
        why=${line#*#}
        [ "$why" != "$line" ] || why=
        # shellcheck disable=SC2086 # words
        set -- ${line%%#*}
        f=$1
        while [ $# -gt 1 ]; do shift; done
        grep -qE "\b$f\b" "$dir/src" || { echo "$f, which is gone"; return; }
        if [ "$1" = - ]; then
            [ -n "$why" ] || { echo "$f without a harness or a reason"; return; }
            continue
        fi
        for file in $harnesses; do [ "$(echo "$file" | layer_names)" != "$1" ] || break; done
        case $why in
        *" by "*" in "*)
            by=${why#* by } by=${by%% *}
            in=${why##* in }
            grep -qE "\b$by\(" "$file" || { echo "$by for $f: not called by $file"; return; }
            grep -qE "^[a-z].*\b$by\(" "$in" || { echo "$by for $f: not in $in"; return; }
            grep -qE "^[[:space:]].*\b$f\b" "$in" || { echo "$f: not called in $in"; return; }
            ;;
        *) grep -qE "^[[:space:]].*\b$f\b" "$file" || { echo "$f: not called by $file"; return; } ;;
        esac
    done
}
said=$(honest $list)
[ -z "$said" ] || fail "$list names $said"
# ... and detects a wrong line
lie() { # LINE
    echo "$1" > "$dir/lie"
    [ -n "$(honest "$dir/lie")" ] || fail "not noticed: $1"
}
lie "x509_request_read sites net.x509"
lie "no_such_reader sites net.x509"
lie "version_read clients net.x509 # by agg_http_begin in src/parties/as/as_http.c"
lie "version_read clients roles.agg_http # by agg_http_begin in src/parties/as/ingest.c"
lie "x509_request_read sites roles.agg_http # by agg_http_begin in src/parties/as/as_http.c"
lie "sign_check everybody -"

# the coverage that `make fuzz` prints has the file of every reader that a harness tries
scripts/fuzz-coverage --files > "$dir/files"
grep -v '^#' $list | sed 's/[[:space:]]*#.*//' | awk '$NF != "-" { print $NF, $1 }' | sort -u > "$dir/tried"
awk '{ print $1, $3 }' "$dir/files" | sort -u > "$dir/covered"
cmp -s "$dir/tried" "$dir/covered" ||
    fail "no file found for these readers: $(comm -23 "$dir/tried" "$dir/covered" | tr '\n' ';')"
grep -qx 'net.web_server src/host/net/web_server.c on_connection' "$dir/files" || fail "the file that the list names is not taken"

# every length belongs to an existing harness
grep -v '^#' tests/fuzz/LENGTHS | while read -r h n _; do
    grep -qx "$h" "$dir/have" || fail "tests/fuzz/LENGTHS names the harness $h, which is not there"
    [ "$n" -ge 64 ] && [ "$n" -le 65536 ] || fail "$h: inputs of $n bytes"
done || exit 1
# and every seed fits
find tests/fuzz/corpus -mindepth 2 -type f -printf '%h %s %p\n' |
    awk 'NR == FNR { most[$1] = $2; next }
        { sub(/.*\//, "", $1); m = ($1 in most) ? most[$1] : 4096; if ($2 > m) print $3 " is longer than " m " bytes" }' \
        tests/fuzz/LENGTHS - > "$dir/long"
[ ! -s "$dir/long" ] || fail "$(cat "$dir/long")"
# the functions that libFuzzer does not instrument exist
sed -n 's|^src:\*/||p' tests/fuzz/kernels.txt | while read -r pattern; do
    # shellcheck disable=SC2086  # a pattern
    ls $pattern > /dev/null 2>&1 || fail "tests/fuzz/kernels.txt names $pattern, which is not there"
done || exit 1

# the script counts executions: a fake harness runs as often as requested, but at most 41 times
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
runs() { # RUNS_EACH: the script's output goes to out
    RUNS_EACH=$1 scripts/fuzz "$dir/build" > "$dir/out" 2>&1
}
runs 41 || fail "41 of 41: $(cat "$dir/out")"
grep -q '41 runs, no finding' "$dir/out" || fail "41 of 41: $(cat "$dir/out")"
runs 100 && fail "82 of 100 executions are enough"
grep -q 'fewer than 100' "$dir/out" || fail "too few: $(cat "$dir/out")"
# and continues where it stopped, but only with the same program
runs 100 || fail "82 and 18: $(cat "$dir/out")"
[ "$(tr '\n' ' ' < "$fake.asked")" = "41 59 18 " ] || fail "asked for $(cat "$fake.asked")"
runs 100 || fail "done before: $(cat "$dir/out")"
grep -q 'done before' "$dir/out" || fail "done before: $(cat "$dir/out")"
[ "$(wc -l < "$fake.asked")" -eq 3 ] || fail "ran again"
echo '# changed' >> "$fake"
runs 41 || fail "a changed program: $(cat "$dir/out")"
[ "$(tail -n 1 "$fake.asked")" = 41 ] || fail "a changed program was not run anew"
# after a finding no executions are recorded
printf '#!/bin/sh\necho "stat::number_of_executed_units: 7"\nexit 77\n' > "$fake"
runs 41 && fail "a finding is no failure"
grep -q FAILED "$dir/out" || fail "a finding: $(cat "$dir/out")"
[ ! -f "$dir/build/fuzz.base.readers.done" ] || fail "executions up to a finding are kept"
echo ok
