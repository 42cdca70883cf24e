#include "cuda/graph_objects.h"

#include "cuda/state.h"

namespace simgpu {
namespace {

class DestroyObject final : public Work {
 public:
  explicit DestroyObject(CUuserObject object) : object_(object) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_HOST; }
  CUresult run(Run&) const override;

 private:
  CUuserObject object_;
};

Slots<CUuserObject_st>& object_slots() {
  static Slots<CUuserObject_st>& slots = *new Slots<CUuserObject_st>;
  return slots;
}

CUresult DestroyObject::run(Run&) const {
  object_->destroy(object_->data);
  object_slots().give(object_);
  return CUDA_SUCCESS;
}

// One thread calls all destructors, so that none runs inside a call or under a lock.
Queue& destructor_queue() {
  static const auto& queue =
      *new std::shared_ptr<Queue>(std::make_shared<Queue>(std::make_shared<Fault>()));
  return *queue;
}

}  // namespace

CUuserObject new_user_object(void* data, CUhostFn destroy, unsigned references) {
  CUuserObject object = object_slots().take();
  object->data = data;
  object->destroy = destroy;
  object->references.store(references);
  return object;
}

bool retain(CUuserObject object, unsigned count) {
  int64_t references = object->references.load();
  do {
    if (references <= 0) {
      return false;
    }
  } while (!object->references.compare_exchange_weak(references, references + count));
  return true;
}

bool release(CUuserObject object, unsigned count) {
  int64_t references = object->references.load();
  do {
    if (references < static_cast<int64_t>(count)) {
      return false;
    }
  } while (!object->references.compare_exchange_weak(references, references - count));
  if (references == static_cast<int64_t>(count)) {
    Operation operation;
    operation.work = std::make_shared<DestroyObject>(object);
    destructor_queue().push(
        std::move(operation), [](std::vector<Ticket>&) {}, /*exempt=*/true);
  }
  return true;
}

UserReferences::UserReferences(const std::map<CUuserObject, unsigned>& counts) {
  for (const auto& [object, count] : counts) {
    if (retain(object, count)) {
      counts_[object] = count;
    }
  }
}

UserReferences::~UserReferences() {
  for (const auto& [object, count] : counts_) {
    release(object, count);
  }
}

void UserReferences::adopt(CUuserObject object, unsigned count) {
  const std::lock_guard lock(mutex_);
  counts_[object] += count;
}

bool UserReferences::give_back(CUuserObject object, unsigned count) {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.find(object);
  if (found == counts_.end() || found->second < count) {
    return false;
  }
  found->second -= count;
  if (found->second == 0) {
    counts_.erase(found);
  }
  return release(object, count);
}

std::map<CUuserObject, unsigned> UserReferences::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace simgpu
