/* places: settings that name a place: a path beside the file that says it, or host:port.
 *
 *     SEFL_TRY(settings_path(&c.cert, &s, "tls.cert", folder));       // folder: of the file
 *     SEFL_TRY(settings_address(&c.host, &c.port, &s, "listen", 0));
 *
 * What comes out is the caller's to sefl_free.   Threads: any.   Secrets: none. */
#ifndef CONFIG_PATHS_H
#define CONFIG_PATHS_H

#include "config/settings.h"

/* A relative path counts from folder (NULL or "": from here). Of a key that may be left out, nothing is
 * NULL; of another, SEFL_EINVAL. */
sefl_status settings_path(char **out, const settings *s, const char *key,
                          const char *folder) SEFL_MUST_CHECK;

/* host:port or [address]:port with a port from `least` to 65535. */
sefl_status settings_address(char **host, uint16_t *port, const settings *s, const char *key,
                             unsigned least) SEFL_MUST_CHECK;
/* The same of a text; what: its name in the sentence of a failure. */
sefl_status place_address(char **host, uint16_t *port, const char *text, const char *what,
                          unsigned least) SEFL_MUST_CHECK;

#endif
