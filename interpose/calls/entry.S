// The exported functions.  Each is one jump through a table, so that whoever calls one or hands one on sees the same
// address, and the return address on the stack is still the caller's.
//
// The order of the rows gives the ids, as in format/schema.h.

    .altmacro
    .set tt_id, 0

    .macro TT_ENTRY name, target
    .globl \name
    .type \name, @function
    .p2align 4
\name:
.Lentry_\name:
    .cfi_startproc
#if defined(__x86_64__)
    endbr64
    jmp *(\target)(%rip)
#elif defined(__aarch64__)
    hint #34
    adrp x16, \target
    ldr x16, [x16, #:lo12:\target]
    br x16
#endif
    .cfi_endproc
    .size \name, .-\name
    .endm

    .macro TT_ENTRY_AT library, name, id
    TT_ENTRY \name, <tt_calls_\library + 8 * \id>
    .endm

    .macro TT_CALL_ENTRY library, name
    TT_ENTRY_AT \library, \name, %tt_id
    .set tt_id, tt_id + 1
    .endm

    .hidden tt_calls_Runtime, tt_calls_Driver, tt_calls_Nccl, tt_calls_Cublas, tt_calls_CublasLt
    .text
#define TT_CALL(library, kind, function, ...) TT_CALL_ENTRY library, function;
#define TT_CALL_PTSZ(library, kind, function, ...) \
    TT_CALL_ENTRY library, function; TT_CALL_ENTRY library, function##_ptsz;
#define TT_CALL_PTDS(library, kind, function, ...) \
    TT_CALL_ENTRY library, function; TT_CALL_ENTRY library, function##_ptds;
#define TT_CALL_AS(library, kind, exported, typed, ...) TT_CALL_ENTRY library, exported;
#include "format/calls.def"

    .set tt_id, 0
    .macro TT_SECOND_ENTRY name
    TT_ENTRY_AT second, \name, %tt_id
    .set tt_id, tt_id + 1
    .endm
    .hidden tt_calls_second
#define TT_SECOND_Runtime(function)
#define TT_SECOND_Driver(function)
#define TT_SECOND_Nccl(function) TT_SECOND_ENTRY p##function;
#define TT_CALL(library, kind, function, ...) TT_SECOND_##library(function)
#define TT_CALL_PTSZ(...)
#define TT_CALL_PTDS(...)
#define TT_CALL_AS(...)
#include "format/calls.def"

#define TT_EXPORT_Thunk(function)
#define TT_EXPORT_Data(function)
#define TT_EXPORT_Exit(function) TT_ENTRY function, .Ltarget_##function;
#define TT_EXPORT_Driver(function) TT_EXPORT_Exit(function)
#define TT_EXPORT_Runtime(function) TT_EXPORT_Exit(function)
#define TT_EXPORT_Logger(function) TT_EXPORT_Exit(function)
#define TT_EXPORT_Torch(function) TT_EXPORT_Exit(function)
#define TT_EXPORT_Cupti(function) TT_EXPORT_Exit(function)
#define TT_EXPORT_Nvtx(function) TT_EXPORT_Exit(function)
#define TT_EXPORT_Marker(function) TT_EXPORT_Exit(function)
#define TT_EXPORT(group, function) TT_EXPORT_##group(function)
#include "interpose/calls/exports.def"

    .section .data.rel.ro, "aw"
    .p2align 3
#undef TT_EXPORT_Exit
#define TT_EXPORT_Exit(function) .hidden tt_hook_##function; .Ltarget_##function: .quad tt_hook_##function;
#define TT_EXPORT(group, function) TT_EXPORT_##group(function)
#include "interpose/calls/exports.def"

// Where the entries are, calls first, then exports, then NCCL's second names.  Not as &function in C++: the loader may answer that with the
// address of another definition.  0: dlsym's answers are never replaced by it.
    .globl tt_entries
    .hidden tt_entries
tt_entries:
#define TT_CALL(library, kind, function, ...) .quad .Lentry_##function;
#define TT_CALL_PTSZ(library, kind, function, ...) .quad .Lentry_##function; .quad .Lentry_##function##_ptsz;
#define TT_CALL_PTDS(library, kind, function, ...) .quad .Lentry_##function; .quad .Lentry_##function##_ptds;
#define TT_CALL_AS(library, kind, exported, typed, ...) .quad .Lentry_##exported;
#include "format/calls.def"
#undef TT_EXPORT_Thunk
#undef TT_EXPORT_Data
#undef TT_EXPORT_Exit
#undef TT_EXPORT_Driver
#undef TT_EXPORT_Runtime
#undef TT_EXPORT_Logger
#undef TT_EXPORT_Torch
#undef TT_EXPORT_Cupti
#undef TT_EXPORT_Nvtx
#define TT_EXPORT_Thunk(function) .quad 0;
#define TT_EXPORT_Data(function) .quad 0;
#define TT_EXPORT_Exit(function) .quad 0;
#define TT_EXPORT_Torch(function) .quad 0;
#define TT_EXPORT_Cupti(function) .quad 0;
#define TT_EXPORT_Nvtx(function) .quad 0;
#define TT_EXPORT_Driver(function) .quad .Lentry_##function;
#define TT_EXPORT_Runtime(function) .quad .Lentry_##function;
#define TT_EXPORT_Logger(function) .quad .Lentry_##function;
#define TT_EXPORT(group, function) TT_EXPORT_##group(function)
#include "interpose/calls/exports.def"
#undef TT_SECOND_Nccl
#define TT_SECOND_Nccl(function) .quad .Lentry_p##function;
#define TT_CALL(library, kind, function, ...) TT_SECOND_##library(function)
#define TT_CALL_PTSZ(...)
#define TT_CALL_PTDS(...)
#define TT_CALL_AS(...)
#include "format/calls.def"

    .section .note.GNU-stack, "", @progbits
