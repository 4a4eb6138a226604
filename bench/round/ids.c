#include "bench/round/ids.h"

#include "base/file.h"

#include <stdio.h>
#include <unistd.h>

static const char *const kinds[] = { "ca", "as", "csp", "client" };

void ids_path(const ids *x, char out[300], const char *name, const char *suffix)
{
    snprintf(out, 300, "%s/%s%s", x->folder, name, suffix);
}

static sefl_status one_id(const ids *x, tls_id **out, const char *name, const char *role)
{
    sefl_status st = SEFL_OK;
    char cert[300], key[300], ca[300], ca_key[300];
    ids_path(x, cert, name, ".pem");
    ids_path(x, key, name, ".key");
    ids_path(x, ca, "ca", ".pem");
    ids_path(x, ca_key, "ca", ".key");
    const x509_subject s = { .name = name, .role = role, .hosts = "127.0.0.1", .days = 1 };
    SEFL_TRY(x509_make(cert, key, &s, role ? ca : NULL, role ? ca_key : NULL));
    if (out)
        SEFL_TRY(tls_id_read(out, cert, key, ca));
done:
    return st;
}

sefl_status ids_make(ids *x)
{
    sefl_status st = SEFL_OK;
    *x = (ids){ 0 };
    SEFL_TRY(file_temp_folder(x->folder, sizeof x->folder, "sefl-bench"));
    SEFL_TRY(one_id(x, NULL, "ca", NULL));
    SEFL_TRY(one_id(x, &x->as, "as", "aggregator"));
    SEFL_TRY(one_id(x, &x->csp, "csp", "csp"));
    SEFL_TRY(one_id(x, &x->client, "client", "client"));
done:
    return st;
}

void ids_remove(ids *x)
{
    char path[300];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        ids_path(x, path, kinds[i], ".pem");
        unlink(path);
        ids_path(x, path, kinds[i], ".key");
        unlink(path);
    }
    ids_path(x, path, "body", "");
    unlink(path);
    rmdir(x->folder);
    tls_id_free(x->as);
    tls_id_free(x->csp);
    tls_id_free(x->client);
}
