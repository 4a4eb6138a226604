#include "roles/csp/csp_role.h"
#include "roles/health.h"
#include "roles/server.h"
#include "roles/server_settings.h"
#include "store/journal/journal.h"

#define TO(member) SETTING_TO(csp_settings, member)

const setting_def csp_schema[] = {
    { "listen", SETTING_ADDRESS, NULL, TO(listen), .example = "0.0.0.0:7001",
      .help = "address:port to listen on; if the port is 0, the system chooses one" },
    SERVER_TLS(csp_settings),
    { "tls.peers", SETTING_PATH, NULL, TO(peers), .example = "peers.pem",
      .help = "the CA of the aggregation server" },
    { "ca", SETTING_PATH, "", TO(ca), .example = "../ca/csp", .arg = "FOLDER",
      .help = "folder from 'sefl ca new' whose trust list admits servers and clients; required for "
              "a task with the scheme pad" },
    SERVER_TASK(csp_settings),
    { "key", SETTING_PATH, NULL, TO(key), .example = "key.sealed", .secret = true,
      .help = "CSP's key file from 'sefl key new'" },
    { "key_lock", SETTING_PATH, "", TO(key_lock), .example = "key.lock", .secret = true,
      .help = "the lock file that unlocks `key`" },
    { "passphrase_file", SETTING_PATH, "", TO(passphrase_file), .secret = true,
      .help = "file with the passphrase of `key`; CSP asks for it if key_lock is empty too" },
    { "state", SETTING_PATH, NULL, TO(state), .example = "state", .arg = "FOLDER", .created = true,
      .help = "folder for the journal" },
    { "store", SETTING_TEXT, "", TO(store), .example = "postgresql://sefl@localhost/csp",
      .help = "database for the journal and the ledger, which several processes share, one of them "
              "active (docs/OPERATING.md, section 14); empty: in `state` and `ledger`" },
    { "lease", SETTING_U64, "10", TO(lease_s), .min = 2, .max = 600,
      .help = "with `store`: seconds after which another process takes over from one that does not "
              "renew its lease" },
    SERVER_PROCESS(csp_settings, "127.0.0.1:7011", "127.0.0.1:7021"),
    { "stay", SETTING_FLAG, "false", TO(stay),
      .help = "keep serving after `task` is over; with `tasks`, CSP always does" },
    { 0 },
};

sefl_status csp_settings_make(csp_settings *out, const settings *s)
{
    csp_settings c = { 0 };
    *out = c;
    SEFL_PASS(settings_fill(s, &c));
    SEFL_NEED(!c.key_lock || !c.passphrase_file, SEFL_EINVAL,
              "%s: passphrase_file and key_lock are both set: set only one of them",
              settings_origin(s, "passphrase_file"));
    if (c.store)
        SEFL_PASS(sefl_at(journal_check_store(c.store), "%s", settings_origin(s, "store")));
    SEFL_PASS(server_check_tasks(s));
    SEFL_PASS(health_check(&c.health, s));
    SEFL_PASS(server_check_page(&c.page, &c.page_tls, s));
    *out = c;
    return SEFL_OK;
}
