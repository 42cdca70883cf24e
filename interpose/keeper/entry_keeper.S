// Where the loader goes when this library is started as a program (keeper.h): the stack holds argc and argv.

    .text
    .globl tt_keeper_entry
    .hidden tt_keeper_entry
    .type tt_keeper_entry, @function
tt_keeper_entry:
    .cfi_startproc
#if defined(__x86_64__)
    .cfi_undefined rip
    xor %ebp, %ebp
    mov %rsp, %rdi
    and $-16, %rsp
    call tt_keeper_main
    hlt
#elif defined(__aarch64__)
    .cfi_undefined x30
    mov x29, #0
    mov x30, #0
    mov x0, sp
    bl tt_keeper_main
    brk #0
#endif
    .cfi_endproc
    .size tt_keeper_entry, .-tt_keeper_entry
    .section .note.GNU-stack,"",%progbits
