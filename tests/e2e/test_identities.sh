#!/bin/sh
# Admission: two operators, sites that enrol with tokens from both, revocation while everything runs.
# shellcheck disable=SC2119,SC2120 # functions of federation.lib.sh
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"

has_count() { # FILE NAME: above 0
    grep -q "\"$2\":[1-9]" "$1" 2> /dev/null
}
as_counts() { has_count "$fed/aggregator/state/counters.json" "$1"; }
csp_counts() { has_count "$fed/csp/state/counters.json" "$1"; }

# ---- an operator's folder, without servers
cd "$dir"
expect 2 "$SEFL" ca
expect 2 "$SEFL" ca nwe x; says "did you mean 'new'"
expect 2 "$SEFL" ca new x; says "new requires --name"
expect 2 "$SEFL" ca token x --name a --json; says "token does not take --json"
expect 1 "$SEFL" ca list x; says "No such file"
expect 2 "$SEFL" ca new x --name ""; says "new requires --name"
expect 2 "$SEFL" ca new x --name "  "; says "a name that identifies its operator"
[ ! -e x ] || fail "a folder without a name"
expect 0 "$SEFL" ca new ops --name Alpha
expect 1 "$SEFL" ca new ops --name Alpha; says "not empty"
[ -z "$(find ops -perm /077 \( -name '*.key' -o -name trust \))" ] || fail "a key is open to others"
expect 1 "$SEFL" ca token ops --name a; says "create the server's certificate first"
expect 0 "$SEFL" ca server ops --role aggregator --name as --hosts localhost,127.0.0.1
expect 1 "$SEFL" ca server ops --role csp --name csp --hosts localhost --out o2; says "belongs to the aggregator"
expect 2 "$SEFL" ca server ops --role aggregator --name as --hosts , --out o2; says "names no host"
expect 0 "$SEFL" ca renew ops --server ops/server/cert.pem --out next.pem # for the hosts it had
if command -v openssl > /dev/null; then
    openssl x509 -in next.pem -noout -ext subjectAltName > san
    grep -q "DNS:localhost, IP Address:127.0.0.1" san || fail "a renewed certificate is for $(cat san)"
fi
expect 2 "$SEFL" ca token ops --name "a b"; says "letters, digits"
expect 0 "$SEFL" ca token ops --name site-1 --out t1
grep -q '^sefl-token-1\.' t1 || fail "a token"
[ "$(stat -c %a t1)" = 600 ] || fail "a token that others can read"
expect 1 "$SEFL" ca token ops --name site-2 --out t1; says "nothing was changed"
# warned about, but created: a second token for a name, and a name that looks like another
cp -r ops twice
expect 0 "$SEFL" ca token twice --name site-1; says '"site-1" already has an open token'
expect 0 "$SEFL" ca token twice --name Site-1; says '"Site-1" and "site-1" are different sites'
case $out in *"already has an open token"*) fail "two names are taken for one" ;; esac
expect 0 "$SEFL" ca token twice --name site-0
case $out in *"two sites"* | *"already has an open token"*) fail "a note about nothing: $out" ;; esac
# a CA that expires before the certificate it issues: a warning with the date
long() { case $out in *"outlives its CA"*) fail "$1: $out" ;; esac; }
expect 0 "$SEFL" ca new brief --name Brief --days 30
expect 0 "$SEFL" ca server brief --role aggregator --name as --hosts localhost --days 20; long "a server within its CA"
expect 0 "$SEFL" ca renew brief --server brief/server/cert.pem --out brief/next.pem; says "not after 365 days"
expect 0 "$SEFL" ca server brief --role aggregator --name as --hosts localhost --out brief/tls --days 31
says "expires on 20"; says "not after 31 days"
expect 0 "$SEFL" enroll capital --csr-only --name short
expect 0 "$SEFL" ca sign brief --csr capital/csr.pem --name short --out short.pem; says "not after 365 days, because its CA expires then"
expect 0 "$SEFL" ca renew brief --name short --days 10 --out shorter.pem; long "a site within its CA"
expect 0 "$SEFL" ca renew brief --name short --days 40 --out longer.pem; says "not after 40 days"
rm longer.pem
expect 1 "$SEFL" ca revoke twice --name site-0; says "an open token for that name"
digits=$(printf '%s\n' "$out" | sed -n 's/.*--token \([0-9a-f]*\).*/\1/p')
expect 0 "$SEFL" ca revoke twice --token "$digits"
expect 1 "$SEFL" ca revoke twice --name site-0; says 'no active member "site-0"'
case $out in *"open token"*) fail "a cancelled token is open" ;; esac
expect 0 "$SEFL" enroll capital --csr-only --name SITE-1
expect 0 "$SEFL" ca sign twice --csr capital/csr.pem --name SITE-1 --out SITE-1.pem; says "are different sites"
expect 0 "$SEFL" ca list ops; says "members only"; says "open"; says "site-1"
if "$SEFL" ca list ops | grep -q site-2; then fail "a token that nobody got is open"; fi
# if the result or the list cannot be written, nothing changes
cp -r ops full
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do
    "$SEFL" ca token full --name "other-$i" > /dev/null 2>&1
done
[ "$(wc -c < full/trust)" -gt 4096 ] || fail "a list that small can write"
nothing() (
    trap '' XFSZ
    ulimit -f 0
    "$@"
)
small() ( # COMMAND...: with files of at most 2 KiB (4 KiB where the shell counts so)
    trap '' XFSZ
    ulimit -f 4
    "$@"
)
expect 1 nothing "$SEFL" ca new half --name Half # after a full disk nothing prevents the next attempt
[ ! -e half ] || fail "a half-made folder: $(ls half)"
expect 0 "$SEFL" ca new half --name Half
cp full/trust full.trust
unchanged() {
    cmp -s full/trust full.trust || fail "the list has changed: $1"
    [ -z "$(ls full/issued)" ] || fail "a certificate was issued: $1"
}
expect 1 "$SEFL" ca token full --name site-2 --out nowhere/t; unchanged "token, --out"
if [ -c /dev/full ]; then
    if "$SEFL" ca token full --name site-2 > /dev/full 2>&1; then fail "a token is printed nowhere"; fi
    unchanged "token, stdout"
fi
expect 1 small "$SEFL" ca token full --name site-2 --out t2; unchanged "token, list"
[ ! -e t2 ] || fail "a token that no list knows"
expect 1 small "$SEFL" ca token full --name site-2; says "discard what was printed: it is not valid"; unchanged "token on stdout, list"
expect 0 "$SEFL" enroll mailed --csr-only --name site-2
expect 1 "$SEFL" ca sign full --csr mailed/csr.pem --name site-2 --out nowhere/c; unchanged "sign, --out"
expect 1 small "$SEFL" ca sign full --csr mailed/csr.pem --name site-2 --out c2; unchanged "sign, list"
[ ! -e c2 ] || fail "a certificate of one who is no member"
expect 1 small "$SEFL" ca server full --role aggregator --name as --hosts localhost --out again; unchanged "server, list"
[ -z "$(ls again)" ] || fail "a server's key that no list knows"
expect 0 "$SEFL" ca sign full --csr mailed/csr.pem --name site-2 --out c2
expect 2 "$SEFL" ca revoke ops --name site-1 --token 00000000; says "give only one of"
expect 2 "$SEFL" ca trust-issuer ops --cert half/ca.pem --role csp --unit "Köln"; says "printable ASCII"
expect 1 "$SEFL" ca trust-issuer ops --cert ops/ca.pem --role client; says "own CA"
expect 0 "$SEFL" ca list ops --json
if command -v python3 > /dev/null; then printf '%s\n' "$out" | python3 -m json.tool > /dev/null || fail "JSON"; fi
id=$(printf '%s\n' "$out" | sed 's/.*"tokens":\[{"id":"\([0-9a-f]*\)".*/\1/')
expect 0 "$SEFL" ca revoke ops --token "$id"
expect 1 "$SEFL" ca revoke ops --token "$id"; says "used or cancelled"
expect 1 "$SEFL" ca revoke ops --name nobody; says "no active member"
expect 2 "$SEFL" ca revoke ops; says "pass --name or --key"
expect 0 "$SEFL" ca export ops --out pub
for file in pub/aggregator-ca.pem pub/aggregator.pub; do [ -s $file ] || fail "export: $file"; done
expect 1 "$SEFL" ca trust-issuer ops --cert ops/ca.pem --role csp; says "own CA"; says "--also"
expect 0 "$SEFL" ca trust-issuer ops --cert ops/ca.pem --role csp --also
# a wrong --role at CSP: reported, and undone without affecting the right role
"$SEFL" ca server half --role csp --name csp --hosts localhost > /dev/null
expect 0 "$SEFL" ca trust-issuer half --cert pub/aggregator-ca.pem --role client; says "cannot count the clients"
expect 1 "$SEFL" ca trust-issuer half --cert pub/aggregator-ca.pem --role aggregator; says "already trusted for the role client"
expect 0 "$SEFL" ca trust-issuer half --cert pub/aggregator-ca.pem --role aggregator --also
key=$(sed -n 's/^issuer \([0-9a-f]*\) client .*/\1/p' half/trust)
expect 2 "$SEFL" ca revoke half --name x --role client; says "requires --issuer"
expect 0 "$SEFL" ca revoke half --issuer "$key" --role client
roles() { "$SEFL" ca list half | sed -n 's/^issuer *[0-9a-f]* *\([a-z]*\) *\([a-z]*\) .*/\1 \2/p' | tr '\n' ' '; }
[ "$(roles)" = "revoked client active aggregator " ] || fail "one role revoked: $(roles)"
expect 1 "$SEFL" ca revoke half --issuer "$key" --role client; says "not active for the role client"
expect 0 "$SEFL" ca revoke half --issuer "$key"
expect 2 "$SEFL" ca restore half --issuer "$key"; says "choose one with --role"
expect 0 "$SEFL" ca restore half --issuer "$key" --role aggregator
[ "$(roles)" = "revoked client active aggregator " ] || fail "one role restored: $(roles)"
expect 0 "$SEFL" ca restore half --issuer "$key" --role client; says "cannot count the clients"
expect 0 "$SEFL" ca new klinik --name "Klinik, Nord"
expect 0 "$SEFL" ca trust-issuer half --cert klinik/ca.pem --role client --unit 'Radiology, "North" Wing'
expect 0 "$SEFL" ca list half; says '"Klinik, Nord CA"'; says 'unit Radiology, "North" Wing'
# two CAs whose key hashes share a prefix (an attacker can search for one): neither is mistaken for the other
digits=$(printf %s "$key" | cut -c1-8)
{
    sed /^end/,\$d half/trust
    sed -n "s/^issuer $digits........\(.* aggregator \)/issuer ${digits}00000000\1/p" half/trust
} > alike
printf 'end %s\n' "$(sha256sum < alike | cut -d' ' -f1)" >> alike
cp alike half/trust
expect 2 "$SEFL" ca revoke half --issuer "$digits"; says 'issuers begin with'
cmp -s alike half/trust || fail "an ambiguous revocation has changed the list"
expect 0 "$SEFL" ca revoke half --issuer "$key"
if [ "$(id -u)" -eq 0 ]; then # if root writes the list, the server cannot read it
    chown -R nobody ops
    expect 1 "$SEFL" ca revoke ops --name nobody; says "belongs to nobody"
    expect 0 "$SEFL" ca list ops
    chown -R root ops
fi
printf 'x' >> ops/trust
expect 1 "$SEFL" ca list ops; says "trust list"

# ---- a federation
fed_provision f --clients 3 --words 300 --set rounds.count=400 \
    --set rounds.enrolled=6 --set rounds.enough=4 --set rounds.deadline_ms=4000 --set rounds.extensions=0
expect 0 "$SEFL" ca list "$fed/ca/csp"; says "3 clients"; says "used"
as_ca=$fed/ca/aggregator csp_ca=$fed/ca/csp
# each server with the other's folder, or with a key that is not its own
expect 2 "$SEFL" aggregator -c "$fed/aggregator/aggregator.yml" --csp localhost:1 --ca "$csp_ca"
says 'belongs to the csp "csp", and this is the aggregator'
expect 2 "$SEFL" csp -c "$fed/csp/csp.yml" --ca "$as_ca"; says 'belongs to the aggregator "aggregator", and this is the csp'
cp -r "$csp_ca" stray
sed -i "s/^\(self csp [0-9a-f]*\) [0-9a-f]*/\1 $(cat "$as_ca/sign.pub")/;/^end/d" stray/trust
printf 'end %s\n' "$(sha256sum < stray/trust | cut -d' ' -f1)" >> stray/trust
expect 2 "$SEFL" csp -c "$fed/csp/csp.yml" --ca stray; says "signs with another key than"
fed_servers
fed_clients 1 2 3
at=$(cat "$fed/aggregator/at")
enroll() { "$SEFL" enroll "$@" --server "$at" --proxy none; }
token() { "$SEFL" ca token "$@" 2> /dev/null; }
linked() { grep -q "link to CSP is up" "$dir/log/aggregator"; }
fed_until 20 "link" linked

# a site joins with tokens from both; keys and tokens stay where they were created
token "$as_ca" --name site-4 > t.as
token "$csp_ca" --name site-4 > t.csp
expect 0 enroll site-4 --aggregator-token @t.as --csp-token @t.csp
says 'enrolled as "site-4"'
says "AS  signs as  $(cat "$fed/public/aggregator.pub")" # what the two sheets say, to compare
says "CSP signs as  $(cat "$fed/public/csp.pub")"
[ "$(find site-4 -name key.pem -perm 600)" = site-4/key.pem ] || fail "the site's key"
expect 0 "$SEFL" init policy.yml
cmp policy.yml site-4/policy.yml || fail "enroll writes another policy than init"
grep -q '^noise_modes: "joint,own"$' policy.yml || fail "a new site refuses the usual mode of a task for records or of another one"
cmp -s site-4/csp.pub "$fed/public/csp.pub" || fail "CSP's key"
if grep -rq "$(sed -n 2p site-4/key.pem)" "$fed"; then fail "a private key has left its machine"; fi
if grep -rq "$(cut -d. -f2 t.csp)" "$fed"; then fail "a token is stored"; fi
expect 0 "$SEFL" ca list "$csp_ca"; says "4 clients"
expect 0 "$SEFL" ca list "$as_ca"; says "4 clients"
expect 1 enroll site-4 --aggregator-token @t.as --csp-token @t.csp; says "already has a certificate"

# it takes part at once
cp "$fed/clients/client-01/policy.yml" site-4/policy.yml
cp "$fed/clients/client-01/text/train.txt" site-4/text/
fed_start site-4 "$SEFL" client -c site-4/client.yml
took_part() { grep -q 'round done' "$dir/log/site-4"; }
fed_until 60 "round of site-4" took_part

# a server with an invalid certificate (another CA, a man in the middle): the site retries and logs why
cp site-4/peers.pem right.pem
cp "$csp_ca/ca.pem" wrong.pem
mkdir other-site
cp -r site-4/cert.pem site-4/key.pem site-4/*.pub site-4/policy.yml site-4/client.yml site-4/text other-site/
cp site-4/ledger other-site/
cp wrong.pem other-site/peers.pem
fed_start other-site "$SEFL" client -c other-site/client.yml
doubts() { grep -q "the server's certificate is not valid here" "$dir/log/other-site"; }
fed_until 20 "refusal of the server" doubts
fed_running other-site || fail "a client ends because somebody is on the way"
cp right.pem other-site/peers.pem
fed_kill HUP other-site
task_there() { grep -q '"event":"\(round open\|round done\|task\)' "$dir/log/other-site"; }
fed_until 40 "task after SIGHUP" task_there
fed_kill TERM other-site
fed_done other-site 20

# a token used twice, by another key
expect 1 enroll thief --aggregator-token @t.as --csp-token @t.csp; says "403"
grep -q "already used" "$dir/log/aggregator" || fail "no reason in the log"
# tokens from one server only
token "$as_ca" --name site-5 > t5.as
token "$csp_ca" --name site-5 > t5.csp
expect 2 enroll s5 --aggregator-token @t5.as; says "--csp-token is missing"
expect 2 enroll s5 --aggregator-token @t5.as --csp-token @t5.as; says "a token from the aggregation server and one from the CSP"
# ... or from another CSP
"$SEFL" ca new other --name Beta > /dev/null 2>&1
"$SEFL" ca server other --role csp --name csp --hosts localhost > /dev/null
token other --name site-5 > t5.other
expect 1 enroll s5o --aggregator-token @t5.as --csp-token @t5.other; says "403"
# another name than the token's, at either server
token "$csp_ca" --name site-6 > t6.csp
expect 2 enroll s6 --aggregator-token @t5.as --csp-token @t6.csp; says "different names"
# CSP alone refuses: its token is cancelled
id=$("$SEFL" ca list "$csp_ca" --json | tr '{' '\n' | sed -n 's/"id":"\([0-9a-f]*\)","name":"site-6".*/\1/p')
"$SEFL" ca revoke "$csp_ca" --token "$id" > /dev/null
token "$as_ca" --name site-6 > t6.as
expect 1 enroll s6 --aggregator-token @t6.as --csp-token @t6.csp; says "403"
grep -q "token: cancelled" "$dir/log/csp" || fail "no reason in CSP's log"
if grep -q "cancelled" "$dir/log/aggregator"; then fail "AS learnt CSP's reason"; fi
# expired at the server, whatever the site's clock says
"$SEFL_TOOLS/lasting" "$as_ca" site-7 1 > t7.as
"$SEFL_TOOLS/lasting" "$csp_ca" site-7 1000 > t7.csp
sleep 1.2
expect 1 enroll s7 --aggregator-token @t7.as --csp-token @t7.csp; says "403"
"$SEFL_TOOLS/lasting" "$as_ca" site-8 1000 > t8.as
"$SEFL_TOOLS/lasting" "$csp_ca" site-8 1 > t8.csp
sleep 1.2
expect 1 enroll s8 --aggregator-token @t8.as --csp-token @t8.csp; says "403"
# garbage
expect 2 enroll s9 --aggregator-token nonsense --csp-token @t5.csp; says "not a token"
# none of these was admitted, and the valid tokens still work: a failed attempt does not use up a token
expect 0 "$SEFL" ca list "$as_ca"; says "4 clients"
expect 0 enroll s5 --aggregator-token @t5.as --csp-token @t5.csp
fed_until 5 "counters of AS" as_counts enrol.refused
fed_until 5 "counters of AS" as_counts enrol.csp
fed_until 5 "counters of AS" as_counts enrol.enrolled
fed_until 5 "counters of CSP" csp_counts enrol.refused
# every request of a site carries its version, including enrolment
if as_counts version_refused; then fail "an enrolment without Sefl-Version"; fi

# a stranger may use no other path (docs/PROTOCOL.md), and nothing else works without a certificate
if command -v curl > /dev/null; then
    curl -sk -H "Sefl-Version: 3.0" "https://$at/v1/task" | grep -q "certificate not accepted" || fail "a stranger got the task"
    curl -sk -H "Sefl-Version: 3.0" -X POST --data x "https://$at/v1/enroll" | grep -q "not an enrolment request" || fail "garbage"
    fed_until 5 "garbage in the counters" as_counts enrol.form
    # many request headers per second without bodies, from another address: other sites still enrol
    token "$as_ca" --name site-13 > t13.as
    token "$csp_ca" --name site-13 > t13.csp
    (
        i=0
        while [ $i -lt 400 ] && [ ! -e s13/cert.pem ]; do
            curl -sk -H "Sefl-Version: 3.0" --interface 127.0.0.2 --max-time 2 -X POST -H "Content-Length: 100" "https://$at/v1/enroll" > /dev/null &
            sleep 0.05
            i=$((i + 1))
        done
        wait
    ) &
    strangers=$!
    fed_until 20 "rate of one address" as_counts enrol.rate
    expect 0 enroll s13 --aggregator-token @t13.as --csp-token @t13.csp
    wait $strangers || :
    strangers=
fi

# an operator keeps the CA key elsewhere: enrolment over the network is refused
mv "$as_ca/ca.key" away.key
token "$as_ca" --name site-12 > t12.as
token "$csp_ca" --name site-12 > t12.csp
expect 1 enroll s12 --aggregator-token @t12.as --csp-token @t12.csp; says "403"
mv away.key "$as_ca/ca.key"
fed_until 5 "enrolment off in the counters" as_counts enrol.off

# renewed: the same key, fetched over the old certificate
before=$(sed -n 2p site-4/cert.pem)
expect 0 enroll site-4 --renew; says "no newer certificate"
expect 0 "$SEFL" ca renew "$as_ca" --name site-4 --days 80 --out renewed.pem
expect 1 "$SEFL" ca renew "$as_ca" --name nobody
"$SEFL" ca renew "$as_ca" --name site-5 --days 90 > /dev/null 2>&1
expect 0 enroll s5 --renew
expect 1 "$SEFL" enroll site-4 --renew --cert s5/cert.pem; says "another key than key.pem" # as a file, and nobody is asked
expect 2 "$SEFL" enroll site-4 --renew --cert renewed.pem --server "$at"; says "cannot be used with the other options"
mkdir by-mail # without the state, which the running client changes
find site-4 -mindepth 1 -maxdepth 1 ! -name state -exec cp -r {} by-mail/ \;
expect 0 "$SEFL" enroll by-mail --renew --cert renewed.pem; says "no newer certificate"
cp renewed.pem by-mail/cert.pem
"$SEFL" ca renew "$as_ca" --name site-4 --days 85 --out longer.pem 2> /dev/null
expect 0 "$SEFL" enroll by-mail --renew --cert longer.pem; says "installed a newer certificate"
cmp -s by-mail/cert.pem longer.pem || fail "a certificate that came as a file is not in place"
expect 1 "$SEFL" enroll by-mail --cert longer.pem --peers site-4/peers.pem --aggregator-key site-4/aggregator.pub \
    --csp-key site-4/csp.pub --server "$at"; says "--renew --cert"
[ "$(sed -n 2p site-4/cert.pem)" = "$before" ] || fail "a certificate was replaced unasked"

# by hand: requests and certificates as files
expect 2 "$SEFL" enroll hand --csr-only; says "--name is missing"
expect 0 "$SEFL" enroll hand --csr-only --name site-9
expect 0 "$SEFL" ca sign "$as_ca" --csr hand/csr.pem --name site-9 --out site-9.pem
expect 0 "$SEFL" ca sign "$csp_ca" --csr hand/csr.pem --name site-9; says "is a member now"
expect 1 "$SEFL" ca sign "$as_ca" --csr hand/csr.pem --name site-10; says "already a member"
"$SEFL" ca export "$as_ca" --out pub2 > /dev/null
"$SEFL" ca export "$csp_ca" --out pub2 > /dev/null
expect 1 "$SEFL" enroll hand --cert site-9.pem --peers pub2/csp-ca.pem --aggregator-key pub2/aggregator.pub \
    --csp-key pub2/csp.pub --server "$at"
expect 0 "$SEFL" enroll hand --cert site-9.pem --peers pub2/aggregator-ca.pem --aggregator-key pub2/aggregator.pub \
    --csp-key pub2/csp.pub --server "$at"
says "AS  signs as  $(cat "$fed/public/aggregator.pub")"
case $out in *"is kept"*) fail "a note about nothing: $out" ;; esac
# in a folder that has settings and a ledger of another federation
cp -r hand moved && rm moved/cert.pem moved/ledger
"$SEFL" privacy new moved/ledger --population elsewhere > /dev/null
sed -i 's/^server:.*/server: old.example:7000/' moved/client.yml
expect 0 "$SEFL" enroll moved --cert site-9.pem --peers pub2/aggregator-ca.pem --aggregator-key pub2/aggregator.pub \
    --csp-key pub2/csp.pub --server "$at"
says "moved/client.yml already exists and is kept: it names server old.example:7000"; says 'of the population "elsewhere"'
# the server reloads its list every second; a busy machine may need longer
hand_in() { enroll hand --renew > hand.said 2>&1 && grep -q "no newer certificate" hand.said; }
hand_out() { ! enroll hand --renew > hand.said 2>&1 && grep -q 403 hand.said; }
fed_until 15 "way in for a member that was signed by hand" hand_in

# certificates of a hospital's own CA
if command -v openssl > /dev/null; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout org.key -out org.pem -days 30 \
        -subj "/O=Hospital/CN=Hospital CA" 2> /dev/null
    mkdir org
    cp hand/peers.pem org/
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout org/key.pem -out org.csr \
        -subj "/O=Hospital/OU=Radiology/CN=ward-3" 2> /dev/null
    printf 'extendedKeyUsage=clientAuth\nkeyUsage=digitalSignature\nbasicConstraints=CA:FALSE\n' > ext
    openssl x509 -req -in org.csr -CA org.pem -CAkey org.key -CAcreateserial -days 20 -out org/cert.pem -extfile ext 2> /dev/null
    ask() { curl -sk -H "Sefl-Version: 3.0" --cert org/cert.pem --key org/key.pem "https://$at/healthz"; }
    ask | grep -q "not accepted" || fail "an unknown CA's certificate is taken"
    expect 0 "$SEFL" ca trust-issuer "$as_ca" --cert org.pem --role client --unit Radiology
    ward_in() { ask | grep -q "^ok"; }
    ward_out() { ask | grep -q "not accepted"; }
    fed_until 15 "way in for the hospital's certificate" ward_in
    key=$("$SEFL" ca list "$as_ca" --json | tr '{' '\n' | sed -n 's/.*"key":"\([0-9a-f]*\)".*Hospital CA.*/\1/p')
    # one of them sends junk under the name of another site: the log has its key, which is enough to revoke it
    mkdir liar
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout liar/key.pem -out liar.csr \
        -subj "/O=Hospital/OU=Radiology/CN=client-01" 2> /dev/null
    openssl x509 -req -in liar.csr -CA org.pem -CAkey org.key -CAcreateserial -days 20 -out liar/cert.pem -extfile ext 2> /dev/null
    liar() { curl -sk -H "Sefl-Version: 3.0" --cert liar/cert.pem --key liar/key.pem "$@"; }
    its_key=$(openssl pkey -in liar/key.pem -pubout -outform DER 2> /dev/null | openssl dgst -sha256 -r | cut -d' ' -f1)
    bytes=$(sed -n 's/.*an update has \([0-9]*\) bytes.*/\1/p' "$dir/provision.out")
    head -c "$bytes" /dev/zero > junk
    printf 'x' | cat junk - > larger
    logged() { grep "\"reason\":\"$1\"" "$dir/log/aggregator" | grep "\"key\":\"$its_key\"" | grep -q "\"issuer\":\"$key\""; }
    send_junk() { # the round may end first
        n=$(liar "https://$at/v1/round" | sed -n 's/.*"round":\([0-9]*\).*/\1/p')
        liar -T junk -H "Sefl-Total: $bytes" "https://$at/v1/round/$n/update/$its_key" > /dev/null
        logged upload.no_voucher
    }
    fed_until 30 "line about junk" send_junk
    liar -T larger -H "Sefl-Total: $bytes" "https://$at/v1/round/1/update/$its_key" > /dev/null || :
    fed_until 5 "line about a body" logged body_too_large
    expect 0 "$SEFL" ca revoke "$as_ca" --key "$its_key"
    liar_out() { liar "https://$at/healthz" | grep -q "not accepted"; }
    fed_until 15 "end of the liar" liar_out
    fed_until 5 "line about a revoked one" logged revoked
    ward_in || fail "another of that CA is out too"
    expect 0 "$SEFL" ca revoke "$as_ca" --issuer "$key"
    fed_until 15 "end of a CA that was revoked" ward_out
    expect 1 "$SEFL" ca revoke "$as_ca" --issuer "$key"; says "not active"
    expect 1 "$SEFL" ca trust-issuer "$as_ca" --cert org.pem --role client; says "sefl ca restore"
    expect 0 "$SEFL" ca restore "$as_ca" --issuer "$key"
    fed_until 15 "way in after a CA was restored" ward_in
    expect 0 "$SEFL" ca trust-issuer "$as_ca" --cert org.pem --role client --unit Surgery
    says 'it accepted those of the unit "Radiology" and now accepts those of the unit "Surgery"'
    fed_until 15 "end of another unit" ward_out
    expect 0 "$SEFL" ca revoke "$as_ca" --issuer "$key"
fi

# revoked by mistake and restored, with the same key and certificate
expect 1 "$SEFL" ca restore "$as_ca" --name site-9; says "no revoked member"
expect 2 "$SEFL" ca restore "$as_ca"; says "pass --name or --key"
expect 0 "$SEFL" ca revoke "$as_ca" --name site-9
fed_until 15 "end of a member that was revoked" hand_out
expect 0 "$SEFL" ca restore "$as_ca" --name site-9; says "within a second"
fed_until 15 "way back in" hand_in

# revoked: the running client is cut off and retries occasionally, since it may be restored; the others continue
fed_running site-4 || fail "site-4 has ended before"
expect 0 "$SEFL" ca revoke "$as_ca" --name site-4; says "within a second"
turned_away() { grep -q 'try again later.*403: certificate not accepted' "$dir/log/site-4"; }
fed_until 30 "line of a revoked client" turned_away
fed_running site-4 || fail "a revoked client has ended"
fed_kill TERM site-4
fed_wait site-4 30
fed_until 5 "counter of revoked" as_counts certificate.revoked
expect 1 enroll site-4 --renew; says "403"; says "revoked or unknown"
expect 0 token "$as_ca" --name site-4 # the name is free again
for c in 01 02 03; do fed_running client-$c || fail "client-$c was disturbed"; done
fed_running aggregator || fail "the aggregator has ended"

# CSP's list is damaged: enrolment answers "not now", and the link and its round continue
token "$as_ca" --name site-21 > t.as
token "$csp_ca" --name site-21 > t.csp
cp "$csp_ca/trust" csp.good
links=$(grep -c "aggregator connected" "$dir/log/csp")
printf 'junk\n' >> "$csp_ca/trust"
expect 1 enroll s21 --aggregator-token @t.as --csp-token @t.csp; says "cannot answer now"
cat csp.good > "$csp_ca/trust"
expect 0 enroll s21 --aggregator-token @t.as --csp-token @t.csp
[ "$(grep -c "aggregator connected" "$dir/log/csp")" -eq "$links" ] || fail "the link was cut by an enrolment"

# a missing or damaged list is reported once, the last good one stays in force, and the next valid one replaces it
before=$(cat "$as_ca/trust"; echo .)
mv "$as_ca/trust" kept
fed_until 5 "missing list" as_counts trust_list_unreadable
printf 'garbage\n' > "$as_ca/trust"
sleep 2.2
[ "$(grep -c "trust list not reloaded" "$dir/log/aggregator")" -eq 1 ] || fail "said again and again"
enroll hand --renew > /dev/null || fail "a member is out because the list is damaged"
mv kept "$as_ca/trust"
[ "$(cat "$as_ca/trust"; echo .)" = "$before" ] || fail "the list has changed meanwhile"
expect 0 "$SEFL" ca revoke "$as_ca" --name site-9
fed_until 15 "end of a member that was revoked" hand_out

# a restored older list: reported and counted
cp "$as_ca/trust" newest
printf '%s' "${before%.}" > older
cp older "$as_ca/trust"
fed_until 5 "older list in the counters" as_counts trust_list_older
grep -q "the trust list is older than a previous one" "$dir/log/aggregator" || fail "an older list is not said"
cp newest "$as_ca/trust"
fed_until 15 "end of a member that was revoked" hand_out

# every call of both servers, with every kind of certificate that must be refused
mkdir scratch
csp_at=$(cat "$fed/csp/at")
set --
if command -v openssl > /dev/null; then # our CA's certificate for a key that is too short
    openssl req -newkey rsa:1024 -nodes -keyout weak.key -out weak.csr -subj "/OU=sefl client/CN=weak" 2> /dev/null
    openssl x509 -req -in weak.csr -CA "$as_ca/ca.pem" -CAkey "$as_ca/ca.key" -CAcreateserial -days 20 -out weak.pem \
        -extfile ext 2> /dev/null
    # ... and one that is not for clients
    sed 's/clientAuth/serverAuth/' ext > ext2
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout use.key -out use.csr \
        -subj "/OU=sefl client/CN=use" 2> /dev/null
    openssl x509 -req -in use.csr -CA "$as_ca/ca.pem" -CAkey "$as_ca/ca.key" -CAcreateserial -days 20 -out use.pem \
        -extfile ext2 2> /dev/null
    set -- weak=weak.pem:weak.key use=use.pem:use.key
fi
expect 0 "$SEFL_TOOLS/knock" "${at##*:}" "${csp_at##*:}" "$as_ca/ca.pem" "$as_ca/ca.key" scratch \
    revoked=site-4/cert.pem:site-4/key.pem member="$fed/csp/cert.pem:$fed/csp/key.pem" "$@"
for kind in none foreign expired early role unlisted revoked member; do says "$kind refused 3"; done
for reason in no_certificate unknown_issuer expired not_yet_valid revoked not_enrolled; do
    fed_until 5 "$reason in AS's counters" as_counts certificate.$reason
done
for reason in no_certificate unknown_issuer expired not_yet_valid wrong_role; do
    fed_until 5 "$reason in CSP's counters" csp_counts certificate.$reason
done
if [ $# -gt 0 ]; then
    says "weak refused 3"
    says "use refused 3"
    fed_until 5 "wrong use in AS's counters" as_counts certificate.wrong_use
    fed_until 5 "weak in AS's counters" as_counts certificate.weak
    fed_until 5 "weak in CSP's counters" csp_counts certificate.weak
fi
fed_running client-01 || fail "client-01 was disturbed"

# AS's operator revokes CSP's CA: AS cuts the link and refuses the next one until the CA is restored
key=$("$SEFL" ca list "$as_ca" --json | tr '{' '\n' | sed -n 's/.*"key":"\([0-9a-f]*\)".*"role":"csp".*/\1/p' | head -n 1)
links() { grep -c "link to CSP is up" "$dir/log/aggregator" || :; }
before=$(links) refusals=$(sed -n 's/.*"certificate.revoked":\([0-9]*\).*/\1/p' "$fed/aggregator/state/counters.json")
expect 0 "$SEFL" ca revoke "$as_ca" --issuer "$key"
put_out() { grep -q "CSP disconnected.*its issuer is no longer trusted" "$dir/log/aggregator"; }
fed_until 5 "end of the link" put_out
refused_again() { # the certificate of the CSP that AS connects to
    [ "$(sed -n 's/.*"certificate.revoked":\([0-9]*\).*/\1/p' "$fed/aggregator/state/counters.json")" -gt "$refusals" ]
}
fed_until 20 "refusal of a new link" refused_again
[ "$(links)" -eq "$before" ] || fail "AS is linked with a CSP whose CA was revoked"
expect 0 "$SEFL" ca restore "$as_ca" --issuer "$key"
linked_again() { [ "$(links)" -gt "$before" ]; }
fed_until 40 "link after the CA was restored" linked_again

# CSP revokes AS: it cuts the stream and refuses the next one
key=$(sed -n 's/^self aggregator \([0-9a-f]*\) .*/\1/p' "$as_ca/trust")
expect 0 "$SEFL" ca revoke "$csp_ca" --key "$key"
fed_until 10 "refusal at CSP" csp_counts certificate.revoked
down() { grep -q "no link to CSP" "$dir/log/aggregator"; }
fed_until 20 "link down" down
token "$as_ca" --name site-11 > t11.as
token "$csp_ca" --name site-11 > t11.csp
expect 1 enroll s11 --aggregator-token @t11.as --csp-token @t11.csp; says "cannot answer now"
[ -s s11/key.pem ] || fail "the key stays for the next try"
fed_until 5 "CSP away in the counters" as_counts enrol.no_csp
# ... and both servers refuse that certificate everywhere
mkdir scratch2
expect 0 "$SEFL_TOOLS/knock" "${at##*:}" "${csp_at##*:}" "$as_ca/ca.pem" "$as_ca/ca.key" scratch2 \
    put-out="$fed/aggregator/cert.pem:$fed/aggregator/key.pem"
says "put-out refused 3"

# many strangers at once are told to retry later; members are not
if command -v curl > /dev/null; then
    i=0
    while [ $i -lt 20 ] && ! as_counts enrol.rate; do # in parallel: one after the other may stay below the rate limit
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            curl -sk -H "Sefl-Version: 3.0" -X POST --data x "https://$at/v1/enroll" > /dev/null &
            strangers="${strangers:-} $!"
        done
        # shellcheck disable=SC2086
        wait $strangers || :
        strangers=
        i=$((i + 1))
    done
    fed_until 5 "rate of strangers" as_counts enrol.rate
    enroll s5 --renew > /dev/null || fail "a member suffers from strangers"
fi
note "done"
