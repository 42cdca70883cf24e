// Two events of LTTng-UST with what our enter and leave records of a kernel launch carry.
#undef TRACEPOINT_PROVIDER
#define TRACEPOINT_PROVIDER traintrace_bench
#undef TRACEPOINT_INCLUDE
#define TRACEPOINT_INCLUDE "lttng_events.h"
#if !defined(TT_LTTNG_EVENTS_H) || defined(TRACEPOINT_HEADER_MULTI_READ)
#define TT_LTTNG_EVENTS_H
#include <lttng/tracepoint.h>
TRACEPOINT_EVENT(
    traintrace_bench, launch_enter,
    TP_ARGS(const void*, function, unsigned long, grid, unsigned long, block, unsigned long, shared,
            const void*, stream),
    TP_FIELDS(ctf_integer_hex(unsigned long, function, (unsigned long)function)
                  ctf_integer(unsigned long, grid, grid) ctf_integer(unsigned long, block, block)
                      ctf_integer(unsigned long, shared, shared)
                          ctf_integer_hex(unsigned long, stream, (unsigned long)stream)))
TRACEPOINT_EVENT(traintrace_bench, launch_leave, TP_ARGS(int, result),
                 TP_FIELDS(ctf_integer(int, result, result)))
#endif
#include <lttng/tracepoint-event.h>
