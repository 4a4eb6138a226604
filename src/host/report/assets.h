/* assets: the files of the web page, as the build put them into the program.
 *
 *     const page_asset *a = page_asset_of("/page.css");      // NULL: there is no such file
 *
 * The files are in src/host/page/web/; cmake/sefl_assets.cmake turns them into this table. "/" is
 * page.html, and page.js has all modules in one script.
 * Threads: any; all of it is constant.   Secrets: none. */
#ifndef PAGE_ASSETS_H
#define PAGE_ASSETS_H

#include <stddef.h>

typedef struct page_asset {
    const char *path;           /* of the request: "/", "/page.css", ... */
    const char *type;           /* for Content-Type */
    const unsigned char *bytes; /* a NUL follows them */
    size_t n;
} page_asset;

extern const page_asset page_assets[];
extern const size_t page_assets_n;

const page_asset *page_asset_of(const char *path);

#endif
