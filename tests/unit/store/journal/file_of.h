/* file_of: reads what journal_file_put wrote. */
#ifndef TESTS_STORE_JOURNAL_FILE_OF_H
#define TESTS_STORE_JOURNAL_FILE_OF_H

#include "base/file.h"
#include "store/journal/journal.h"

static inline sefl_status file_of(journal *j, uint64_t round, const char *name, sefl_buf *out,
                                  size_t max)
{
    sefl_buf path = { 0 };
    sefl_status st = journal_path(j, &path, round, name);
    if (st == SEFL_OK)
        st = file_read(out, (const char *)path.p, max);
    buf_clear(&path);
    return st;
}

#endif
