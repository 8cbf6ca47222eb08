// Who comes next: preempted sequences first, then tenants in turn, then by age and priority.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "sched/sequence.h"

namespace hadal {

// Tenants share the machine evenly: the one that has been served least is next (a virtual token
// counter; who returns after a pause starts where the least served one is, so that idle time is not
// saved up). Among the requests of one tenant the order is that of arrival, a level of priority
// being worth `priority_seconds`; a request's place is fixed when it arrives, so it cannot starve.
// Pure. Used by one thread.
class WaitingQueue {
 public:
  explicit WaitingQueue(double priority_seconds) : priority_seconds_(priority_seconds) {}

  // A sequence that was never admitted.
  void Push(std::unique_ptr<Sequence> sequence);
  // One that was preempted (admission > 0): before all others, in order of first admission.
  void Return(std::unique_ptr<Sequence> sequence);

  // Whose turn it is; null when empty. Valid until the next change.
  Sequence* Head();
  std::unique_ptr<Sequence> TakeHead();
  // Null when the id is unknown.
  std::unique_ptr<Sequence> Remove(uint64_t id);

  // What a tenant was given: a prompt token counts 1, a generated one 2.
  void Charge(uint32_t tenant, double tokens);
  // Sequences of a tenant that run; call when one begins and when it ends or is returned.
  void NoteRunning(uint32_t tenant, int32_t change);

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  void ForEach(const std::function<void(const Sequence&)>& visit) const;

 private:
  struct Tenant {
    double served = 0;
    uint32_t n_running = 0;
    std::vector<std::unique_ptr<Sequence>> waiting;  // the next one last
    bool active() const { return n_running > 0 || !waiting.empty(); }
  };
  double LeastServed() const;
  std::map<uint32_t, Tenant>::iterator NextTenant();
  void ForgetIdle();

  double priority_seconds_;
  std::map<uint32_t, Tenant> tenants_;               // by id, so that ties are decided by it
  std::vector<std::unique_ptr<Sequence>> returned_;  // the next one last
  double floor_ = 0;  // what the least served tenant had when somebody last was active
  size_t size_ = 0;
};

}  // namespace hadal
