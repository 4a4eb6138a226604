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

# kits for several machines (tests/e2e/test_kits.sh runs them)
for bad in as.example as.example,csp.example,third ',csp.example' 'as.example,' 'as example,csp.example' as:0,csp \
    as:65536,csp 10.0.0.1:7,10.0.0.1:7 '[fd00::1,csp' 'as,;reboot'; do
    expect 2 "$SEFL" provision "$dir/k" --hosts "$bad"; says "--hosts"
done
expect 2 "$SEFL" provision "$dir/k" --hosts as,csp --port-base 0; says "needs a port"
[ ! -e "$dir/k" ] || fail "something is left"
expect 0 "$SEFL" provision "$dir/k" --clients 2 --words 300 --hosts as.example:7443,fd00::2 --json; says '/k/kits"'
mkdir "$dir/m" && cd "$dir/m"
for kit in aggregator csp client-01 client-02; do
    tar -xf "$dir/k/kits/$kit.tar" || fail "tar cannot unpack $kit"
    [ "$(wc -l < sefl-trial-$kit/README)" -eq 5 ] || fail "README of $kit: $(cat sefl-trial-$kit/README)"
    grep -q "FOR TRIALS ONLY" sefl-trial-$kit/README || fail "README of $kit"
    role=${kit%-0*}
    sed -i "s|/opt/|$dir/m/|" sefl-trial-$kit/*.service
    if command -v systemd-analyze > /dev/null; then
        said=$(systemd-analyze verify --man=no "$dir/m/sefl-trial-$kit/sefl-trial-$kit.service" 2>&1) || fail "$kit: $said"
    fi
    expect 0 "$SEFL" config check "sefl-trial-$kit/$role/$role.yml"
    expect 1 env SEFL="$dir/none" "sefl-trial-$kit/start"; says "make install"
    expect 2 env SEFL="$SEFL" "sefl-trial-$kit/start" --no-such-option; says "sefl $role"
done
grep -qx 'listen: 0.0.0.0:7443' sefl-trial-aggregator/aggregator/aggregator.yml || fail "listen"
grep -qx 'csp: "\[fd00::2\]:7001"' sefl-trial-aggregator/aggregator/aggregator.yml || fail "csp"
grep -qx 'listen: "\[::\]:7001"' sefl-trial-csp/csp/csp.yml || fail "listen of CSP"
grep -qx 'server: as.example:7443' sefl-trial-client-02/client/client.yml || fail "server"
# only the owner reads archives and secrets; no secret is in two kits
[ -z "$(find "$dir/k/kits" -type f ! -perm 600)" ] || fail "an archive is open to others"
secrets=$(find . -name '*.key' -o -name key.pem -o -name key.sealed -o -name key.lock)
[ "$(echo "$secrets" | wc -w)" -eq 10 ] || fail "secrets: $secrets" # 3 of AS, 5 of CSP, 1 of each client
for s in $secrets; do [ -z "$(find "$s" -perm /077)" ] || fail "$s is open to others"; done
# shellcheck disable=SC2086 # a list of words
[ -z "$(sha256sum $secrets | cut -d' ' -f1 | sort | uniq -d)" ] || fail "two parties have the same secret"
if command -v openssl > /dev/null; then
    openssl x509 -in sefl-trial-aggregator/aggregator/cert.pem -noout -checkhost as.example | grep -q "does match" ||
        fail "AS's certificate is for another host"
    openssl x509 -in sefl-trial-csp/csp/cert.pem -noout -checkip fd00::2 | grep -q "does match" || fail "CSP's address"
fi
cd "$SEFL_SOURCE"
