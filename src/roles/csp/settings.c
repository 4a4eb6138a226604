#include "roles/csp/csp_role.h"
#include "roles/health.h"

#define TO(member) SETTING_TO(csp_settings, member)

const setting_def csp_schema[] = {
    { "listen", SETTING_ADDRESS, NULL, TO(listen), .example = "0.0.0.0:7001",
      .help = "address:port to listen on; port 0: the system chooses" },
    { "tls.cert", SETTING_PATH, NULL, TO(cert), .example = "cert.pem",
      .help = "this server's certificate" },
    { "tls.key", SETTING_PATH, NULL, TO(tls_key), .example = "key.pem",
      .help = "the certificate's private key" },
    { "tls.peers", SETTING_PATH, NULL, TO(peers), .example = "peers.pem",
      .help = "the CA of the aggregation server" },
    { "ca", SETTING_PATH, "", TO(ca), .example = "../ca/csp", .arg = "FOLDER",
      .help = "folder of 'sefl ca new', whose trust list admits servers and clients; a pad task "
              "needs it" },
    { "sign_key", SETTING_PATH, NULL, TO(sign_key), .example = "sign.key",
      .help = "this server's signing key" },
    { "key", SETTING_PATH, NULL, TO(key), .example = "key.sealed",
      .help = "the sealed file of 'sefl key new'" },
    { "key_lock", SETTING_PATH, "", TO(key_lock), .example = "key.lock",
      .help = "the key file that opens it" },
    { "passphrase_file", SETTING_PATH, "", TO(passphrase_file),
      .help = "a file with the passphrase that opens it; neither: the terminal asks" },
    { "task", SETTING_PATH, NULL, TO(task), .example = "../public/task.signed",
      .help = "the task, signed by both servers" },
    { "state", SETTING_PATH, NULL, TO(state), .example = "state", .arg = "FOLDER",
      .help = "folder of the journal" },
    { "ledger", SETTING_PATH, NULL, TO(ledger), .example = "ledger",
      .help = "the population's privacy ledger" },
    { "memory_lock", SETTING_WORD, "required", .words = "required try",
      .help = "if the system cannot lock keys in memory (LimitMEMLOCK=): fail, or warn" },
    { "threads", SETTING_U64, "0", TO(threads), .max = 256,
      .help = "worker threads; 0: one per core" },
    { "link_silence", SETTING_U64, "30", TO(link_silence_s), .min = 1, .max = 600,
      .help = "seconds without a byte after which CSP drops the link to the aggregation server" },
    { "ready_file", SETTING_PATH, "", TO(ready_file), .example = "ready",
      .help = "file that gets host:port once the server accepts connections" },
    { "health", SETTING_ADDRESS, "", TO(health), .example = "127.0.0.1:7011",
      .help = "loopback address:port of /healthz, plain HTTP; empty: none" },
    { "user", SETTING_TEXT, "", TO(user), .arg = "NAME",
      .help = "user that root becomes once the port is bound" },
    { "log", SETTING_WORD, "info", .words = "debug info warn error off",
      .help = "least level of log lines" },
    { "stay", SETTING_FLAG, "false", TO(stay), .help = "keep serving after the task's end" },
    { 0 },
};

sefl_status csp_settings_make(csp_settings *out, const settings *s)
{
    sefl_status st = SEFL_OK;
    csp_settings c = { 0 };
    *out = c;
    SEFL_TRY(settings_fill(s, &c));
    SEFL_CHECK(!c.key_lock || !c.passphrase_file, SEFL_EINVAL,
               "%s: passphrase_file and key_lock: only one of them opens the key",
               settings_origin(s, "passphrase_file"));
    SEFL_TRY(health_check(&c.health, s));
    *out = c;
done:
    return st;
}
