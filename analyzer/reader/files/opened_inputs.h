// Files that this process has read as inputs, and those that the user named as such: no output may
// replace one of them, whatever name or link leads there.  A trace cannot be made again.
#pragma once

#include <string>

namespace traintrace {

// What lies within an archive stands for the archive; a folder, or what is not there, is left out.
void remember_input(const std::string& path);

bool is_input(const std::string& path);

// What is said of a file that cannot be written for that.
extern const char* const kIsInput;

}  // namespace traintrace
