// How processes end, in words.
#pragma once

#include <string>
#include <string_view>

namespace traintrace {

// Negative: a signal.  Above 128: a signal too, as shells and containers say it.
std::string ending_text(int status);

// What usually sends such a signal; empty: it is not known, or that was no signal.
std::string_view ending_hint(int status);

// "Killed", "SIGKILL", "Segmentation fault": 9, 11; 0: no signal that is known.
int signal_of_word(std::string_view word);

}  // namespace traintrace
