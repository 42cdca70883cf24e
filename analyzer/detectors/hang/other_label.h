// A communicator where the word itself does not stand before its name.
#pragma once

#include <string>

#include "analyzer/model/communicators.h"

namespace traintrace {

// "dp (4 ranks)", "the one of 8 ranks 0-7" for an unnamed one.
inline std::string other_label_of(const Run& run, const Communicator& communicator) {
  const std::string label = label_of(run, communicator);
  return (communicator.named || !label.starts_with("of ") ? "" : "the one ") + label;
}

}  // namespace traintrace
