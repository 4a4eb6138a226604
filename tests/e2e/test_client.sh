#!/bin/sh
# sefl client: its settings, refusals and signals; other tests cover rounds.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
pid=
trap '[ -z "$pid" ] || kill -KILL $pid 2> /dev/null || :; rm -rf "$dir"' EXIT

expect 0 "$SEFL" help client; says "epsilon_total"
expect 2 "$SEFL" client; says "pass -c client.yml"
expect 2 "$SEFL" client --servr x; says "did you mean --server?"
expect 2 "$SEFL" client -c; says "-c"
expect 2 "$SEFL" client -c x y; says 'does not take the argument "y"'
expect 1 "$SEFL" client -c "$dir/none.yml"; says "none.yml"
expect 2 "$SEFL" client --text x; says "server"

# nothing listens on port 1 of loopback
"$SEFL" provision "$dir/f" --clients 2 --words 200 --port-base 1 > /dev/null 2>&1
one=$dir/f/clients/client-01
yml=$one/client.yml
cp "$yml" "$dir/good.yml"
printf 'stat: x\n' >> "$yml"
expect 2 "$SEFL" client -c "$yml"; says "client.yml:"; says 'did you mean "state"?'
sed 's/^csp_key.*/csp_key: aggregator.pub/' "$dir/good.yml" > "$yml"
expect 2 "$SEFL" client -c "$yml"; says "the same key"
cp "$dir/good.yml" "$yml"
expect 2 "$SEFL" client -c "$yml" --server nowhere; says "host:port"
expect 2 "$SEFL" client -c "$yml" --log loud; says "--log must be one of"
printf 'noise_modes: [loud]\n' > "$dir/policy.yml"
expect 2 "$SEFL" client -c "$yml" --policy "$dir/policy.yml"; says "noise_modes"
(cd "$dir" && expect 2 "$SEFL" client -c "$yml" --policy policy.yml && says "policy.yml:1:1: noise_modes")

# while the server is unreachable, the client backs off; SIGHUP does not change that, SIGTERM ends it with exit code 0
"$SEFL" client -c "$yml" 2> "$dir/log" &
pid=$!
n=0
until grep -q "cannot reach the server" "$dir/log"; do
    n=$((n + 1))
    [ $n -lt 200 ] || fail "it does not say that the server is away: $(cat "$dir/log")"
    sleep 0.05
done
kill -HUP $pid
sleep 2
kill -TERM $pid
rc=0
wait $pid || rc=$?
pid=
[ $rc -eq 0 ] || fail "SIGTERM: exit $rc: $(cat "$dir/log")"
grep -q '"event":"reloaded"' "$dir/log" || fail "SIGHUP was not heard: $(cat "$dir/log")"
[ "$(wc -l < "$dir/log")" -lt 12 ] || fail "it does not wait between its attempts"
