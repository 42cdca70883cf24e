// Which libcupti is the right one.
#pragma once

namespace traintrace {

// dlopen's handle of the one that the job has loaded, else of the one that goes with its runtime;
// null: there is none.  By a thread that is about to load CUDA's libraries itself.
void* load_cupti() noexcept;

}  // namespace traintrace
