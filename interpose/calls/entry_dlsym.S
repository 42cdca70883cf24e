// dlsym and dlvsym.  What RTLD_NEXT and RTLD_DEFAULT mean depends on who calls, which glibc takes from the return
// address: so the real function is jumped to, never called, wherever the caller matters.
//
// tt_filter_dlsym(handle, name, version or null, return address) gives the answer, or 0: then the real one answers, or
// 1: the answer is null.  tt_real_.. are looked up by the first call, which may come before our constructor.

    .hidden tt_filter_dlsym, tt_real_dlsym, tt_real_dlvsym, tt_find_real

#if defined(__x86_64__)
    .macro TT_THUNK name, version
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    .cfi_startproc
    endbr64
    push %rdi
    .cfi_adjust_cfa_offset 8
    push %rsi
    .cfi_adjust_cfa_offset 8
    push %rdx
    .cfi_adjust_cfa_offset 8
    cmpq $0, tt_real_\name(%rip)
    jne 1f
    call tt_find_real
    mov 16(%rsp), %rdi
    mov 8(%rsp), %rsi
    mov (%rsp), %rdx
1:
    mov 24(%rsp), %rcx
    .if \version == 0
    xor %edx, %edx
    .endif
    call tt_filter_dlsym
    pop %rdx
    .cfi_adjust_cfa_offset -8
    pop %rsi
    .cfi_adjust_cfa_offset -8
    pop %rdi
    .cfi_adjust_cfa_offset -8
    test %rax, %rax
    jnz 2f
    jmp *tt_real_\name(%rip)
2:
    cmp $1, %rax
    jne 3f
    xor %eax, %eax
3:
    ret
    .cfi_endproc
    .size \name, .-\name
    .endm
#elif defined(__aarch64__)
    .macro TT_THUNK name, version
    .globl \name
    .type \name, %function
    .p2align 4
\name:
    .cfi_startproc
    hint #34
    stp x29, x30, [sp, #-48]!
    .cfi_def_cfa_offset 48
    .cfi_offset 29, -48
    .cfi_offset 30, -40
    stp x0, x1, [sp, #16]
    str x2, [sp, #32]
    adrp x9, tt_real_\name
    ldr x9, [x9, #:lo12:tt_real_\name]
    cbnz x9, 1f
    bl tt_find_real
    ldp x0, x1, [sp, #16]
    ldr x2, [sp, #32]
1:
    ldr x3, [sp, #8]
    .if \version == 0
    mov x2, #0
    .endif
    bl tt_filter_dlsym
    mov x10, x0
    ldp x0, x1, [sp, #16]
    ldr x2, [sp, #32]
    ldp x29, x30, [sp], #48
    .cfi_def_cfa_offset 0
    cbnz x10, 2f
    adrp x16, tt_real_\name
    ldr x16, [x16, #:lo12:tt_real_\name]
    br x16  // by another register it may not go where branches are guarded
2:
    cmp x10, #1
    csel x0, xzr, x10, eq
    ret
    .cfi_endproc
    .size \name, .-\name
    .endm
#endif

    .text
    TT_THUNK dlsym, 0
    TT_THUNK dlvsym, 1

    .section .note.GNU-stack, "", @progbits
