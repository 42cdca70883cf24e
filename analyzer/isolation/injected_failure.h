// For tests: TT_FAIL_STAGE="STAGE=HOW[;..]" makes stages fail (docs/contributing.md).
#pragma once

#include <string>

namespace traintrace {

// As the environment wants it for this stage, if it does.
void fail_as_injected(const std::string& stage);

}  // namespace traintrace
