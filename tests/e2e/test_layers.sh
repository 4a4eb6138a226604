#!/bin/sh
# The layer picture of docs/ARCHITECTURE.md agrees with CMakeLists.txt, and scripts/check-picture detects each kind of
# difference: the test modifies a copy of one of the two files and expects the script to name the layer.
set -eu
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
check=$SEFL_SOURCE/scripts/check-picture
cmake=$SEFL_SOURCE/CMakeLists.txt
doc=$SEFL_SOURCE/docs/ARCHITECTURE.md
"$check" || fail "the picture differs from CMakeLists.txt"

# WHAT NAME SED-EXPRESSION FILE: with FILE changed by the expression, the script fails and names the layer
noticed() {
    sed "$3" "$4" > "$dir/spoiled"
    ! cmp -s "$4" "$dir/spoiled" || fail "$1: the change does not apply"
    if [ "$4" = "$doc" ]; then set -- "$1" "$2" "$cmake" "$dir/spoiled"; else set -- "$1" "$2" "$dir/spoiled" "$doc"; fi
    if "$check" "$3" "$4" > "$dir/out" 2>&1; then fail "$1: not noticed"; fi
    grep -qw -- "$2" "$dir/out" || { cat "$dir/out"; fail "$1: the message does not name $2"; }
}
noticed "a layer missing in the picture" trust '/^ *trust .*|/d' "$doc"
noticed "a layer that does not exist" trusts 's/^\( *\)trust  /\1trusts /' "$doc"
noticed "a new layer" attic 's/^sefl_layer(base)/&\nsefl_layer(attic DEPENDS base)/' "$cmake"
noticed "a new dependency" grid 's/^sefl_layer(grid DEPENDS base/& config/' "$cmake"
noticed "a dependency less" text 's/^sefl_layer(text AS model\/corpus DEPENDS base seeded/sefl_layer(text AS model\/corpus DEPENDS base/' "$cmake"
noticed "a dependency missing in the picture" store 's/^\( *store .*| base\) privacy/\1/' "$doc"
noticed "a wrong [core]" trust 's/^\( *trust .*\)       |/\1 [core] |/' "$doc"
noticed "a missing [core]" text 's/^\( *text .*\)\[core\]/\1      /' "$doc"
# base at the top: every layer that includes it is then below it
awk '/^ *base .*\|/ { base = $0; next } { line[++n] = $0 }
    END { for (i = 1; i <= n; i++) { if (line[i] ~ /^ *simulate .*\|/) print base; print line[i] } }' "$doc" > "$dir/upside"
if "$check" "$cmake" "$dir/upside" > "$dir/out" 2>&1; then fail "a layer above its users: not noticed"; fi
grep -q "grid includes base, which is above it" "$dir/out" || { cat "$dir/out"; fail "another reason"; }
echo ok
