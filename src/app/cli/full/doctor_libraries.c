#include "cli/full/doctor.h"

#include "model/nn/nn.h"

#include <curl/curl.h>
#include <gmp.h>
#include <gnu/libc-version.h>
#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <sodium.h>
#include <sqlite3.h>
#include <yaml.h>
#include <zlib.h>
#ifdef SEFL_PG
#include "store/pg/pg.h"
#endif

void doctor_libraries(doctor *d)
{
    int major, minor, patch;
    yaml_get_version(&major, &minor, &patch);
    doctor_ok(d, "libraries", "glibc %s, %s, GMP %s, libsodium %s", gnu_get_libc_version(),
              nn_blas_name(), gmp_version, sodium_version_string());
    doctor_ok(d, "libraries",
              "GnuTLS %s, libmicrohttpd %s, libcurl %s, SQLite %s, libyaml "
              "%d.%d.%d, zlib %s",
              gnutls_check_version(NULL), MHD_get_version(),
              curl_version_info(CURLVERSION_NOW)->version, sqlite3_libversion(), major, minor,
              patch, zlibVersion());
#ifdef SEFL_PG
    doctor_ok(d, "libraries", "libpq %s (stores in PostgreSQL)", pg_version());
#endif
    if (gnutls_check_version("3.7.0") == NULL)
        doctor_add(d, DOCTOR_FAIL, "gnutls", "install GnuTLS 3.7 or later",
                   "%s is too old for TLS 1.3 as SEFL uses it", gnutls_check_version(NULL));
}
