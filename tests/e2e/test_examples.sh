#!/bin/sh
# Every example runs in its own folder and prints what it promises.
set -eu
[ "$SEFL_CORE_ONLY" = 0 ] || exit 0
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
export SEFL

wanted() { # prints what the output of an example must contain, one text per line
    case $1 in
    01-*) printf '%s\n' "secure sum with pad" "secure sum with paillier" "smallest cohort" ;;
    02-*) printf '%s\n' "3 clients" perplexity "no differential privacy claimed" "1 released" report.html ;;
    03-*) printf '%s\n' valid "4 released" first plain ;;
    04-*) printf '%s\n' "client-04" tokens perplexity ;;
    05-*) printf '%s\n' "dropout-network.dropout=0.66" report.html ;;
    10-*) printf '%s\n' "model     external" "round 5: y = a x + b with" ;;
    *) fail "nobody knows what $1 should show" ;;
    esac
}
n=0
for example in "$SEFL_SOURCE"/examples/[0-9]*.sh; do
    name=$(basename "$example")
    "$example" "$dir/my $name" > "$dir/out" 2>&1 || { cat "$dir/out"; fail "$name exits $?"; }
    wanted "$name" > "$dir/wanted"
    while IFS= read -r words; do
        grep -qF -- "$words" "$dir/out" || { cat "$dir/out"; fail "$name does not show '$words'"; }
    done < "$dir/wanted"
    grep -q "$name" "$SEFL_SOURCE/examples/README.md" || fail "examples/README.md does not name $name"
    n=$((n + 1))
done
[ $n -ge 5 ] || fail "only $n examples"
echo ok
