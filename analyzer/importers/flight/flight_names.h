// What the names of files of other tools say about the ranks that they are of.
#pragma once

#include <string>
#include <vector>

namespace traintrace {

// Every number that may be the rank in a file's name, the most likely first: behind the word
// "rank", then from the last to the first.
std::vector<int> ranks_in_name(const std::string& path);
std::vector<int> named_ranks_in_name(const std::string& path);  // behind that word alone
// In the same order, of the folders that it lies in.
std::vector<int> numbers_in_folders(const std::string& path);

// The name without its rank, or without numbers: equal for the dumps of one job that one program
// named.
std::string name_without_rank(const std::string& path);

}  // namespace traintrace
