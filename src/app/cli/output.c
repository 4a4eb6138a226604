#include "cli/output.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

sefl_status output_check(const char *path, const char *input, bool force)
{
    struct stat link, to, in;
    if (lstat(path, &link) != 0)
        return SEFL_OK; /* it does not exist; the write reports any other problem */
    if (input && stat(path, &to) == 0 && stat(input, &in) == 0 && to.st_dev == in.st_dev &&
        to.st_ino == in.st_ino)
        return sefl_fail(SEFL_EINVAL, "%s is the input: choose another output file", path);
    if (!S_ISREG(link.st_mode))
        return sefl_fail(SEFL_EINVAL, "%s is not a regular file", path);
    if (!force)
        return sefl_fail(SEFL_EEXIST, "%s exists: use --force to replace it", path);
    return SEFL_OK;
}

sefl_status output_check_folder(const char *dir, const char *prefix, bool force)
{
    sefl_status st = SEFL_OK;
    DIR *d = force ? NULL : opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        SEFL_CHECK(strncmp(e->d_name, prefix, strlen(prefix)) != 0, SEFL_EEXIST,
                   "%s already has %s: use --force to overwrite it, or choose another folder", dir,
                   e->d_name);
done:
    if (d)
        closedir(d);
    return st;
}
