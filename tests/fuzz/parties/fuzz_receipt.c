/* AS's receipt for a body, and its proof that an update was counted, as a client checks them. The
 * first byte selects: 0 a receipt, 1 a proof, both made and then changed (toy_envelope.h; then, for
 * a proof, changes to the path); 2 any bytes as either. What is accepted says what the client asked
 * about, and an honest document is accepted. */
#include "fuzz/toy_envelope.h"
#include "protocol/counted.h"
#include "roles/client/net.h"
#include "roles/client/proof.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CLIENTS = 5, ROUND = 2 };

static task t = { .clients_max = 13, .id = { 9 } };
static const client_body body = { .hash = { 7 }, .bytes = 1000 };
static round_entry leaves[CLIENTS];
static uint8_t root[SHA256_BYTES];
static sefl_buf path; /* of client 1 */

static void make_tree(void)
{
    static const uint8_t seed[COUNTED_SEED] = { 7 };
    counted_tree *tree;
    t.servers = toy_servers();
    for (int i = 0; i < CLIENTS; i++)
        leaves[i].client[0] = (uint8_t)(i + 1), leaves[i].body[0] = (uint8_t)(3 * i);
    counted_facts f = { .task = t.id,
                        .round = ROUND,
                        .tree_seed = seed,
                        .clients_max = t.clients_max,
                        .leaves = leaves,
                        .n = CLIENTS };
    MUST_OK(counted_root(root, &f));
    MUST_OK(counted_tree_new(&tree, &f));
    MUST_OK(counted_tree_path(&path, tree, leaves[1].client));
    counted_tree_free(tree);
}

static void try_receipt(rd *in)
{
    round_receipt r = { .round = ROUND, .bytes = body.bytes };
    uint8_t content[RECEIPT_BYTES];
    sefl_buf b = { 0 };
    memcpy(r.task, t.id, sizeof r.task);
    memcpy(r.client, leaves[1].client, sizeof r.client);
    memcpy(r.body, body.hash, sizeof r.body);
    round_receipt_write(content, &r);
    toy_envelope e = toy_envelope_make(&b, SIGN_RECEIPT, span_of(content, sizeof content), in);
    const bool good =
        client_receipt_check(&t, buf_span(&b), ROUND, leaves[1].client, &body) == SEFL_OK;
    MUST(!good || (e.by_as && memcmp(e.content, content, sizeof content) == 0));
    MUST(good || !e.honest || !e.by_as);
    MUST(client_receipt_check(&t, buf_span(&b), ROUND, leaves[2].client, &body) != SEFL_OK ||
         memcmp(e.content + 40, leaves[2].client, 32) == 0);
    buf_clear(&b);
}

static void try_proof(rd *in)
{
    counted_statement s = { .round = ROUND };
    uint8_t content[COUNTED_STATEMENT_BYTES];
    sefl_buf b = { 0 };
    memcpy(s.task, t.id, sizeof s.task);
    memcpy(s.root, root, sizeof s.root);
    counted_statement_write(content, &s);
    MUST_OK(wr_u32(&b, 0));
    toy_envelope e = toy_envelope_make(&b, SIGN_COUNTED, span_of(content, sizeof content), in);
    store_u32(b.p, (uint32_t)(b.n - 4));
    const size_t at = b.n;
    MUST_OK(wr_raw(&b, path.p, path.n));
    while (in->left > 1) {
        const size_t where = toy_take(in) % path.n;
        b.p[at + where] ^= toy_take(in);
    }
    if (in->left == 1) /* no path, or half of it */
        b.n = at + toy_take(in) % path.n;
    const bool whole = b.n == at + path.n && memcmp(b.p + at, path.p, path.n) == 0;
    const bool good =
        client_counted_check(&t, buf_span(&b), ROUND, leaves[1].client, leaves[1].body) == SEFL_OK;
    /* the id of the output is CSP's to say */
    const bool same = memcmp(e.content, content, sizeof content - sizeof s.id) == 0;
    MUST(!good || (e.by_csp && same && whole));
    MUST(good || !e.intact || !e.by_csp || !same || !whole);
    MUST(client_counted_check(&t, buf_span(&b), ROUND, leaves[1].client, leaves[0].body) !=
         SEFL_OK);
    buf_clear(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (path.n == 0)
        make_tree();
    if (size == 0)
        return 0;
    rd in = rd_over(span_of(data + 1, size - 1));
    const sefl_span rest = span_of(data + 1, size - 1);
    switch (data[0] % 3) {
    case 0:
        try_receipt(&in);
        break;
    case 1:
        try_proof(&in);
        break;
    default:
        (void)!client_receipt_check(&t, rest, ROUND, leaves[1].client, &body);
        (void)!client_counted_check(&t, rest, ROUND, leaves[1].client, leaves[1].body);
    }
    return 0;
}
