/* card: what one operator tells the other about its server, in one public file.
 *
 *     sefl card 1
 *     role aggregator                    or csp: the server's role
 *     name North                         the organisation, 1 to 64 printable ASCII characters
 *     address as.north.example:7000
 *     population wards                   whose privacy its ledger records, 1 to 200 characters
 *     signs HEX                          the server's public signing key (Ed25519)
 *     tls HEX                            SHA-256 of the server's public TLS key
 *     -----BEGIN CERTIFICATE-----        the CA that issues the server's certificate
 *     ...
 *
 *     SEFL_TRY(card_write(&bytes, &c));
 *     SEFL_TRY(card_parse(&c, buf_span(&bytes)));             // c.ca points into the bytes
 *     card_digits(digits, buf_span(&bytes));
 *
 * Each card has exactly one representation. A card proves nothing about its sender: people compare
 * its digits, the SHA-256 of the whole file, over a channel that an attacker does not control.
 * Threads: any.   Secrets: none. */
#ifndef ROLES_CARD_H
#define ROLES_CARD_H

#include "base/sha256.h"
#include "config/address.h"
#include "crypto/sign.h"
#include "trust/trust.h"

enum { CARD_MAX = 16384, CARD_POPULATION_MAX = 200 };

typedef struct card {
    trust_role role;
    char name[TRUST_NAME_MAX + 1];
    host_port at;
    char population[CARD_POPULATION_MAX + 1];
    uint8_t sign[SIGN_PUB_BYTES], tls[TRUST_KEY];
    sefl_span ca; /* PEM */
} card;

sefl_status card_write(sefl_buf *out, const card *c) SEFL_MUST_CHECK;
/* SEFL_EPROTO if the bytes are not a card. Does not look into the certificate. */
sefl_status card_parse(card *out, sefl_span bytes) SEFL_MUST_CHECK;
void card_digits(uint8_t out[SHA256_BYTES], sefl_span bytes);

#endif
