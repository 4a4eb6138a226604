/* tensorboard: writes the rounds of a run as an event file that TensorBoard reads.
 *
 *     SEFL_TRY(tensorboard_write(&bytes, &log));              // the bytes of a file
 *     SEFL_TRY(tensorboard_save(path, "runs/tb", "demo", &log));
 *
 * The file has one event per round. Its step is the round, its time that of the round's end (the
 * round's number, if that is unknown), and its scalars are the numbers of the line in metrics.jsonl
 * (run_log.h) under these tags, in the order of that table:
 *
 *     model/perplexity  privacy/epsilon_server  clients/late  seconds/open_seconds  bytes/up_bytes
 *     round/skipped  round/blocked                                             (0 or 1)
 *
 * Format. A file is a sequence of records: u64 length, u32 masked CRC-32C of the length's 8 bytes,
 * the data, u32 masked CRC-32C of the data, all little-endian; a masked checksum c is
 * (c >> 15 | c << 17) + 0xa282ead8. The data is a protobuf message Event: 1 double wall_time,
 * 2 int64 step, 3 string file_version ("brain.Event:2", in the first event) or 5 Summary, which has
 * values: 1 string tag, 2 float simple_value. The same run always gives the same bytes.
 * Threads: any.   Secrets: none; the numbers are public. */
#ifndef REPORT_TENSORBOARD_H
#define REPORT_TENSORBOARD_H

#include "report/run_log.h"

#include <limits.h>

/* Appends the event file of these rounds. */
sefl_status tensorboard_write(sefl_buf *out, const run_log *l) SEFL_MUST_CHECK;

/* Writes it as FOLDER/NAME/events.out.tfevents.TIME.sefl, and its path to `path`; TIME is the time
 * of the first round, so a later report of the same run replaces the file. Creates both folders.
 * Characters other than letters, digits, '-', '_' and '.' become '_' in NAME. */
sefl_status tensorboard_save(char path[PATH_MAX], const char *folder, const char *name,
                             const run_log *l) SEFL_MUST_CHECK;

/* Writes the tag of a number of the table, such as "seconds/open_seconds". */
enum { TENSORBOARD_TAG = 64 };
void tensorboard_tag(char out[TENSORBOARD_TAG], const char *key);

#endif
