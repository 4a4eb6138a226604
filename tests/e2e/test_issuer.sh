#!/bin/sh
# A hospital's CA that creates any number of clients: together they get a fixed share of AS's connections and disk,
# members are not affected, and revoking the CA deletes its unfinished uploads.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
for tool in openssl curl; do
    command -v $tool > /dev/null || fail "no $tool here: scripts/bootstrap --test"
done

cd "$dir"
fed_provision f --clients 3 --words 300 --set rounds.count=1 --set rounds.enrolled=3 \
    --set rounds.enough=3 --set rounds.deadline_ms=600000 --set crypto.scheme=paillier
as_ca=$fed/ca/aggregator state=$fed/aggregator/state
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout org.key -out org.pem -days 30 \
    -subj "/O=Hospital/CN=Hospital CA" 2> /dev/null
expect 0 "$SEFL" ca trust-issuer "$as_ca" --cert org.pem --role client --unit Radiology
printf 'extendedKeyUsage=clientAuth\nkeyUsage=digitalSignature\nbasicConstraints=CA:FALSE\n' > ext
made="0 1 2 3 4 5 6 7 8 9 10 11 12 13 14"
for i in $made; do
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$i.key" -out csr \
        -subj "/OU=Radiology/CN=client-01" 2> /dev/null
    openssl x509 -req -in csr -CA org.pem -CAkey org.key -CAcreateserial -days 20 -out "$i.pem" -extfile ext 2> /dev/null
done
fed_csp
fed_aggregator --connections 24
fed_clients 1
at=$(cat "$fed/aggregator/at")
counted() { grep -q "\"$1\":[1-9]" "$state/counters.json" 2> /dev/null; }
bodies() { find "$state" -path '*/bodies/*' -type f -name "$1"; }
has_body() { [ -n "$(bodies '*[0-9a-f]')" ]; }
fed_until 60 "update of client-01" has_body

# unfinished updates: as many as there are clients, plus 8
body=$(bodies '*[0-9a-f]' | head -n 1)
bytes=$(stat -c %s "$body")
head -c 3000 "$body" > some
part_of() { # CLIENT: sends part of an update and waits for an answer that does not come
    curl -sk -H "Sefl-Version: 3.0" --max-time $((1 + t)) --cert "$1.pem" --key "$1.key" -X PUT --data-binary @some -H "Expect:" \
        -H "Content-Length: $bytes" -H "Sefl-Total: $bytes" \
        "https://$at/v1/round/1/update/$(openssl rand -hex 32)" > "said.$1" || :
}
for few in "0 1 2 3" "4 5 6 7" "8 9 10"; do # no more at once than the CA's connection limit
    senders=
    for i in $few; do
        part_of "$i" &
        senders="$senders $!"
    done
    for s in $senders; do wait "$s"; done
done
for i in 11 12 13 14; do part_of $i; done
[ "$(bodies '*.part' | wc -l)" -eq 11 ] || fail "$(bodies '*.part' | wc -l) parts"
grep -q "too many unfinished uploads" said.14 || fail "it says: $(cat said.14)"
fed_until 5 "parts in the counters" counted upload.parts

# connections: a quarter of all, however many clients the CA has; a client that leaves frees its connection, even
# during a long poll
open() { find "/proc/$(cat "$dir/run/aggregator.pid")/fd" -lname 'socket:*' | wc -l; }
before=$(open)
waiting=
for i in $made; do
    curl -sk -H "Sefl-Version: 3.0" --max-time 60 --cert "$i.pem" --key "$i.key" "https://$at/v1/round?after=9&wait=60" > /dev/null &
    waiting="$waiting $!"
done
fed_until 10 "places in the counters" counted connections_per_issuer
more() { [ "$(open)" -ge $((before + 5)) ]; }
fed_until 10 "connections" more
for w in $waiting; do kill "$w" 2> /dev/null || :; done
fewer() { [ "$(open)" -le $((before + 1)) ]; }
fed_until 10 "end of those who are gone" fewer

# a key is revoked, then the CA: their unfinished uploads are deleted
key_of() { openssl pkey -in "$1.key" -pubout -outform DER 2> /dev/null | openssl dgst -sha256 -r | cut -d' ' -f1; }
parts_are() { [ "$(bodies '*.part' | wc -l)" -eq "$1" ]; }
expect 0 "$SEFL" ca revoke "$as_ca" --key "$(key_of 0)"
fed_until 10 "end of a key's part" parts_are 10
issuer=$("$SEFL" ca list "$as_ca" --json | tr '{' '\n' | sed -n 's/.*"key":"\([0-9a-f]*\)".*Hospital CA.*/\1/p')
expect 0 "$SEFL" ca revoke "$as_ca" --issuer "$issuer"
fed_until 10 "end of a CA's parts" parts_are 0
[ -s "$body" ] || fail "an update that was acknowledged is gone"

fed_clients 2 3
for c in 1 2 3; do fed_done client-0$c 120; done
note "all done"
