// The kernel of checks_driver.cc, as text for the driver's compiler (scripts/check-kernel).

    .section .rodata
    .globl tt_check_kernel
    .hidden tt_check_kernel
    .type tt_check_kernel, %object
    .balign 16
tt_check_kernel:
    .incbin TT_CHECK_KERNEL
    .byte 0
    .size tt_check_kernel, .-tt_check_kernel
    .section .note.GNU-stack,"",%progbits
