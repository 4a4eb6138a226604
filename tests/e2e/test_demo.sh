#!/bin/sh
# The demo runs, checks itself, and refuses what makes no sense.
set -eu
fail() { echo "FAILED: $*" >&2; exit 1; }
out=$("$SEFL" demo --help) || fail "no help"
rc=0
"$SEFL" demo --nonsense > /dev/null 2>&1 || rc=$?
[ "$rc" -eq 2 ] || fail "an unknown option exits $rc"
if [ "$SEFL_CORE_ONLY" = 1 ]; then
    "$SEFL" demo | grep -q 'core only' || fail "the core demo does not say so"
    exit 0
fi
for bad in "--scheme rsa" "--bits 1024" "--clients 0" "--values x" "--noise -1" "--noise 1e5" extra; do
    rc=0
    # shellcheck disable=SC2086 # an option and its value
    "$SEFL" demo $bad > /dev/null 2>&1 || rc=$?
    [ "$rc" -eq 2 ] || fail "demo $bad exits $rc"
done
out=$("$SEFL" demo --values 3000 --bits 2048) || fail "demo: $out"
for words in "secure sum with lwe" "secure sum with paillier" "standard deviation" "Who saw what"; do
    case $out in *"$words"*) ;; *) fail "'$words' is not in: $out" ;; esac
done
echo ok
