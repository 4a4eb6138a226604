#!/bin/sh
# sefl provision: what it creates and refuses; a failure leaves nothing.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
nothing() { [ -z "$(ls -A "$dir")" ] || fail "something is left: $(ls -A "$dir")"; }

# misuse
expect 2 "$SEFL" provision; says "requires a folder"
expect 2 "$SEFL" provision a b; says "\"b\""
expect 2 "$SEFL" provision "$dir/f" --clients 1; says "--clients must be a whole number from 2 to 1000"
expect 2 "$SEFL" provision "$dir/f" --bits 2222; says "one of: 2048 3072 4096"
expect 2 "$SEFL" provision "$dir/f" --bits 2048; says "for the scheme paillier"
expect 2 "$SEFL" provision "$dir/f" --port-base 65535; says "from 0 to 65534"
expect 2 "$SEFL" provision "$dir/f" --schema pad; says "did you mean --scheme?"
expect 2 "$SEFL" provision "$dir/f" --scheme rsa; says "--scheme: crypto.scheme must be one of: pad paillier"
expect 2 "$SEFL" provision "$dir/f" --set model.blok=8; says 'did you mean "model.block"?'
expect 2 "$SEFL" provision "$dir/f" --clients 4 --set rounds.threshold=5
says "threshold"
expect 1 "$SEFL" provision "$dir/f" --data "$dir/none"; says "No such file"
expect 1 "$SEFL" provision "$dir/no/such/f"; says "cannot create the folder"
nothing

# stopped by a signal: nothing is left
"$SEFL" provision "$dir/f" --scheme paillier --bits 4096 2> /dev/null &
pid=$!
n=0
until ls "$dir"/f.tmp-* > /dev/null 2>&1; do
    n=$((n + 1))
    [ $n -lt 100 ] || fail "nothing is being made"
    sleep 0.02
done
kill -TERM $pid
rc=0
wait $pid || rc=$?
[ $rc -eq 1 ] || [ $rc -eq 0 ] || fail "SIGTERM: exit $rc" # 0: it was quicker
[ $rc -eq 0 ] || nothing
rm -rf "$dir/f"

# its output, on stdout and stderr
expect 0 "$SEFL" provision "$dir/f" --clients 3 --words 300 --port-base 7100
says "FOR TRIALS ONLY"; says "3 clients"; says "sefl csp --config $dir/f/csp/csp.yml"
[ "$(find "$dir" -name '*.tmp-*' | wc -l)" -eq 0 ] || fail "unfinished files"
grep -q '^listen: 127.0.0.1:7100$' "$dir/f/aggregator/aggregator.yml" || fail "port of AS"
grep -q '^csp: 127.0.0.1:7101$' "$dir/f/aggregator/aggregator.yml" || fail "port of CSP"
[ "$(find "$dir/f" -perm /077 -type d | wc -l)" -eq 0 ] || fail "a folder is open to others"
[ -z "$(find "$dir/f" -perm /077 \( -name '*.key' -o -name key.pem -o -name 'key.[ls]*' \))" ] ||
    fail "a key is open to others"
expect 1 "$SEFL" provision "$dir/f"; says "is not empty: choose another folder"
expect 0 "$SEFL" key check "$dir/f/csp/key.sealed" --key-file "$dir/f/csp/key.lock"
says "pad: the root"; says "opens"
[ ! -e "$dir/f/public/key.pub" ] || fail "a root has no public half"

# certificates: each role trusts the CA of its peers and no other
if command -v openssl > /dev/null; then
    good() { openssl verify -CAfile "$1" "$2" > /dev/null 2>&1 || fail "$2 is not trusted by $1"; }
    bad() { ! openssl verify -CAfile "$1" "$2" > /dev/null 2>&1 || fail "$2 is trusted by $1"; }
    good "$dir/f/aggregator/peers.pem" "$dir/f/clients/client-01/cert.pem"
    bad "$dir/f/aggregator/peers.pem" "$dir/f/csp/cert.pem"
    good "$dir/f/aggregator/csp_peers.pem" "$dir/f/csp/cert.pem"
    bad "$dir/f/aggregator/csp_peers.pem" "$dir/f/clients/client-01/cert.pem"
    good "$dir/f/csp/peers.pem" "$dir/f/aggregator/cert.pem"
    good "$dir/f/clients/client-02/peers.pem" "$dir/f/aggregator/cert.pem"
    bad "$dir/f/csp/peers.pem" "$dir/f/csp/cert.pem"
    bad "$dir/f/clients/client-02/peers.pem" "$dir/f/csp/cert.pem"
    for host in localhost 127.0.0.1 ::1; do
        openssl x509 -in "$dir/f/csp/cert.pem" -noout -ext subjectAltName |
            grep -q "$(echo "$host" | sed 's/::1/0:0:0:0:0:0:0:1/')" || fail "no $host in the certificate"
    done
fi

# --json output; with port 0 the ready files have the addresses
expect 0 "$SEFL" provision "$dir/g" --clients 2 --bits 2048 --words 300 --port-base 0 --json \
    --scheme paillier --set rounds.count=2
out=$(printf '%s\n' "$out" | grep '^{')
says '"clients":2'
if command -v python3 > /dev/null; then printf '%s\n' "$out" | python3 -m json.tool > /dev/null || fail "JSON"; fi
grep -q '^# csp: pass host:port' "$dir/g/aggregator/aggregator.yml" || fail "csp without a port"
grep -q '"count": 2,' "$dir/g/public/task.json" || fail "--set"
expect 0 "$SEFL" key check "$dir/g/csp/key.sealed" --key-file "$dir/g/csp/key.lock" \
    --pub "$dir/g/public/key.pub"
says "the public key matches"
grep -q '"scheme": "paillier"' "$dir/g/public/task.json" || fail "--scheme"
