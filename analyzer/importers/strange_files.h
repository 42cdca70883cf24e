// Files that no reader takes, but that people have at hand when they look into a job: what they
// are, and what to do instead.
#pragma once

#include <string>
#include <vector>

namespace traintrace {

// "a report of Nsight Systems, ..: .."; empty: not known either.  By a few bytes of it.
std::string strange_file_text(const std::string& path);

// The same of a trace in Chrome's format in which there is no work of a GPU.
std::string strange_profile_text(const std::string& path);

// Of a folder in which nothing can be used: "; report.nsys-rep is ..", which folders are in it, or
// that it is empty.
std::string found_instead_text(const std::string& folder, const std::vector<std::string>& files);

}  // namespace traintrace
