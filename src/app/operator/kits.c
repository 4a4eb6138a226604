#define _GNU_SOURCE
#include "operator/kits.h"

#include "base/dir.h"
#include "base/tar.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define UNIT_HOME "/opt" /* where the unit expects the unpacked folder */

/* ---- addresses -------------------------------------------------------------------------- */

sefl_status kits_hosts(host_port *as, host_port *csp, const char *text, unsigned base)
{
    const char *comma = strchr(text, ',');
    SEFL_NEED(comma && !strchr(comma + 1, ','), SEFL_EINVAL,
              "--hosts must name two machines, as in as.example,csp.example, not \"%s\"", text);
    SEFL_PASS(
        sefl_at(address_read_host(as, span_of(text, (size_t)(comma - text)), base), "--hosts"));
    SEFL_PASS(
        sefl_at(address_read_host(csp, span_of_str(comma + 1), base ? base + 1 : 0), "--hosts"));
    SEFL_NEED(as->port > 0 && csp->port > 0, SEFL_EINVAL,
              "--hosts: \"%s\" needs a port for each machine, because --port-base is 0", text);
    SEFL_NEED(as->port != csp->port || strcmp(as->host, csp->host) != 0, SEFL_EINVAL,
              "--hosts: both servers have the address %s:%u", as->host, as->port);
    return SEFL_OK;
}

/* ---- one kit ---------------------------------------------------------------------------- */

typedef struct kit {
    const kits_config *c;
    dir_tree *at;
    const char *name;             /* "aggregator", "csp", "client-01" */
    const char *role;             /* the command that runs it, and the folder of its settings */
    const char *what;             /* in words */
    const char *network, *result; /* two lines of the README */
    tar out;
    sefl_buf text;
} kit;

/* Adds a text file. */
static sefl_status put_text(kit *k, const char *file, mode_t mode)
{
    char name[PATH_MAX];
    SEFL_PASS(file_path(name, "sefl-trial-%s/%s", k->name, file));
    SEFL_PASS(tar_put(&k->out, name, buf_span(&k->text), mode));
    buf_reset(&k->text);
    return SEFL_OK;
}

/* Adds a file or folder of the federation. */
static sefl_status put_copy(kit *k, const char *name, const char *from)
{
    char to[PATH_MAX];
    SEFL_PASS(file_path(to, "sefl-trial-%s/%s", k->name, name));
    return tar_copy(&k->out, to, dir_in(k->at, "%s", from));
}

static sefl_status put_start(kit *k)
{
    SEFL_PASS(wr_fmt(
        &k->text,
        "#!/bin/sh\n"
        "# Starts the %s of a SEFL trial. Set SEFL to the program's path if it is not in PATH.\n"
        "here=$(cd \"$(dirname \"$0\")\" && pwd) || exit 1\n"
        "if ! command -v \"${SEFL:-sefl}\" > /dev/null; then\n"
        "    echo \"start: there is no program ${SEFL:-sefl}: install it ('make install' in SEFL's "
        "source), or set SEFL to its path\" >&2\n"
        "    exit 1\n"
        "fi\n"
        "exec \"${SEFL:-sefl}\" %s --config \"$here/%s/%s.yml\" \"$@\"\n",
        k->what, k->role, k->role, k->role));
    return put_text(k, "start", 0755);
}

/* The unit runs as root without any capability, and can write only in the kit's folder. */
static sefl_status put_unit(kit *k)
{
    char file[64];
    SEFL_PASS(wr_fmt(&k->text,
                     "# The %s of a SEFL trial, unpacked in " UNIT_HOME
                     ". Start it now and at every boot:\n"
                     "# systemctl enable --now " UNIT_HOME "/sefl-trial-%s/sefl-trial-%s.service\n"
                     "[Unit]\n"
                     "Description=SEFL trial: %s\n"
                     "After=network-online.target\n"
                     "Wants=network-online.target\n\n"
                     "[Service]\n"
                     "Type=exec\n"
                     "ExecStart=" UNIT_HOME "/sefl-trial-%s/start\n"
                     "ExecReload=/bin/sh -c 'kill -HUP ${MAINPID}'\n"
                     "# Exit 0: the task is over.\n"
                     "Restart=on-failure\n"
                     "RestartSec=5\n"
                     "LimitNOFILE=8192\n"
                     "LimitMEMLOCK=64M\n"
                     "LimitCORE=0\n"
                     "UMask=0077\n"
                     "NoNewPrivileges=yes\n"
                     "CapabilityBoundingSet=\n"
                     "ProtectSystem=strict\n"
                     "ReadWritePaths=" UNIT_HOME "/sefl-trial-%s\n"
                     "ProtectHome=yes\n"
                     "PrivateTmp=yes\n"
                     "PrivateDevices=yes\n"
                     "ProtectKernelTunables=yes\n"
                     "ProtectControlGroups=yes\n"
                     "RestrictAddressFamilies=AF_INET AF_INET6\n"
                     "SystemCallArchitectures=native\n"
                     "SystemCallFilter=@system-service\n\n"
                     "[Install]\n"
                     "WantedBy=multi-user.target\n",
                     k->what, k->name, k->name, k->what, k->name, k->name));
    snprintf(file, sizeof file, "sefl-trial-%s.service", k->name);
    return put_text(k, file, 0644);
}

static sefl_status put_readme(kit *k)
{
    SEFL_PASS(wr_fmt(&k->text,
                     "This kit is the %s of a SEFL trial. The aggregation server (AS) is at ",
                     k->what));
    SEFL_PASS(address_write(&k->text, k->c->as.host, k->c->as.port));
    SEFL_PASS(wr_fmt(&k->text, ", the cryptography service provider (CSP) at "));
    SEFL_PASS(address_write(&k->text, k->c->csp.host, k->c->csp.port));
    SEFL_PASS(wr_fmt(
        &k->text,
        ".\n"
        "To start it, install the program sefl and run ./start. Under systemd: unpack the kit as "
        "root "
        "in " UNIT_HOME " and run 'systemctl enable --now " UNIT_HOME
        "/sefl-trial-%s/sefl-trial-%s.service'.\n"
        "The network: %s\n"
        "FOR TRIALS ONLY: one person made the keys of all parties and can decrypt every update. In "
        "production each organisation makes its own keys ('sefl operator init').\n"
        "The result: %s\n",
        k->name, k->name, k->network, k->result));
    return put_text(k, "README", 0644);
}

/* Writes what every kit has and the files of `own`: pairs of a name in the kit and a path below the
 * root; ends with NULL. */
static sefl_status write_kit(kit *k, const char *const *own)
{
    sefl_status st = SEFL_OK;
    SEFL_TRY(tar_open(&k->out, dir_in(k->at, "kits/%s.tar", k->name), 0600));
    SEFL_TRY(put_readme(k));
    SEFL_TRY(put_start(k));
    SEFL_TRY(put_unit(k));
    for (; own[0]; own += 2)
        SEFL_TRY(put_copy(k, own[0], own[1]));
    SEFL_TRY(tar_commit(&k->out));
done:
    tar_abort(&k->out);
    buf_clear(&k->text);
    return st;
}

/* ---- all kits --------------------------------------------------------------------------- */

static sefl_status write_servers(const kits_config *c, dir_tree *at)
{
    char as_net[200], csp_net[400];
    snprintf(as_net, sizeof as_net,
             "the clients must reach TCP port %u of this machine; this machine must reach CSP.",
             c->as.port);
    snprintf(csp_net, sizeof csp_net,
             "AS must reach TCP port %u of this machine; nobody else needs to.", c->csp.port);
    kit as = { .c = c,
               .at = at,
               .name = "aggregator",
               .role = "aggregator",
               .what = "aggregation server",
               .network = as_net,
               .result = "aggregator/models/round-N.safetensors is the model after round N; 'sefl "
                         "report aggregator' prints a summary." };
    kit csp = { .c = c,
                .at = at,
                .name = "csp",
                .role = "csp",
                .what = "cryptography service provider",
                .network = csp_net,
                .result = "the models are on AS's machine; 'sefl privacy spent csp/ledger' prints "
                          "what the training has spent." };
    SEFL_PASS(write_kit(&as, (const char *const[]){ "aggregator", "aggregator", "ca/aggregator",
                                                    "ca/aggregator", "public", "public", NULL }));
    return write_kit(&csp,
                     (const char *const[]){ "csp", "csp", "ca/csp", "ca/csp", "public/task.signed",
                                            "public/task.signed", NULL });
}

static sefl_status write_client(const kits_config *c, dir_tree *at, uint32_t i)
{
    char name[32], from[64];
    snprintf(name, sizeof name, "client-%0*" PRIu32, (int)c->width, i + 1);
    snprintf(from, sizeof from, "clients/%s", name);
    kit k = { .c = c,
              .at = at,
              .name = name,
              .role = "client",
              .what = name,
              .network = "this machine must reach AS; nobody needs to reach this machine.",
              .result = c->external
                            ? "the client trains with your program: set `trainer` in "
                              "client/client.yml to its command first (docs/LIBRARY.md). It leaves "
                              "the final model in client/state/models."
                            : "the client trains on client/text and leaves the final model in "
                              "client/state/models." };
    return write_kit(&k, (const char *const[]){ "client", from, NULL });
}

sefl_status kits_write(const kits_config *c)
{
    dir_tree at;
    SEFL_PASS(dir_root(&at, c->root));
    SEFL_PASS(file_make_folder(dir_in(&at, "kits"), 0700));
    SEFL_PASS(write_servers(c, &at));
    for (uint32_t i = 0; i < c->clients; i++)
        SEFL_PASS(write_client(c, &at, i));
    return SEFL_OK;
}
