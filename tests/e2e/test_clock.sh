#!/bin/sh
# Wall clocks that are three years wrong (tests/tools/preload/trial.c): a client and `sefl doctor` name the clock, not a
# certificate to renew; a jump of CSP's clock in the middle of a round costs no round; after a reboot with a wrong
# clock CSP waits, says so, and goes on when its operator confirms the clock.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
[ -z "${SEFL_SANITIZE:-}" ] || exit 0 # a preloaded library comes before the sanitizer's
# shellcheck source=tests/e2e/federation.lib.sh
. "$SEFL_SOURCE/tests/e2e/federation.lib.sh"
command -v curl > /dev/null || fail "no curl here: scripts/bootstrap --test"

program=$SEFL
SEFL=$dir/sefl
years=94608000000 # three, in milliseconds
for name in csp client-02; do echo 0 > "$dir/$name.clock"; done
echo 11111111-1111-1111-1111-111111111111 > "$dir/boot"
cat > "$SEFL" << END
#!/bin/sh
clock=$dir/\$(basename "\$(dirname "\${3:-x}")").clock
[ ! -e "\$clock" ] || export LD_PRELOAD="$SEFL_TOOLS/trial.so" TRIAL_UNDER=/none TRIAL_CLOCK="\$clock" TRIAL_BOOT=$dir/boot
exec "$program" "\$@"
END
chmod +x "$SEFL"

fed_provision first --clients 2 --words 300 --set model.embed=16 --set model.hidden=16 \
    --set rounds.count=2 --set rounds.deadline_ms=60000
fed_servers --page 127.0.0.1:0
fed_clients 1
echo "server: $(cat "$fed/aggregator/at")" >> "$fed/clients/client-02/client.yml"
says() { grep -q "$2" "$dir/log/$1"; }
fed_until 20 "round 1" says aggregator '"round open","round":1'

for clock in $years -$years; do
    way=ahead
    [ "$clock" = "$years" ] || way=behind
    echo "$clock" > "$dir/client-02.clock"
    fed_clients 2
    fed_until 20 "the word about the clock" says client-02 "this machine's clock is 1095 days $way"
    fed_kill TERM client-02
    fed_wait client-02 10
    ! says client-02 "renew it" || fail "a wrong clock is no reason to renew a certificate"
    rc=0
    "$SEFL" doctor -c "$fed/clients/client-02/client.yml" > "$dir/doctor" 2>&1 || rc=$?
    [ $rc -ne 0 ] || fail "doctor finds nothing: $(cat "$dir/doctor")"
    grep -q "clock is 1095 days $way" "$dir/doctor" || fail "doctor: $(cat "$dir/doctor")"
    ! grep -q "renew" "$dir/doctor" || fail "doctor: $(cat "$dir/doctor")"
    # CSP's clock jumps, and nobody may connect meanwhile; the round's key stays
    echo "$clock" > "$dir/csp.clock"
    sleep 1
    echo 0 > "$dir/csp.clock"
done
! says csp "round key expired" || fail "a wall clock expired the round's key"

# ---- CSP's machine boots again in the round, and its clock is 50 minutes wrong, as far as certificates permit --------
fed_kill KILL csp
fed_wait csp 10
echo 22222222-2222-2222-2222-222222222222 > "$dir/boot"
echo -3000000 > "$dir/csp.clock"
fed_csp
status() { "$SEFL" status -c "$fed/csp/csp.yml" > "$dir/status" 2>&1; }
waits() { ! status && grep -q "waits for AS's clock" "$dir/status"; }
fed_until 10 "the word in the status" waits
url=$(cat "$fed/aggregator/state/page.url")
curl -s --noproxy '*' -o "$dir/page" -c "$dir/jar" "$url"
page() { curl -s --noproxy '*' --max-time 5 -b "$dir/jar" "${url%/\?*}/state.json" > "$dir/page" && grep -q "$1" "$dir/page"; }
fed_until 30 "the reason on AS's page" page '"connected":false.*"last_error":"[^"]*behind its own record'
waits || fail "CSP goes on: $(cat "$dir/status")"
expect 0 "$SEFL" task resume -c "$fed/csp/csp.yml"
case $out in *"this server's clock is confirmed"*) ;; *) fail "resume says: $out" ;; esac
fed_until 10 "a status without the word" status
fed_until 30 "the round that goes on" says csp "the operator confirmed this server's clock"
echo 0 > "$dir/csp.clock"

echo 0 > "$dir/client-02.clock"
fed_clients 2
for name in client-01 client-02 csp; do fed_done $name 60; done
! says aggregator '"skipped":true' || fail "a round was skipped"
