#!/bin/sh
# The example in every command's help works as printed: in an empty folder or, for the roles, in a provisioned
# federation. Training is cut short. (test_demo.sh runs sefl demo, test_federation.sh runs the roles.)
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
mkdir "$dir/bin"
cat > "$dir/bin/sefl" << END
#!/bin/sh
case \$1 in
provision) exec "$SEFL" "\$@" --port-base $((20000 + $$ % 12000)) ;;
train) exec "$SEFL" "\$@" --max-steps 10 ;;
bench) exec "$SEFL" "\$@" --seconds 0.01 ;;
*) exec "$SEFL" "\$@" ;;
esac
END
chmod +x "$dir/bin/sefl"
PATH=$dir/bin:$PATH
export PATH

try() { # COMMAND FOLDER: runs its example there
    "$SEFL" help "$1" | sed '1,/^example:/d' > "$dir/example"
    [ -s "$dir/example" ] || fail "$1 has no example"
    mkdir -p "$2"
    (cd "$2" && sh -eu "$dir/example") > "$dir/out" 2>&1
}
ran=0
for c in $("$SEFL" help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
    where=$dir/work-$c
    rc=0
    case $c in
    demo) continue ;;
    report)
        mkdir -p "$where/runs"
        printf 'name: demo\nclients: 3\nrounds: { count: 1 }\n' > "$where/e.yml"
        (cd "$where" && sefl simulate -c e.yml --quiet > "$dir/out" 2>&1) || fail "$(cat "$dir/out")"
        ;;
    ca)
        mkdir -p "$where/ops"
        (cd "$where" && sefl ca new ops/as --name operator &&
            sefl ca server ops/as --role aggregator --name as --hosts localhost) > "$dir/out" 2>&1 ||
            fail "$(cat "$dir/out")"
        ;;
    task | aggregator | csp | client | verify | status | logs)
        where=$dir/federation/trial
        [ -d "$where" ] || try provision "$dir/federation" || fail "provision: $(cat "$dir/out")"
        case $c in verify | logs) where=$dir/federation ;; esac
        ;;
    esac
    case $c in
    enroll) # no server listens: it must get as far as reading the tokens
        try "$c" "$where" || rc=$?
        grep -q as.token "$dir/out" || fail "$c: $(cat "$dir/out")"
        ;;
    aggregator | csp | client) # its file is good
        file=$("$SEFL" help "$c" | sed '1,/^example:/d' | sed -n 's/.* -c \([^ ]*\).*/\1/p')
        (cd "$where" && sefl config check "$file") > "$dir/out" 2>&1 || fail "$c: $(cat "$dir/out")"
        ;;
    status | logs) # nothing runs here yet
        try "$c" "$where" && fail "$c: exit 0: $(cat "$dir/out")"
        grep -q 'never started\|no log files near trial' "$dir/out" || fail "$c: $(cat "$dir/out")"
        ;;
    doctor) # its verdict about this machine does not matter here
        try "$c" "$where" || rc=$?
        grep -q '^ok' "$dir/out" || rc=2
        [ "$rc" -le 1 ] || fail "$c: exit $rc: $(cat "$dir/out")"
        ;;
    *)
        try "$c" "$where" || rc=$?
        [ "$rc" -eq 0 ] || { cat "$dir/example" "$dir/out"; fail "the example of $c exits $rc"; }
        ;;
    esac
    ran=$((ran + 1))
done
[ "$ran" -ge 20 ] || fail "only $ran examples were run"
echo "ok: $ran examples"
