#!/bin/sh
# docs/OPERATING.md is run: every ```sh block, in order, in one shell, in an empty folder.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
if ! command -v openssl > /dev/null; then
    echo "no openssl here: docs/OPERATING.md is not run"
    exit 0
fi
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
mkdir "$dir/bin" "$dir/work"
ln -s "$SEFL" "$dir/bin/sefl"
doc=$SEFL_SOURCE/docs/OPERATING.md
awk '/^```sh$/ { on = 1; n++; print "echo \"==== block " n " $(date +%T)\" >&2"; next } /^```$/ { on = 0 } on' "$doc" > "$dir/all.sh"
blocks=$(grep -c '^echo "==== block' "$dir/all.sh")
[ "$blocks" -ge 12 ] || fail "only $blocks blocks in $doc"
# every other fence would hide commands from this test
grep -n '^```..*' "$doc" | grep -v '```sh$' && fail "another kind of block in $doc"

# The document's programs in the background are children of its shell: a group of their own to end.
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
    PROXY="http://$(cat "$dir/proxy.at")" sh "$dir/run.sh" "$dir"
FED_LOG_LINES=60
limit=120
[ -z "$SEFL_SANITIZE" ] || limit=500
fed_wait document $limit
if [ "$rc" -ne 0 ]; then
    tail -n 5 "$dir"/work/*/log* >&2 || :
    fail "the document exits $rc"
fi
grep -q "^CONNECT 127.0.0.1:$port 200" "$dir/log/proxy" || fail "nobody came through the proxy"
grep -q "round 2" "$dir/work/north/log" || grep -q '"round":2' "$dir/work/north/log" || fail "no second round"
for n in 1 2 3; do
    grep -q '"event":"task over"' "$dir/work/site-$n/log" || fail "site $n did not finish"
    grep -q '"event":"task over"' "$dir/work/site-$n/log2" || fail "site $n did not finish the second task"
done
# what must not travel
find "$dir/work/meeting" -name '*.key' -o -name '*.lock' | grep . && fail "a secret at the meeting"
note "all done: $blocks blocks"
