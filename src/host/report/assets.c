#include "report/assets.h"

#include <string.h>

const page_asset *page_asset_of(const char *path)
{
    for (size_t i = 0; i < page_assets_n; i++)
        if (strcmp(page_assets[i].path, path) == 0)
            return &page_assets[i];
    return NULL;
}
