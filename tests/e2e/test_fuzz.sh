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
    grep -oE '[a-z0-9_]+_(read|read_over|check|feed|open|parse|from_pem)\([^;]*sefl_span' | sed 's/(.*//' |
    grep -v "^thing_read$" | grep -v "^crowd_" | sort -u > "$dir/functions"
[ "$(wc -l < "$dir/functions")" -ge 30 ] || fail "the pattern finds too little"
while read -r f; do
    grep -q "^$f " $list || fail "$f reads bytes and is not in $list: which harness tries it?"
done < "$dir/functions"

find src -name '*.[ch]' -exec cat {} + > "$dir/src"
# LIST: what it says is so. Prints the first line that is not.
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
        file=tests/fuzz/$(echo "$1" | sed 's|config_yaml|config/yaml|; s|\.|/fuzz_|').c
        case $why in
        *" by "*" in "*)
            by=${why#* by } by=${by%% *}
            in=${why##* in }
            grep -qE "\b$by\(" "$file" || { echo "$by for $f: not called by $file"; return; }
            grep -qE "^[a-z].*\b$by\(" "$in" || { echo "$by for $f: not in $in"; return; }
            grep -qE "^[[:space:]].*\b$f\(" "$in" || { echo "$f: not called in $in"; return; }
            ;;
        *) grep -qE "^[[:space:]].*\b$f\b" "$file" || { echo "$f: not called by $file"; return; } ;;
        esac
    done
}
said=$(honest $list)
[ -z "$said" ] || fail "$list names $said"
# ... and a lie is found
lie() { # LINE
    echo "$1" > "$dir/lie"
    [ -n "$(honest "$dir/lie")" ] || fail "not noticed: $1"
}
lie "x509_request_read sites net.x509"
lie "no_such_reader sites net.x509"
lie "version_read clients net.x509 # by agg_http_begin in src/roles/aggregator/http.c"
lie "version_read clients roles.agg_http # by agg_http_begin in src/roles/aggregator/ingest.c"
lie "x509_request_read sites roles.agg_http # by agg_http_begin in src/roles/aggregator/http.c"
lie "sign_check everybody -"

# the script counts
mkdir -p "$dir/build/tests"
printf '#!/bin/sh\necho "stat::number_of_executed_units: 41"\n' > "$dir/build/tests/fuzz.base.readers"
chmod +x "$dir/build/tests/fuzz.base.readers"
RUNS_EACH=41 scripts/fuzz "$dir/build" > "$dir/out" || fail "41 of 41: $(cat "$dir/out")"
RUNS_EACH=42 scripts/fuzz "$dir/build" > "$dir/out" 2>&1 && fail "41 of 42 executions are enough"
echo ok
