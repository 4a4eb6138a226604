# shellcheck shell=sh
# Sourced by the end-to-end tests: functions that check exit codes and output, and a folder for the test.
#
#     . "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
#     expect 2 "$SEFL" client; says "pass -c client.yml"
#     expect 0 "$SEFL" privacy plan --json; json
#
# $dir is a scratch folder that is removed at the end. (For whole federations use federation.lib.sh, which has all
# this too.)
fail() {
    echo "FAILED: $*" >&2
    exit 1
}
expect() { # CODE COMMAND...: runs it without input, its output in $out
    want=$1
    shift
    code=0
    out=$("$@" 2>&1 < /dev/null) || code=$?
    [ "$code" -eq "$want" ] || fail "'$*' exits $code, not $want: $out"
}
says() { case $out in *"$1"*) ;; *) fail "'$1' is not in: $out" ;; esac; }
json() {
    command -v python3 > /dev/null || return 0
    printf '%s\n' "$out" | python3 -m json.tool > /dev/null || fail "not JSON: $out"
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
