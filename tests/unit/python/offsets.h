/* What the headers of one CPython say, in the order of struct PythonLayout; -1: no such thing. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

struct HeaderOffsets {
  unsigned long version;
  const void* published; /* struct _Py_DebugOffsets as these headers fill it, or null */
  int minor, instruction_unit;
  int runtime_finalizing, thread_id, thread_frame, cframe_frame;
  int frame_type, frame_previous, frame_code, frame_instruction, frame_owner;
  int code_first_line, code_file, code_name, code_line_table, code_version, code_bytecode;
  int object_type, object_size, bytes_data;
  int text_length, text_state, text_ascii_data, text_other_data;
};

extern const struct HeaderOffsets header_offsets;

#ifdef __cplusplus
}
#endif
