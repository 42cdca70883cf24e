#include "interpose/base/undisturbed.h"

#include <pthread.h>

namespace traintrace {

Undisturbed::Undisturbed() noexcept {
  sigset_t signals;
  sigfillset(&signals);
  constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
  for (const int fault : kFaults) {
    sigdelset(&signals, fault);
  }
  pthread_sigmask(SIG_BLOCK, &signals, &signals_);
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &cancel_type_);
}

// The handler that the last step lets run may lead out for good, so it is the last; a thread that
// is cancelled here ends with its signals blocked.  The type is restored after the state: glibc
// 2.36 forgets that a thread was cancelled (its result) where the state lets it happen at once.
Undisturbed::~Undisturbed() noexcept {
  pthread_setcancelstate(cancel_state_, nullptr);
  pthread_setcanceltype(cancel_type_, nullptr);
  pthread_sigmask(SIG_SETMASK, &signals_, nullptr);
}

}  // namespace traintrace
