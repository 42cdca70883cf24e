// Files with code that a process has mapped or a trace names: whoever wrote them may have made them
// for us.
#pragma once

#include <string>

#include "analyzer/reader/files/input_file.h"

struct Dwfl_Module;
struct Elf;

namespace traintrace {

// An ELF file as it is.  elfutils would unpack others, to whatever size that comes.
Result<InputFile> open_module(const std::string& path);

// As elfutils calls it.  Beside a file that belongs to somebody else than us and root no debug file
// is looked for, only in the places of the system: a FIFO may lie there, or an archive.
int find_debug_file(Dwfl_Module* module, void** data, const char* name, unsigned long base,
                    const char* file, const char* debug_link, unsigned checksum, char** debug_file);

}  // namespace traintrace
