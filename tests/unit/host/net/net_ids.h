/* net_ids: the identities for tests of net, created in the test's folder. Header only. */
#ifndef NET_IDS_H
#define NET_IDS_H

#include "support/check.h"
#include "support/folder.h"

#include "net/tls.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline void net_path(char out[300], const char *name, const char *suffix)
{
    char file[100];
    snprintf(file, sizeof file, "%s%s", name, suffix);
    snprintf(out, 300, "%s", folder_path(file));
}

static inline void net_ca(const char *name)
{
    char cert[300], key[300];
    net_path(cert, name, ".pem");
    net_path(key, name, ".key");
    CHECK_OK(x509_make(cert, key, &(x509_subject){ .name = name, .days = 30 }, NULL, NULL));
}

/* Certificate and key NAME.pem, NAME.key, issued by CA. from: see x509_subject. */
static inline void net_cert_at(const char *name, const char *role, const char *hosts,
                               const char *ca, int64_t from, unsigned days)
{
    char cert[300], key[300], ca_cert[300], ca_key[300];
    net_path(cert, name, ".pem");
    net_path(key, name, ".key");
    net_path(ca_cert, ca, ".pem");
    net_path(ca_key, ca, ".key");
    CHECK_OK(x509_make(
        cert, key,
        &(x509_subject){ .name = name, .role = role, .hosts = hosts, .days = days, .from = from },
        ca_cert, ca_key));
}

static inline void net_cert(const char *name, const char *role, const char *hosts, const char *ca)
{
    net_cert_at(name, role, hosts, ca, 0, 10);
}

/* The identity NAME that trusts CA. */
static inline tls_id *net_id(const char *name, const char *ca)
{
    char cert[300], key[300], ca_cert[300];
    tls_id *id;
    net_path(cert, name, ".pem");
    net_path(key, name, ".key");
    net_path(ca_cert, ca, ".pem");
    CHECK_OK(tls_id_read(&id, cert, key, ca_cert));
    return id;
}

#endif
