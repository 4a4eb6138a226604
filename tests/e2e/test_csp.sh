#!/bin/sh
# sefl csp as a process: it becomes ready, obeys signals, and refuses inconsistent files.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
logged() { grep -q "$1" "$dir/log/csp"; }

# misuse
expect 2 "$SEFL" csp; says "no settings"
expect 2 "$SEFL" csp --lisen x; says "did you mean --listen?"
expect 2 "$SEFL" csp x; says 'does not take the argument "x"'
expect 2 "$SEFL" csp --listen 127.0.0.1:0; says "tls.cert"
expect 1 "$SEFL" csp -c "$dir/none.yml"; says "none.yml"

fed_provision f --clients 2
printf 'listen: 127.0.0.1:0\nthread: 2\n' > "$dir/bad.yml"
expect 2 "$SEFL" csp -c "$dir/bad.yml"; says "bad.yml:2:1"; says 'did you mean "threads"?'
yml=$fed/csp/csp.yml
expect 2 "$SEFL" csp -c "$yml" --listen here; says "must be host:port"
head -c 64 /dev/urandom > "$dir/other.lock"
chmod 600 "$dir/other.lock"
expect 1 "$SEFL" csp -c "$yml" --key-lock "$dir/other.lock"; says "key.sealed"
expect 1 "$SEFL" csp -c "$yml" --sign-key "$fed/aggregator/sign.key"; says "another CSP"
expect 1 "$SEFL" csp -c "$yml" --ledger "$dir/none"; says "$dir/none"

# ready, a second one on the same state, SIGHUP, SIGTERM
fed_csp
grep -q '^127.0.0.1:[1-9][0-9]*$' "$fed/csp/ready" || fail "ready file: $(cat "$fed/csp/ready")"
expect 1 "$SEFL" csp -c "$yml" --listen 127.0.0.1:0 --ready-file ""
! logged "certificate expires soon" || fail "a certificate of a year expires soon"
"$SEFL" ca renew "$fed/ca/csp" --server "$fed/csp/cert.pem" --days 5 --out "$dir/new.pem" > /dev/null
cp "$dir/new.pem" "$fed/csp/cert.pem"
fed_kill HUP csp
fed_until 10 "certificates reloaded" logged "certificates reloaded"
fed_until 10 "warning of its end" logged "certificate expires soon"
cp "$yml" "$dir/kept.yml" # SIGHUP reloads the log level too: an invalid file is reported, a valid one takes effect
echo "nonsense: 1" >> "$yml"
fed_kill HUP csp
fed_until 10 "complaint" logged "settings not reloaded"
{ grep -v '^log:' "$dir/kept.yml"; echo "log: error"; } > "$yml"
fed_kill HUP csp
sleep 0.5
lines=$(grep -c "certificates reloaded" "$dir/log/csp")
fed_kill HUP csp
sleep 1
[ "$(grep -c "certificates reloaded" "$dir/log/csp")" -eq "$lines" ] || fail "the log level was not read again"
cp "$dir/kept.yml" "$yml"
fed_kill HUP csp
again() { [ "$(grep -c "certificates reloaded" "$dir/log/csp")" -gt "$lines" ]; }
fed_until 10 "info again" again
fed_kill TERM csp
fed_done csp 10
[ ! -e "$fed/csp/ready" ] || fail "the ready file is still there"

# after kill -9 it starts again
fed_csp
fed_kill KILL csp
fed_wait csp 10
fed_csp
fed_kill TERM csp
fed_done csp 10
echo "sefl csp: ok"
