#!/bin/sh
# A trainer in shell and awk (setting `trainer`): in each round, 20 steps of gradient descent on line.csv, rows of x,y.
# The task's model is one tensor with the two values of the line y = a x + b. The output has the header of the input.
header=$((8 + $(od -An -t u8 -N 8 "$SEFL_MODEL"))) && values=$(od -An -v -t f4 -j "$header" "$SEFL_MODEL") &&
    bytes=$(awk -F, -v values="$values" '
    function put(v, sign, e) { # a float as four octal escapes, little-endian
        if (v < 0) { v = -v; sign = 128 }
        if (v > 0) { for (e = 127; v >= 2; e++) v /= 2; for (; v < 1; e--) v *= 2; v = int((e + v - 1) * 2^23 + 0.5) }
        for (i = 0; i < 4; i++) { printf "\\0%03o", v % 256 + (i == 3) * sign; v = int(v / 256) } }
    { x[NR] = $1; y[NR] = $2 }
    END { split(values, line, " ")
        for (step = 0; step < 20; step++) { a = line[1]; b = line[2]; for (i = 1; i <= NR; i++) {
            d = (a * x[i] + b - y[i]) / NR; line[1] -= 0.1 * d * x[i]; line[2] -= 0.1 * d } }
        put(line[1]); put(line[2]) }' line.csv) && (head -c "$header" "$SEFL_MODEL" && printf %b "$bytes") > "$SEFL_OUT"
