// User objects: reference-counted things of the application that live as long as graphs need them.
#pragma once
#include <cuda.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

struct CUuserObject_st {
  std::atomic<int64_t> references{0};  // 0: the handle is dead
  void* data = nullptr;
  CUhostFn destroy = nullptr;
};

namespace simgpu {

// The references that one graph or executable holds.  Gives them back when destroyed.
class UserReferences {
 public:
  UserReferences() = default;
  explicit UserReferences(const std::map<CUuserObject, unsigned>& counts);  // takes new references
  UserReferences(const UserReferences&) = delete;
  UserReferences& operator=(const UserReferences&) = delete;
  ~UserReferences();

  void adopt(CUuserObject object, unsigned count);      // references that the caller already owns
  bool give_back(CUuserObject object, unsigned count);  // false: it does not hold as many
  std::map<CUuserObject, unsigned> counts() const;

 private:
  mutable std::mutex mutex_;
  std::map<CUuserObject, unsigned> counts_;
};

CUuserObject new_user_object(void* data, CUhostFn destroy, unsigned references);
// False if the object is dead.
bool retain(CUuserObject object, unsigned count);
// With the last reference the destructor is called, on a thread of the driver's own.
bool release(CUuserObject object, unsigned count);

}  // namespace simgpu
