#!/bin/sh
# Runs docs/OPERATING.md: every ```sh block, in order, in one shell, in an empty folder. The test fails if the document
# names a command that was not run: in another kind of block, in the text, or in a branch that was not taken.
# shellcheck disable=SC2016 # backquotes of Markdown
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
command -v openssl > /dev/null || fail "no openssl here: scripts/bootstrap --test"
mkdir "$dir/bin" "$dir/work"
cat > "$dir/bin/sefl" << END
#!/bin/sh
case \${2:-} in [a-z]*) echo "\$1 \$2" ;; *) echo "\$1" ;; esac >> "$dir/calls"
exec "$SEFL" "\$@"
END
chmod +x "$dir/bin/sefl"

# DOCUMENT SCRIPT: extracts its blocks; fails for a fence that would hide commands
script_of() {
    if grep -nE '^([[:space:]]+```|~~~|````|```..*)' "$1" | grep -v '^[0-9]*:```sh$'; then return 1; fi
    awk '/^```sh$/ { on = 1; n++; print "echo \"==== block " n " $(date +%T)\" >&2"; next }
        /^```$/ { on = 0 } on' "$1" > "$2"
}
# DOCUMENT: "command" or "command action" of every call in blocks and text
named_in() {
    grep -oE '(^|[^./a-zA-Z-])sefl [a-z][a-z-]*( [a-z][a-z-]*)?( |`|$)' "$1" | sed 's/^.*sefl //; s/[` ]*$//' | sort -u
}
# FILE-OF-NAMES FILE-OF-CALLS: the names that were never called
not_called() {
    while read -r name; do grep -qE "^$name( |\$)" "$2" || echo "$name"; done < "$1"
}
doc=$SEFL_SOURCE/docs/OPERATING.md
script_of "$doc" "$dir/all.sh" || fail "another kind of block in $doc"
blocks=$(grep -c '^echo "==== block' "$dir/all.sh")
[ "$blocks" -ge 25 ] || fail "only $blocks blocks in $doc"
named_in "$doc" > "$dir/named"
for name in "ca new" "ca token" "ca revoke" "ca restore" "ca renew" "ca trust-issuer" "ca sign" "ca export" enroll; do
    grep -qx "$name" "$dir/named" || fail "the document does not tell about 'sefl $name'"
done

# The document's background programs are children of its shell: their own process group, so that the test can end
# them.
cat > "$dir/run.sh" << 'END'
cd "$1/work"
PATH=$1/bin:$PATH
set -eu
trap 'kill $(jobs -p) 2> /dev/null || :' EXIT
. "$1/all.sh"
END
fed_start proxy "$SEFL_TOOLS/proxy" --ready "$dir/proxy.at"
fed_until 10 "proxy" test -s "$dir/proxy.at"
port=$((20000 + $$ % 9000))
fed_start document env AS="127.0.0.1:$port" CSP="127.0.0.1:$((port + 1))" \
    AS_HEALTH=$((port + 2)) CSP_HEALTH=$((port + 3)) \
    PROXY="http://$(cat "$dir/proxy.at")" sh "$dir/run.sh" "$dir"
FED_LOG_LINES=60
fed_wait document 120
if [ "$rc" -ne 0 ]; then
    tail -n 5 "$dir"/work/*/log* >&2 || :
    fail "the document exits $rc"
fi
# the document never tells anybody to copy the secret key or its lock
copies=$(find "$dir/work" -path '*/south/*' -prune -o \( -name 'key*.key' -o -name 'key*.lock' \) -print)
[ -z "$copies" ] || fail "copies of CSP's key: $copies"
missing=$(not_called "$dir/named" "$dir/calls")
[ -z "$missing" ] || fail "named and never run: $missing"
# ... and the test would detect it
printf '%s\n' '```sh' 'sefl ca new x --name X' '```' '`sefl simulate -c x.yml`' > "$dir/other.md"
named_in "$dir/other.md" > "$dir/named"
[ "$(not_called "$dir/named" "$dir/calls")" = simulate ] || fail "a command that was not run is not noticed"
printf '%s\n' '```text' 'sefl simulate' '```' > "$dir/other.md"
if script_of "$dir/other.md" "$dir/other.sh" > /dev/null; then fail "a hidden block is not noticed"; fi

# the counters that the document explains exist
sed -n '/^| counter rises/,/^$/s/^| \([^|]*\)|.*/\1/p' "$doc" | grep -o '`[^`]*`' | tr -d '`' > "$dir/counters"
[ "$(wc -l < "$dir/counters")" -ge 20 ] || fail "the table of counters"
while read -r c; do
    grep -qF "\"$c\":" "$dir/work/north/state/counters.json" "$dir/work/south/state/counters.json" || fail "no counter is called $c"
done < "$dir/counters"

grep -q "^CONNECT 127.0.0.1:$port 200" "$dir/log/proxy" || fail "nobody came through the proxy"
grep -q "round 2" "$dir/work/north/log" || grep -q '"round":2' "$dir/work/north/log" || fail "no second round"
for n in 1 2 3 4; do
    grep -q '"event":"task over"' "$dir/work/site-$n/log" || fail "site $n did not finish"
    grep -q '"event":"task over"' "$dir/work/site-$n/log2" || fail "site $n did not finish the second task"
done
# files that must not be copied
find "$dir/work/meeting" -name '*.key' -o -name 'key.pem' -o -name '*.lock' -o -name 'from-*' | grep . && fail "a secret at the meeting"
for n in 1 2 3 4; do
    if [ -e "$dir/work/site-$n/key.pem" ] && grep -rqF "$(sed -n 2p "$dir/work/site-$n/key.pem")" "$dir/work/north" "$dir/work/south"; then
        fail "the key of site $n has left its machine"
    fi
done
note "all done: $blocks blocks"
