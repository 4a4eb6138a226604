#!/bin/sh
# A secure sum of four vectors: clients encrypt their vectors, one server adds them, the other decrypts the masked sum,
# and both add noise that neither of them knows. No server sees a vector. The keys have full size.
set -eu
sefl=${SEFL:-$(dirname "$0")/../build/sefl}

# pad is fast, and an upload takes only about 3.5 bytes per value
"$sefl" sum --scheme pad --clients 4 --values 5000

# paillier, the scheme of the paper, is slower, and is secure only if both servers follow the protocol
"$sefl" sum --scheme paillier --clients 4 --values 2000

# With few clients the noise exceeds the signal: see "Noise norm over signal norm" above. The noise that a privacy claim
# needs does not grow with the number of clients, but the sum of their updates does:
"$sefl" privacy plan --clients 1000 --rounds 10 --epsilon 8 --delta 1e-6 --dim 5000
