#include "cli/full/doctor.h"

#include "config/address.h"
#include "net/https_client.h"
#include "protocol/http.h"
#include "roles/own_cert.h"

#include <string.h>

enum { ANSWER_MS = 3000 };

static sefl_status ask(int64_t *ahead, bool *known, const tls_id *id, const char *server,
                       const char *proxy)
{
    sefl_status st = SEFL_OK;
    host_port a;
    https_client *net = NULL;
    char path[HTTP_PATH_MAX];
    if (proxy && strcmp(proxy, "environment") == 0)
        proxy = NULL;
    else if (proxy && strcmp(proxy, "none") == 0)
        proxy = "";
    SEFL_TRY(address_read(&a, server, 1));
    SEFL_TRY(https_client_new(&net, &(https_client_config){ .host = a.host,
                                                            .port = a.port,
                                                            .id = id,
                                                            .proxy = proxy,
                                                            .headers = HTTP_VERSION_LINE,
                                                            .may_send = http_is_header,
                                                            .connect_ms = ANSWER_MS }));
    SEFL_TRY(https_ask_date(net, http_path(path, &(http_target){ .call = HTTP_TASK })));
    *known = https_ahead(net, ahead);
done:
    https_client_free(net);
    return st;
}

int64_t doctor_clock(doctor *d, const tls_id *id, const char *server, const char *proxy)
{
    char text[CLOCK_APART_TEXT];
    int64_t ahead = 0;
    bool known = false;
    if (!server || ask(&ahead, &known, id, server, proxy) != SEFL_OK || !known)
        return 0; /* whether it can be reached at all is another check */
    if (clock_apart_text(text, ahead))
        doctor_add(d, DOCTOR_FAIL, "clock", "timedatectl set-ntp true", "%s", text);
    else
        doctor_ok(d, "clock", "it agrees with the server's");
    return ahead;
}
