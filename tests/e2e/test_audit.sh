#!/bin/sh
# sefl audit replays a record; a record that was changed or truncated or that belongs to another CSP proves nothing.
set -eu
[ "${SEFL_CORE_ONLY:-0}" = 1 ] && { echo "not part of a core-only build"; exit 0; }
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
expect() { # CODE command...: runs it, output in $out
    want=$1
    shift
    rc=0
    out=$("$@" 2>&1) || rc=$?
    [ "$rc" -eq "$want" ] || fail "'$*' exits $rc, not $want: $out"
}
cd "$dir"

expect 2 "$SEFL" audit; says "requires a record"
expect 2 "$SEFL" audit a b; says "\"b\""
expect 2 "$SEFL" audit a --sample --json; says "--sample cannot be combined"
expect 1 "$SEFL" audit nowhere; says "nowhere"

expect 0 "$SEFL" audit good --sample
[ "$(stat -c '%a %s' good)" = "600 552" ] || fail "a record of $(stat -c '%a %s' good)"
expect 1 "$SEFL" audit good --sample # never replaced
expect 0 "$SEFL" audit good; says "verdict     honest"; says "values      2000"
expect 0 "$SEFL" audit good --json; says '"verdict":"honest"'

change() { # BYTE: file "bad" is "good" with that byte changed
    cp good bad
    old=$(od -An -tu1 -j "$1" -N 1 good | tr -d ' ')
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\$(printf %03o $((old ^ 1)))" | dd of=bad bs=1 seek="$1" conv=notrunc 2> /dev/null
    cmp -s good bad && fail "byte $1 is as it was"
    return 0
}
for at in 8 30 130 240 270 310 340 400 440 500 540; do
    change "$at"
    expect 1 "$SEFL" audit bad; says "verdict     nothing"
done
change 3
expect 1 "$SEFL" audit bad; says "does not begin with"
head -c 551 good > bad
expect 1 "$SEFL" audit bad; says "551 bytes"

# the owner of the key
"$SEFL" audit good | sed -n "s/^CSP's key *\([0-9a-f]*\).*/\1/p" > csp.pub
expect 0 "$SEFL" audit good --csp csp.pub; says "honest"
"$SEFL" key sign --out other > /dev/null
expect 1 "$SEFL" audit good --csp other.pub; says "another CSP key"
echo "ok: records of audits"
