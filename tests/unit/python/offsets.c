#define Py_BUILD_CORE 1
#include "offsets.h"

#include <Python.h>
#include <frameobject.h>
#include <stddef.h>

#include "pycore_interp.h"
#include "pycore_runtime.h"
#if PY_VERSION_HEX >= 0x030b0000
#include "pycore_frame.h"
#endif
#if PY_VERSION_HEX >= 0x030e0000
#include "pycore_debug_offsets.h"
#include "pycore_interpframe.h"
#endif

#define AT(type, member) (int)offsetof(type, member)

#if PY_VERSION_HEX >= 0x030d0000
/* The groups that are read of what the interpreter publishes. */
static const struct _Py_DebugOffsets published = {
    .cookie = _Py_Debug_Cookie,
    .version = PY_VERSION_HEX,
    .runtime_state = {.size = sizeof(_PyRuntimeState),
                      .finalizing = AT(_PyRuntimeState, _finalizing)},
    .interpreter_state = {.size = sizeof(PyInterpreterState), .id = AT(PyInterpreterState, id)},
    .thread_state = {.size = sizeof(PyThreadState),
                     .next = AT(PyThreadState, next),
                     .interp = AT(PyThreadState, interp),
                     .current_frame = AT(PyThreadState, current_frame),
                     .thread_id = AT(PyThreadState, thread_id),
                     .native_thread_id = AT(PyThreadState, native_thread_id)},
    .interpreter_frame = {.size = sizeof(_PyInterpreterFrame),
                          .previous = AT(_PyInterpreterFrame, previous),
                          .executable = AT(_PyInterpreterFrame, f_executable),
                          .instr_ptr = AT(_PyInterpreterFrame, instr_ptr),
                          .localsplus = AT(_PyInterpreterFrame, localsplus),
                          .owner = AT(_PyInterpreterFrame, owner)},
    .code_object = {.size = sizeof(PyCodeObject),
                    .filename = AT(PyCodeObject, co_filename),
                    .name = AT(PyCodeObject, co_name),
                    .qualname = AT(PyCodeObject, co_qualname),
                    .linetable = AT(PyCodeObject, co_linetable),
                    .firstlineno = AT(PyCodeObject, co_firstlineno),
                    .localsplusnames = AT(PyCodeObject, co_localsplusnames),
                    .co_code_adaptive = AT(PyCodeObject, co_code_adaptive)},
    .pyobject = {.size = sizeof(PyObject), .ob_type = AT(PyObject, ob_type)},
};
#endif

const struct HeaderOffsets header_offsets = {
    .version = PY_VERSION_HEX,
    .minor = PY_MINOR_VERSION,
    .runtime_finalizing = AT(struct pyruntimestate, _finalizing),
    .thread_id = AT(PyThreadState, thread_id),
#if PY_VERSION_HEX >= 0x030d0000
    .published = &published,
    .thread_frame = AT(PyThreadState, current_frame),
    .cframe_frame = -1,
#elif PY_VERSION_HEX >= 0x030b0000
    .thread_frame = AT(PyThreadState, cframe),
    .cframe_frame = AT(_PyCFrame, current_frame),
#else
    .thread_frame = AT(PyThreadState, frame),
    .cframe_frame = -1,
#endif
#if PY_VERSION_HEX >= 0x030b0000
    .frame_type = -1,
    .frame_previous = AT(_PyInterpreterFrame, previous),
    .frame_owner = AT(_PyInterpreterFrame, owner),
    .code_name = AT(PyCodeObject, co_qualname),
    .code_bytecode = AT(PyCodeObject, co_code_adaptive),
#if PY_VERSION_HEX >= 0x030d0000
    .frame_code = AT(_PyInterpreterFrame, f_executable),
    .frame_instruction = AT(_PyInterpreterFrame, instr_ptr),
#else
    .frame_code = AT(_PyInterpreterFrame, f_code),
    .frame_instruction = AT(_PyInterpreterFrame, prev_instr),
#endif
#else
    .instruction_unit = PY_VERSION_HEX >= 0x030a0000 ? sizeof(_Py_CODEUNIT) : 1,
    .frame_type = AT(PyFrameObject, ob_base.ob_base.ob_type),
    .frame_previous = AT(PyFrameObject, f_back),
    .frame_code = AT(PyFrameObject, f_code),
    .frame_instruction = AT(PyFrameObject, f_lasti),
    .frame_owner = -1,
    .code_name = AT(PyCodeObject, co_name),
    .code_bytecode = -1,
#endif
#if PY_VERSION_HEX >= 0x030c0000
    .code_version = AT(PyCodeObject, co_version),
#else
    .code_version = -1,
#endif
    .code_first_line = AT(PyCodeObject, co_firstlineno),
    .code_file = AT(PyCodeObject, co_filename),
#if PY_VERSION_HEX >= 0x030a0000
    .code_line_table = AT(PyCodeObject, co_linetable),
#else
    .code_line_table = AT(PyCodeObject, co_lnotab),
#endif
    .object_type = AT(PyObject, ob_type),
    .object_size = AT(PyVarObject, ob_size),
    .bytes_data = AT(PyBytesObject, ob_sval),
    .text_length = AT(PyASCIIObject, length),
    .text_state = AT(PyASCIIObject, state),
    .text_ascii_data = sizeof(PyASCIIObject),
    .text_other_data = sizeof(PyCompactUnicodeObject),
};
