// Cold parts of the tracer that must be done whole: they hold the loader's lock, or a flag of ours
// that nobody else would ever give back.
#pragma once

#include <signal.h>

namespace traintrace {

// While it lives, the calling thread is neither cancelled nor led out by a handler of the job's
// that does not return (siglongjmp).  Signals of a fault stay as they are: where the tracer probed
// memory wrongly, the job's own handler is the better end.  Two system calls.
class Undisturbed {
 public:
  Undisturbed() noexcept;
  ~Undisturbed() noexcept;
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  sigset_t signals_;
  int cancel_state_;
  int cancel_type_;
};

}  // namespace traintrace
