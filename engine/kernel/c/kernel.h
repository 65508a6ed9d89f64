/* All of the compiled kernel's C: checksums, codecs, batches, records, text, lines, dumps, compaction, columns and summaries. No Python in it. */
#ifndef KFS_KERNEL_H
#define KFS_KERNEL_H

#include "checksums.h"
#include "codecs.h"
#include "needle.h"
#include "batches.h"
#include "records.h"
#include "lines.h"
#include "dump.h"
#include "search.h"
#include "compaction.h"
#include "gather.h"
#include "summary.h"

#endif
