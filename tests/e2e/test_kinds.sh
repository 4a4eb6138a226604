#!/bin/sh
# A new body, optimiser or server's step without its parts does not compile (src/core/layout/kinds.h): each file that has
# a part is compiled as it is, and then with an entry `scratch` more in the list, and the compiler must name the part.
# The row of the table "Where do I change" in docs/ARCHITECTURE.md must name the file.
set -eu
# shellcheck source=tests/e2e/e2e.lib.sh
. "$SEFL_SOURCE/tests/e2e/e2e.lib.sh"
cd "$SEFL_SOURCE"
build=$(dirname "$SEFL")
blas=/usr/include/x86_64-linux-gnu/openblas-pthread
nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc || true)

compiles() { # FILE [-D...]
    # shellcheck disable=SC2046,SC2086 # options, the last of which may be missing
    ${CC:-cc} -std=gnu11 -fsyntax-only -w -DSEFL_CORE_ONLY="$SEFL_CORE_ONLY" -DSEFL_FAULTS=0 -DSEFL_CTIME=0 ${2:-} \
        -Iinclude -Isrc/app -I. $(printf ' -I%s' "$build"/roots/*) -I"$blas" "$1" > "$dir/log" 2>&1
}
names() { # PART: the error of the compiler
    grep -q "error: .*$1" "$dir/log" || { cat "$dir/log"; fail "no error names $1"; }
}

checked=0
while read -r list file part; do
    case $list in
        BODY) row='another body of the built-in models' ;;
        OPTIMISER) row="a client's optimiser" ;;
        SERVER) row="the server's optimiser" ;;
    esac
    grep "^| $row |" docs/ARCHITECTURE.md | grep -q "\`$file\`" || fail "docs/ARCHITECTURE.md, $row: $file is missing"
    case $file in
        *.cu)
            if [ -z "$nvcc" ] || [ ! -d "$build/roots/cuda/model" ]; then continue; fi
            ! "$nvcc" -arch=sm_80 -std=c++17 "-DSEFL_SCRATCH_$list" -Iinclude -I"$build/roots/engine" \
                -I"$build/roots/cuda" -c "$file" -o "$dir/object" > "$dir/log" 2>&1 || fail "$file compiles without $part" ;;
        *)
            [ -e "$build/roots/fed" ] || [ "$list" != SERVER ] || continue # the core build
            compiles "$file" || { cat "$dir/log"; fail "$file does not compile as it is"; }
            ! compiles "$file" "-DSEFL_SCRATCH_$list" || fail "$file compiles without $part" ;;
    esac
    names "$part"
    checked=$((checked + 1))
done << 'END'
BODY src/core/layout/lm_config.c body_scratch
BODY src/learn/nn/lm.c lm_body_scratch
BODY bench/model/train.c shapes_scratch
BODY src/learn/cuda/engine.cu body_scratch
OPTIMISER src/learn/nn/optim.c scratch
OPTIMISER src/learn/cuda/common.cu step_scratch
SERVER src/learn/fed/step.c scratch
END
[ "$checked" -ge 4 ] || fail "only $checked parts were checked"
echo "$checked parts are named"
