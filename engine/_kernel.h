/* All of the compiled kernel's C: checksums, codecs, batches, records, text, lines, dumps, compaction, columns and summaries. No Python in it. */
#ifndef KFS_KERNEL_H
#define KFS_KERNEL_H

#include "_checksums.h"
#include "_codecs.h"
#include "_batches.h"
#include "_records.h"
#include "_lines.h"
#include "_dump.h"
#include "_search.h"
#include "_compaction.h"
#include "_gather.h"
#include "_summary.h"

#endif
